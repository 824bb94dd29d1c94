//! The binary as a user meets it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail as tests do"
)]

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn millstream(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_millstream"))
        .args(arguments)
        .output()
        .expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The number after a label of the verdict.
fn figure(verdict: &str, label: &str) -> u64 {
    let line = verdict.lines().find(|line| line.trim_start().starts_with(label));
    let line = line.unwrap_or_else(|| panic!("{label:?} is missing in:\n{verdict}"));
    let number = line.trim_start().trim_start_matches(label).split_whitespace().next();
    number.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no number in {line:?}"))
}

#[test]
fn the_demo_ends_with_a_clean_verdict() {
    let output = millstream(&["demo"]);
    let (verdict, progress) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{verdict}{progress}");
    assert_eq!(figure(&verdict, "records in"), 26_390, "{verdict}");
    assert!(figure(&verdict, "windows out") > 1_000, "{verdict}");
    for label in ["lost", "duplicated", "wrong"] {
        assert_eq!(figure(&verdict, label), 0, "{verdict}");
    }
    assert!(figure(&verdict, "transactions") > 0, "{verdict}");
    assert!(
        progress.contains("events read"),
        "plain lines where there is no terminal:\n{progress}"
    );
}

#[test]
fn the_demo_survives_kills_and_says_how_it_recovered() {
    let output = millstream(&["demo", "--crash", "3"]);
    let (verdict, progress) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{verdict}{progress}");
    assert_eq!(figure(&verdict, "lost") + figure(&verdict, "duplicated"), 0, "{verdict}");
    assert_eq!(figure(&verdict, "kills"), 3, "{verdict}");
    assert!(figure(&verdict, "state resumed") >= 2, "{verdict}");
    assert_eq!(progress.matches("resumed from checkpoint").count(), 3, "{progress}");
}

#[test]
fn input_that_is_no_flight_is_refused_with_its_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("events.jsonl");
    let good = r#"{"origin":"JFK","dep_delay":1,"arr_delay":2,"landed_ms":3}"#;
    std::fs::write(&file, format!("{good}\n{{\"origin\":\"JFK\"}}\n")).expect("a file");
    let output = millstream(&["demo", "--input", &file.display().to_string()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("line 2"), "{}", text(&output.stderr));
}

#[test]
fn version_completions_and_usage() {
    let version = text(&millstream(&["version"]).stdout);
    assert!(version.starts_with(concat!("millstream ", env!("CARGO_PKG_VERSION"))), "{version}");
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = millstream(&["completions", shell]);
        assert!(script.status.success() && text(&script.stdout).contains("demo"), "{shell}");
    }
    let wrong = millstream(&["dmeo"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("demo"), "the nearest command is named");
}

#[test]
fn the_development_broker_prints_its_address_and_ends_by_a_signal() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_millstream"))
        .args(["dev", "--listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("a pipe");
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    assert!(std::net::TcpStream::connect(line.trim()).is_ok(), "{line:?}");
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(killed.expect("kill runs").success());
    let deadline = Instant::now() + Duration::from_secs(10);
    let status = loop {
        match child.try_wait().expect("a status") {
            Some(status) => break status,
            None => assert!(Instant::now() < deadline, "it does not end"),
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let mut said = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    assert!(status.success(), "{status}: {said}");
}
