//! `millstream checkpoint`, `savepoint` and `ledger` on what real jobs left.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use millstream_engine::Phase;
use millstream_tests::wait::wait_until;
use serde_json::{Value, json};

use crate::contents::assert_consistent;
use crate::job::{LIMIT, Program, Stage, events, stop};

/// What a command did: exit code, standard output, standard error.
fn millstream(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(binary()).args(arguments).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}

#[track_caller]
fn ok(arguments: &[&str]) -> String {
    let (code, out, err) = millstream(arguments);
    assert_eq!(code, 0, "{arguments:?}: {err}\n{out}");
    out
}

#[track_caller]
fn rows(arguments: &[&str]) -> Vec<Value> {
    let out = ok(&[arguments, &["--output", "json"]].concat());
    out.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

#[track_caller]
fn refused(arguments: &[&str], code: i32, words: &[&str]) {
    let (found, out, err) = millstream(arguments);
    assert_eq!(found, code, "{arguments:?}: {err}\n{out}");
    for word in words {
        assert!(err.contains(word), "{arguments:?}: {word:?} is missing in {err}");
    }
}

fn binary() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    // <target>/<profile>/deps/<test>
    let path = test.ancestors().nth(2).unwrap().join("millstream");
    assert!(path.exists(), "{} is missing: cargo build -p millstream", path.display());
    path
}

fn snapshot(folder: &std::path::Path) -> Vec<(String, u64)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        if metadata.is_dir() {
            files.extend(snapshot(&entry.path()));
        } else {
            files.push((entry.path().display().to_string(), metadata.len()));
        }
    }
    files.sort();
    files
}

#[test]
fn the_tools_tell_what_a_state_directory_holds_and_change_nothing() {
    let stage = Stage::new();
    let state = stage.path("state");
    let state = state.to_str().unwrap();
    let job = stage.job(Program::Sums, 2, "state").start().unwrap();
    wait_until("the job runs", LIMIT, || job.monitor().snapshot().phase == Phase::Running);
    stage.write(&events(0, 100));
    stage.wait_for_rows(100);
    let own = std::process::id().to_string();
    let (code, _, err) = millstream(&["checkpoint", "list", "--state-dir", state]);
    assert!(code == 0 && err.contains("a job is running") && err.contains(&own), "{err}");
    let store = ["checkpoint", "verify", "--state-dir", state, "--store"];
    refused(&store, 73, &["--store", &own]);
    let target = stage.path("sp");
    let target = target.to_str().unwrap();
    let create = ["savepoint", "create", "--state-dir", state, target];
    refused(&create, 73, &["in use by process", &own]);
    stop(job);

    let before = snapshot(&stage.path("state"));
    let listed = rows(&["checkpoint", "list", "--state-dir", state]);
    assert_eq!(listed[0]["file"], "META");
    assert!(listed.iter().all(|row| row["error"] == json!(null)), "{listed:?}");
    let shown = rows(&["checkpoint", "show", "--state-dir", state]);
    let [shown] = &shown[..] else { panic!("{shown:?}") };
    assert_eq!((&shown["job"], &shown["checkpoint"]), (&json!("sums"), &listed[0]["checkpoint"]));
    let offsets = shown["positions"].as_array().unwrap().iter().map(|p| p["offset"].as_i64());
    assert_eq!(offsets.flatten().sum::<i64>(), 100);
    assert_eq!(
        shown["states"][0]["schema"],
        "postcard string -> postcard Sum{count:u64,total:i64,}"
    );
    let text = ok(&["checkpoint", "show", "--state-dir", state]);
    for part in ["job sums, checkpoint", "NEXT OFFSET", "accumulators"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    refused(
        &["checkpoint", "show", "9999", "--state-dir", state],
        66,
        &["no file of checkpoint 9999"],
    );
    let verified = ok(&["checkpoint", "verify", "--state-dir", state]);
    assert!(verified.contains("META: job sums") && !verified.contains("FAIL"), "{verified}");
    assert_eq!(snapshot(&stage.path("state")), before, "looking changed something");
    let deep = ok(&["checkpoint", "verify", "--state-dir", state, "--store"]);
    assert!(deep.contains("state sums/accumulators: 10 entries"), "{deep}");

    let missing = stage.path("nowhere");
    let missing = missing.to_str().unwrap();
    refused(&["checkpoint", "list", "--state-dir", missing], 66, &["no folder"]);
    let empty = stage.folder.path().to_str().unwrap();
    refused(&["checkpoint", "verify", "--state-dir", empty], 66, &["holds no state"]);
    let meta = stage.path("state").join("META");
    let whole = std::fs::read(&meta).unwrap();
    std::fs::write(&meta, &whole[..whole.len() - 1]).unwrap();
    refused(&["checkpoint", "verify", "--state-dir", state], 73, &["from a copy"]);
    refused(&["checkpoint", "show", "--state-dir", state], 73, &["META", "from a copy"]);
    std::fs::write(&meta, &whole).unwrap();
}

#[test]
fn a_savepoint_of_a_stopped_job_is_made_listed_verified_and_deleted() {
    let stage = Stage::new();
    let job = stage.job(Program::Sums, 2, "state").start().unwrap();
    stage.write(&events(0, 300));
    stage.wait_for_rows(300);
    stop(job);
    let (state, folder, target) =
        (stage.path("state"), stage.path("savepoints"), stage.path("savepoints/sp"));
    let (state, folder, target) =
        (state.to_str().unwrap(), folder.to_str().unwrap(), target.to_str().unwrap());
    let create = ["savepoint", "create", "--state-dir", state, target];
    let created = rows(&create);
    assert_eq!((&created[0]["job"], &created[0]["entries"]), (&json!("sums"), &json!(10)));
    assert_consistent(&stage.path("savepoints/sp"), &events(0, 300));
    refused(&create, 78, &["exists already"]);
    let address = stage.broker.address();
    let second = stage.path("savepoints/sp-2");
    ok(&["savepoint", "create", "--state-dir", state, second.to_str().unwrap(), "-b", &address]);
    assert_consistent(&second, &events(0, 300));

    let listed = rows(&["savepoint", "list", folder]);
    let names: Vec<_> = listed.iter().map(|row| row["savepoint"].as_str().unwrap()).collect();
    assert_eq!(names, [target, second.to_str().unwrap()]);
    assert_eq!(listed[0]["trigger"], "directory");
    let shown = rows(&["savepoint", "show", target]);
    assert_eq!(shown[0]["states"][0]["file"], "state-00000.data");
    assert_eq!(shown[0]["positions"].as_array().unwrap().len(), 2);
    let text = ok(&["savepoint", "show", target]);
    assert!(text.contains("SCHEMA") && text.contains("max_parallelism 256"), "{text}");
    assert!(ok(&["savepoint", "verify", target]).contains("whole, 10 entries"));

    // A job goes on from what the tool made as from any other.
    let job = stage.job(Program::Sums, 3, "restored").from_savepoint(target).start().unwrap();
    stage.write(&events(300, 400));
    stage.wait_for_rows(400);
    stop(job);
    stage.assert_exactly_once(&events(0, 400));

    let file = stage.path("savepoints/sp/state-00000.data");
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    refused(&["savepoint", "verify", target], 73, &["state-00000.data", "from a copy"]);
    refused(&["savepoint", "delete", target], 2, &["--yes"]);
    refused(&["savepoint", "delete", state, "--yes"], 66, &["not a savepoint"]);
    ok(&["savepoint", "delete", target, "--yes"]);
    refused(&["savepoint", "show", target], 66, &["not a savepoint"]);
    assert_eq!(rows(&["savepoint", "list", folder]).len(), 1);
    // The state that the second one is of has been gone on from elsewhere.
    let third = stage.path("savepoints/sp-3");
    let create = ["savepoint", "create", "--state-dir", state, third.to_str().unwrap()];
    refused(&[&create[..], &["-b", &address]].concat(), 73, &["the ledger stands at checkpoint"]);
}

#[test]
fn the_ledger_is_shown_beside_the_directory_with_what_a_start_would_do() {
    let stage = Stage::new();
    let address = stage.broker.address();
    let state = stage.path("state");
    let state = state.to_str().unwrap();
    let show = ["ledger", "show", "sums", "-b", &address];
    let both = [&show[..], &["--state-dir", state]].concat();
    let never = rows(&show);
    assert_eq!(
        never,
        [json!({"job": "sums", "ledger": null, "directory": null, "decision": null})]
    );
    let job = stage.job(Program::Sums, 2, "state").start().unwrap();
    stage.write(&events(0, 100));
    stage.wait_for_rows(100);
    stop(job);
    let shown = rows(&both);
    let [shown] = &shown[..] else { panic!("{shown:?}") };
    let (ledger, directory) = (&shown["ledger"], &shown["directory"]);
    assert_eq!(ledger["last"]["checkpoint"], directory["checkpoint"]);
    assert_eq!(ledger["last"]["nonce"], directory["nonce"]);
    assert_eq!(ledger["topic"], "sums.millstream-ledger");
    assert_eq!(ledger["cleanup_policy"], "compact");
    assert_eq!(shown["decision"]["kind"], "resume");
    let text = ok(&both);
    assert!(text.contains("a start on this directory would go on from checkpoint"), "{text}");

    // It goes on elsewhere: the old directory is stale, and the tool says so before a start does.
    ok(&["savepoint", "create", "--state-dir", state, stage.path("sp").to_str().unwrap()]);
    let job = stage.job(Program::Sums, 1, "restored").from_savepoint(stage.path("sp"));
    let job = job.start().unwrap();
    stage.write(&events(100, 200));
    stage.wait_for_rows(200);
    stop(job);
    let stale = rows(&both);
    assert_eq!(stale[0]["decision"]["kind"], "stop");
    assert!(stale[0]["decision"]["text"].as_str().unwrap().contains("the local state is stale"));
    let restored = stage.path("restored");
    let there = [&show[..], &["--state-dir", restored.to_str().unwrap()]].concat();
    let there = rows(&there);
    assert_eq!(there[0]["decision"]["kind"], "resume");
    assert!(there[0]["directory"]["restored_from"].as_str().unwrap().contains("of job sums"));
}

#[test]
fn a_running_job_takes_savepoints_for_whoever_asks_from_outside() {
    let stage = Stage::new();
    let state = stage.path("state");
    let state = state.to_str().unwrap();
    let target = |name: &str| stage.path(name).to_str().unwrap().to_owned();
    fn command<'a>(state: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        [&["savepoint", "trigger", "--state-dir", state][..], more].concat()
    }
    refused(&command(state, &[&target("sp")]), 66, &["no folder"]);
    let job = stage.job(Program::Sums, 2, "state").start().unwrap();
    stage.write(&events(0, 300));
    stage.wait_for_rows(300);
    let live = target("live");
    let taken = rows(&command(state, &[&live]));
    assert_eq!((&taken[0]["job"], &taken[0]["entries"]), (&json!("sums"), &json!(10)));
    let manifest = assert_consistent(&stage.path("live"), &events(0, 300));
    assert_eq!(taken[0]["id"], manifest.id.to_string());
    assert_eq!(taken[0]["checkpoint"], manifest.at.checkpoint.0);
    // What the job's process says is said here, and does not hurt it.
    refused(&command(state, &[&live]), 78, &["exists already"]);
    std::fs::write(stage.path("file"), "no folder").unwrap();
    refused(&command(state, &["--stop", &target("file/sp")]), 73, &["file"]);
    refused(&command(state, &["--drain", &target("sp")]), 2, &["--stop"]);
    stage.write(&events(300, 400));
    stage.wait_for_rows(400);
    // The command may stand in another folder than the job.
    let output = Command::new(binary())
        .args(command(state, &["--stop", "stopped"]))
        .current_dir(stage.folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("savepoint of job sums"), "{said}");
    job.wait().unwrap();
    let manifest = assert_consistent(&stage.path("stopped"), &events(0, 400));
    assert_eq!(manifest.trigger.name(), "stop");
    refused(&command(state, &[&target("late")]), 73, &["no job runs on", "savepoint create"]);

    let job = stage.job(Program::Sums, 1, "restored").from_savepoint(stage.path("stopped"));
    let job = job.start().unwrap();
    stage.write(&events(400, 500));
    stage.wait_for_rows(500);
    let restored = stage.path("restored");
    let drained = target("drained");
    ok(&command(restored.to_str().unwrap(), &["--stop", "--drain", &drained]));
    job.wait().unwrap();
    let manifest = assert_consistent(&stage.path("drained"), &events(0, 500));
    assert_eq!(manifest.trigger.name(), "drain");
    stage.assert_exactly_once(&events(0, 500));
}

#[test]
fn a_request_to_a_process_that_dies_is_not_waited_for() {
    use millstream_engine::checkpoint::{ControlClient, ControlError, SavepointTrigger};
    let stage = Stage::new();
    let job = stage.job(Program::Sums, 1, "state").start().unwrap();
    wait_until("the job runs", LIMIT, || job.monitor().snapshot().phase == Phase::Running);
    job.stop();
    let state = stage.path("state");
    // While the job ends a request is refused, or there is nobody any more; it is never left without an answer.
    let outcome = loop {
        match ControlClient::ask(&state, SavepointTrigger::Live, &stage.path("sp")) {
            Err(error) => break error.to_string(),
            Ok(request) => {
                let mut answer = None;
                wait_until("there is an answer", LIMIT, || {
                    answer = request.poll().transpose();
                    answer.is_some()
                });
                if let Some(Err(error)) = answer {
                    assert!(matches!(error, ControlError::Ended { .. }), "{error}");
                }
            }
        }
    };
    assert!(outcome.contains("no job runs on") || outcome.contains("serves no requests"));
    job.wait().unwrap();
}
