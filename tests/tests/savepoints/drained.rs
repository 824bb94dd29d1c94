//! A job that is drained: its sources end, its windows fire, and it has finished.

use millstream_engine::JobError;
use millstream_engine::checkpoint::{JobStatus, SavepointTrigger, savepoint_of_directory};
use millstream_tests::wait::wait_until;

use crate::job::{LIMIT, Program, Stage, events, stop};

/// Results by hour and key of a plain loop.
fn hours(from: u32, to: u32) -> Vec<(String, u64)> {
    let mut hours = std::collections::BTreeMap::new();
    for event in events(from, to) {
        let hour = event.at / crate::job::HOUR_MS;
        *hours.entry(format!("{}@{hour}", event.key)).or_insert(0) += 1;
    }
    hours.into_iter().collect()
}

fn output(stage: &Stage) -> Vec<(String, u64)> {
    let mut rows: Vec<_> =
        stage.output("hours").into_iter().map(|row| (row.key, row.count)).collect();
    rows.sort();
    rows
}

#[test]
fn a_drained_job_has_given_all_results_and_can_be_gone_on_from() {
    let stage = Stage::new();
    let job = stage.job(Program::Hours, 2, "state").start().unwrap();
    // Three hours and a half; without a drain the last one would stay open.
    stage.write(&events(0, 210));
    wait_until("the closed hours are committed", LIMIT, || output(&stage).len() >= 30);
    wait_until("all is read", LIMIT, || job.monitor().snapshot().records_in == 210);
    let taken = job.stop_with_savepoint(stage.path("sp"), true).unwrap();
    job.wait().unwrap();
    assert_eq!((taken.trigger, taken.status), (SavepointTrigger::Drain, JobStatus::Finished));
    assert_eq!(taken.entries(), 0, "all windows have fired");
    assert_eq!(output(&stage), hours(0, 210));

    // The directory is that of a job that has finished; the savepoint goes on, and time with it.
    let again = stage.job(Program::Hours, 2, "state").start().unwrap().wait();
    let Err(again @ JobError::AlreadyFinished { .. }) = again else { panic!("{again:?}") };
    assert_eq!(again.exit_code(), 73);
    for part in ["has finished", "its last checkpoint", "another job name", "savepoint"] {
        assert!(again.to_string().contains(part), "{part:?} is missing in {again}");
    }
    let job = stage.job(Program::Hours, 1, "restored").from_savepoint(stage.path("sp"));
    let job = job.start().unwrap();
    stage.write(&events(240, 480));
    wait_until("later hours are committed", LIMIT, || output(&stage).len() >= 40 + 30);
    job.stop_with_savepoint(stage.path("sp-2"), true).unwrap();
    job.wait().unwrap();
    let mut expected = hours(0, 210);
    expected.extend(hours(240, 480));
    expected.sort();
    assert_eq!(output(&stage), expected);
}

#[test]
fn a_stop_without_drain_leaves_windows_open_in_the_savepoint() {
    let stage = Stage::new();
    let job = stage.job(Program::Hours, 2, "state").start().unwrap();
    stage.write(&events(0, 210));
    wait_until("the closed hours are committed", LIMIT, || output(&stage).len() >= 30);
    wait_until("all is read", LIMIT, || job.monitor().snapshot().records_in == 210);
    let taken = job.stop_with_savepoint(stage.path("sp"), false).unwrap();
    job.wait().unwrap();
    assert_eq!((taken.trigger, taken.status), (SavepointTrigger::Stop, JobStatus::Running));
    assert_eq!(taken.entries(), 10, "the open hour of ten keys");
    let job = stage.job(Program::Hours, 3, "restored").from_savepoint(stage.path("sp"));
    let job = job.start().unwrap();
    stage.write(&events(210, 480));
    wait_until("later hours are committed", LIMIT, || output(&stage).len() >= 70);
    stop(job);
    // Each closed hour once, also the one that was open in the savepoint.
    assert_eq!(output(&stage), hours(0, 420));
}

/// As `--bounded` leaves it: nothing but its directory.
#[test]
fn a_job_that_has_finished_reads_on_from_a_savepoint_of_its_directory() {
    let stage = Stage::new();
    let job = stage.job(Program::Sums, 2, "state").start().unwrap();
    stage.write(&events(0, 200));
    stage.wait_for_rows(200);
    job.stop_with_savepoint(stage.path("drained"), true).unwrap();
    job.wait().unwrap();
    let again = stage.job(Program::Sums, 2, "state").start().unwrap().wait().unwrap_err();
    assert!(again.to_string().contains("savepoint create"), "{again}");
    let target = stage.path("of-directory");
    savepoint_of_directory(&stage.path("state"), &target, 0, None).unwrap();
    let job = stage.job(Program::Sums, 3, "restored").from_savepoint(target).start().unwrap();
    stage.write(&events(200, 400));
    stage.wait_for_rows(400);
    stop(job);
    stage.assert_exactly_once(&events(0, 400));
}
