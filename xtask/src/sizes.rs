//! `cargo xtask sizes`: a file has one subject, and fits in a head.

use std::fs;
use std::process::Command;

use crate::steps::Outcome;

/// Reported.
const LONG: usize = 400;
/// Refused.
const TOO_LONG: usize = 600;
/// Refused in a file of tests, which is read one test at a time.
const TOO_LONG_FOR_TESTS: usize = 1000;

/// Reports long source files and refuses those that are too long.
pub(crate) fn run() -> Outcome {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "*.rs"])
        .output()
        .map_err(|error| format!("git ls-files: {error}"))?;
    let mut files: Vec<(usize, String)> = Vec::new();
    for name in String::from_utf8_lossy(&listed.stdout).lines() {
        // A file that is deleted but still listed has no lines.
        let lines = fs::read_to_string(name).map_or(0, |text| text.lines().count());
        files.push((lines, name.to_owned()));
    }
    if files.is_empty() {
        return Err("git lists no source file: run this in the repository".to_owned());
    }
    files.sort_unstable_by(|a, b| b.cmp(a));
    let total: usize = files.iter().map(|(lines, _)| lines).sum();
    println!("» sizes: {} files, {total} lines", files.len());
    for (lines, name) in files.iter().take_while(|(lines, _)| *lines > LONG) {
        println!("  {lines:>4} {name}");
    }
    let too_long = files.iter().filter(|(lines, name)| *lines > limit(name)).count();
    if too_long > 0 {
        return Err(format!(
            "{too_long} files have more than {TOO_LONG} lines ({TOO_LONG_FOR_TESTS} of tests); look for the seam"
        ));
    }
    Ok(())
}

fn limit(name: &str) -> usize {
    let is_tests = name.ends_with("tests.rs") || name.contains("tests/");
    if is_tests { TOO_LONG_FOR_TESTS } else { TOO_LONG }
}
