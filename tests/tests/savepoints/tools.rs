//! `millstream checkpoint`, `savepoint` and `ledger` on what real jobs left.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use millstream_engine::Phase;
use millstream_tests::wait::wait_until;
use serde_json::{Value, json};

use crate::contents::assert_consistent;
use crate::fixtures::testdata;
use crate::job::{LIMIT, Program, Stage, events, stop};

/// What a command did: exit code, standard output, standard error.
fn millstream(arguments: &[&str]) -> (i32, String, String) {
    millstream_with(&std::env::temp_dir(), arguments)
}

/// With a folder of its own for copies.
fn millstream_with(temporary: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(binary());
    command.args(arguments).env("TMPDIR", temporary).stdin(Stdio::null());
    let output = command.output().unwrap();
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

pub(crate) fn binary() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    // <target>/<profile>/deps/<test>
    let path = test.ancestors().nth(2).unwrap().join("millstream");
    assert!(path.exists(), "{} is missing: cargo build -p millstream", path.display());
    path
}

/// Every file and folder below `folder` with its time and content.
fn snapshot(folder: &Path) -> Vec<(PathBuf, SystemTime, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        let mut content = Vec::new();
        if metadata.is_dir() {
            files.extend(snapshot(&entry.path()));
        } else {
            content = std::fs::read(entry.path()).unwrap();
        }
        files.push((entry.path(), metadata.modified().unwrap(), content));
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
    let deep = ok(&store);
    assert!(deep.contains("state sums/accumulators: 10 entries"), "{deep}");
    assert!(deep.contains(&format!("{state}/store")), "{deep}");
    ok(&["savepoint", "create", "--state-dir", state, stage.path("sp-2").to_str().unwrap()]);
    assert!(snapshot(&stage.path("state")) == before, "looking changed something");

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
    let list = ["checkpoint", "list", "--state-dir", state];
    refused(&list, 73, &["1 file", "can not be used"]);
    let (code, out, _) = millstream(&[&list[..], &["--output", "json"]].concat());
    let row: Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
    assert_eq!((code, &row["file"], &row["checkpoint"]), (73, &json!("META"), &json!(null)));
    assert_eq!(row["nonce"], json!(null));
    assert!(row["error"].as_str().unwrap().contains("is damaged"), "{row}");
    std::fs::write(&meta, &whole).unwrap();
}

/// The one that version 0.1 kept, in which fjall finds much to tidy up: what the tools do with it changes no byte of it, also
/// where it lies on a file system that is mounted read-only.
fn look_at_a_kept_directory(state: &Path, folder: &Path) {
    let before = snapshot(state);
    let directory = state.to_str().unwrap();
    let copies = folder.join("copies");
    std::fs::create_dir(&copies).unwrap();
    let verify = ["checkpoint", "verify", "--store", "--state-dir", directory];
    let (code, out, err) = millstream_with(&copies, &verify);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("entries") && out.contains("delta files lead to"), "{out}");
    ok(&["checkpoint", "list", "--state-dir", directory]);
    ok(&["checkpoint", "show", "--state-dir", directory]);
    let sp = folder.join("sp");
    let create = ["savepoint", "create", "--state-dir", directory, sp.to_str().unwrap()];
    let (code, _, err) = millstream_with(&copies, &create);
    assert!(code == 0 || err.contains("only the ledger knows"), "{err}");
    assert!(before.len() > 50 && snapshot(state) == before, "looking changed something");
    assert_eq!(std::fs::read_dir(&copies).unwrap().count(), 0, "a copy was left");
}

#[test]
fn the_tools_change_no_byte_of_a_directory_that_was_kept() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    millstream_tests::copy_folder(&testdata("state-v2"), &state);
    look_at_a_kept_directory(&state, folder.path());
}

#[test]
#[ignore = "mounts a file system, which needs root"]
fn the_tools_look_at_a_directory_that_is_mounted_read_only() {
    let folder = tempfile::tempdir().unwrap();
    let mounted = folder.path().join("mounted");
    std::fs::create_dir(&mounted).unwrap();
    let mount = |arguments: &[&str], on: &Path| {
        let status = Command::new("mount").args(arguments).arg(on).status().unwrap();
        assert!(status.success(), "mounting needs root");
    };
    mount(&["-t", "tmpfs", "-o", "size=64m", "tmpfs"], &mounted);
    let state = mounted.join("state");
    millstream_tests::copy_folder(&testdata("state-v2"), &state);
    mount(&["-o", "remount,ro"], &mounted);
    let looked = std::panic::catch_unwind(|| look_at_a_kept_directory(&state, folder.path()));
    assert!(Command::new("umount").arg(&mounted).status().unwrap().success());
    looked.unwrap();
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
    refused(&create, 73, &["exists already"]);
    let long = stage.path(&"x".repeat(300));
    let long = ["savepoint", "create", "--state-dir", state, long.to_str().unwrap()];
    refused(&long, 73, &["a name or the whole path is too long"]);
    let inside = stage.path("state/store/sp");
    let inside = ["savepoint", "create", "--state-dir", state, inside.to_str().unwrap()];
    refused(&inside, 73, &["is inside the state directory"]);
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
    let nowhere = stage.path("savepoints/.nosuch.partial");
    let nowhere = nowhere.to_str().unwrap();
    let verify = ["savepoint", "verify", "--output", "json", target, nowhere];
    let (code, out, _) = millstream(&verify);
    let told: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((code, told.len()), (66, 2), "{out}");
    for (row, word) in told.iter().zip(["state-00000.data", "no such folder"]) {
        assert_eq!((&row["ok"], &row["entries"]), (&json!(false), &json!(null)), "{row}");
        assert!(row["error"].as_str().unwrap().contains(word), "{row}");
    }
    let (code, _, err) = millstream(&["savepoint", "delete", nowhere, "--yes"]);
    assert!(code == 66 && err.contains("no such folder") && !err.contains("removes it"), "{err}");
    // What is unfinished is listed and no failure; what is damaged is one, and the others are listed all the same.
    std::fs::create_dir(stage.path("savepoints/.one.partial")).unwrap();
    assert!(ok(&["savepoint", "list", folder]).contains("sp-2"));
    let manifest = stage.path("savepoints/sp/SAVEPOINT");
    let whole = std::fs::read(&manifest).unwrap();
    std::fs::write(&manifest, &whole[1..]).unwrap();
    refused(&["savepoint", "list", folder], 73, &["SAVEPOINT", "from a copy"]);
    let (code, out, err) = millstream(&["savepoint", "list", folder, "--output", "json"]);
    assert_eq!((code, out.lines().count()), (73, 3), "{err}");
    assert!(err.contains("from a copy") && out.contains(r#""error":null"#), "{err}\n{out}");
    std::fs::write(&manifest, &whole).unwrap();
    ok(&["savepoint", "delete", stage.path("savepoints/.one.partial").to_str().unwrap(), "--yes"]);
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

/// Directory and ledger change all the time: what is said of them is said of one moment, and no way out is advised.
#[test]
fn the_ledger_of_a_running_job_is_shown_without_advice_against_it() {
    let stage = Stage::new();
    let address = stage.broker.address();
    let state = stage.path("state");
    let job = stage.job(Program::Sums, 2, "state").start().unwrap();
    let show = ["ledger", "show", "sums", "-b", &address, "--state-dir", state.to_str().unwrap()];
    let running =
        format!("a job is running here (process {}); a start would be refused", std::process::id());
    let writing = std::sync::atomic::AtomicBool::new(true);
    let mut shown = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut from = 0;
            while writing.load(std::sync::atomic::Ordering::Relaxed) {
                stage.write(&events(from, from + 10));
                from += 10;
            }
        });
        wait_until("checkpoints", LIMIT, || job.monitor().snapshot().committed > 5);
        for _ in 0..20 {
            shown.extend(rows(&show));
            let text = ok(&show);
            shown.extend(text.contains(&running).then_some(Value::Null));
            assert!(!text.contains("--accept-rewind") && !text.contains("stop"), "{text}");
        }
        writing.store(false, std::sync::atomic::Ordering::Relaxed);
    });
    assert_eq!(shown.len(), 40, "some text does not say that the job runs");
    let mut checkpoints = std::collections::BTreeSet::new();
    for shown in shown.iter().filter(|shown| !shown.is_null()) {
        assert_eq!(shown["decision"]["kind"], "in-use", "{shown}");
        assert!(shown["decision"]["text"].as_str().unwrap().contains(&running), "{shown}");
        checkpoints.insert(shown["ledger"]["last"]["checkpoint"].as_u64());
    }
    assert!(checkpoints.len() > 5, "the job did not go on meanwhile: {checkpoints:?}");
    stop(job);
    assert_eq!(rows(&show)[0]["decision"]["kind"], "resume");
}

#[test]
fn what_a_directory_lacks_is_told_alike_by_every_tool() {
    let stage = Stage::new();
    let address = stage.broker.address();
    let nowhere = stage.path("nowhere");
    let nowhere = nowhere.to_str().unwrap();
    let looping = stage.path("looping");
    std::fs::create_dir(&looping).unwrap();
    std::os::unix::fs::symlink("LOCK", looping.join("LOCK")).unwrap();
    std::fs::write(looping.join("META"), "").unwrap();
    let lock = looping.join("LOCK").display().to_string();
    let tools: [&[&str]; 4] = [
        &["checkpoint", "list"],
        &["checkpoint", "show"],
        &["checkpoint", "verify"],
        &["ledger", "show", "sums", "-b", &address],
    ];
    let text = format!("there is no folder {nowhere}");
    for tool in tools {
        refused(&[tool, &["--state-dir", nowhere]].concat(), 66, &[&text]);
        let there = [tool, &["--state-dir", looping.to_str().unwrap()]].concat();
        refused(&there, 73, &[&format!("failed to look at {lock}")]);
    }

    // Delta files without META are an incomplete copy, whatever the ledger holds, also if they were applied and removed.
    let job = stage.job(Program::Sums, 2, "state").start().unwrap();
    stage.write(&events(0, 100));
    stage.wait_for_rows(100);
    stop(job);
    let state = stage.path("state");
    std::fs::remove_file(state.join("META")).unwrap();
    let show = ["ledger", "show", "sums", "-b", &address, "--state-dir", state.to_str().unwrap()];
    let shown = rows(&show);
    assert!(
        shown[0]["decision"]["text"].as_str().unwrap().contains("META is missing"),
        "{shown:?}"
    );
    let started = || stage.job(Program::Sums, 2, "state").start().unwrap().wait().unwrap_err();
    let missing = started().to_string();
    assert!(missing.contains("META is missing") && missing.contains("savepoint"), "{missing}");
    std::fs::remove_dir_all(state.join("deltas")).unwrap();
    let missing = started();
    assert!(missing.to_string().contains("META is missing"), "{missing}");
    assert_eq!(missing.exit_code(), 73);
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
    refused(&command(state, &[&live]), 73, &["exists already"]);
    refused(&command(state, &[&target(&"x".repeat(300))]), 73, &["whole path is too long"]);
    // Also where it would end the job: it goes on.
    std::os::unix::fs::symlink(stage.path("state"), stage.path("link")).unwrap();
    for more in [&[][..], &["--stop"], &["--stop", "--drain"]] {
        for inside in ["state/sp", "state/store/sp", "link/sp"] {
            let inside = target(inside);
            let more = [more, &[&inside]].concat();
            refused(&command(state, &more), 73, &["is inside the state directory"]);
        }
    }
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
