//! From the model's small numbers to what the shipped rules look at, and back.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use millstream_checkpoint::{
    CheckpointId, CheckpointRef, DeltaDigest, DeltaHeader, DeltaSummary, Facts, FencedReason,
    Findings, Fingerprint, Halt, JobName, JobStatus, LedgerFact, LedgerPlace, LedgerRecord,
    LineageId, LocalState, Meta, Nonce, OwnerId, Positions, Recovery, RecoveryPoint,
    SourcePosition, StateId, StopReason, StoreFacts, TopicId, owner_record,
};

use crate::broker::{Id, Rec};
use crate::configuration::{Config, Variant};
use crate::state::{At, DeltaFile, Dir, MetaFile, Place, Proc, State};

struct Names {
    job: JobName,
    place: LedgerPlace,
    /// By offset: making them anew would be most of the model's time.
    positions: Vec<Positions>,
    states: [StateId; 2],
}

fn names() -> &'static Names {
    static NAMES: OnceLock<Names> = OnceLock::new();
    NAMES.get_or_init(|| Names {
        job: JobName::new("modelled").unwrap(),
        place: LedgerPlace { topic: "modelled.millstream-ledger".into(), partition: 0 },
        positions: (0..32).map(positions_at).collect(),
        states: [StateId::new("sum", "totals"), StateId::new("join", "left")],
    })
}

fn positions_at(offset: i64) -> Positions {
    let mut positions = Positions::new();
    let position = SourcePosition {
        topic: "in".into(),
        topic_id: TopicId::UNKNOWN,
        partition: 0,
        offset,
        leader_epoch: -1,
        max_event_time: None,
        finished: false,
    };
    positions.insert("in", position);
    positions
}

fn positions(offset: u8) -> Positions {
    names().positions[usize::from(offset)].clone()
}

fn offset_of(positions: &Positions) -> u8 {
    let position = positions.iter().next().map(|(_, position)| position.offset);
    u8::try_from(position.unwrap()).unwrap()
}

fn bytes(id: Id) -> [u8; 16] {
    [id; 16]
}

fn reference(config: &Config, at: At) -> CheckpointRef {
    // The variant that tells attempts apart by number alone sees one nonce everywhere.
    let nonce = if config.is(Variant::NumbersOnly) { 1 } else { at.nonce };
    CheckpointRef::new(CheckpointId(at.checkpoint.into()), Nonce(bytes(nonce)))
}

fn at(found: CheckpointRef) -> At {
    At { checkpoint: u8::try_from(found.checkpoint.0).unwrap(), nonce: found.nonce.0[0] }
}

fn digest(of: CheckpointRef) -> DeltaDigest {
    let mut bytes = of.nonce.0;
    bytes[0] = u8::try_from(of.checkpoint.0).unwrap();
    DeltaDigest(bytes)
}

fn meta(config: &Config, file: &MetaFile) -> Meta {
    let at = reference(config, file.at);
    Meta {
        job: names().job.clone(),
        checkpoint: at.checkpoint,
        nonce: at.nonce,
        positions: positions(file.position),
        watermarks: Vec::new(),
        status: JobStatus::Running,
        ledger_partition: 0,
        ledger_offset: file.ledger_offset.map(i64::from),
        ledger_topic_id: TopicId::UNKNOWN,
        lineage: LineageId([1; 16]),
        fingerprint: Fingerprint::default(),
    }
}

fn meta_file(meta: &Meta) -> MetaFile {
    MetaFile {
        at: at(meta.at()),
        position: offset_of(&meta.positions),
        ledger_offset: meta.ledger_offset.map(|offset| u8::try_from(offset).unwrap()),
    }
}

fn delta(config: &Config, file: &DeltaFile) -> DeltaSummary {
    let parent = At { checkpoint: file.at.checkpoint - 1, nonce: file.parent };
    let at = reference(config, file.at);
    let header = DeltaHeader {
        job: names().job.clone(),
        at,
        parent: reference(config, parent),
        parent_ledger_offset: None,
        positions: positions(file.input + 1),
        watermarks: Vec::new(),
        status: JobStatus::Running,
        fingerprint: Fingerprint::default(),
        producer: None,
    };
    DeltaSummary { header, digest: digest(at), file_bytes: 1 }
}

/// The directory as its process sees it.
pub(crate) fn local(config: &Config, dir: &Dir, meta_now: Option<MetaFile>) -> LocalState {
    let mut deltas: Vec<DeltaSummary> = dir.live().map(|file| delta(config, file)).collect();
    deltas.sort_by_key(|delta| delta.header.at);
    let meta = meta_now.map(|file| meta(config, &file));
    LocalState { path: "state".into(), meta, restored: None, deltas, quarantined: Vec::new() }
}

fn ledger_record(config: &Config, rec: &Rec) -> LedgerRecord {
    let at = reference(config, At { checkpoint: rec.checkpoint, nonce: rec.nonce });
    let parent =
        rec.checkpoint.checked_sub(1).map(|checkpoint| At { checkpoint, nonce: rec.parent });
    LedgerRecord {
        job: names().job.clone(),
        checkpoint: at.checkpoint,
        nonce: at.nonce,
        parent: parent.map(|parent| reference(config, parent)),
        owner: OwnerId(bytes(rec.owner)),
        positions: positions(rec.offset),
        watermarks: Vec::new(),
        status: JobStatus::Running,
        delta_digest: parent.map(|_| digest(at)),
        fingerprint: Fingerprint::default(),
        wall_time_ms: 0,
    }
}

fn rec(record: &LedgerRecord) -> Rec {
    Rec {
        checkpoint: u8::try_from(record.checkpoint.0).unwrap(),
        offset: offset_of(&record.positions),
        nonce: record.nonce.0[0],
        parent: record.parent.map_or(0, |parent| parent.nonce.0[0]),
        owner: record.owner.0[0],
    }
}

fn recovery(proc: &Proc) -> Recovery {
    Recovery {
        phase: proc.phase,
        newer_owner: proc.newer_owner,
        failed_takeovers: proc.failed.into(),
        ..Recovery::new(OwnerId(bytes(proc.owner)))
    }
}

impl Proc {
    /// Takes a step of the shipped recovery that needs nothing but its answer.
    pub(crate) fn recover<R>(&mut self, step: impl FnOnce(&mut Recovery) -> R) -> R {
        let mut recovery = recovery(self);
        let result = step(&mut recovery);
        self.phase = recovery.phase;
        self.newer_owner = recovery.newer_owner;
        self.failed = u8::try_from(recovery.failed_takeovers).unwrap();
        assert_eq!(recovery.concurrent_for, Duration::ZERO, "an answer lasts a whole spell");
        result
    }
}

impl State {
    /// The ledger's last record as process `i` gets to know it, and its offset.
    pub(crate) fn ledger_read(&self, config: &Config, i: usize) -> Option<(Rec, u8)> {
        let proc = &self.procs[i];
        if config.is(Variant::ReadBeforeFence) && proc.place == Place::Read {
            let offset = proc.seen.checked_sub(1)?;
            return Some((self.leaders[0].log[usize::from(offset)], offset));
        }
        let from = proc.dir.meta.and_then(|meta| meta.ledger_offset);
        let removed = from.is_some_and(|offset| offset < self.compacted);
        if config.is(Variant::ReadAtOffset) && removed { None } else { self.ledger() }
    }

    /// Takes a step of the shipped recovery with what process `i` finds now; it has read the ledger then.
    pub(crate) fn find<R>(
        &mut self,
        config: &Config,
        i: usize,
        step: impl FnOnce(&mut Recovery, &Findings<'_>) -> R,
    ) -> R {
        let proc = &self.procs[i];
        let log = &self.leaders[0].log;
        let last = self.ledger_read(config, i);
        let from = usize::from(proc.seen.max(self.compacted));
        let behind: Vec<LedgerRecord> =
            log.iter().skip(from).map(|rec| ledger_record(config, rec)).collect();
        let other_owner = !config.is(Variant::NoOwnerCheck)
            && Facts::is_newer_owner(OwnerId(bytes(proc.owner)), &behind);
        let fact = last.map(|(rec, offset)| LedgerFact {
            record: ledger_record(config, &rec),
            offset: offset.into(),
        });
        let local = local(config, &proc.dir, proc.dir.meta);
        let findings = Findings {
            job: &names().job,
            fingerprint: Fingerprint::default(),
            local: &local,
            ledger: fact.as_ref(),
            ledger_place: &names().place,
            ledger_topic_id: TopicId::UNKNOWN,
            other_owner,
        };
        let result = self.procs[i].recover(|recovery| step(recovery, &findings));
        self.procs[i].seen = self.ledger_len();
        result
    }

    /// The record of R6 that process `i` would write.
    pub(crate) fn owner_record(&self, config: &Config, i: usize) -> Option<Rec> {
        let proc = &self.procs[i];
        let last = self.ledger().map(|(rec, offset)| LedgerFact {
            record: ledger_record(config, &rec),
            offset: offset.into(),
        });
        let meta = proc.dir.meta.map(|file| meta(config, &file));
        let owner = OwnerId(bytes(proc.owner));
        owner_record(owner, last.as_ref(), meta.as_ref(), 0).map(|record| rec(&record))
    }
}

/// Where a recovery point stands, and the position it names.
pub(crate) fn point_at(point: &RecoveryPoint) -> (At, u8, Option<u8>) {
    let offset = point.ledger_offset.map(|offset| u8::try_from(offset).unwrap());
    (at(point.at), offset_of(&point.positions), offset)
}

/// Whether the point's quarantine names this file.
pub(crate) fn is_dead(config: &Config, point: &RecoveryPoint, file: &DeltaFile) -> bool {
    point.quarantine.contains(&reference(config, file.at))
}

pub(crate) fn meta_after_repair(
    config: &Config,
    point: &RecoveryPoint,
    now: MetaFile,
) -> Option<MetaFile> {
    point.meta_after_repair(&meta(config, &now)).map(|written| meta_file(&written))
}

/// Last change that a state has taken in.
fn applied(config: &Config, dir: &Dir, k: usize) -> Option<CheckpointRef> {
    let last = dir.store[k].last()?;
    Some(reference(config, At { checkpoint: last.checkpoint, nonce: last.nonce }))
}

/// R5: the deltas to replay, oldest first.
pub(crate) fn replay_plan(
    config: &Config,
    dir: &Dir,
    point: &RecoveryPoint,
) -> Result<Vec<CheckpointRef>, StopReason> {
    let states = &names().states;
    let applied = (0..2).filter_map(|k| Some((states[k].clone(), applied(config, dir, k)?)));
    let store = StoreFacts {
        floor: dir.floor.map(|floor| reference(config, floor)),
        applied: applied.collect(),
    };
    let local = local(config, dir, dir.meta);
    millstream_checkpoint::replay_plan(&local, &store, point.at).map(|plan| plan.deltas)
}

/// Whether state `k` needs the changes of a file.
pub(crate) fn needs(config: &Config, dir: &Dir, k: usize, file: &DeltaFile) -> bool {
    millstream_checkpoint::needed_by_replay(applied(config, dir, k), reference(config, file.at))
}

/// For steps that only hand it on.
pub(crate) fn some_point() -> RecoveryPoint {
    RecoveryPoint {
        at: CheckpointRef::new(CheckpointId::ZERO, Nonce::default()),
        positions: Positions::new(),
        watermarks: Vec::new(),
        status: JobStatus::Running,
        ledger_offset: None,
        delta_digest: None,
        quarantine: Vec::new(),
    }
}

pub(crate) fn file<'a>(
    config: &Config,
    dir: &'a Dir,
    delta: CheckpointRef,
) -> Option<&'a DeltaFile> {
    dir.live().find(|file| reference(config, file.at) == delta)
}

/// C7: the deltas that may be deleted now.
pub(crate) fn deletable(config: &Config, dir: &Dir, meta: Option<MetaFile>) -> Vec<At> {
    let local = local(config, dir, meta);
    let found = local.deletable(CheckpointId(dir.floor_checkpoint().into()));
    dir.live().map(|file| file.at).filter(|at| found.contains(&reference(config, *at))).collect()
}

/// R0's confirmed checkpoint.
pub(crate) fn confirmed(config: &Config, dir: &Dir) -> Option<At> {
    local(config, dir, dir.meta).confirmed().map(at)
}

/// Which ways the shipped rules went, over all configurations without a variant.
pub(crate) static COVERED: [(&str, AtomicU64); 14] = [
    ("commit record 0", AtomicU64::new(0)),
    ("confirm", AtomicU64::new(0)),
    ("resume", AtomicU64::new(0)),
    ("FENCED: newer owner", AtomicU64::new(0)),
    ("FENCED: take-over failed", AtomicU64::new(0)),
    ("stop: ledger lost", AtomicU64::new(0)),
    ("stop: stale local state", AtomicU64::new(0)),
    ("stop: no local state", AtomicU64::new(0)),
    ("stop: META missing", AtomicU64::new(0)),
    ("stop: ledger behind", AtomicU64::new(0)),
    ("stop: two histories", AtomicU64::new(0)),
    ("stop: missing delta", AtomicU64::new(0)),
    ("stop: foreign store", AtomicU64::new(0)),
    ("stop: contradicting files", AtomicU64::new(0)),
];

pub(crate) fn cover(config: &Config, way: &str) {
    if config.variant.is_some() {
        return;
    }
    let found = COVERED.iter().find(|(name, _)| *name == way);
    found.unwrap_or_else(|| panic!("no line for {way:?}")).1.fetch_add(1, Ordering::Relaxed);
}

pub(crate) fn cover_halt(config: &Config, halt: &Halt) {
    cover(
        config,
        match halt {
            Halt::Fenced(FencedReason::NewerOwner) => "FENCED: newer owner",
            Halt::Fenced(FencedReason::TakeoverFailed { .. }) => "FENCED: take-over failed",
            Halt::Stop(StopReason::LedgerLost { .. }) => "stop: ledger lost",
            Halt::Stop(StopReason::StaleLocalState { .. }) => "stop: stale local state",
            Halt::Stop(StopReason::NoLocalState { .. }) => "stop: no local state",
            Halt::Stop(StopReason::MetaMissing { .. }) => "stop: META missing",
            Halt::Stop(StopReason::LedgerBehind { .. }) => "stop: ledger behind",
            Halt::Stop(StopReason::LineageSplit { .. }) => "stop: two histories",
            Halt::Stop(StopReason::MissingDelta { .. }) => "stop: missing delta",
            Halt::Stop(StopReason::ForeignStore { .. }) => "stop: foreign store",
            Halt::Stop(StopReason::ContradictingFiles { .. }) => "stop: contradicting files",
            // A variant without META: the shipped rules do not know this start.
            Halt::FirstMetaGone { .. } => return,
            other => panic!("the model does not know {other:?}"),
        },
    );
}
