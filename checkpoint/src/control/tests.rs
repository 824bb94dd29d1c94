use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::files::{RequestName, decode_server, encode_server};
use super::*;
use crate::disk::RealDisk;
use crate::ids::{CheckpointId, CheckpointRef, Fingerprint, JobName, Nonce};
use crate::savepoint::{SavepointId, SavepointTrigger};
use crate::{FormatError, StateDirectory};

fn directory(path: &Path) -> StateDirectory {
    let job = JobName::new("orders").unwrap();
    StateDirectory::open(Arc::new(RealDisk), path, &job, Fingerprint([1; 16])).unwrap()
}

fn taken() -> ControlAnswer {
    ControlAnswer::Taken(SavepointTaken {
        id: SavepointId([3; 16]),
        job: JobName::new("orders").unwrap(),
        at: CheckpointRef::new(CheckpointId(7), Nonce([1; 16])),
        entries: 12,
        state_bytes: 3456,
    })
}

#[test]
fn a_request_is_served_once_and_answered() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let _lock = directory(&state);
    let mut server = ControlServer::open(&state).unwrap();
    let target = folder.path().join("sp");
    let client = ControlClient::ask(&state, SavepointTrigger::Stop, &target).unwrap();
    assert_eq!(client.poll().unwrap(), None);
    let requests = server.requests().unwrap();
    let [request] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!((request.trigger, &request.target), (SavepointTrigger::Stop, &target));
    assert_eq!(server.requests().unwrap(), []);
    assert_eq!(client.poll().unwrap(), None);
    assert!(client.is_waiting() && server.claim(request).take().unwrap() && !client.is_waiting());
    assert!(!server.claim(request).take().unwrap(), "it is taken once");
    server.answer(request, &taken()).unwrap();
    // Also if the process ends before the answer is read.
    drop(server);
    assert_eq!(client.poll().unwrap(), Some(taken()));
    assert_eq!(fs::read_dir(state.join("control")).unwrap().count(), 0);
}

#[test]
fn whoever_asks_nobody_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let (state, target) = (folder.path().join("state"), folder.path().join("sp"));
    let ask = || ControlClient::ask(&state, SavepointTrigger::Live, &target);
    let never = ask().unwrap_err();
    assert!(matches!(never, ControlError::NotRunning { .. }), "{never}");
    let lock = directory(&state);
    let silent = ask().unwrap_err();
    let own = std::process::id().to_string();
    assert!(matches!(&silent, ControlError::NotServing { process, .. } if *process == own));
    let server = ControlServer::open(&state).unwrap();
    let request = ask().unwrap();
    // The next process in the same place: it neither serves the request nor lets the one who asked wait.
    drop((server, lock));
    let lock = directory(&state);
    let ended = loop {
        match request.poll() {
            Ok(answer) => assert_eq!(answer, None),
            Err(error) => break error,
        }
        std::thread::yield_now();
    };
    assert!(matches!(ended, ControlError::Ended { .. }), "{ended}");
    let late = ControlServer::open(&state).unwrap();
    let stale = ask().unwrap();
    let mut other = ControlServer::open(&state).unwrap();
    let late_request = state.join("control").join(stale.request.name.request());
    fs::write(&late_request, stale.request.encode().unwrap()).unwrap();
    assert_eq!(other.requests().unwrap(), []);
    assert!(!late_request.exists());
    assert!(matches!(stale.poll(), Err(ControlError::Ended { .. })));
    drop((late, other, lock));
    assert!(matches!(ask(), Err(ControlError::NotRunning { .. })));
}

#[test]
fn a_request_that_was_withdrawn_is_never_served() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let _lock = directory(&state);
    let mut server = ControlServer::open(&state).unwrap();
    let ask = || ControlClient::ask(&state, SavepointTrigger::Stop, &folder.path().join("sp"));
    // Before the process has looked, as while it is stopped.
    let early = ask().unwrap();
    assert!(early.withdraw().unwrap());
    assert!(!early.withdraw().unwrap());
    assert_eq!(server.requests().unwrap(), []);
    // While it waits behind others.
    let late = ask().unwrap();
    let requests = server.requests().unwrap();
    assert!(late.withdraw().unwrap());
    assert!(!server.claim(&requests[0]).take().unwrap());
    // After it was begun it can not be withdrawn.
    let taken_up = ask().unwrap();
    let requests = server.requests().unwrap();
    assert!(server.claim(&requests[0]).take().unwrap());
    assert!(!taken_up.withdraw().unwrap());
    // Its answer goes once nobody comes for it.
    server.answer(&requests[0], &taken()).unwrap();
    let answer = state.join("control").join(requests[0].name.answer());
    server.requests().unwrap();
    assert!(answer.exists());
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3601);
    fs::File::options().write(true).open(&answer).unwrap().set_modified(long_ago).unwrap();
    server.requests().unwrap();
    assert!(!answer.exists());
    // Or at the next start.
    fs::write(&answer, "left").unwrap();
    drop(server);
    let _next = ControlServer::open(&state).unwrap();
    assert!(!answer.exists());
}

#[test]
fn a_server_file_that_is_missing_or_damaged_is_written_again() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let _lock = directory(&state);
    let control = state.join("control");
    fs::write(&control, "no folder").unwrap();
    let mut server = ControlServer::new(&state).unwrap();
    let error = server.requests().unwrap_err().to_string();
    assert!(error.contains("file where a folder has to be"), "{error}");
    fs::remove_file(&control).unwrap();
    type Spoil = fn(&Path);
    let spoil: [(&str, Spoil); 4] = [
        ("the first start", |_| ()),
        ("missing", |control| fs::remove_file(control.join("SERVER")).unwrap()),
        ("without its folder", |control| fs::remove_dir_all(control).unwrap()),
        ("garbage", |control| fs::write(control.join("SERVER"), "garbage").unwrap()),
    ];
    let ask = || ControlClient::ask(&state, SavepointTrigger::Live, &folder.path().join("sp"));
    for (what, spoil) in spoil {
        spoil(&control);
        ask().unwrap_err();
        assert_eq!(server.requests().unwrap(), [], "{what}");
        let request = ask().unwrap();
        assert_eq!(server.requests().unwrap().len(), 1, "{what}");
        // Who waits is not told meanwhile that nobody serves.
        fs::write(control.join("SERVER"), "garbage").unwrap();
        assert_eq!(request.poll().unwrap(), None, "{what}");
        fs::remove_file(control.join("SERVER")).unwrap();
        assert_eq!(request.poll().unwrap(), None, "{what}");
        assert_eq!(server.requests().unwrap(), [], "{what}");
        assert_eq!(request.poll().unwrap(), None, "{what}");
    }
}

#[test]
fn what_is_no_request_is_removed_and_never_served() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let _lock = directory(&state);
    let mut server = ControlServer::open(&state).unwrap();
    let client =
        ControlClient::ask(&state, SavepointTrigger::Drain, &folder.path().join("sp")).unwrap();
    let control = state.join("control");
    let names: Vec<_> = fs::read_dir(&control)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".request"))
        .collect();
    let whole = fs::read(control.join(&names[0])).unwrap();
    for byte in 0..whole.len() {
        let mut spoilt = whole.clone();
        spoilt[byte] ^= 1 << (byte % 8);
        fs::write(control.join(&names[0]), spoilt).unwrap();
        assert_eq!(server.requests().unwrap(), [], "byte {byte}");
    }
    fs::write(control.join(&names[0]), vec![0; 1 << 20]).unwrap();
    fs::write(control.join(format!("{}.request", "ab".repeat(16))), &whole).unwrap();
    fs::write(control.join("README"), "not ours").unwrap();
    assert_eq!(server.requests().unwrap(), []);
    assert!(control.join("README").exists());
    fs::write(control.join(&names[0]), &whole).unwrap();
    let requests = server.requests().unwrap();
    assert_eq!(requests.len(), 1);
    let refused = ControlAnswer::Refused { exit_code: 73, reason: "é".repeat(4000) };
    server.answer(&requests[0], &refused).unwrap();
    let answer = fs::read(control.join(requests[0].name.answer())).unwrap();
    for byte in 0..answer.len() {
        let mut spoilt = answer.clone();
        spoilt[byte] ^= 1 << (byte % 8);
        assert!(ControlAnswer::decode(&spoilt, requests[0].name).is_err(), "byte {byte}");
    }
    let Some(ControlAnswer::Refused { exit_code, reason }) = client.poll().unwrap() else {
        panic!("it was refused")
    };
    assert_eq!((exit_code, reason.len()), (73, 4096));
}

#[test]
fn files_are_what_they_were() {
    let server = Nonce([9; 16]);
    assert_eq!(decode_server(&encode_server(server).unwrap()), Ok(server));
    let name = RequestName(Nonce([0xab; 16]));
    assert_eq!(RequestName::of_request(&name.request()), Some(name));
    for other in ["ab.request", &name.answer(), &name.request().to_uppercase()] {
        assert_eq!(RequestName::of_request(other), None, "{other}");
    }
    let answer = taken();
    assert_eq!(ControlAnswer::decode(&answer.encode(name).unwrap(), name), Ok(answer.clone()));
    let other = RequestName(Nonce([1; 16]));
    let mixed_up = ControlAnswer::decode(&answer.encode(name).unwrap(), other);
    assert!(matches!(mixed_up, Err(FormatError::Invalid { .. })), "{mixed_up:?}");
    let relative =
        ControlRequest { name, server, trigger: SavepointTrigger::Live, target: "sp".into() };
    assert!(ControlRequest::decode(&relative.encode().unwrap()).is_err());
}
