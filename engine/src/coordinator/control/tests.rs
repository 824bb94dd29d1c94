use std::fs;
use std::time::{Duration, Instant};

use millstream_checkpoint::{
    ControlClient, Disk, Fingerprint, JobName, LockOutcome, RealDisk, SavepointTrigger,
    StateDirectory,
};

use super::*;
use crate::coordinator::savepoint::SavepointRequest;

const LIMIT: Duration = Duration::from_secs(30);

fn directory(path: &Path) -> StateDirectory {
    let job = JobName::new("orders").unwrap();
    StateDirectory::open(Arc::new(RealDisk), path, &job, Fingerprint([1; 16])).unwrap()
}

fn next(desk: &SavepointDesk) -> SavepointRequest {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(LIMIT, desk.next()).await.unwrap() })
}

fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "in vain");
        std::thread::yield_now();
    }
}

fn answers(state: &Path) -> usize {
    let files = fs::read_dir(state.join("control")).unwrap();
    files
        .filter(|file| file.as_ref().unwrap().path().extension().unwrap_or_default() == "answer")
        .count()
}

#[test]
fn a_request_is_withdrawn_until_it_is_begun_and_then_never_served() {
    let folder = tempfile::tempdir().unwrap();
    let state = directory(&folder.path().join("state"));
    let desk = SavepointDesk::default();
    let control = ControlDesk::open(&state, &desk).unwrap();
    let ask = |name: &str| {
        let target = folder.path().join(name);
        ControlClient::ask(state.path(), SavepointTrigger::Stop, &target).unwrap()
    };
    let withdrawn = ask("one");
    let request = next(&desk);
    assert!(withdrawn.withdraw().unwrap());
    assert!(request.begin(state.path()).is_none());
    // The next one is served, and can not be withdrawn any more.
    let stands = ask("two");
    let request = next(&desk).begin(state.path()).unwrap();
    assert!(!stands.withdraw().unwrap());
    drop(request);
    let refused = until(|| stands.poll().unwrap());
    assert!(matches!(refused, ControlAnswer::Refused { .. }), "{refused:?}");
    // One that can not be begun is answered there.
    let inside = ControlClient::ask(state.path(), SavepointTrigger::Live, &state.path().join("sp"));
    let inside = inside.unwrap();
    assert!(next(&desk).begin(state.path()).is_none());
    let ControlAnswer::Refused { exit_code: 73, reason } = until(|| inside.poll().unwrap()) else {
        panic!("it is refused")
    };
    assert!(reason.contains("is inside the state directory"), "{reason}");
    drop(control);
    assert_eq!(answers(state.path()), 0);
}

#[test]
fn who_can_not_serve_at_first_serves_once_the_folder_can_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let state = directory(&folder.path().join("state"));
    let desk = SavepointDesk::default();
    let in_the_way = state.path().join("control");
    fs::write(&in_the_way, "no folder").unwrap();
    let control = ControlDesk::open(&state, &desk).unwrap();
    let target = folder.path().join("sp");
    let ask = || ControlClient::ask(state.path(), SavepointTrigger::Live, &target);
    ask().unwrap_err();
    fs::remove_file(&in_the_way).unwrap();
    let request = until(|| ask().ok());
    drop(next(&desk));
    until(|| request.poll().unwrap());
    // Also later, whatever became of it.
    fs::remove_dir_all(&in_the_way).unwrap();
    until(|| ask().ok());
    drop(next(&desk));
    fs::write(in_the_way.join("SERVER"), "garbage").unwrap();
    until(|| ask().ok());
    drop(control);
    let lock = RealDisk.try_lock(&state.path().join("LOCK")).unwrap();
    assert!(matches!(lock, LockOutcome::HeldBy(_)));
}
