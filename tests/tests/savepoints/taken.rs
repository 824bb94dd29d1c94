//! Savepoints of running jobs.

use std::process::Command;

use millstream_engine::checkpoint::SavepointTrigger;
use millstream_engine::{JobError, Phase};
use millstream_tests::wait::wait_until;
use serde_json::Value;

use crate::contents::{assert_consistent, open};
use crate::job::{LIMIT, Program, Stage, events, stop};

#[test]
fn live_savepoints_hold_one_checkpoint_each_while_the_job_goes_on() {
    let stage = Stage::new();
    let job = stage.job(Program::Sums, 2, "state").start().unwrap();
    let all = events(0, 3000);
    std::thread::scope(|scope| {
        scope.spawn(|| all.chunks(50).for_each(|chunk| stage.write(chunk)));
        for n in 1..=4_usize {
            stage.wait_for_rows(n * 600);
            let target = stage.path(&format!("sp-{n}"));
            let taken = job.savepoint(&target).unwrap();
            assert_eq!(taken.trigger, SavepointTrigger::Live);
            assert_eq!(assert_consistent(&target, &all), taken);
            open(&target).verify().unwrap();
        }
    });
    stage.wait_for_rows(all.len());
    // Nothing is new, so this is the last checkpoint as it is.
    let before = job.monitor().snapshot().checkpoint;
    let target = stage.path("sp-quiet");
    let taken = job.savepoint(&target).unwrap();
    assert!(taken.at.checkpoint.0 <= before + 1);
    assert_eq!(
        assert_consistent(&target, &all).positions.iter().map(|(_, p)| p.offset).sum::<i64>(),
        3000
    );
    let again = job.savepoint(&target);
    assert!(matches!(again, Err(JobError::Savepoint(_))), "{again:?}");
    stop(job);
    stage.assert_exactly_once(&all);
}

#[test]
fn a_savepoint_that_can_not_be_written_leaves_the_job_running() {
    let stage = Stage::new();
    std::fs::write(stage.path("file"), "no folder").unwrap();
    let job = stage.job(Program::Sums, 2, "state").start().unwrap();
    stage.write(&events(0, 200));
    stage.wait_for_rows(200);
    let bad = stage.path("file").join("sp");
    assert!(matches!(job.savepoint(&bad), Err(JobError::Savepoint(_))));
    let stopped = job.stop_with_savepoint(&bad, false);
    assert!(matches!(stopped, Err(JobError::Savepoint(_))), "{stopped:?}");
    // It reads, writes and takes savepoints as before.
    stage.write(&events(200, 400));
    stage.wait_for_rows(400);
    job.stop_with_savepoint(stage.path("sp"), false).unwrap();
    job.wait().unwrap();
    assert_consistent(&stage.path("sp"), &events(0, 400));
    stage.assert_exactly_once(&events(0, 400));
}

#[test]
fn whoever_waits_for_a_savepoint_of_a_job_that_ends_is_told() {
    let stage = Stage::new();
    let job = stage.job(Program::Sums, 1, "state").start().unwrap();
    wait_until("the job runs", LIMIT, || job.monitor().snapshot().phase == Phase::Running);
    job.stop();
    wait_until("the job has ended", LIMIT, || job.is_finished());
    let target = stage.path("sp");
    let late = job.savepoint(&target);
    assert!(matches!(&late, Err(JobError::SavepointNotTaken { .. })), "{late:?}");
    assert!(!target.exists());
    assert!(late.unwrap_err().to_string().contains("savepoint create"));
    job.wait().unwrap();
}

#[test]
fn whoever_waits_for_a_savepoint_of_a_job_whose_directory_is_in_use_is_told_who_has_it() {
    let stage = Stage::new();
    let first = stage.job(Program::Sums, 1, "state").start().unwrap();
    wait_until("the job runs", LIMIT, || first.monitor().snapshot().phase == Phase::Running);
    let second = stage.job(Program::Sums, 1, "state").start().unwrap();
    wait_until("the second has ended", LIMIT, || second.is_finished());
    let refused = second.savepoint(stage.path("sp")).unwrap_err().to_string();
    let holder = format!("process {} holds", std::process::id());
    assert!(refused.contains(&holder) && refused.contains("savepoint trigger"), "{refused}");
    second.wait().unwrap_err();
    stop(first);
}

/// The reader in Python knows the format from `docs/state.md` alone.
#[test]
fn an_independent_reader_finds_what_the_document_says() {
    let stage = Stage::new();
    let job = stage.job(Program::SumsAndHours, 2, "state").start().unwrap();
    let all = events(0, 500);
    stage.write(&all);
    stage.wait_for_rows(all.len());
    let target = stage.path("sp");
    let taken = job.stop_with_savepoint(&target, false).unwrap();
    job.wait().unwrap();
    let read = |path: &std::path::Path| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/savepoint_reader.py");
        let output = Command::new("python3").arg(script).arg(path).output();
        output.expect("python3 is needed to hold savepoints against docs/state.md")
    };
    let output = read(&target);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["job"], "sums");
    assert_eq!(found["id"], taken.id.to_string());
    assert_eq!(found["trigger"], "stop");
    assert_eq!(found["checkpoint"], taken.at.checkpoint.0);
    assert_eq!(found["nonce"], taken.at.nonce.to_string());
    assert_eq!(found["positions"].as_array().unwrap().len(), 4);
    assert_eq!(found["operators"].as_array().unwrap().len(), taken.description.operators.len());
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let savepoint = open(&target);
    let mut compared = 0;
    for (index, state) in found["states"].as_array().unwrap().iter().enumerate() {
        let ours: Vec<_> = savepoint
            .entries(index)
            .unwrap()
            .map(|entry| entry.map(|(key, value)| vec![hex(&key), hex(&value)]).unwrap())
            .collect();
        let theirs: Vec<Vec<String>> = serde_json::from_value(state["content"].clone()).unwrap();
        assert_eq!(ours, theirs, "{state}");
        compared += ours.len();
    }
    assert!(compared > 10, "{compared}");
    // And what the job's state is, by a plain loop.
    assert_consistent(&target, &all);
    // The checker has to be able to fail.
    for name in ["SAVEPOINT", "state-00001.data"] {
        let path = target.join(name);
        let whole = std::fs::read(&path).unwrap();
        for byte in [whole.len() / 3, whole.len() / 2, whole.len() - 1] {
            let mut damaged = whole.clone();
            damaged[byte] ^= 4;
            std::fs::write(&path, damaged).unwrap();
            assert!(!read(&target).status.success(), "{name} byte {byte}");
        }
        std::fs::write(&path, whole).unwrap();
    }
}
