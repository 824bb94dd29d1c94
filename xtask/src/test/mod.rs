//! `cargo xtask test`: all tests, with the skipped ones counted.

mod binaries;
mod lanes;

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use crate::steps::{Outcome, cargo, target_dir};

/// Arguments of `cargo test` that leave the whole suite to be run.
const WHOLE_SUITE: [&str; 3] = ["--locked", "--offline", "--frozen"];

/// Runs all tests, several test binaries side by side, and sums up what was skipped. With arguments that choose tests it is `cargo test
/// --workspace` with them.
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
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    let to_cargo: Vec<&str> = more.iter().take_while(|arg| **arg != "--").copied().collect();
    let binaries = binaries::build(&to_cargo)?;
    bring_jars(&target)?;
    let outcome = if more.iter().all(|arg| WHOLE_SUITE.contains(arg)) {
        lanes::run(binaries, &more, &target, &report)
    } else {
        let tests = [vec!["test", "--workspace"], more].concat();
        cargo(&tests).env("MILLSTREAM_SKIP_REPORT", &report).run()
    };
    let skipped = sum_up(&fs::read_to_string(&report).unwrap_or_default());
    outcome?;
    if env::var_os("CI").is_some_and(|value| value == "true") && skipped > 0 {
        return Err(format!("{skipped} tests were skipped, and CI=true allows none"));
    }
    Ok(())
}

/// Brings the jars once, so that no test waits for Maven. The binary was built with the tests: `cargo run` of its package alone would
/// compile half of the dependencies again, with other features.
fn bring_jars(target: &Path) -> Outcome {
    let real_kafka = target.join("debug/real-kafka");
    let prepared = Command::new(&real_kafka).arg("--prepare").status();
    let prepared = prepared.map_err(|error| format!("{}: {error}", real_kafka.display()))?;
    if prepared.success() {
        Ok(())
    } else {
        Err(format!("{} --prepare: {prepared}", real_kafka.display()))
    }
}

fn sum_up(report: &str) -> usize {
    let skipped: Vec<_> = report.lines().filter_map(|line| line.split_once('\t')).collect();
    println!("real-broker tests skipped: {}", skipped.len());
    for (name, reason) in &skipped {
        println!("  {name}: {reason}");
    }
    skipped.len()
}
