//! Ledger checkpoints: delta files, META, the state store and the pure recovery decision.
//!
//! A checkpoint is made by a record on the job's ledger topic, committed in one Kafka transaction with
//! the outputs. This crate holds everything of that protocol that is not Kafka: what is written to disk
//! and in which order, and what a process does with it when it starts again. It blocks on the disk, has
//! no clock, no network, and does not know Kafka's types.
//!
//! What survives a crash of the machine:
//!
//! | written | durable when | holds |
//! | --- | --- | --- |
//! | [`DeltaHeader`] and [`FrozenDelta`] | [`StateDirectory::write_delta`] returns | the changes of checkpoint n; that n-1 is confirmed |
//! | [`LedgerRecord`] | the transaction commits | that n is confirmed |
//! | [`Meta`] | [`StateDirectory::write_meta`] returns | a confirmed checkpoint |
//! | [`StateStore`] | [`StateStore::persist_floor`] returns | all state up to the floor |
//!
//! ```
//! use std::sync::Arc;
//! use bytes::Bytes;
//! use millstream_checkpoint::{
//!     CheckpointId, CheckpointRef, FrozenDelta, LayeredState, MemoryStore, Nonce, StateDelta, StateId,
//! };
//!
//! let totals = StateId::new("sum", "totals");
//! let key = Bytes::from_static(b"\0\x07alice"); // key group 7
//! let delta = FrozenDelta::from_parts([StateDelta {
//!     state: totals.clone(),
//!     entries: vec![(key.clone(), Some(Bytes::from_static(b"42")))],
//! }])?;
//!
//! let state = LayeredState::new(Arc::new(MemoryStore::new()))?;
//! let first = CheckpointRef::new(CheckpointId(1), Nonce::random()?);
//! state.push_frozen(first, Arc::new(delta))?; // readable at once
//! state.confirm(first)?; // the ledger holds it
//! state.apply_confirmed(8 << 20)?; // in the store
//! assert_eq!(state.get(&totals, &key)?.as_deref(), Some(&b"42"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A start, and a transaction that died, goes as [`Recovery`] says, one [`Effect`] after the other: [`StateDirectory::open`]
//! (R0), a look at the ledger ([`look_before_fence`], R1), fence (R2), read the ledger (R3), [`decide()`] (R4),
//! [`StateDirectory::quarantine`], [`replay_plan`] and [`replay`] (R5), owner
//! record (R6). While running: [`StateDirectory::write_delta`], then the commit, then
//! [`LayeredState::confirm`], and in the background [`LayeredState::apply_confirmed`],
//! [`LayeredState::persist`], [`StateDirectory::write_meta`], [`StateDirectory::delete_applied`].

mod codec;
mod control;
mod decide;
mod delta;
mod directory;
mod disk;
mod error;
mod ids;
mod io_advice;
mod job_description;
mod layered_state;
mod ledger_record;
mod meta;
mod positions;
mod recovery;
mod restored;
mod savepoint;
mod store;

#[cfg(test)]
mod format_tests;

pub use codec::{FormatError, STRING_BYTES_MAX};
pub use control::{
    ControlAnswer, ControlClaim, ControlClient, ControlError, ControlRequest, ControlServer,
    SavepointTaken,
};
pub use decide::{
    Decision, Facts, FencedReason, GivenUp, LedgerFact, LedgerPlace, Look, MAX_FAILED_TAKEOVERS,
    OwnershipPhase, RecoveryPoint, ReplayPlan, Resolution, ResolutionRefused, Resolved,
    RestoreConsent, RestoreFacts, StopReason, StoreFacts, Unresolved, decide, decide_local,
    decide_restore, look_before_fence, look_resolving, replay_plan, resolve,
};
pub use delta::{
    DeltaDigest, DeltaEntry, DeltaError, DeltaHeader, DeltaSummary, FrozenDelta, KEY_GROUPS_MAX,
    SealedState, SealedStateWriter, StateDelta, StateId, key_group,
};
pub use directory::{
    DirectoryCopy, Inspected, InspectedDelta, Inspection, LocalState, QuarantinedFile,
    ReplayReport, StateDirectory, replay,
};
pub use disk::{
    CrashMode, Disk, DiskFault, DiskFile, DiskLock, DiskOperation, LockOutcome, OpenedFile,
    RealDisk, SimulatedDisk,
};
pub use error::{StateError, StoreError};
pub use ids::{
    CheckpointId, CheckpointRef, Fingerprint, FingerprintPart, InvalidJobName, JobName, LineageId,
    Nonce, OwnerId, RandomError, TopicId,
};
pub use job_description::{DescribedOperator, DescribedState, JobDescription};
pub use layered_state::{AppliedStep, DirtyBytes, LayeredScan, LayeredState, StateSnapshot};
pub use ledger_record::LedgerRecord;
pub use meta::Meta;
pub use positions::{JobStatus, Positions, SourcePosition, Watermarks};
pub use recovery::{
    Effect, FenceAnswer, Findings, Halt, OwnerRecordEnd, Recovery, TAKEOVER_SPELL,
    needed_by_replay, owner_record,
};
pub use restored::Restored;
pub use savepoint::{
    IncompatibleSavepoint, NotRestored, RestorePlan, RestoreReport, SAVEPOINT_FILE, SavedState,
    Savepoint, SavepointCut, SavepointError, SavepointId, SavepointManifest, SavepointTrigger,
    SchemaDifference, StateFileEntries, StateFileError, check_savepoint_target, delete_savepoint,
    is_unfinished_savepoint, not_a_savepoint, plan_restore, restore_states, savepoint_of_directory,
    state_file_name, write_savepoint,
};
pub use store::{
    FjallOptions, FjallStore, KeyRange, MemoryStore, StateStore, StoreScan, VerifiedFiles,
};
