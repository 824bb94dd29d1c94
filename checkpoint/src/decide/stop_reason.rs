//! Why a job must not go on: cause, place and next step of each case.

use std::path::PathBuf;

use thiserror::Error;

use super::facts::{Facts, LedgerFact, LedgerPlace};
use super::resolution::resolution_point;
use super::restore::RestoreFacts;
use crate::delta::{DeltaDigest, DeltaError, DeltaSummary, StateId};
use crate::directory::QuarantinedFile;
use crate::ids::{CheckpointId, CheckpointRef, Fingerprint, JobName, TopicId};
use crate::restored::Restored;

/// Going on could lose or repeat output, or continue a foreign state.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// The directory knows of a committed checkpoint, the ledger holds nothing.
    #[error(
        "the ledger is lost: {} stands at checkpoint {confirmed}, but {ledger} holds no record of \
         this job. The topic was deleted, emptied, or the cluster was restored. Restore the topic; \
         or start once with --adopt-local, which takes the directory as the truth; or \
         start anew with another job name and an empty directory, which reads all input again",
        directory.display()
    )]
    LedgerLost {
        /// The state directory.
        directory: PathBuf,
        /// The checkpoint it knows to be committed.
        confirmed: CheckpointRef,
        /// The ledger.
        ledger: LedgerPlace,
    },
    /// The ledger went on where this directory cannot follow.
    #[error(
        "the local state is stale: {ledger} stands at checkpoint {committed} (offset {offset}), {} \
         only at {confirmed} and without that checkpoint's delta file. The job ran elsewhere or the \
         directory is an old copy. Start it on the directory it ran with last; or start once with \
         --accept-rewind, which goes on from {from} and writes the output behind it again; or start anew with \
         another job name and an empty directory, which reads all input again", directory.display()
    )]
    StaleLocalState {
        /// The state directory.
        directory: PathBuf,
        /// The checkpoint it reaches.
        confirmed: CheckpointRef,
        /// The checkpoint that an accepted rewind goes on from.
        from: CheckpointRef,
        /// The ledger.
        ledger: LedgerPlace,
        /// Its last checkpoint.
        committed: CheckpointRef,
        /// Offset of that record.
        offset: i64,
    },
    /// The ledger committed a checkpoint whose delta file is damaged.
    #[error(
        "the delta file of checkpoint {committed}, committed in {ledger} at offset {offset}, is damaged or was put \
         aside: {}{}. Restore the file from a copy of the directory; or start once with \
         --accept-rewind, which goes on from {from} and writes the output behind it again; or start anew with \
         another job name and an empty directory, which reads all input again",
        path.display(), reason.as_ref().map(|r| format!(" ({r})")).unwrap_or_default()
    )]
    DamagedDelta {
        /// The file as it is named now.
        path: PathBuf,
        /// The checkpoint that an accepted rewind goes on from.
        from: CheckpointRef,
        /// What is wrong with it, if this start found it.
        reason: Option<Box<DeltaError>>,
        /// The ledger.
        ledger: LedgerPlace,
        /// Its last checkpoint.
        committed: CheckpointRef,
        /// Offset of that record.
        offset: i64,
    },
    /// The job has a ledger, the directory has no META.
    #[error(
        "no local state: {ledger} stands at checkpoint {committed} (offset {offset}), but {} holds \
         no state of job {job}, neither META nor delta files. Start it on the directory it ran with; or, to begin anew, use \
         another job name", directory.display()
    )]
    NoLocalState {
        /// The state directory.
        directory: PathBuf,
        /// The job.
        job: JobName,
        /// The ledger.
        ledger: LedgerPlace,
        /// Its last checkpoint.
        committed: CheckpointRef,
        /// Offset of that record.
        offset: i64,
    },
    /// There are delta files, or a store that holds state, but no META.
    #[error(
        "META is missing in {}, although delta files or the store of a job are there: the directory is an \
         incomplete copy or was damaged. Restore META from the copy that the other files are of; or restore a \
         savepoint into an empty directory; or start anew with another job name and an empty directory, which \
         reads all input again", directory.display()
    )]
    MetaMissing {
        /// The state directory.
        directory: PathBuf,
    },
    /// The ledger lost a committed record.
    #[error(
        "the ledger is behind: {ledger} ends at checkpoint {committed} (offset {offset}), {} knows \
         that {confirmed} was committed. Brokers lost acknowledged data (unclean election, restored \
         cluster), and probably output with it. Check the output topics; then start once with \
         --adopt-local, which goes on from {confirmed}; or start anew with another job \
         name and an empty directory", directory.display()
    )]
    LedgerBehind {
        /// The state directory.
        directory: PathBuf,
        /// The checkpoint it knows to be committed.
        confirmed: CheckpointRef,
        /// The ledger.
        ledger: LedgerPlace,
        /// Its last checkpoint.
        committed: CheckpointRef,
        /// Offset of that record.
        offset: i64,
    },
    /// Two histories of one job.
    #[error(
        "two histories: {ledger} holds checkpoint {committed} (offset {offset}), the state in {} \
         comes from {confirmed}, another attempt. The job ran on two directories, or it went on from an older state, \
         and this history was given up. Start it on the directory it ran with last, whose output was committed", directory.display()
    )]
    LineageSplit {
        /// The state directory.
        directory: PathBuf,
        /// The checkpoint it stands at.
        confirmed: CheckpointRef,
        /// The ledger.
        ledger: LedgerPlace,
        /// Its last checkpoint.
        committed: CheckpointRef,
        /// Offset of that record.
        offset: i64,
    },
    /// The directory's files contradict each other.
    #[error(
        "{} contradicts itself: it calls both {one} and {other} confirmed. It was merged from two \
         copies. Restore one of them", directory.display()
    )]
    ContradictingFiles {
        /// The state directory.
        directory: PathBuf,
        /// One claim.
        one: CheckpointRef,
        /// The other.
        other: CheckpointRef,
    },
    /// The delta file is not the one that was committed.
    #[error(
        "the delta file of checkpoint {at} in {} has digest {found}, the record at offset {offset} \
         of {ledger} names {}. Restore the file that was committed; or start once with \
         --accept-rewind, which goes on from {from} and writes the output behind it again", directory.display(),
        committed.map_or_else(|| "none".to_owned(), |digest| digest.to_string())
    )]
    DigestMismatch {
        /// The state directory.
        directory: PathBuf,
        /// The checkpoint.
        at: CheckpointRef,
        /// The checkpoint that an accepted rewind goes on from.
        from: CheckpointRef,
        /// Digest of the file.
        found: DeltaDigest,
        /// Digest in the record.
        committed: Option<DeltaDigest>,
        /// The ledger.
        ledger: LedgerPlace,
        /// Offset of the record.
        offset: i64,
    },
    /// The ledger topic was deleted and created again.
    #[error(
        "the ledger topic was created anew: {ledger} now has id {found}, {} was written with {kept}; the topic holds \
         {}. Restore the topic; or, if the job has gone on from another directory, start it on that one; or start \
         once with --adopt-local, which takes the directory as the truth; or \
         start anew with another job name and an empty directory", directory.display(),
        match committed {
            Some(committed) => format!("checkpoint {committed}"),
            None => "nothing of the job".to_owned(),
        }
    )]
    LedgerTopicRecreated {
        /// The state directory.
        directory: PathBuf,
        /// The ledger.
        ledger: LedgerPlace,
        /// Id kept in META.
        kept: TopicId,
        /// Id the brokers give.
        found: TopicId,
        /// The last checkpoint in the new topic, if it holds one.
        committed: Option<CheckpointRef>,
    },
    /// The ledger's record is another job's.
    #[error(
        "{ledger} holds a record of job {found} at offset {offset}, not of {expected}. Give each job \
         a ledger topic of its own"
    )]
    ForeignRecord {
        /// The ledger.
        ledger: LedgerPlace,
        /// Offset of the record.
        offset: i64,
        /// The job it names.
        found: JobName,
        /// This job.
        expected: JobName,
    },
    /// The ledger was written by a job with other operators or schemas.
    #[error(
        "{ledger} was written with fingerprint {found} (offset {offset}), the job now has \
         {expected}: its operators, state names or schemas changed. Run the old version, or start \
         the new one under another job name"
    )]
    OtherFingerprint {
        /// The ledger.
        ledger: LedgerPlace,
        /// Offset of the record.
        offset: i64,
        /// Fingerprint in the record.
        found: Fingerprint,
        /// Fingerprint of the job.
        expected: Fingerprint,
    },
    /// A restore was begun and not finished.
    #[error(
        "{} holds a restore of {savepoint} that was not finished: start the job again from that savepoint, \
         or empty the directory", directory.display()
    )]
    RestoreUnfinished {
        /// The state directory.
        directory: PathBuf,
        /// The savepoint and its job.
        savepoint: String,
    },
    /// To go on from the savepoint would repeat output.
    #[error(
        "the savepoint is older than the job: {} holds checkpoint {saved} of job {job}, {ledger} stands at {committed} \
         (offset {offset}). What was committed after the savepoint would be computed and written again. Start the job on \
         the directory it ran with last; or say that this is meant (--accept-rewind); or give the job another name",
        savepoint.display()
    )]
    RestoreRewinds {
        /// The savepoint.
        savepoint: PathBuf,
        /// The job that it was taken of.
        job: JobName,
        /// The checkpoint that it holds.
        saved: CheckpointRef,
        /// The ledger.
        ledger: LedgerPlace,
        /// Its last checkpoint.
        committed: CheckpointRef,
        /// Offset of that record.
        offset: i64,
    },
    /// The ledger can not tell what was committed after the savepoint.
    #[error(
        "the ledger lost records: {} holds checkpoint {saved} of job {job}, which was committed in {ledger}, {}. Output \
         that was committed may be lost with them, or be written again. Restore the topic; or say that the savepoint counts \
         (--adopt-local); or give the job another name", savepoint.display(),
        match committed {
            Some(committed) => format!("which now ends at {committed}"),
            None => "which now holds nothing of it".to_owned(),
        }
    )]
    RestoreWithoutLedger {
        /// The savepoint.
        savepoint: PathBuf,
        /// The job that it was taken of.
        job: JobName,
        /// The checkpoint that it holds.
        saved: CheckpointRef,
        /// The ledger.
        ledger: LedgerPlace,
        /// Its last checkpoint, if it holds one.
        committed: Option<CheckpointRef>,
    },
    /// The job went on while a savepoint was being restored.
    #[error(
        "the job went on since {savepoint} was restored into {}: {ledger} stands at {committed} (offset {offset}), it stood at \
         {expected}. Stop the other process, or leave the job to it; then empty the directory and restore again",
        directory.display()
    )]
    RestoreOvertaken {
        /// The state directory.
        directory: PathBuf,
        /// The savepoint and its job.
        savepoint: String,
        /// The ledger.
        ledger: LedgerPlace,
        /// Its last checkpoint.
        committed: CheckpointRef,
        /// Offset of that record.
        offset: i64,
        /// Where it stood when the savepoint was restored.
        expected: String,
    },
    /// A delta between the store and the confirmed checkpoint is missing.
    #[error(
        "delta file of checkpoint {missing} is missing or damaged in {}: the store stands at \
         {store}, the job at {target}. Restore the file (see *.quarantined there)",
        directory.display()
    )]
    MissingDelta {
        /// The state directory.
        directory: PathBuf,
        /// The delta needed.
        missing: CheckpointRef,
        /// Checkpoint number the store holds completely.
        store: CheckpointId,
        /// Checkpoint to be reached.
        target: CheckpointRef,
    },
    /// The store holds a checkpoint that is not in the history of the confirmed one.
    #[error(
        "the store in {} holds checkpoint {store} of state {state:?}, which is not in the history \
         of {target}. The store and META come from different copies. Restore both from one copy",
        directory.display()
    )]
    ForeignStore {
        /// The state directory.
        directory: PathBuf,
        /// The state, `None` for the store as a whole.
        state: Option<StateId>,
        /// What the store says.
        store: CheckpointRef,
        /// Checkpoint to be reached.
        target: CheckpointRef,
    },
}

impl StopReason {
    pub(super) fn ledger_lost(facts: &Facts<'_>, confirmed: CheckpointRef) -> Self {
        Self::LedgerLost {
            directory: facts.local.path.clone(),
            confirmed,
            ledger: facts.ledger_place.clone(),
        }
    }

    pub(super) fn stale(facts: &Facts<'_>, l: &LedgerFact, confirmed: CheckpointRef) -> Self {
        Self::StaleLocalState {
            directory: facts.local.path.clone(),
            confirmed,
            from: resolution_point(facts.local, Some(l)).unwrap_or(confirmed),
            ledger: facts.ledger_place.clone(),
            committed: l.record.at(),
            offset: l.offset,
        }
    }

    pub(super) fn damaged_delta(
        facts: &Facts<'_>,
        l: &LedgerFact,
        file: &QuarantinedFile,
        confirmed: CheckpointRef,
    ) -> Self {
        Self::DamagedDelta {
            path: file.path.clone(),
            from: resolution_point(facts.local, Some(l)).unwrap_or(confirmed),
            reason: file.reason.clone().map(Box::new),
            ledger: facts.ledger_place.clone(),
            committed: l.record.at(),
            offset: l.offset,
        }
    }

    pub(super) fn no_local_state(facts: &Facts<'_>, l: &LedgerFact) -> Self {
        Self::NoLocalState {
            directory: facts.local.path.clone(),
            job: facts.job.clone(),
            ledger: facts.ledger_place.clone(),
            committed: l.record.at(),
            offset: l.offset,
        }
    }

    pub(super) fn ledger_behind(
        facts: &Facts<'_>,
        l: &LedgerFact,
        confirmed: CheckpointRef,
    ) -> Self {
        Self::LedgerBehind {
            directory: facts.local.path.clone(),
            confirmed,
            ledger: facts.ledger_place.clone(),
            committed: l.record.at(),
            offset: l.offset,
        }
    }

    pub(super) fn lineage_split(
        facts: &Facts<'_>,
        l: &LedgerFact,
        confirmed: CheckpointRef,
    ) -> Self {
        Self::LineageSplit {
            directory: facts.local.path.clone(),
            confirmed,
            ledger: facts.ledger_place.clone(),
            committed: l.record.at(),
            offset: l.offset,
        }
    }

    pub(super) fn digest_mismatch(facts: &Facts<'_>, l: &LedgerFact, delta: &DeltaSummary) -> Self {
        let from = resolution_point(facts.local, Some(l));
        Self::DigestMismatch {
            directory: facts.local.path.clone(),
            at: delta.header.at,
            from: from.unwrap_or(delta.header.parent),
            found: delta.digest,
            committed: l.record.delta_digest,
            ledger: facts.ledger_place.clone(),
            offset: l.offset,
        }
    }

    pub(super) fn topic_recreated(facts: &Facts<'_>, kept: TopicId) -> Option<Self> {
        let found = facts.ledger_topic_id;
        let known = kept != TopicId::UNKNOWN && found != TopicId::UNKNOWN;
        (known && kept != found).then(|| Self::LedgerTopicRecreated {
            directory: facts.local.path.clone(),
            ledger: facts.ledger_place.clone(),
            kept,
            found,
            committed: facts.ledger.map(|ledger| ledger.record.at()),
        })
    }

    pub(super) fn foreign_record(facts: &Facts<'_>, l: &LedgerFact) -> Self {
        Self::ForeignRecord {
            ledger: facts.ledger_place.clone(),
            offset: l.offset,
            found: l.record.job.clone(),
            expected: facts.job.clone(),
        }
    }

    pub(super) fn restore_rewinds(facts: &RestoreFacts<'_>, l: &LedgerFact) -> Self {
        Self::RestoreRewinds {
            savepoint: facts.savepoint_path.clone(),
            job: facts.savepoint.description.job.clone(),
            saved: facts.savepoint.at,
            ledger: facts.ledger_place.clone(),
            committed: l.record.at(),
            offset: l.offset,
        }
    }

    pub(super) fn restore_without_ledger(facts: &RestoreFacts<'_>, l: Option<&LedgerFact>) -> Self {
        Self::RestoreWithoutLedger {
            savepoint: facts.savepoint_path.clone(),
            job: facts.savepoint.description.job.clone(),
            saved: facts.savepoint.at,
            ledger: facts.ledger_place.clone(),
            committed: l.map(|l| l.record.at()),
        }
    }

    pub(super) fn restore_overtaken(
        facts: &Facts<'_>,
        l: &LedgerFact,
        restored: &Restored,
    ) -> Self {
        let expected = restored.ledger;
        Self::RestoreOvertaken {
            directory: facts.local.path.clone(),
            savepoint: restored.to_string(),
            ledger: facts.ledger_place.clone(),
            committed: l.record.at(),
            offset: l.offset,
            expected: expected.map_or_else(|| "no record".to_owned(), |at| at.to_string()),
        }
    }

    pub(super) fn other_fingerprint(facts: &Facts<'_>, l: &LedgerFact) -> Self {
        Self::OtherFingerprint {
            ledger: facts.ledger_place.clone(),
            offset: l.offset,
            found: l.record.fingerprint,
            expected: facts.fingerprint,
        }
    }
}
