//! The tools without any cluster: what they explain, and what they refuse at once.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail as tests do")]

use std::process::{Command, Output, Stdio};

fn millstream(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_millstream"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("the binary runs")
}

#[track_caller]
fn refused(arguments: &[&str], code: i32, words: &[&str]) {
    let output = millstream(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    for word in words {
        assert!(said.contains(word), "{arguments:?}: {word:?} is missing in {said}");
    }
    assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{arguments:?}");
}

#[test]
fn every_command_explains_itself() {
    let commands: [&[&str]; 30] = [
        &[],
        &["topic"],
        &["topic", "list"],
        &["topic", "describe"],
        &["topic", "create"],
        &["topic", "alter"],
        &["topic", "delete"],
        &["produce"],
        &["consume"],
        &["group"],
        &["group", "list"],
        &["group", "describe"],
        &["group", "reset-offsets"],
        &["group", "delete"],
        &["txn"],
        &["txn", "list"],
        &["txn", "describe"],
        &["txn", "abort"],
        &["txn", "find-hanging"],
        &["savepoint"],
        &["savepoint", "create"],
        &["savepoint", "list"],
        &["savepoint", "show"],
        &["savepoint", "verify"],
        &["savepoint", "delete"],
        &["ledger"],
        &["ledger", "show"],
        &["doctor"],
        &["checkpoint"],
        &["checkpoint", "verify"],
    ];
    for command in commands {
        let output = millstream(&[command, &["--help"]].concat());
        let help = String::from_utf8(output.stdout).expect("text");
        assert!(output.status.success(), "{command:?}");
        assert!(help.contains("Usage: millstream"), "{command:?}: {help}");
        // Checkpoints are looked at on the disk alone.
        if command.first().is_some_and(|name| *name != "checkpoint") {
            for option in ["--bootstrap-server", "--command-config", "-X", "--output"] {
                assert!(help.contains(option), "{command:?} has no {option}: {help}");
            }
        }
    }
}

#[test]
fn what_is_missing_or_wrong_is_named_before_anything_is_done() {
    refused(&["topic", "list"], 2, &["-b HOST:PORT"]);
    refused(&["topic", "create", "a/b", "-b", "h:1"], 2, &["a/b", "no name for a topic"]);
    refused(&["topic", "alter", "t", "-b", "h:1"], 2, &["--partitions"]);
    refused(&["consume", "t", "-b", "h:1", "--from", "never"], 2, &["never", "beginning"]);
    refused(&["consume", "t", "-b", "h:1", "--format", "%q"], 2, &["%q"]);
    refused(&["consume", "t", "-b", "h:1", "--group", "g", "--from", "7"], 2, &["reset-offsets"]);
    refused(&["group", "reset-offsets", "g", "--topic", "t", "-b", "h:1"], 2, &["--to"]);
    refused(&["group", "reset-offsets", "g", "--to", "end", "-b", "h:1"], 2, &["--topic"]);
    refused(&["txn", "abort", "-b", "h:1"], 2, &["TRANSACTIONAL_ID"]);
    refused(&["txn", "abort", "--topic", "t", "-b", "h:1"], 2, &["--partition", "--producer-id"]);
    let typo = ["doctor", "-b", "h:1", "-X", "linger.m=1"];
    refused(&typo, 78, &["linger.m", "did you mean 'linger.ms'"]);
    refused(&["doctor", "-b", "h"], 78, &["host:port"]);
    let missing = ["topic", "list", "--command-config", "/no/such/file"];
    refused(&missing, 78, &["/no/such/file", "--command-config"]);
    refused(&["produce", "t", "-b", "h:1", "--file", "/no/such/file"], 66, &["/no/such/file"]);
}

#[test]
fn what_can_not_be_undone_needs_a_yes() {
    let commands: [&[&str]; 4] = [
        &["topic", "delete", "t"],
        &["group", "delete", "g"],
        &["group", "reset-offsets", "g", "--topic", "t", "--to", "end"],
        &["txn", "abort", "id"],
    ];
    for command in commands {
        refused(&[command, &["-b", "127.0.0.1:1"]].concat(), 2, &["--yes", "nothing was done"]);
    }
}

#[test]
fn a_cluster_that_is_not_there_is_told_with_its_address() {
    let patience = ["-X", "default.api.timeout.ms=300"];
    for command in [&["topic", "list"][..], &["consume", "t"], &["group", "list"]] {
        let arguments = [command, &["-b", "127.0.0.1:1"], &patience].concat();
        refused(&arguments, 69, &["127.0.0.1:1", "refused", "bootstrap.servers"]);
    }
}
