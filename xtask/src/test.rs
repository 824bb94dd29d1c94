//! `cargo xtask test`: all tests, with the skipped ones counted.

use std::fs;
use std::process::Command;

use crate::steps::{Outcome, cargo, target_dir};

/// Runs `cargo test --workspace` with further arguments, and sums up what was skipped.
pub(crate) fn run(more: &[String]) -> Outcome {
    let target = target_dir()?;
    fs::create_dir_all(&target).map_err(|error| format!("{}: {error}", target.display()))?;
    let report = target.join("millstream-skipped-tests.tsv");
    match fs::remove_file(&report) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(format!("{}: {error}", report.display()));
        }
        Ok(()) | Err(_) => {}
    }
    let mut build = vec!["test", "--workspace", "--no-run"];
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    build.extend(more.iter().take_while(|arg| **arg != "--"));
    cargo(&build).run()?;
    // Brings the jars once, so that no test waits for Maven. The binary was built with the tests: `cargo run` of its package alone
    // would compile half of the dependencies again, with other features.
    let real_kafka = target.join("debug/real-kafka");
    let prepared = Command::new(&real_kafka).arg("--prepare").status();
    let prepared = prepared.map_err(|error| format!("{}: {error}", real_kafka.display()))?;
    if !prepared.success() {
        return Err(format!("{} --prepare: {prepared}", real_kafka.display()));
    }
    let tests = [vec!["test", "--workspace"], more].concat();
    let outcome = cargo(&tests).env("MILLSTREAM_SKIP_REPORT", &report).run();
    let skipped = sum_up(&fs::read_to_string(&report).unwrap_or_default());
    outcome?;
    let in_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    if in_ci && skipped > 0 {
        return Err(format!("{skipped} tests were skipped, and CI=true allows none"));
    }
    Ok(())
}

fn sum_up(report: &str) -> usize {
    let skipped: Vec<_> = report.lines().filter_map(|line| line.split_once('\t')).collect();
    println!("real-broker tests skipped: {}", skipped.len());
    for (name, reason) in &skipped {
        println!("  {name}: {reason}");
    }
    skipped.len()
}
