//! Restores a savepoint into an empty state directory and joins its history to the job's ledger.
//!
//! Everything is decided before anything is written: the savepoint fits the job, and the ledger allows to go on from it. Then
//! `RESTORED` marks the directory, the states go into the store, and META makes them the job's state. A crash in between is
//! found by the mark. From META on the start is like any other: look, fence, read, decide, own.

use std::path::PathBuf;
use std::sync::Arc;

use millstream_checkpoint::{
    Disk, IncompatibleSavepoint, JobDescription, JobName, JobStatus, LineageId, Meta, Nonce,
    Positions, Resolution, RestoreConsent, RestoreFacts, RestorePlan, Restored, Savepoint,
    SavepointError, StateDirectory, decide_restore, plan_restore, restore_states,
};

use millstream_protocol_client::surroundings::block_in_place;

use super::error::JobError;
use super::fault::{Mutant, Step, crash_point, decision, mutant};
use super::ledger::{Ledger, SLOT};
use super::random_id;
use super::recovery::variant;
use super::storage::Storage;
use crate::connector::kafka::topic_reader::ReadUntil;

/// A savepoint that a job is to begin from.
#[derive(Clone, Debug, Default)]
pub(crate) struct RestoreRequest {
    pub(crate) savepoint: PathBuf,
    pub(crate) allow_non_restored_state: bool,
    pub(crate) consent: RestoreConsent,
}

/// A savepoint that was read and fits the job.
#[derive(Debug)]
pub(crate) struct PreparedRestore {
    savepoint: Savepoint,
    plan: RestorePlan,
    consent: RestoreConsent,
}

impl RestoreRequest {
    /// What can be said before any broker is asked. `None`: the directory has begun from this savepoint already, and goes on
    /// from what it holds, so that a supervisor may start the job with the same command line again.
    pub(crate) fn prepare(
        &self,
        directory: &StateDirectory,
        description: &JobDescription,
        resolution: Option<Resolution>,
        disk: Arc<dyn Disk>,
    ) -> Result<Option<PreparedRestore>, JobError> {
        let savepoint = Savepoint::open(disk, &self.savepoint)?;
        let local = directory.local();
        if let Some(meta) = &local.meta {
            let checkpoint = meta.checkpoint.0;
            let id = savepoint.manifest().id;
            if local.restored.is_some_and(|restored| restored.savepoint == id) {
                decision(|| "restore: begun before".to_owned());
                tracing::info!(
                    "the state directory began from this savepoint and has come to checkpoint {checkpoint}: going on from there"
                );
                return Ok(None);
            }
            return Err(JobError::StateDirNotEmpty {
                directory: directory.path().to_owned(),
                savepoint: self.savepoint.clone(),
                checkpoint,
            });
        }
        let plan = plan_restore(savepoint.manifest(), description, self.allow_non_restored_state);
        let plan = plan.map_err(|source: IncompatibleSavepoint| SavepointError::Incompatible {
            path: self.savepoint.clone(),
            source,
        })?;
        for left in &plan.not_restored {
            tracing::warn!("the savepoint's {left} is left behind, as allowed");
        }
        for new in &plan.new_operators {
            tracing::info!("operator {new:?} is not in the savepoint and starts empty");
        }
        let consent = RestoreConsent {
            accept_rewind: self.consent.accept_rewind
                || resolution == Some(Resolution::AcceptRewind),
            adopt_local: self.consent.adopt_local || resolution == Some(Resolution::AdoptLocal),
        };
        Ok(Some(PreparedRestore { savepoint, plan, consent }))
    }
}

impl PreparedRestore {
    /// Uids of the sources whose positions the savepoint knows.
    pub(crate) fn knows_source(&self, uid: &str) -> bool {
        self.plan.positions.of_source(uid).next().is_some()
    }

    /// Where the savepoint's sources stand.
    pub(crate) fn positions(&self) -> &Positions {
        &self.plan.positions
    }

    /// Restores into `directory` and its store. `new_positions` are those of the sources that the savepoint does not know.
    pub(crate) async fn restore(
        self,
        job: &JobName,
        (directory, storage): (&StateDirectory, &Storage),
        ledger: &mut Ledger,
        new_positions: Positions,
    ) -> Result<(), JobError> {
        // As R1: reads to the last stable offset, fences nobody, may only stop. What is committed until the fence is found
        // by `decide`, which then stops.
        ledger.look(ReadUntil::LastStableOffset).await?;
        if self.may_be_undecided(job, ledger) {
            ledger.look(ReadUntil::HighWatermark).await?;
        }
        let facts = RestoreFacts {
            job,
            savepoint: self.savepoint.manifest(),
            savepoint_path: self.savepoint.path().to_owned(),
            ledger: ledger.last(),
            ledger_place: ledger.place(),
            consent: self.consent,
        };
        let decided = decide_restore(&facts, Nonce(random_id()?));
        decision(|| match &decided {
            Ok(restored) if restored.ledger == Some(restored.savepoint_at) => {
                "restore: go on".to_owned()
            }
            Ok(_) if self.consent == RestoreConsent::default() => "restore: begin".to_owned(),
            Ok(_) => "restore: with somebody's word".to_owned(),
            Err(reason) => format!("restore: {}", variant(reason)),
        });
        let restored = decided?;
        let place = (directory, storage);
        block_in_place(|| self.write(job, place, ledger, &restored, new_positions))
    }

    /// Whether the ledger ends before the savepoint, but is the topic that the savepoint's checkpoint was committed in. EndTxn is
    /// answered before its markers are written, and until they are no look sees that record: it is lost only if it is not
    /// there once every transaction before the end of the topic is over.
    fn may_be_undecided(&self, job: &JobName, ledger: &Ledger) -> bool {
        let saved = self.savepoint.manifest();
        let found = ledger.last().map(|last| last.record.checkpoint);
        saved.description.job == *job
            && saved.ledger_topic_id == ledger.topic_id()
            && found.is_none_or(|found| found < saved.at.checkpoint)
    }

    fn write(
        &self,
        job: &JobName,
        (directory, storage): (&StateDirectory, &Storage),
        ledger: &Ledger,
        restored: &Restored,
        new_positions: Positions,
    ) -> Result<(), JobError> {
        directory.begin_restore(restored)?;
        crash_point(Step::RestoreBegun);
        let place = directory.store_path();
        // Of a restore that was not finished.
        storage.remove_store(&place)?;
        let store = storage.open_store(&place)?;
        let mut plan = self.plan.clone();
        if mutant(Mutant::RestoreLeavesOneOut) {
            plan.states.pop();
        }
        let report = restore_states(&self.savepoint, &plan, &*store, restored.at)?;
        // Its files are closed before the job opens them.
        drop(store);
        crash_point(Step::RestoreStored);
        let mut positions = self.plan.positions.clone();
        positions.extend(new_positions);
        directory.write_meta(&Meta {
            job: job.clone(),
            checkpoint: restored.at.checkpoint,
            nonce: restored.at.nonce,
            positions,
            watermarks: self.plan.watermarks.clone(),
            // Also of a job that had finished: its sources may have more by now.
            status: JobStatus::Running,
            ledger_partition: SLOT,
            ledger_offset: None,
            ledger_topic_id: ledger.topic_id(),
            lineage: LineageId(random_id()?),
            fingerprint: directory.fingerprint(),
        })?;
        crash_point(Step::RestoreWritten);
        tracing::info!(
            "restored {restored} (checkpoint {}) as checkpoint {}: {} state{}, {} entr{}",
            restored.savepoint_at.checkpoint,
            restored.at.checkpoint,
            report.states,
            if report.states == 1 { "" } else { "s" },
            report.entries,
            if report.entries == 1 { "y" } else { "ies" },
        );
        Ok(())
    }
}
