mod resolutions;

use std::collections::BTreeSet;

use super::*;
use crate::delta::{DeltaError, DeltaHeader, StateId};
use crate::directory::{LocalState, QuarantinedFile};
use crate::ids::{CheckpointId, Fingerprint, JobName, Nonce, OwnerId, TopicId};
use crate::ledger_record::LedgerRecord;
use crate::meta::Meta;
use crate::positions::{JobStatus, Positions, SourcePosition};

const JOB: &str = "orders";
const PHASES: [OwnershipPhase; 3] =
    [OwnershipPhase::Starter, OwnershipPhase::MayOwn, OwnershipPhase::Owner];

fn at(n: u64, nonce: u8) -> CheckpointRef {
    CheckpointRef::new(CheckpointId(n), Nonce([nonce; 16]))
}

fn positions(offset: i64) -> Positions {
    let mut positions = Positions::new();
    let position = SourcePosition {
        topic: "in".into(),
        topic_id: TopicId([6; 16]),
        partition: 0,
        offset,
        leader_epoch: 0,
        max_event_time: None,
        finished: false,
    };
    positions.insert("source", position);
    positions
}

fn meta(at: CheckpointRef, ledger_offset: Option<i64>) -> Meta {
    Meta {
        job: JobName::new(JOB).unwrap(),
        checkpoint: at.checkpoint,
        nonce: at.nonce,
        positions: positions(1000 + i64::try_from(at.checkpoint.0).unwrap()),
        watermarks: Vec::new(),
        status: JobStatus::Running,
        ledger_partition: 0,
        ledger_offset,
        ledger_topic_id: TopicId([1; 16]),
        lineage: crate::LineageId([2; 16]),
        fingerprint: Fingerprint([3; 16]),
    }
}

fn digest(at: CheckpointRef) -> DeltaDigest {
    let mut bytes = at.nonce.0;
    bytes[0] = u8::try_from(at.checkpoint.0).unwrap();
    DeltaDigest(bytes)
}

fn delta(at: CheckpointRef, parent: CheckpointRef) -> DeltaSummary {
    let header = DeltaHeader {
        job: JobName::new(JOB).unwrap(),
        at,
        parent,
        parent_ledger_offset: None,
        positions: positions(2000 + i64::try_from(at.checkpoint.0).unwrap()),
        watermarks: Vec::new(),
        status: JobStatus::Running,
        fingerprint: Fingerprint([3; 16]),
        producer: None,
    };
    DeltaSummary { header, digest: digest(at), file_bytes: 1 }
}

fn local(meta: Option<Meta>, deltas: &[(CheckpointRef, CheckpointRef)]) -> LocalState {
    LocalState {
        path: "/state".into(),
        meta,
        restored: None,
        deltas: deltas.iter().map(|(at, parent)| delta(*at, *parent)).collect(),
        quarantined: Vec::new(),
    }
}

fn fact(at: CheckpointRef, parent_nonce: u8) -> LedgerFact {
    let parent = at.checkpoint.previous();
    let zero = at.checkpoint == CheckpointId::ZERO;
    let record = LedgerRecord {
        job: JobName::new(JOB).unwrap(),
        checkpoint: at.checkpoint,
        nonce: at.nonce,
        parent: parent.map(|n| CheckpointRef::new(n, Nonce([parent_nonce; 16]))),
        owner: OwnerId([8; 16]),
        positions: positions(3000 + i64::try_from(at.checkpoint.0).unwrap()),
        watermarks: Vec::new(),
        status: JobStatus::Running,
        delta_digest: (!zero).then(|| digest(at)),
        fingerprint: Fingerprint([3; 16]),
        wall_time_ms: 0,
    };
    LedgerFact { record, offset: 77 }
}

struct Case<'a> {
    local: &'a LocalState,
    ledger: Option<&'a LedgerFact>,
    phase: OwnershipPhase,
    newer_owner: bool,
    failed_takeovers: u32,
    topic: TopicId,
}

impl<'a> Case<'a> {
    fn new(local: &'a LocalState, ledger: Option<&'a LedgerFact>) -> Self {
        Self {
            local,
            ledger,
            phase: OwnershipPhase::Starter,
            newer_owner: false,
            failed_takeovers: 0,
            topic: TopicId([1; 16]),
        }
    }

    fn with<R>(&self, run: impl FnOnce(&Facts<'_>) -> R) -> R {
        run(&Facts {
            job: &JobName::new(JOB).unwrap(),
            fingerprint: Fingerprint([3; 16]),
            local: self.local,
            ledger: self.ledger,
            ledger_place: &LedgerPlace { topic: "orders-ledger".into(), partition: 4 },
            ledger_topic_id: self.topic,
            phase: self.phase,
            newer_owner: self.newer_owner,
            failed_takeovers: self.failed_takeovers,
        })
    }

    fn decide(&self) -> Decision {
        self.with(decide)
    }

    fn look(&self) -> Look {
        self.with(look_before_fence)
    }
}

fn stop_of(decision: Decision) -> StopReason {
    match decision {
        Decision::Stop(stop) => stop,
        other => panic!("no stop: {other:?}"),
    }
}

// ------------------------------------------------------------------------------------- the rows of R4

#[test]
fn row_delta_after_c_is_the_one_on_the_ledger_confirm() {
    let local = local(Some(meta(at(4, 1), None)), &[(at(5, 2), at(4, 1)), (at(5, 3), at(4, 1))]);
    let ledger = fact(at(5, 2), 1);
    let decision = Case::new(&local, Some(&ledger)).decide();
    let expected = RecoveryPoint {
        at: at(5, 2),
        positions: positions(2005),
        watermarks: Vec::new(),
        status: JobStatus::Running,
        ledger_offset: Some(77),
        delta_digest: Some(digest(at(5, 2))),
        quarantine: vec![at(5, 3)],
    };
    assert_eq!(decision, Decision::Confirm(expected));
}

#[test]
fn row_ledger_is_c_resume_and_quarantine_what_is_above() {
    let local = local(Some(meta(at(4, 1), None)), &[(at(5, 2), at(4, 1)), (at(4, 1), at(3, 1))]);
    let ledger = fact(at(4, 1), 1);
    let Decision::Resume(point) = Case::new(&local, Some(&ledger)).decide() else { panic!() };
    assert_eq!((point.at, point.quarantine), (at(4, 1), vec![at(5, 2)]));
    assert_eq!((point.positions, point.ledger_offset), (positions(1004), Some(77)));
}

#[test]
fn positions_come_from_meta_then_from_the_delta_then_from_the_ledger() {
    let ledger = fact(at(5, 2), 1);
    let with_delta =
        local(Some(meta(at(4, 1), None)), &[(at(5, 2), at(4, 1)), (at(6, 2), at(5, 2))]);
    let Decision::Resume(point) = Case::new(&with_delta, Some(&ledger)).decide() else { panic!() };
    assert_eq!(point.positions, positions(2005));
    let without = local(Some(meta(at(4, 1), None)), &[(at(6, 2), at(5, 2))]);
    let Decision::Resume(point) = Case::new(&without, Some(&ledger)).decide() else { panic!() };
    assert_eq!(point.positions, positions(3005));
}

#[test]
fn row_only_meta_at_zero_commit_record_zero() {
    let local = local(Some(meta(at(0, 1), None)), &[]);
    let Decision::CommitRecordZero(point) = Case::new(&local, None).decide() else { panic!() };
    assert_eq!((point.at, point.ledger_offset), (at(0, 1), None));
    assert_eq!(point.positions, positions(1000));
}

#[test]
fn row_nothing_anywhere_first_start() {
    assert_eq!(Case::new(&local(None, &[]), None).decide(), Decision::FirstStart);
}

#[test]
fn row_ledger_lost_also_at_zero_once_the_ledger_was_seen() {
    for local in [
        local(Some(meta(at(3, 1), None)), &[]),
        local(Some(meta(at(0, 1), Some(0))), &[]),
        local(Some(meta(at(0, 1), None)), &[(at(1, 2), at(0, 1))]),
    ] {
        let stop = stop_of(Case::new(&local, None).decide());
        assert!(matches!(stop, StopReason::LedgerLost { .. }), "{stop}");
    }
}

#[test]
fn row_ledger_ahead_without_the_delta_stale() {
    let local = local(Some(meta(at(4, 1), None)), &[(at(5, 2), at(4, 1))]);
    for ahead in [at(5, 3), at(6, 2), at(9, 1)] {
        let ledger = fact(ahead, 1);
        let stop = stop_of(Case::new(&local, Some(&ledger)).decide());
        assert!(matches!(stop, StopReason::StaleLocalState { .. }), "{stop}");
    }
}

#[test]
fn a_damaged_delta_of_the_committed_checkpoint_is_named() {
    let mut local = local(Some(meta(at(4, 1), None)), &[]);
    let path = "/state/deltas/x.quarantined".into();
    let reason = Some(DeltaError::Torn { bytes: 12 });
    local.quarantined.push(QuarantinedFile { path, at: at(5, 2), reason });
    let ledger = fact(at(5, 2), 1);
    let text = stop_of(Case::new(&local, Some(&ledger)).decide()).to_string();
    for part in ["x.quarantined", "12 bytes", "orders-ledger-4", "offset 77", "start anew"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn row_ledger_behind_or_of_another_history_stops() {
    let local = local(Some(meta(at(4, 1), None)), &[(at(5, 2), at(4, 1))]);
    let behind = fact(at(3, 1), 1);
    let stop = stop_of(Case::new(&local, Some(&behind)).decide());
    assert!(matches!(stop, StopReason::LedgerBehind { .. }), "{stop}");
    for split in [fact(at(4, 9), 1), fact(at(5, 2), 9)] {
        let stop = stop_of(Case::new(&local, Some(&split)).decide());
        assert!(matches!(stop, StopReason::LineageSplit { .. }), "{stop}");
    }
}

#[test]
fn a_delta_of_a_dead_parent_is_not_confirmed() {
    let local = local(Some(meta(at(4, 1), None)), &[(at(5, 2), at(4, 1)), (at(6, 2), at(5, 2))]);
    // c is 5 by the delta's word, the ledger's 6 says its parent was another 5.
    let ledger = fact(at(6, 2), 9);
    let stop = stop_of(Case::new(&local, Some(&ledger)).decide());
    assert!(matches!(stop, StopReason::LineageSplit { .. }), "{stop}");
}

#[test]
fn a_delta_with_another_digest_than_the_committed_one_stops() {
    let local = local(Some(meta(at(4, 1), None)), &[(at(5, 2), at(4, 1))]);
    let mut ledger = fact(at(5, 2), 1);
    ledger.record.delta_digest = Some(DeltaDigest([0xee; 16]));
    let stop = stop_of(Case::new(&local, Some(&ledger)).decide());
    assert!(matches!(stop, StopReason::DigestMismatch { .. }), "{stop}");
}

#[test]
fn no_local_state_missing_meta_and_contradicting_files_stop() {
    let ledger = fact(at(3, 1), 1);
    let none = local(None, &[]);
    let stop = stop_of(Case::new(&none, Some(&ledger)).decide());
    assert!(matches!(stop, StopReason::NoLocalState { .. }), "{stop}");
    let deltas_only = local(None, &[(at(1, 1), at(0, 1))]);
    let mut damaged_only = local(None, &[]);
    let path = "/state/deltas/x.quarantined".into();
    damaged_only.quarantined.push(QuarantinedFile { path, at: at(1, 1), reason: None });
    for local in [&deltas_only, &damaged_only] {
        for ledger in [None, Some(&ledger)] {
            let case = Case::new(local, ledger);
            let stop = stop_of(case.decide());
            assert!(matches!(stop, StopReason::MetaMissing { .. }), "{stop}");
            assert_eq!(case.look(), Look::Stop(stop), "it is known before the fence");
        }
        assert!(matches!(decide_local(local), Decision::Stop(StopReason::MetaMissing { .. })));
    }
    let merged = local(Some(meta(at(3, 1), None)), &[(at(4, 2), at(3, 2))]);
    let stop = stop_of(Case::new(&merged, Some(&ledger)).decide());
    assert!(matches!(stop, StopReason::ContradictingFiles { .. }), "{stop}");
}

#[test]
fn a_recreated_topic_a_foreign_record_and_another_fingerprint_stop_before_fencing() {
    let local = local(Some(meta(at(3, 1), None)), &[]);
    let ledger = fact(at(3, 1), 1);
    let mut case = Case::new(&local, Some(&ledger));
    case.topic = TopicId([9; 16]);
    assert!(matches!(case.look(), Look::Stop(StopReason::LedgerTopicRecreated { .. })));
    case.topic = TopicId::UNKNOWN;
    assert_eq!(case.look(), Look::Continue, "an old broker gives no ids");
    let mut foreign = ledger.clone();
    foreign.record.job = JobName::new("payments").unwrap();
    let look = Case::new(&local, Some(&foreign)).look();
    assert!(matches!(look, Look::Stop(StopReason::ForeignRecord { .. })));
    let mut changed = ledger.clone();
    changed.record.fingerprint = Fingerprint([4; 16]);
    let look = Case::new(&local, Some(&changed)).look();
    assert!(matches!(look, Look::Stop(StopReason::OtherFingerprint { .. })));
}

#[test]
fn an_owner_is_fenced_by_a_newer_one_and_a_starter_is_not() {
    let local = local(Some(meta(at(3, 1), None)), &[]);
    let ledger = fact(at(3, 1), 1);
    for phase in PHASES {
        let case = Case { phase, newer_owner: true, ..Case::new(&local, Some(&ledger)) };
        if phase == OwnershipPhase::Starter {
            assert!(matches!(case.decide(), Decision::Resume(_)));
            assert_eq!(case.look(), Look::Continue);
        } else {
            assert_eq!(case.decide(), Decision::Fenced(FencedReason::NewerOwner));
            assert_eq!(case.look(), Look::Fenced(FencedReason::NewerOwner));
        }
    }
}

#[test]
fn who_does_not_own_gives_up_after_five_tries_and_an_owner_never_does() {
    let local = local(Some(meta(at(3, 1), None)), &[]);
    let ledger = fact(at(3, 1), 1);
    for phase in PHASES {
        for failed_takeovers in [4, 5, 6] {
            let case = Case { phase, failed_takeovers, ..Case::new(&local, Some(&ledger)) };
            let gives_up = phase != OwnershipPhase::Owner && failed_takeovers >= 5;
            assert_eq!(matches!(case.decide(), Decision::Fenced(_)), gives_up);
            assert_eq!(matches!(case.look(), Look::Fenced(_)), gives_up);
        }
    }
}

#[test]
fn phases_follow_what_was_read() {
    use OwnershipPhase::{MayOwn, Owner, Starter};
    let table = [
        (Starter, false, false, Starter),
        (Starter, true, false, Starter),
        (MayOwn, false, false, MayOwn),
        (MayOwn, true, false, Starter),
        (Owner, false, false, Owner),
        (Owner, true, false, Owner),
    ];
    for (phase, definite, own_record, after) in table {
        assert_eq!(phase.after_read(definite, own_record), after);
        assert_eq!(phase.after_read(definite, true), Owner);
    }
}

#[test]
fn a_newer_owner_is_any_record_of_another_behind_our_last() {
    let own = OwnerId([1; 16]);
    let ours = LedgerRecord { owner: own, ..fact(at(3, 1), 1).record };
    let theirs = fact(at(3, 1), 1).record;
    assert!(!Facts::is_newer_owner(own, []));
    assert!(!Facts::is_newer_owner(own, [&ours]));
    assert!(Facts::is_newer_owner(own, [&theirs, &ours]));
}

#[test]
fn texts_name_cause_place_and_next_step() {
    let local = local(Some(meta(at(4, 1), None)), &[]);
    let ledger = fact(at(9, 2), 1);
    let text = stop_of(Case::new(&local, Some(&ledger)).decide()).to_string();
    for part in ["stale", "/state", "orders-ledger-4", "offset 77", "9 (0202", "start anew"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let text = stop_of(Case::new(&local, None).decide()).to_string();
    for part in ["lost", "/state", "orders-ledger-4", "start anew"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

// ------------------------------------------------------------------------------- every combination

/// R4 once more, as the model states it: the checkpoint to go on from, or a stop.
fn reference(local: &LocalState, ledger: Option<&LedgerFact>) -> Option<CheckpointRef> {
    let meta = local.meta.as_ref()?.at();
    let mut c = meta;
    for delta in &local.deltas {
        let parent = delta.header.parent;
        if parent.checkpoint > c.checkpoint {
            c = parent;
        }
    }
    // Stricter than the model: claims that cannot both be true.
    let claims = local.deltas.iter().map(|delta| delta.header.parent).chain([meta]);
    let claims: BTreeSet<_> = claims.collect();
    let numbers: BTreeSet<_> = claims.iter().map(|claim| claim.checkpoint).collect();
    if numbers.len() != claims.len() {
        return None;
    }
    let Some(ledger) = ledger else {
        let seen = local.meta.as_ref()?.ledger_offset.is_some() || !local.deltas.is_empty();
        return (c.checkpoint.0 == 0 && !seen).then_some(c);
    };
    let l = ledger.record.at();
    if l == c {
        return Some(c);
    }
    let delta = local.deltas.iter().find(|delta| delta.header.at == l)?;
    let fits = delta.header.parent == c && ledger.record.parent == Some(c);
    (l.checkpoint.0 == c.checkpoint.0 + 1
        && fits
        && ledger.record.delta_digest == Some(delta.digest))
    .then_some(l)
}

fn all_locals() -> Vec<LocalState> {
    let possible = [
        (at(1, 1), at(0, 1)),
        (at(1, 2), at(0, 1)),
        (at(2, 1), at(1, 1)),
        (at(2, 2), at(1, 2)),
        (at(3, 1), at(2, 1)),
        (at(3, 2), at(2, 1)),
    ];
    let metas = [
        None,
        Some((0, 1, None)),
        Some((0, 1, Some(5))),
        Some((1, 1, None)),
        Some((2, 1, None)),
        Some((2, 2, Some(5))),
    ];
    let mut all = Vec::new();
    for meta_of in metas {
        for chosen in 0..1 << possible.len() {
            let deltas: Vec<_> = possible
                .iter()
                .enumerate()
                .filter(|(i, _)| chosen & (1 << i) != 0)
                .map(|(_, delta)| *delta)
                .collect();
            let meta = meta_of.map(|(n, nonce, offset)| meta(at(n, nonce), offset));
            all.push(local(meta, &deltas));
        }
    }
    all
}

fn all_ledgers() -> Vec<Option<LedgerFact>> {
    let mut all = vec![None];
    for n in 0..5 {
        for nonce in [1, 2, 3] {
            for parent in [1, 2] {
                all.push(Some(fact(at(n, nonce), parent)));
                let mut other = fact(at(n, nonce), parent);
                other.record.delta_digest = other.record.delta_digest.map(|_| DeltaDigest([0; 16]));
                all.push(Some(other));
            }
        }
    }
    all
}

#[test]
fn every_combination_decides_as_the_table_says() {
    let (mut compared, mut went_on) = (0, 0);
    for local in all_locals() {
        for ledger in all_ledgers() {
            for phase in PHASES {
                for newer_owner in [false, true] {
                    let case = Case { phase, newer_owner, ..Case::new(&local, ledger.as_ref()) };
                    let decision = case.decide();
                    let look = case.look();
                    compared += 1;
                    if newer_owner && phase != OwnershipPhase::Starter {
                        assert_eq!(decision, Decision::Fenced(FencedReason::NewerOwner));
                        continue;
                    }
                    let first = local.meta.is_none() && local.deltas.is_empty() && ledger.is_none();
                    let expected = reference(&local, ledger.as_ref());
                    let found = match &decision {
                        Decision::FirstStart => {
                            assert!(first);
                            continue;
                        }
                        Decision::Fenced(reason) => panic!("{reason}"),
                        Decision::Stop(_) => None,
                        Decision::CommitRecordZero(point)
                        | Decision::Confirm(point)
                        | Decision::Resume(point) => {
                            let above = point.quarantine.iter().all(|dead| {
                                dead.checkpoint > point.at.checkpoint
                                    || (dead.checkpoint == point.at.checkpoint
                                        && dead.nonce != point.at.nonce)
                            });
                            assert!(above, "{point:?}");
                            let later = local.after(point.at.checkpoint);
                            assert!(later.iter().all(|dead| point.quarantine.contains(dead)));
                            // R1 must never stop what R4 lets go on.
                            assert_eq!(look, Look::Continue);
                            went_on += 1;
                            Some(point.at)
                        }
                    };
                    assert_eq!(found, expected, "{local:?} {ledger:?}");
                    // Never ahead of what the delta vouches for.
                    if let (Some(at), Some(ledger)) = (found, &ledger) {
                        assert_eq!(at, ledger.record.at());
                    }
                }
            }
        }
    }
    assert!(compared > 100_000 && went_on > 1_000, "{compared} {went_on}");
}

// ------------------------------------------------------------------------------------------------- R1

#[test]
fn the_look_stops_only_for_what_cannot_change_any_more() {
    let known = local(Some(meta(at(4, 1), None)), &[(at(5, 2), at(4, 1))]);
    let look = |ledger: Option<LedgerFact>| Case::new(&known, ledger.as_ref()).look();
    assert_eq!(look(None), Look::Continue, "markers may not be written yet");
    assert_eq!(look(Some(fact(at(2, 7), 1))), Look::Continue, "behind says nothing");
    assert_eq!(look(Some(fact(at(4, 1), 1))), Look::Continue);
    assert_eq!(look(Some(fact(at(5, 2), 1))), Look::Continue);
    for stop in [fact(at(4, 9), 1), fact(at(5, 9), 1), fact(at(6, 2), 2)] {
        assert!(matches!(look(Some(stop)), Look::Stop(_)));
    }
    let nothing = local(None, &[]);
    let ledger = fact(at(0, 1), 1);
    let case = Case::new(&nothing, Some(&ledger));
    assert!(matches!(case.look(), Look::Stop(StopReason::NoLocalState { .. })));
}

#[test]
fn the_look_of_an_owner_asks_only_for_a_newer_owner() {
    let known = local(Some(meta(at(4, 1), None)), &[]);
    let ledger = fact(at(5, 9), 1);
    for phase in [OwnershipPhase::MayOwn, OwnershipPhase::Owner] {
        let case = Case { phase, ..Case::new(&known, Some(&ledger)) };
        assert_eq!(case.look(), Look::Continue);
        assert!(matches!(case.decide(), Decision::Stop(_)));
    }
}

// ------------------------------------------------------------------------------------------------- R5

#[test]
fn the_plan_goes_down_by_nonce_to_the_floor() {
    let local = local(
        Some(meta(at(2, 1), None)),
        &[(at(2, 1), at(1, 1)), (at(3, 2), at(2, 1)), (at(3, 9), at(2, 1)), (at(4, 3), at(3, 2))],
    );
    let store = StoreFacts { floor: Some(at(1, 1)), applied: Vec::new() };
    let plan = replay_plan(&local, &store, at(4, 3)).unwrap();
    assert_eq!(plan.deltas, [at(2, 1), at(3, 2), at(4, 3)]);
    let done = StoreFacts { floor: Some(at(4, 3)), applied: Vec::new() };
    assert_eq!(replay_plan(&local, &done, at(4, 3)).unwrap().deltas, []);
}

#[test]
fn a_missing_delta_or_a_foreign_store_stops_the_plan() {
    let state = StateId::new("sum", "totals");
    let local = local(Some(meta(at(2, 1), None)), &[(at(2, 1), at(1, 1)), (at(3, 2), at(2, 1))]);
    let plan = |floor, applied: Option<CheckpointRef>, target| {
        let applied = applied.map(|at| (state.clone(), at)).into_iter().collect();
        replay_plan(&local, &StoreFacts { floor, applied }, target)
    };
    let missing = plan(None, None, at(3, 2)).unwrap_err();
    assert!(matches!(missing, StopReason::MissingDelta { missing, .. } if missing == at(1, 1)));
    for (floor, applied) in [
        (Some(at(1, 7)), None),
        (Some(at(4, 2)), None),
        (Some(at(1, 1)), Some(at(2, 7))),
        (Some(at(1, 1)), Some(at(4, 2))),
    ] {
        let foreign = plan(floor, applied, at(3, 2)).unwrap_err();
        assert!(matches!(foreign, StopReason::ForeignStore { .. }), "{foreign}");
    }
    assert_eq!(plan(Some(at(1, 1)), Some(at(3, 2)), at(3, 2)).unwrap().deltas.len(), 2);
}

// -------------------------------------------------------------------------------------- without Kafka

#[test]
fn without_a_ledger_every_durable_delta_of_the_chain_counts() {
    assert_eq!(decide_local(&local(None, &[])), Decision::FirstStart);
    let fresh = local(Some(meta(at(0, 1), None)), &[]);
    assert!(matches!(decide_local(&fresh), Decision::Resume(point) if point.at == at(0, 1)));
    let chain = local(
        Some(meta(at(1, 1), None)),
        &[(at(2, 2), at(1, 1)), (at(3, 3), at(2, 2)), (at(3, 4), at(2, 9))],
    );
    // 3 by nonce 4 names another 2: two histories.
    assert!(matches!(decide_local(&chain), Decision::Stop(_)));
    let chain = local(Some(meta(at(1, 1), None)), &[(at(2, 2), at(1, 1)), (at(3, 3), at(2, 2))]);
    let Decision::Confirm(point) = decide_local(&chain) else { panic!() };
    assert_eq!((point.at, point.positions), (at(3, 3), positions(2003)));
    let fork = local(Some(meta(at(1, 1), None)), &[(at(2, 2), at(1, 1)), (at(2, 3), at(1, 1))]);
    assert!(matches!(decide_local(&fork), Decision::Stop(StopReason::ContradictingFiles { .. })));
}
