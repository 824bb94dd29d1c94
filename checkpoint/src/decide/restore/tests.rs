use std::path::Path;

use super::*;
use crate::decide::{Decision, Facts, Look, OwnershipPhase, decide, look_before_fence};
use crate::directory::LocalState;
use crate::ids::{CheckpointId, Fingerprint, OwnerId};
use crate::ledger_record::LedgerRecord;
use crate::meta::Meta;
use crate::savepoint::{SavepointId, SavepointManifest};
use crate::{JobStatus, LineageId, TopicId};

fn at(checkpoint: u64, nonce: u8) -> CheckpointRef {
    CheckpointRef::new(CheckpointId(checkpoint), Nonce([nonce; 16]))
}

fn job(name: &str) -> JobName {
    JobName::new(name).unwrap()
}

fn place() -> LedgerPlace {
    LedgerPlace { topic: "orders.millstream-ledger".into(), partition: 0 }
}

fn meta(name: &str, at: CheckpointRef) -> Meta {
    Meta {
        job: job(name),
        checkpoint: at.checkpoint,
        nonce: at.nonce,
        positions: crate::Positions::new(),
        watermarks: Vec::new(),
        status: JobStatus::Running,
        ledger_partition: 0,
        ledger_offset: None,
        ledger_topic_id: TopicId([5; 16]),
        lineage: LineageId([6; 16]),
        fingerprint: Fingerprint([1; 16]),
    }
}

fn fact(name: &str, at: CheckpointRef, parent: Option<CheckpointRef>, old: bool) -> LedgerFact {
    let record = LedgerRecord {
        checkpoint: at.checkpoint,
        parent,
        fingerprint: Fingerprint([if old { 9 } else { 1 }; 16]),
        ..LedgerRecord::zero(&meta(name, at), OwnerId([8; 16]), 0)
    };
    LedgerFact { record, offset: 40 }
}

fn savepoint(name: &str, saved: CheckpointRef) -> SavepointManifest {
    let mut description = crate::savepoint::tests::description();
    description.job = job(name);
    SavepointManifest {
        description,
        at: saved,
        id: SavepointId([3; 16]),
        ..crate::savepoint::tests::manifest(saved)
    }
}

const NEW: Nonce = Nonce([0xaa; 16]);
const REWIND: RestoreConsent = RestoreConsent { accept_rewind: true, adopt_local: false };
const ADOPT: RestoreConsent = RestoreConsent { accept_rewind: false, adopt_local: true };

fn restore(
    savepoint: &SavepointManifest,
    ledger: Option<&LedgerFact>,
    consent: RestoreConsent,
) -> Result<Restored, StopReason> {
    let facts = RestoreFacts {
        job: &job("orders"),
        savepoint,
        savepoint_path: "/sp".into(),
        ledger,
        ledger_place: &place(),
        consent,
    };
    decide_restore(&facts, NEW)
}

#[test]
fn a_savepoint_goes_on_where_the_ledger_stands() {
    let saved = savepoint("orders", at(7, 1));
    let ledger = fact("orders", at(7, 1), Some(at(6, 1)), false);
    let restored = restore(&saved, Some(&ledger), RestoreConsent::default()).unwrap();
    let expected = Restored {
        savepoint: saved.id,
        savepoint_job: job("orders"),
        savepoint_at: at(7, 1),
        at: CheckpointRef::new(CheckpointId(8), NEW),
        parent: at(7, 1),
        ledger: Some(at(7, 1)),
    };
    assert_eq!(restored, expected);
    assert_eq!(Restored::decode(&restored.encode().unwrap()), Ok(restored));
    // Another job name, whose ledger is empty.
    let restored = restore(&savepoint("elsewhere", at(7, 1)), None, RestoreConsent::default());
    let restored = restored.unwrap();
    assert_eq!((restored.parent, restored.ledger), (at(7, 1), None));
}

#[test]
fn what_would_be_repeated_or_lost_needs_the_word_for_it() {
    let saved = savepoint("orders", at(7, 1));
    let none = RestoreConsent::default();
    let later = fact("orders", at(9, 1), Some(at(8, 1)), false);
    let split = fact("orders", at(7, 2), Some(at(6, 2)), false);
    let behind = fact("orders", at(5, 1), Some(at(4, 1)), false);
    for ledger in [&later, &split] {
        for consent in [none, ADOPT] {
            let stop = restore(&saved, Some(ledger), consent).unwrap_err();
            assert!(matches!(stop, StopReason::RestoreRewinds { .. }), "{stop}");
            assert!(stop.to_string().contains("--accept-rewind"));
        }
        let restored = restore(&saved, Some(ledger), REWIND).unwrap();
        assert_eq!(restored.parent, ledger.record.at());
        assert_eq!(restored.at.checkpoint, ledger.record.checkpoint.next());
    }
    for ledger in [None, Some(&behind)] {
        for consent in [none, REWIND] {
            let stop = restore(&saved, ledger, consent).unwrap_err();
            assert!(matches!(stop, StopReason::RestoreWithoutLedger { .. }), "{stop}");
            assert!(stop.to_string().contains("--adopt-local"));
        }
        let restored = restore(&saved, ledger, ADOPT).unwrap();
        assert_eq!((restored.at.checkpoint, restored.parent), (CheckpointId(8), at(7, 1)));
    }
    // A ledger that knows nothing of the savepoint's history, whatever its numbers.
    for number in [3, 7, 12] {
        let theirs = fact("orders", at(number, 4), None.or(Some(at(number - 1, 4))), false);
        let other = savepoint("elsewhere", at(7, 1));
        assert!(restore(&other, Some(&theirs), none).is_err());
        let restored = restore(&other, Some(&theirs), REWIND).unwrap();
        assert_eq!(restored.at.checkpoint.0, number.max(7) + 1);
    }
    let foreign = fact("foreign", at(7, 1), Some(at(6, 1)), false);
    let stop = restore(&saved, Some(&foreign), REWIND).unwrap_err();
    assert!(matches!(stop, StopReason::ForeignRecord { .. }), "{stop}");
}

/// A directory right after a restore behind `ledger`.
fn restored_directory(ledger: Option<CheckpointRef>) -> LocalState {
    let parent = ledger.unwrap_or(at(7, 1));
    let first = CheckpointRef::new(parent.checkpoint.next(), NEW);
    let restored = Restored {
        savepoint: SavepointId([3; 16]),
        savepoint_job: job("orders"),
        savepoint_at: at(7, 1),
        at: first,
        parent,
        ledger,
    };
    LocalState {
        path: Path::new("/state").to_owned(),
        meta: Some(meta("orders", first)),
        restored: Some(restored),
        deltas: Vec::new(),
        quarantined: Vec::new(),
    }
}

fn facts<'a>(
    local: &'a LocalState,
    ledger: Option<&'a LedgerFact>,
    job: &'a JobName,
    place: &'a LedgerPlace,
) -> Facts<'a> {
    Facts {
        job,
        fingerprint: Fingerprint([1; 16]),
        local,
        ledger,
        ledger_place: place,
        ledger_topic_id: TopicId([5; 16]),
        phase: OwnershipPhase::Starter,
        newer_owner: false,
        failed_takeovers: 0,
    }
}

#[test]
fn a_restored_directory_commits_its_first_record_behind_the_one_it_was_joined_to() {
    let (job, place) = (job("orders"), place());
    let before = fact("orders", at(7, 1), Some(at(6, 1)), true);
    for (joined, ledger) in [(None, None), (Some(at(7, 1)), Some(&before))] {
        let local = restored_directory(joined);
        let facts = facts(&local, ledger, &job, &place);
        // Other operators than the record before says are no reason to stop here.
        assert_eq!(look_before_fence(&facts), Look::Continue);
        let Decision::CommitRecordZero(point) = decide(&facts) else {
            panic!("{:?}", decide(&facts))
        };
        assert_eq!(
            (point.at, point.ledger_offset),
            (CheckpointRef::new(CheckpointId(8), NEW), None)
        );
        let record = local.first_record(OwnerId([2; 16]), 5).unwrap();
        assert_eq!((record.at(), record.parent), (point.at, Some(at(7, 1))));
        assert_eq!(LedgerRecord::decode(&record.encode().unwrap()), Ok(record.clone()));
        // Once it is there, the job goes on from it like any other, also before META knows its offset.
        let committed = LedgerFact { record, offset: 41 };
        let facts = Facts { ledger: Some(&committed), ..facts };
        assert!(
            matches!(decide(&facts), Decision::Resume(point) if point.ledger_offset == Some(41))
        );
    }
}

#[test]
fn a_ledger_that_went_on_since_the_restore_stops_it() {
    let (job, place) = (job("orders"), place());
    let local = restored_directory(Some(at(7, 1)));
    let others = [
        Some(fact("orders", at(8, 1), Some(at(7, 1)), true)),
        Some(fact("orders", at(8, 1), Some(at(7, 1)), false)),
        Some(fact("orders", at(9, 1), Some(at(8, 1)), false)),
        Some(fact("orders", at(6, 1), Some(at(5, 1)), false)),
        Some(fact("orders", at(7, 2), Some(at(6, 2)), false)),
        None,
    ];
    for other in &others {
        let facts = facts(&local, other.as_ref(), &job, &place);
        let Decision::Stop(stop) = decide(&facts) else {
            panic!("{other:?}: {:?}", decide(&facts))
        };
        let text = stop.to_string();
        assert!(text.contains("/state") || text.contains("fingerprint"), "{text}");
    }
    let facts_of = |local| decide(&facts(local, others[2].as_ref(), &job, &place));
    assert!(matches!(facts_of(&local), Decision::Stop(StopReason::RestoreOvertaken { .. })));
    // A look says the same of what is there already, also of one that has the restored checkpoint's number.
    for other in [&others[1], &others[2]] {
        let looked = look_before_fence(&facts(&local, other.as_ref(), &job, &place));
        let overtaken = matches!(looked, Look::Stop(StopReason::RestoreOvertaken { .. }));
        assert!(overtaken, "{other:?}: {looked:?}");
    }
    for behind in [&others[3], &others[5]] {
        let looked = look_before_fence(&facts(&local, behind.as_ref(), &job, &place));
        assert_eq!(looked, Look::Continue, "{behind:?}");
    }
    // What was lost since the history began is lost, not a beginning.
    let mut later = local.clone();
    later.meta.as_mut().unwrap().ledger_offset = Some(41);
    let joined = fact("orders", at(7, 1), Some(at(6, 1)), false);
    let decided = decide(&facts(&later, Some(&joined), &job, &place));
    assert!(matches!(decided, Decision::Stop(StopReason::LedgerBehind { .. })), "{decided:?}");
    // Without its mark it is a directory ahead of its ledger.
    let mut unmarked = local.clone();
    unmarked.restored = None;
    let decided = decide(&facts(&unmarked, Some(&joined), &job, &place));
    assert!(matches!(decided, Decision::Stop(StopReason::LedgerBehind { .. })), "{decided:?}");
}

#[test]
fn a_restore_that_was_not_finished_is_no_state() {
    let (job, place) = (job("orders"), place());
    let mut local = restored_directory(None);
    local.meta = None;
    let facts = facts(&local, None, &job, &place);
    assert!(matches!(look_before_fence(&facts), Look::Stop(StopReason::RestoreUnfinished { .. })));
    assert!(matches!(decide(&facts), Decision::Stop(StopReason::RestoreUnfinished { .. })));
}

/// The mutant: a mark that is believed whatever the ledger says would write over the other's history.
#[test]
fn a_mark_that_were_believed_whatever_the_ledger_says_would_be_found_out() {
    let (job, place) = (job("orders"), place());
    let mut local = restored_directory(Some(at(7, 1)));
    let newer = fact("orders", at(9, 1), Some(at(8, 1)), false);
    local.restored.as_mut().unwrap().ledger = Some(newer.record.at());
    let decided = decide(&facts(&local, Some(&newer), &job, &place));
    assert!(matches!(decided, Decision::CommitRecordZero(_)), "{decided:?}");
}
