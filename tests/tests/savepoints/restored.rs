//! Jobs that begin from savepoints.

use millstream_engine::checkpoint::{SavepointError, StateError, StopReason};
use millstream_engine::{Job, JobError};

use crate::contents::assert_consistent;
use crate::job::{Program, Stage, events, stop};

/// Starts it and expects it to be refused.
fn refused(job: Job) -> JobError {
    let job = job.start().unwrap();
    job.wait().unwrap_err()
}

/// A savepoint `sp` of the sums of 400 events, taken with stop; the state is in `state`.
fn stopped_stage(program: Program) -> Stage {
    let stage = Stage::new();
    let job = stage.job(program, 1, "state").start().unwrap();
    stage.write(&events(0, 400));
    stage.wait_for_rows(400);
    job.stop_with_savepoint(stage.path("sp"), false).unwrap();
    job.wait().unwrap();
    assert_consistent(&stage.path("sp"), &events(0, 400));
    stage
}

#[test]
fn a_stopped_job_goes_on_from_its_savepoint_with_another_parallelism() {
    let stage = stopped_stage(Program::Sums);
    stage.write(&events(400, 700));
    let restored = || stage.job(Program::Sums, 3, "restored").from_savepoint(stage.path("sp"));
    let job = restored().start().unwrap();
    stage.wait_for_rows(700);
    stop(job);
    stage.assert_exactly_once(&events(0, 700));

    // A supervisor starts the same command again: the directory goes on, not the savepoint.
    stage.write(&events(700, 900));
    let job = restored().start().unwrap();
    stage.wait_for_rows(900);
    let taken = job.stop_with_savepoint(stage.path("sp-2"), false).unwrap();
    job.wait().unwrap();
    stage.assert_exactly_once(&events(0, 900));
    assert_consistent(&stage.path("sp-2"), &events(0, 900));
    assert!(taken.at.checkpoint.0 > 2);

    // The directory that the first savepoint was taken of is stale now, and any other than empty is refused.
    let stale = refused(stage.job(Program::Sums, 1, "state"));
    assert!(matches!(stale, JobError::Stop(StopReason::StaleLocalState { .. })), "{stale}");
    let full = refused(stage.job(Program::Sums, 1, "state").from_savepoint(stage.path("sp-2")));
    assert!(matches!(full, JobError::StateDirNotEmpty { .. }), "{full}");
    assert_eq!(full.exit_code(), 73);
}

#[test]
fn a_savepoint_that_is_older_than_the_ledger_needs_the_word_for_it() {
    let stage = Stage::new();
    let job = stage.job(Program::Sums, 2, "state").start().unwrap();
    stage.write(&events(0, 300));
    stage.wait_for_rows(300);
    job.savepoint(stage.path("sp")).unwrap();
    stage.write(&events(300, 500));
    stage.wait_for_rows(500);
    stop(job);
    let restored = || stage.job(Program::Sums, 2, "restored").from_savepoint(stage.path("sp"));
    let stop_reason = refused(restored());
    assert!(
        matches!(&stop_reason, JobError::Stop(StopReason::RestoreRewinds { .. })),
        "{stop_reason}"
    );
    assert!(stop_reason.to_string().contains("--accept-rewind"));
    // Nothing was begun: the directory is still empty, and the old one still the job's.
    let job = restored().accept_rewind().start().unwrap();
    // The 200 events behind the savepoint are computed and written again.
    stage.wait_for_rows(700);
    stop(job);
    let repeated: Vec<_> = stage.output("out").split_off(0);
    assert_eq!(repeated.len(), 700);
    let stale = refused(stage.job(Program::Sums, 2, "state"));
    assert!(matches!(stale, JobError::Stop(StopReason::StaleLocalState { .. })), "{stale}");
    // From here on it is exactly-once again.
    stage.write(&events(500, 600));
    let job = restored().start().unwrap();
    stage.wait_for_rows(800);
    job.stop_with_savepoint(stage.path("sp-2"), false).unwrap();
    job.wait().unwrap();
    assert_eq!(stage.output("out").len(), 800);
    assert_consistent(&stage.path("sp-2"), &events(0, 600));
}

#[test]
fn another_job_may_begin_from_a_savepoint() {
    let stage = stopped_stage(Program::Sums);
    let state = stage.path("other");
    let other = || stage.job_named("other", Program::Sums, 2, &state);
    let job = other().from_savepoint(stage.path("sp")).start().unwrap();
    stage.write(&events(400, 500));
    stage.wait_for_rows(500);
    job.stop_with_savepoint(stage.path("sp-2"), false).unwrap();
    job.wait().unwrap();
    stage.assert_exactly_once(&events(0, 500));
    assert_consistent(&stage.path("sp-2"), &events(0, 500));
    // Its own ledger has nothing to do with the first job's savepoint any more.
    let job = stage.job_named("other", Program::Sums, 2, &stage.path("third"));
    let stop_reason = refused(job.from_savepoint(stage.path("sp")));
    assert!(
        matches!(&stop_reason, JobError::Stop(StopReason::RestoreRewinds { .. })),
        "{stop_reason}"
    );
}

#[test]
fn a_ledger_that_is_gone_needs_the_word_for_it() {
    let stage = stopped_stage(Program::Sums);
    stage.broker.delete_topic(&millstream_engine::ledger_topic("sums"));
    let restored = || stage.job(Program::Sums, 2, "restored").from_savepoint(stage.path("sp"));
    let lost = refused(restored());
    assert!(matches!(&lost, JobError::Stop(StopReason::RestoreWithoutLedger { .. })), "{lost}");
    assert!(lost.to_string().contains("--adopt-local"));
    let job = restored().adopt_local().start().unwrap();
    stage.write(&events(400, 500));
    stage.wait_for_rows(500);
    stop(job);
    stage.assert_exactly_once(&events(0, 500));
}

#[test]
fn a_savepoint_of_the_first_checkpoint_tells_that_it_was_committed() {
    let stage = Stage::new();
    let job = stage.job(Program::Sums, 1, "state").start().unwrap();
    // Quiet: the ledger holds nothing but the first record.
    let taken = job.savepoint(stage.path("sp")).unwrap();
    assert_eq!((taken.at.checkpoint.0, taken.ledger_offset), (0, Some(0)));
    stage.write(&events(0, 200));
    stage.wait_for_rows(200);
    stop(job);
    // So that the job does not begin anew, and write all of it again, only because the ledger is gone.
    stage.broker.delete_topic(&millstream_engine::ledger_topic("sums"));
    let restored = stage.job(Program::Sums, 1, "restored").from_savepoint(stage.path("sp"));
    let lost = refused(restored);
    assert!(matches!(&lost, JobError::Stop(StopReason::RestoreWithoutLedger { .. })), "{lost}");
    stage.assert_exactly_once(&events(0, 200));
}

#[test]
fn a_job_with_other_operators_takes_what_it_knows_and_starts_the_rest_empty() {
    let stage = stopped_stage(Program::Sums);
    // One more operator, with a source of its own, which begins where its source says.
    let job = stage.job(Program::SumsAndHours, 2, "more").from_savepoint(stage.path("sp"));
    let job = job.start().unwrap();
    stage.write(&events(400, 600));
    stage.wait_for_rows(600);
    // Ten hours of ten keys; the last one is open.
    millstream_tests::wait::wait_until("hours are committed", crate::job::LIMIT, || {
        stage.output("hours").len() >= 60
    });
    job.stop_with_savepoint(stage.path("sp-both"), false).unwrap();
    job.wait().unwrap();
    stage.assert_exactly_once(&events(0, 600));
    let counted: u64 = stage.output("hours").iter().map(|row| row.count).sum();
    assert!(counted >= 480, "{counted}");

    // One less: what has no place is named, and left behind only if that is allowed.
    let fewer = || stage.job(Program::Sums, 2, "fewer").from_savepoint(stage.path("sp-both"));
    let error = refused(fewer());
    let text = error.to_string();
    assert!(matches!(error, JobError::Savepoint(SavepointError::Incompatible { .. })), "{text}");
    for part in
        ["'panes' of operator 'hours'", "source 'events-by-hour'", "--allow-non-restored-state"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let job = fewer().allow_non_restored_state().start().unwrap();
    stage.write(&events(600, 650));
    stage.wait_for_rows(650);
    stop(job);
    stage.assert_exactly_once(&events(0, 650));
}

#[test]
fn a_state_whose_type_changed_is_refused_with_the_field() {
    let stage = stopped_stage(Program::Sums);
    let changed = || stage.job(Program::ChangedSums, 1, "changed");
    for job in [changed(), changed().allow_non_restored_state()] {
        let text = refused(job.from_savepoint(stage.path("sp"))).to_string();
        assert!(text.contains("field 'value.total' was i64, is i32"), "{text}");
        assert!(text.contains("operator 'sums'"), "{text}");
    }
    // The same without a savepoint: the directory says what changed.
    let error = refused(stage.job(Program::ChangedSums, 1, "state"));
    let text = error.to_string();
    assert!(matches!(error, JobError::State(StateError::OtherFingerprint { .. })), "{text}");
    assert!(text.contains("field 'value.total' was i64, is i32"), "{text}");
    let key_groups = stage.path("sp-missing");
    let missing = refused(stage.job(Program::Sums, 1, "none").from_savepoint(&key_groups));
    assert_eq!(missing.exit_code(), 66, "{missing}");
}

#[test]
fn a_restore_that_was_not_finished_is_begun_anew() {
    let stage = stopped_stage(Program::Sums);
    let restored = || stage.job(Program::Sums, 2, "restored").from_savepoint(stage.path("sp"));
    // A savepoint whose last file is damaged fails in the middle of the restore.
    let file = stage.path("sp").join("state-00000.data");
    let whole = std::fs::read(&file).unwrap();
    let mut damaged = whole.clone();
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    std::fs::write(&file, &damaged).unwrap();
    let error = refused(restored());
    assert!(matches!(error, JobError::Savepoint(SavepointError::StateFile { .. })), "{error}");
    let error = refused(stage.job(Program::Sums, 2, "restored"));
    assert!(matches!(error, JobError::Stop(StopReason::RestoreUnfinished { .. })), "{error}");
    std::fs::write(&file, &whole).unwrap();
    let job = restored().start().unwrap();
    stage.write(&events(400, 500));
    stage.wait_for_rows(500);
    stop(job);
    stage.assert_exactly_once(&events(0, 500));
}
