//! A job in miniature, killed at every disk operation: directory, store in memory, and a ledger that
//! commits atomically. After each crash the next process must find exactly the state that the ledger
//! names, whatever the crash left on disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::{fingerprint, header, job, key, meta, positions};
use crate::decide::{
    Decision, Facts, LedgerFact, LedgerPlace, Look, OwnershipPhase, RecoveryPoint, StoreFacts,
    decide, look_before_fence, replay_plan,
};
use crate::directory::{StateDirectory, replay};
use crate::disk::{CrashMode, Disk, DiskFault, SimulatedDisk};
use crate::error::StateError;
use crate::ids::{CheckpointId, CheckpointRef, Nonce, OwnerId, TopicId};
use crate::layered_state::LayeredState;
use crate::ledger_record::LedgerRecord;
use crate::store::{KeyRange, MemoryStore, StateStore};
use crate::{FrozenDelta, StateDelta, StateId};

type Contents = BTreeMap<(StateId, Bytes), Bytes>;

/// What an attempt at a checkpoint does after its delta is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Commit,
    /// The transaction is aborted: soft rollback in process.
    Abort,
    /// The process is killed before EndTxn; the fence aborts.
    DieBefore,
    /// The process is killed after EndTxn, before it knows.
    DieAfter,
}

/// A rule of the protocol that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    None,
    DeltaNotSynced,
    DeltaAfterCommit,
    DeltaDeletedBeforeMeta,
    DeltaDeletedBeforePersist,
}

/// Everything outside the process.
struct World {
    disk: SimulatedDisk,
    store: Arc<MemoryStore>,
    ledger: Vec<LedgerRecord>,
    /// State at each committed checkpoint, by who made it.
    committed: BTreeMap<CheckpointRef, Contents>,
    nonces: u8,
    attempts: usize,
    mutant: Mutant,
}

const LAST: u64 = 5;
const FATES: [Fate; 9] = [
    Fate::Commit,
    Fate::Abort,
    Fate::Commit,
    Fate::DieBefore,
    Fate::Commit,
    Fate::DieAfter,
    Fate::Abort,
    Fate::Commit,
    Fate::Commit,
];

#[derive(Debug)]
enum Ended {
    /// The job reached its last checkpoint.
    Done,
    /// The process died (injected).
    Died,
    /// The protocol went wrong.
    Wrong(String),
}

impl From<StateError> for Ended {
    fn from(error: StateError) -> Self {
        match error {
            StateError::Io { .. } | StateError::Poisoned { .. } => Self::Died,
            full if full.is_no_space() => Self::Died,
            other => Self::Wrong(other.to_string()),
        }
    }
}

fn wrong(error: impl std::fmt::Display) -> Ended {
    Ended::Wrong(error.to_string())
}

fn states() -> [StateId; 2] {
    [StateId::new("sum", "totals"), StateId::new("join", "left")]
}

impl World {
    fn new(mutant: Mutant) -> Self {
        Self {
            disk: SimulatedDisk::new(),
            store: Arc::default(),
            ledger: Vec::new(),
            committed: BTreeMap::new(),
            nonces: 0,
            attempts: 0,
            mutant,
        }
    }

    fn nonce(&mut self) -> Nonce {
        self.nonces += 1;
        Nonce([self.nonces; 16])
    }

    /// The machine loses power (or the process is killed) and starts again.
    fn crash(&mut self, mode: CrashMode) {
        self.disk = self.disk.after_crash(mode);
        let mut kept = 0;
        self.store = Arc::new(self.store.after_crash(|_| {
            kept += 1;
            match mode {
                CrashMode::LoseUnsynced => false,
                CrashMode::KeepUnsynced => true,
                CrashMode::Torn(seed) => (seed + kept).is_multiple_of(2),
            }
        }));
    }

    /// Runs a process until the job is done or the process dies.
    fn process(&mut self) -> Ended {
        match self.run() {
            Ok(()) => Ended::Done,
            Err(ended) => ended,
        }
    }

    fn run(&mut self) -> Result<(), Ended> {
        let path = std::path::Path::new("/state");
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let directory = StateDirectory::open(disk, path, &job(), fingerprint())?;
        let owner = OwnerId([self.nonce().0[0]; 16]);
        let mut own = OwnershipPhase::Starter;
        let (mut point, layered) = self.recover(&directory, owner, own)?;
        own = OwnershipPhase::Owner;
        while point.at.checkpoint < CheckpointId(LAST) {
            let nonce = self.nonce();
            let next = CheckpointRef::new(point.at.checkpoint.next(), nonce);
            let fate = FATES.get(self.attempts).copied().unwrap_or(Fate::Commit);
            self.attempts += 1;
            point = match self.checkpoint(&directory, &layered, owner, &point, next, fate)? {
                Some(confirmed) => confirmed,
                None => {
                    // X: the ledger decides, in process.
                    layered.drop_unconfirmed();
                    self.decide(&directory, own)?.0
                }
            };
            self.background(&directory, &layered, point.at)?;
        }
        Ok(())
    }

    /// R1 to R4.
    fn decide(
        &mut self,
        directory: &StateDirectory,
        phase: OwnershipPhase,
    ) -> Result<(RecoveryPoint, Decision), Ended> {
        let local = directory.local();
        let with_meta;
        let ledger = self.ledger.last().map(|record| LedgerFact {
            record: record.clone(),
            offset: i64::try_from(self.ledger.len()).unwrap() - 1,
        });
        let facts = Facts {
            job: &job(),
            fingerprint: fingerprint(),
            local: &local,
            ledger: ledger.as_ref(),
            ledger_place: &LedgerPlace { topic: "orders-ledger".into(), partition: 0 },
            ledger_topic_id: TopicId([5; 16]),
            phase,
            newer_owner: false,
            failed_takeovers: 0,
        };
        if let Look::Stop(stop) = look_before_fence(&facts) {
            return Err(wrong(stop));
        }
        let decision = decide(&facts);
        let point = match &decision {
            Decision::FirstStart => {
                let zero = meta(CheckpointRef::new(CheckpointId::ZERO, self.nonce()));
                directory.write_meta(&zero)?;
                with_meta = directory.local();
                let again = decide(&Facts { local: &with_meta, ..facts });
                let Decision::CommitRecordZero(point) = again else {
                    return Err(wrong(format!("{again:?}")));
                };
                point
            }
            Decision::CommitRecordZero(point)
            | Decision::Confirm(point)
            | Decision::Resume(point) => point.clone(),
            Decision::Stop(stop) => return Err(wrong(stop)),
            Decision::Fenced(reason) => return Err(wrong(reason)),
        };
        for dead in &point.quarantine {
            directory.quarantine(*dead)?;
        }
        Ok((point, decision))
    }

    /// R4 to R6, and the check that the state found is the one that was committed.
    fn recover(
        &mut self,
        directory: &StateDirectory,
        owner: OwnerId,
        phase: OwnershipPhase,
    ) -> Result<(RecoveryPoint, LayeredState), Ended> {
        let (point, _) = self.decide(directory, phase)?;
        let store: Arc<dyn StateStore> = Arc::clone(&self.store) as _;
        let facts = StoreFacts::of(&*store).map_err(wrong)?;
        let plan = replay_plan(&directory.local(), &facts, point.at).map_err(wrong)?;
        replay(directory, &*store, &plan)?;
        let layered = LayeredState::new(store).map_err(wrong)?;
        match self.ledger.last() {
            Some(last) => self.ledger.push(last.owned_by(owner, 0)),
            None => {
                let meta = directory.local().meta.expect("META was written");
                self.ledger.push(LedgerRecord::zero(&meta, owner, 0));
                self.committed.insert(point.at, Contents::new());
            }
        }
        self.check(&layered, &point)?;
        Ok((point, layered))
    }

    /// The state must be the one committed by exactly that attempt, and the positions its positions.
    fn check(&self, layered: &LayeredState, point: &RecoveryPoint) -> Result<(), Ended> {
        let Some(expected) = self.committed.get(&point.at) else {
            return Err(wrong(format!("{} was never committed", point.at)));
        };
        let last = self.ledger.last().map(LedgerRecord::at);
        let mut found = Contents::new();
        for state in states() {
            for entry in layered.scan(&state, &KeyRange::all()).map_err(wrong)? {
                let (key, value) = entry.map_err(wrong)?;
                found.insert((state.clone(), key), value);
            }
        }
        let offset = i64::try_from(point.at.checkpoint.0).unwrap();
        if last != Some(point.at) || found != *expected || point.positions != positions(offset) {
            return Err(wrong(format!("wrong state or positions at {}", point.at)));
        }
        Ok(())
    }

    /// C2 to C6. `None`: the transaction was aborted.
    fn checkpoint(
        &mut self,
        directory: &StateDirectory,
        layered: &LayeredState,
        owner: OwnerId,
        parent: &RecoveryPoint,
        next: CheckpointRef,
        fate: Fate,
    ) -> Result<Option<RecoveryPoint>, Ended> {
        let changes = changes(next);
        let delta = Arc::new(FrozenDelta::from_parts(changes.clone()).map_err(wrong)?);
        layered.push_frozen(next, Arc::clone(&delta)).map_err(wrong)?;
        let mut header = header(next, parent.at);
        header.parent_ledger_offset = parent.ledger_offset;
        let record = |digest| LedgerRecord {
            job: job(),
            checkpoint: next.checkpoint,
            nonce: next.nonce,
            parent: Some(parent.at),
            owner,
            positions: header.positions.clone(),
            watermarks: header.watermarks.clone(),
            status: header.status,
            delta_digest: Some(digest),
            fingerprint: fingerprint(),
            wall_time_ms: 0,
        };
        let mut contents = self.committed[&parent.at].clone();
        for part in changes {
            for (key, value) in part.entries {
                match value {
                    Some(value) => contents.insert((part.state.clone(), key), value),
                    None => contents.remove(&(part.state.clone(), key)),
                };
            }
        }
        if self.mutant == Mutant::DeltaAfterCommit {
            // The digest is a function of the contents, so it can be had from a scratch disk.
            let scratch: Arc<dyn Disk> = Arc::new(SimulatedDisk::new());
            let path = std::path::Path::new("/scratch");
            let scratch = StateDirectory::open(scratch, path, &job(), fingerprint())?;
            let digest = scratch.write_delta(&header, &delta)?;
            self.ledger.push(record(digest));
            self.committed.insert(next, contents.clone());
        }
        let digest = match directory.write_delta(&header, &delta) {
            // C4: no space is a vote "no".
            Err(error) if error.is_no_space() => return Ok(None),
            written => written?,
        };
        if self.mutant != Mutant::DeltaAfterCommit {
            match fate {
                Fate::Abort => return Ok(None),
                Fate::DieBefore => return Err(Ended::Died),
                Fate::Commit | Fate::DieAfter => {}
            }
            self.ledger.push(record(digest));
            self.committed.insert(next, contents);
            if fate == Fate::DieAfter {
                return Err(Ended::Died);
            }
        }
        layered.confirm(next).map_err(wrong)?;
        let confirmed = RecoveryPoint {
            at: next,
            positions: header.positions,
            watermarks: header.watermarks,
            status: header.status,
            ledger_offset: Some(i64::try_from(self.ledger.len()).unwrap() - 1),
            delta_digest: Some(digest),
            quarantine: Vec::new(),
        };
        self.check(layered, &confirmed)?;
        Ok(Some(confirmed))
    }

    /// C7, at different paces.
    fn background(
        &mut self,
        directory: &StateDirectory,
        layered: &LayeredState,
        confirmed: CheckpointRef,
    ) -> Result<(), Ended> {
        let n = confirmed.checkpoint.0;
        if n % 3 != 1 {
            layered.apply_confirmed(usize::MAX).map_err(wrong)?;
        }
        if n.is_multiple_of(2) && confirmed.checkpoint > CheckpointId::ZERO {
            match directory.write_meta(&meta(confirmed)) {
                Err(error) if error.is_no_space() => {}
                written => written?,
            }
        }
        if self.mutant == Mutant::DeltaDeletedBeforePersist {
            directory.delete_applied(confirmed.checkpoint)?;
            return Ok(());
        }
        if (n == 3 || n == 5)
            && let Some(floor) = layered.persist().map_err(wrong)?
        {
            directory.delete_applied(floor.checkpoint)?;
            if self.mutant == Mutant::DeltaDeletedBeforeMeta {
                self.delete_without_meta(directory, floor.checkpoint)?;
            }
        }
        if n == 4
            && let Some(floor) = layered.store().floor().map_err(wrong)?
        {
            directory.delete_applied(floor.checkpoint)?;
        }
        Ok(())
    }

    /// The rule without "META itself holds c >= m".
    fn delete_without_meta(
        &self,
        directory: &StateDirectory,
        floor: CheckpointId,
    ) -> Result<(), Ended> {
        for delta in directory.local().deltas {
            if delta.header.at.checkpoint <= floor {
                let name = crate::directory::file_names::delta_name(delta.header.at);
                let folder = std::path::Path::new("/state/deltas");
                self.disk.remove(&folder.join(name)).map_err(|_| Ended::Died)?;
                self.disk.sync_dir(folder).map_err(|_| Ended::Died)?;
            }
        }
        Ok(())
    }
}

/// Changes of an attempt: values name it (processing is not deterministic), some keys are deleted, and
/// some checkpoints leave a state alone.
fn changes(next: CheckpointRef) -> Vec<StateDelta> {
    let n = next.checkpoint.0;
    let value = Some(Bytes::from(format!("{n} by {}", next.nonce)));
    let [totals, left] = states();
    let mut parts = vec![
        StateDelta { state: totals.clone(), entries: vec![(key(1, "always"), value.clone())] },
        StateDelta {
            state: totals,
            entries: vec![
                (key(2, &format!("only {n}")), value.clone()),
                (key(3, &format!("gone {}", n % 2)), (n.is_multiple_of(2)).then_some(Bytes::new())),
            ],
        },
    ];
    if n.is_multiple_of(2) {
        parts.push(StateDelta { state: left, entries: vec![(key(9, "left"), value)] });
    }
    parts
}

const MODES: [CrashMode; 6] = [
    CrashMode::LoseUnsynced,
    CrashMode::KeepUnsynced,
    CrashMode::Torn(1),
    CrashMode::Torn(2),
    CrashMode::Torn(3),
    CrashMode::Torn(4),
];

/// Runs the job to its end, restarting after deaths. Process i meets the fault `faults[i]`, an operation
/// counted from its own start. Gives the most disk operations of one process.
fn life(
    mutant: Mutant,
    mode: CrashMode,
    faults: &[Option<(usize, DiskFault)>],
) -> Result<usize, String> {
    let mut world = World::new(mutant);
    let mut operations = 0;
    for process in 0..12 {
        if mutant == Mutant::DeltaNotSynced {
            world.disk.lie_about_sync_of("delta-");
        }
        if let Some(Some((operation, fault))) = faults.get(process) {
            world.disk.fail_at(*operation, *fault);
        }
        let ended = world.process();
        operations = operations.max(world.disk.operations().len());
        match ended {
            Ended::Done => return Ok(operations),
            Ended::Wrong(what) => return Err(format!("after {process} restarts: {what}")),
            Ended::Died => world.crash(mode),
        }
    }
    Err("the job never ends".into())
}

/// Crashes each of the first three processes at each of its operations, and some of them together.
/// Gives the number of lives lived, or what went wrong first.
fn all_crashes(mutant: Mutant) -> Result<usize, String> {
    let crash = |operation| Some((operation, DiskFault::Crash));
    let mut lives = 0;
    for mode in MODES {
        for point in 0..OPERATIONS_MAX {
            for faults in [
                [crash(point), None, None],
                [None, crash(point), None],
                [None, None, crash(point)],
                [crash(point), crash(point % 17), None],
                [crash(point), crash(point / 3), crash(point % 7)],
                [Some((point, DiskFault::Io)), crash(point % 11), None],
            ] {
                lives += 1;
                life(mutant, mode, &faults)
                    .map_err(|what| format!("{mode:?} {faults:?}: {what}"))?;
            }
        }
    }
    Ok(lives)
}

/// More than any process of the test does.
const OPERATIONS_MAX: usize = 70;

#[test]
fn no_crash_at_any_disk_operation_loses_or_changes_committed_state() {
    let operations = life(Mutant::None, CrashMode::LoseUnsynced, &[]).unwrap();
    assert!((30..OPERATIONS_MAX).contains(&operations), "{operations} operations");
    assert_eq!(all_crashes(Mutant::None), Ok(MODES.len() * OPERATIONS_MAX * 6));
}

#[test]
fn the_crash_test_notices_a_delta_that_is_not_synced_before_the_commit() {
    assert!(all_crashes(Mutant::DeltaNotSynced).is_err());
}

#[test]
fn the_crash_test_notices_a_delta_written_after_the_commit() {
    assert!(all_crashes(Mutant::DeltaAfterCommit).is_err());
}

#[test]
fn the_crash_test_notices_a_delta_deleted_before_meta_has_passed_it() {
    assert!(all_crashes(Mutant::DeltaDeletedBeforeMeta).is_err());
}

#[test]
fn the_crash_test_notices_a_delta_deleted_before_the_store_was_persisted() {
    assert!(all_crashes(Mutant::DeltaDeletedBeforePersist).is_err());
}

#[test]
fn a_full_disk_or_an_io_error_at_any_operation_is_survived() {
    for fault in [DiskFault::NoSpace, DiskFault::Io] {
        for operation in 0..OPERATIONS_MAX {
            let faults = [Some((operation, fault))];
            let lived = life(Mutant::None, CrashMode::KeepUnsynced, &faults);
            assert!(lived.is_ok(), "{fault:?} at {operation}: {lived:?}");
        }
    }
}
