use std::fs;

use super::*;

const LIMIT: Duration = Duration::from_secs(20);

fn is_alive(process_id: u32) -> bool {
    // A killed child stays as a zombie until it is reaped; that is not alive.
    fs::read_to_string(format!("/proc/{process_id}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z'))
}

fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn exit_code_and_output_are_the_childs() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let err = folder.path().join("err");
    let mut child = GuardedCommand::new("sh")
        .args(["-c", "echo \"$GREETING $1\"; echo oops >&2; exit 3", "sh", "a b"])
        .env("GREETING", "hello")
        .stdout(&out)
        .stderr(&err)
        .spawn()
        .unwrap();
    assert_eq!(child.wait(LIMIT).unwrap(), Some(3));
    assert_eq!(fs::read_to_string(out).unwrap(), "hello a b\n");
    assert_eq!(fs::read_to_string(err).unwrap(), "oops\n");
}

#[test]
fn killed_child_reports_its_signal() {
    let mut child = GuardedCommand::new("sleep").arg("600").spawn().unwrap();
    assert_eq!(child.try_wait().unwrap(), None);
    assert_eq!(child.kill().unwrap(), 137);
    assert_eq!(child.try_wait().unwrap(), Some(137));
    assert!(!is_alive(child.process_id()));
}

#[test]
fn stopped_child_stands_still_until_it_may_go_on() {
    let child = GuardedCommand::new("sleep").arg("600").spawn().unwrap();
    let state = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.process_id())).unwrap();
        stat.rsplit(')').next().unwrap().trim_start().chars().next().unwrap()
    };
    child.signal(Signal::Stop);
    wait_until("it is stopped", || state() == 'T');
    child.signal(Signal::Cont);
    wait_until("it sleeps again", || state() == 'S');
}

#[test]
fn child_dies_and_its_folder_goes_with_a_process_that_is_killed() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("cluster/node");
    fs::create_dir_all(&folder).unwrap();
    // A shell stands for the test process: it starts a watchdog as we do, over a pipe that only it holds, and is killed.
    let abandoned = format!("rm -rf {}", shell_quoted(&folder.display().to_string()));
    let script = format!(
        "sleep 600 | sh -c {} watchdog /dev/null /dev/null {} sleep 600",
        shell_quoted(WATCHDOG),
        shell_quoted(&abandoned),
    );
    let mut parent =
        Command::new("sh").args(["-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(parent.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let grandchild: u32 = line.trim().parse().unwrap();
    assert!(is_alive(grandchild));
    // The first `sleep` is the only holder of the pipe's writing end.
    let holder = children_of(parent.id())
        .into_iter()
        .find(|id| {
            fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|name| name == "sleep\n")
        })
        .unwrap();
    Command::new("kill").args(["-9", &holder.to_string()]).status().unwrap();
    wait_until("the grandchild is dead", || !is_alive(grandchild));
    wait_until("its folder is removed", || !folder.exists());
    parent.wait().unwrap();
}

fn children_of(process_id: u32) -> Vec<u32> {
    fs::read_to_string(format!("/proc/{process_id}/task/{process_id}/children"))
        .unwrap()
        .split_whitespace()
        .map(|id| id.parse().unwrap())
        .collect()
}
