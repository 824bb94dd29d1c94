use super::*;
use crate::delta::{DeltaHeader, DeltaSummary};
use crate::ids::{CheckpointId, CheckpointRef, LineageId, Nonce};
use crate::positions::{JobStatus, Positions};
use crate::{DeltaDigest, MAX_FAILED_TAKEOVERS};

const OWN: OwnerId = OwnerId([1; 16]);
const OTHER: OwnerId = OwnerId([2; 16]);

fn job() -> JobName {
    JobName::new("orders").unwrap()
}

fn at(n: u64) -> CheckpointRef {
    CheckpointRef::new(CheckpointId(n), Nonce([7; 16]))
}

fn meta(n: u64, ledger_offset: Option<i64>) -> Meta {
    Meta {
        job: job(),
        checkpoint: CheckpointId(n),
        nonce: at(n).nonce,
        positions: Positions::new(),
        watermarks: Vec::new(),
        status: JobStatus::Running,
        ledger_partition: 0,
        ledger_offset,
        ledger_topic_id: TopicId::UNKNOWN,
        lineage: LineageId([5; 16]),
        fingerprint: Fingerprint::default(),
    }
}

fn delta(n: u64) -> DeltaSummary {
    let header = DeltaHeader {
        job: job(),
        at: at(n),
        parent: at(n - 1),
        parent_ledger_offset: None,
        positions: Positions::new(),
        watermarks: Vec::new(),
        status: JobStatus::Running,
        fingerprint: Fingerprint::default(),
        producer: None,
    };
    DeltaSummary { header, digest: DeltaDigest([3; 16]), file_bytes: 1 }
}

fn local(meta: Option<Meta>, deltas: &[u64]) -> LocalState {
    let deltas = deltas.iter().map(|n| delta(*n)).collect();
    LocalState { path: "/state".into(), meta, restored: None, deltas, quarantined: Vec::new() }
}

fn fact(n: u64, owner: OwnerId) -> LedgerFact {
    let record = LedgerRecord::zero(&meta(n, None), owner, 0);
    let checkpoint = CheckpointId(n);
    let parent = checkpoint.previous().map(|n| at(n.0));
    let delta_digest = parent.map(|_| DeltaDigest([3; 16]));
    LedgerFact { record: LedgerRecord { checkpoint, parent, delta_digest, ..record }, offset: 40 }
}

/// Takes one step with what a read brought.
fn step<R>(
    local: &LocalState,
    ledger: Option<&LedgerFact>,
    other_owner: bool,
    step: impl FnOnce(&Findings<'_>) -> R,
) -> R {
    step(&Findings {
        job: &job(),
        fingerprint: Fingerprint::default(),
        local,
        ledger,
        ledger_place: &LedgerPlace { topic: "ledger".into(), partition: 0 },
        ledger_topic_id: TopicId::UNKNOWN,
        other_owner,
    })
}

fn point_of(effect: Effect) -> RecoveryPoint {
    match effect {
        Effect::Repair(point) | Effect::CommitOwnerRecord(point) | Effect::Run(point) => point,
        other => panic!("no point: {other:?}"),
    }
}

#[test]
fn a_first_start_writes_meta_and_looks_again_before_it_fences_and_owns() {
    let mut recovery = Recovery::new(OWN);
    assert_eq!(recovery.begin(), Effect::Look);
    let nothing = local(None, &[]);
    let looked = step(&nothing, None, false, |found| recovery.looked(found));
    assert_eq!(looked, Ok(Effect::WriteFirstMeta));
    assert_eq!(recovery.first_meta_written(), Effect::Look);
    let local = local(Some(meta(0, None)), &[]);
    assert_eq!(step(&local, None, false, |found| recovery.looked(found)), Ok(Effect::Fence));
    assert_eq!(recovery.fence_answered(FenceAnswer::Done), Effect::Read);
    let repair = step(&local, None, false, |found| recovery.resolved(found)).unwrap();
    let point = point_of(repair);
    assert_eq!(point.at, at(0));
    assert_eq!(recovery.repaired(point.clone()), Effect::CommitOwnerRecord(point.clone()));
    recovery.owner_record_sent();
    assert_eq!(recovery.phase, OwnershipPhase::MayOwn);
    let run = recovery.owner_record_ended(OwnerRecordEnd::Committed, point.clone());
    assert_eq!(run, Effect::Run(point));
    assert_eq!(recovery.phase, OwnershipPhase::Owner);
}

#[test]
fn a_rollback_of_the_last_owner_runs_again_without_an_owner_record() {
    let mut recovery = Recovery { phase: OwnershipPhase::Owner, ..Recovery::new(OWN) };
    let local = local(Some(meta(1, Some(40))), &[]);
    let last = fact(1, OWN);
    assert_eq!(step(&local, Some(&last), false, |found| recovery.looked(found)), Ok(Effect::Fence));
    assert_eq!(recovery.fence_answered(FenceAnswer::Done), Effect::Read);
    let repair = step(&local, Some(&last), false, |found| recovery.resolved(found)).unwrap();
    let point = point_of(repair);
    assert_eq!(recovery.repaired(point.clone()), Effect::Run(point));
}

#[test]
fn an_owner_that_meets_another_gives_way_and_a_starter_takes_over() {
    let local = local(Some(meta(1, Some(40))), &[]);
    let last = fact(1, OTHER);
    for (phase, gives_way) in [
        (OwnershipPhase::Starter, false),
        (OwnershipPhase::MayOwn, true),
        (OwnershipPhase::Owner, true),
    ] {
        let mut recovery = Recovery { phase, ..Recovery::new(OWN) };
        let looked = step(&local, Some(&last), true, |found| recovery.looked(found));
        let fenced = Err(Halt::Fenced(FencedReason::NewerOwner));
        assert_eq!(looked, if gives_way { fenced } else { Ok(Effect::Fence) }, "{phase:?}");
        // The other committed between the look and the fence.
        let mut recovery = Recovery { phase, ..Recovery::new(OWN) };
        let resolved = step(&local, Some(&last), true, |found| recovery.resolved(found));
        assert_eq!(resolved.is_err(), gives_way, "{phase:?}");
    }
}

#[test]
fn what_may_own_and_is_not_on_a_definite_ledger_is_a_starter_again() {
    let mut recovery = Recovery { phase: OwnershipPhase::MayOwn, ..Recovery::new(OWN) };
    let local = local(Some(meta(1, Some(40))), &[]);
    let last = fact(1, OTHER);
    step(&local, Some(&last), false, |found| recovery.looked(found)).unwrap();
    assert_eq!(recovery.phase, OwnershipPhase::MayOwn, "a look before the fence proves nothing");
    step(&local, Some(&last), false, |found| recovery.resolved(found)).unwrap();
    assert_eq!(recovery.phase, OwnershipPhase::Starter);
}

#[test]
fn a_starter_gives_up_after_failed_tries_and_an_owner_never() {
    for phase in [OwnershipPhase::Starter, OwnershipPhase::Owner] {
        let mut recovery = Recovery { phase, ..Recovery::new(OWN) };
        let owner = if phase == OwnershipPhase::Owner { OWN } else { OTHER };
        let local = local(Some(meta(1, Some(40))), &[]);
        let last = fact(1, owner);
        for _ in 0..MAX_FAILED_TAKEOVERS {
            let looked = step(&local, Some(&last), false, |found| recovery.looked(found));
            assert_eq!(looked, Ok(Effect::Fence));
            assert_eq!(recovery.fence_answered(FenceAnswer::Fenced), Effect::Look);
        }
        let looked = step(&local, Some(&last), false, |found| recovery.looked(found));
        let failed = MAX_FAILED_TAKEOVERS;
        let gave_up = Err(Halt::Fenced(FencedReason::TakeoverFailed { failed }));
        let expected = if phase == OwnershipPhase::Owner { Ok(Effect::Fence) } else { gave_up };
        assert_eq!(looked, expected, "{phase:?}");
    }
}

#[test]
fn concurrent_transactions_counts_once_a_spell() {
    let mut recovery = Recovery::new(OWN);
    let _ = recovery.begin();
    let answer = |since_last| FenceAnswer::Concurrent { since_last };
    assert_eq!(recovery.fence_answered(answer(Duration::ZERO)), Effect::Look);
    assert_eq!(recovery.fence_answered(answer(TAKEOVER_SPELL / 2)), Effect::Look);
    assert_eq!(recovery.failed_takeovers, 0);
    assert_eq!(recovery.fence_answered(answer(TAKEOVER_SPELL / 2)), Effect::Look);
    assert_eq!(recovery.failed_takeovers, 1);
    assert_eq!(recovery.fence_answered(answer(TAKEOVER_SPELL / 2)), Effect::Look);
    assert_eq!(recovery.failed_takeovers, 1, "the spell began anew");
}

#[test]
fn an_owner_record_that_did_not_commit_is_a_failed_try() {
    let mut recovery = Recovery::new(OWN);
    recovery.owner_record_sent();
    let local = local(Some(meta(1, Some(40))), &[]);
    let last = fact(1, OTHER);
    let point =
        point_of(step(&local, Some(&last), false, |found| recovery.resolved(found)).unwrap());
    let next = recovery.owner_record_ended(OwnerRecordEnd::Unknown, point.clone());
    assert_eq!((next, recovery.failed_takeovers), (Effect::Look, 0));
    let next = recovery.owner_record_ended(OwnerRecordEnd::Lost, point);
    assert_eq!((next, recovery.failed_takeovers), (Effect::Look, 1));
}

/// Two contenders whose owner records never commit would otherwise fence each other for ever.
#[test]
fn what_may_own_gives_up_like_a_starter() {
    let local = local(Some(meta(1, Some(40))), &[]);
    let last = fact(1, OTHER);
    let failed = MAX_FAILED_TAKEOVERS;
    let gave_up = Err(Halt::Fenced(FencedReason::TakeoverFailed { failed }));
    let mut recovery = Recovery { failed_takeovers: failed, ..Recovery::new(OWN) };
    recovery.owner_record_sent();
    assert_eq!(step(&local, Some(&last), false, |found| recovery.looked(found)), gave_up);
    assert_eq!(step(&local, Some(&last), false, |found| recovery.resolved(found)), gave_up);
    recovery.owner_record_sent();
    let own = fact(1, OWN);
    let looked = step(&local, Some(&own), false, |found| recovery.looked(found));
    assert_eq!(looked, Ok(Effect::Fence), "its record is there: it is the owner");
}

#[test]
fn first_meta_that_vanishes_is_named() {
    let mut recovery = Recovery::new(OWN);
    let nothing = local(None, &[]);
    let resolved = step(&nothing, None, false, |found| recovery.resolved(found));
    assert_eq!(resolved, Err(Halt::FirstMetaGone { directory: "/state".into() }));
}

#[test]
fn the_owner_record_repeats_the_last_record_or_is_record_zero_of_meta() {
    let last = fact(3, OTHER);
    let repeated = owner_record(OWN, Some(&last), Some(&meta(3, None)), 9).unwrap();
    assert_eq!(repeated, last.record.owned_by(OWN, 9));
    let zero = owner_record(OWN, None, Some(&meta(0, None)), 9).unwrap();
    assert_eq!(zero, LedgerRecord::zero(&meta(0, None), OWN, 9));
    assert_eq!(owner_record(OWN, None, None, 9), None);
}

#[test]
fn meta_is_written_by_repair_only_if_it_says_something_new() {
    let local = local(Some(meta(1, Some(30))), &[2]);
    let last = fact(2, OTHER);
    let mut recovery = Recovery::new(OWN);
    let point =
        point_of(step(&local, Some(&last), false, |found| recovery.resolved(found)).unwrap());
    let written = point.meta_after_repair(&meta(1, Some(30))).unwrap();
    assert_eq!((written.at(), written.ledger_offset), (at(2), Some(40)));
    assert_eq!(point.meta_after_repair(&written), None);
}

#[test]
fn a_delta_may_go_when_both_the_store_and_meta_have_passed_it() {
    let state = local(Some(meta(2, Some(40))), &[1, 2, 3]);
    let deletable = |floor| -> Vec<u64> {
        state.deletable(CheckpointId(floor)).iter().map(|at| at.checkpoint.0).collect()
    };
    assert_eq!(deletable(0), []);
    assert_eq!(deletable(1), [1]);
    assert_eq!(deletable(3), [1, 2], "META stands at 2");
    assert_eq!(local(None, &[1]).deletable(CheckpointId(1)), []);
}

#[test]
fn a_state_lacks_the_deltas_above_what_it_has_applied() {
    assert!(needed_by_replay(None, at(1)));
    assert!(needed_by_replay(Some(at(1)), at(2)));
    assert!(!needed_by_replay(Some(at(2)), at(2)));
    assert!(!needed_by_replay(Some(at(3)), at(2)));
}

#[test]
fn an_operators_word_leads_past_a_lost_ledger_until_its_record_is_committed() {
    let resolution = Some(Resolution::AdoptLocal);
    let mut recovery = Recovery { resolution, ..Recovery::new(OWN) };
    let state = local(Some(meta(1, Some(40))), &[]);
    assert_eq!(step(&state, None, false, |found| recovery.looked(found)), Ok(Effect::Fence));
    let point = point_of(step(&state, None, false, |found| recovery.resolved(found)).unwrap());
    assert_eq!((point.at, point.ledger_offset), (at(1), None));
    assert!(recovery.given_up.take().is_some());
    recovery.owner_record_sent();
    let _ = recovery.owner_record_ended(OwnerRecordEnd::Unknown, point);
    assert_eq!(recovery.resolution, resolution);
    // The answer was lost, the record is there.
    let own = fact(1, OWN);
    let looked = step(&state, Some(&own), false, |found| recovery.looked(found));
    assert_eq!((looked, recovery.resolution), (Ok(Effect::Fence), None));
    // Where nothing is wrong the word is refused before anybody is fenced.
    let mut recovery = Recovery { resolution, ..Recovery::new(OWN) };
    let looked = step(&state, Some(&fact(1, OTHER)), false, |found| recovery.looked(found));
    assert!(matches!(looked, Err(Halt::Refused(_))), "{looked:?}");
}
