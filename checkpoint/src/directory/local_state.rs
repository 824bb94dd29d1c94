//! What a state directory holds, read and verified.

use std::path::PathBuf;

use crate::decide::StopReason;
use crate::delta::{DeltaError, DeltaSummary};
use crate::ids::{CheckpointId, CheckpointRef, OwnerId};
use crate::ledger_record::LedgerRecord;
use crate::meta::Meta;
use crate::restored::Restored;

/// META and all valid delta files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalState {
    /// The directory.
    pub path: PathBuf,
    /// META, `None` before a job's first start.
    pub meta: Option<Meta>,
    /// How the directory began, if it was restored from a savepoint.
    pub restored: Option<Restored>,
    /// Valid delta files in the order of (number, nonce).
    pub deltas: Vec<DeltaSummary>,
    /// Files that were put aside, now or earlier; they are renamed, not deleted.
    pub quarantined: Vec<QuarantinedFile>,
}

/// A file that was put aside: damaged, or of a dead attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuarantinedFile {
    /// Where it is now.
    pub path: PathBuf,
    /// The checkpoint its name says.
    pub at: CheckpointRef,
    /// What is wrong with it; `None` for a dead attempt's file and for one put aside before this start.
    pub reason: Option<DeltaError>,
}

impl LocalState {
    /// The highest checkpoint that anything here is about, committed or not; 0 if there is nothing.
    #[must_use]
    pub fn newest(&self) -> u64 {
        let of_meta = self.meta.as_ref().map(|meta| meta.checkpoint.0);
        let of_deltas = self.deltas.iter().map(|delta| delta.header.at.checkpoint.0);
        of_deltas.chain(of_meta).max().unwrap_or(0)
    }

    /// R0: the last checkpoint that the directory knows to be committed, which is META's or a later
    /// one that a valid delta names as its parent. `None` without META and deltas.
    #[must_use]
    pub fn confirmed(&self) -> Option<CheckpointRef> {
        let parents = self.deltas.iter().map(|delta| delta.header.parent);
        self.meta.iter().map(Meta::at).chain(parents).max_by_key(|at| at.checkpoint)
    }

    /// META as it would be at a checkpoint that is confirmed, and may be ahead of the file. `None` without META, and if the
    /// delta that knows the positions is gone.
    #[must_use]
    pub fn meta_at(&self, at: CheckpointRef) -> Option<Meta> {
        let meta = self.meta.as_ref()?;
        if meta.at() == at {
            return Some(meta.clone());
        }
        let header = &self.delta(at)?.header;
        let named = self.deltas.iter().find(|delta| delta.header.parent == at);
        Some(Meta {
            checkpoint: at.checkpoint,
            nonce: at.nonce,
            positions: header.positions.clone(),
            watermarks: header.watermarks.clone(),
            status: header.status,
            ledger_offset: named.and_then(|delta| delta.header.parent_ledger_offset),
            ..meta.clone()
        })
    }

    /// The valid delta of exactly this checkpoint and attempt.
    #[must_use]
    pub fn delta(&self, at: CheckpointRef) -> Option<&DeltaSummary> {
        self.deltas.iter().find(|delta| delta.header.at == at)
    }

    /// All deltas above a number.
    #[must_use]
    pub fn after(&self, checkpoint: CheckpointId) -> Vec<CheckpointRef> {
        let all = self.deltas.iter().map(|delta| delta.header.at);
        all.filter(|at| at.checkpoint > checkpoint).collect()
    }

    /// The history that was begun from a savepoint and of which the ledger is not known to hold anything yet.
    #[must_use]
    pub fn begins_from_savepoint(&self) -> Option<&Restored> {
        let (meta, restored) = (self.meta.as_ref()?, self.restored.as_ref()?);
        (meta.at() == restored.at && !self.ledger_was_seen()).then_some(restored)
    }

    /// The first ledger record of the directory's history, made from META: record 0, or the one that joins a restored
    /// savepoint to the ledger. `None` without META.
    #[must_use]
    pub fn first_record(&self, owner: OwnerId, wall_time_ms: i64) -> Option<LedgerRecord> {
        let meta = self.meta.as_ref()?;
        let zero = LedgerRecord::zero(meta, owner, wall_time_ms);
        let restored = self.restored.as_ref().filter(|restored| restored.at == meta.at());
        Some(match restored {
            Some(restored) => {
                LedgerRecord { checkpoint: meta.checkpoint, parent: Some(restored.parent), ..zero }
            }
            None => zero,
        })
    }

    /// Whether anything here proves that the ledger once held a record of this job.
    pub(crate) fn ledger_was_seen(&self) -> bool {
        // A delta is only written after record 0 was committed.
        self.meta.as_ref().is_some_and(|meta| meta.ledger_offset.is_some())
            || !self.deltas.is_empty()
    }

    /// Two different attempts at one checkpoint cannot both be confirmed, a restore that was not finished left no state, and no
    /// delta file is written before META.
    pub(crate) fn contradiction(&self) -> Option<StopReason> {
        if let (None, Some(restored)) = (&self.meta, &self.restored) {
            let (directory, savepoint) = (self.path.clone(), restored.to_string());
            return Some(StopReason::RestoreUnfinished { directory, savepoint });
        }
        if self.meta.is_none() && !(self.deltas.is_empty() && self.quarantined.is_empty()) {
            return Some(StopReason::MetaMissing { directory: self.path.clone() });
        }
        let mut claims: Vec<CheckpointRef> =
            self.deltas.iter().map(|delta| delta.header.parent).collect();
        claims.extend(self.meta.as_ref().map(Meta::at));
        claims.sort_unstable();
        claims.windows(2).find_map(|pair| match pair {
            [one, other] if one.checkpoint == other.checkpoint && one.nonce != other.nonce => {
                let directory = self.path.clone();
                Some(StopReason::ContradictingFiles { directory, one: *one, other: *other })
            }
            _ => None,
        })
    }
}
