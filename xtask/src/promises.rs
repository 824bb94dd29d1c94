//! `cargo xtask promises`: the tests that `docs/semantics.md` names behind its lines are there, under these names.

use std::fs;
use std::process::Command;

use crate::steps::Outcome;

const DOCUMENT: &str = "docs/semantics.md";

/// Stands for any rest of a name.
const REST: char = '…';

/// Checks every name of a file or a test in the document, and that every row of a table with a column of tests has one.
pub(crate) fn run() -> Outcome {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "*.rs"])
        .output()
        .map_err(|error| format!("git ls-files: {error}"))?;
    let sources: Vec<(String, Vec<String>)> = String::from_utf8_lossy(&listed.stdout)
        .lines()
        // A file that is deleted but still listed has no text.
        .filter_map(|name| Some((name.to_owned(), fs::read_to_string(name).ok()?)))
        .map(|(name, text)| (name, tests(&text)))
        .collect();
    let document =
        fs::read_to_string(DOCUMENT).map_err(|error| format!("read {DOCUMENT}: {error}"))?;
    let (named, wrong) = check(&document, &sources);
    println!("» promises: {named} names of tests in {DOCUMENT}");
    for line in &wrong {
        println!("  {line}");
    }
    match wrong.len() {
        0 if named == 0 => Err(format!("{DOCUMENT} names no test: its form has changed")),
        0 => Ok(()),
        count => Err(format!("{count} names in {DOCUMENT} are not as in the source")),
    }
}

/// Names of the tests in the text of a source file.
fn tests(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim_start) {
        let declaration = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
        if let Some(name) = declaration {
            let end = name.find(['(', '<']).unwrap_or(name.len());
            if is_test {
                found.push(name[..end].to_owned());
            }
            is_test = false;
        } else if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        }
    }
    found
}

/// How many tests are named, and what is wrong with the document. `sources`: by path the names of its tests.
fn check(document: &str, sources: &[(String, Vec<String>)]) -> (usize, Vec<String>) {
    let (mut named, mut wrong) = (0, Vec::new());
    let mut columns = 0;
    for (number, line) in document.lines().enumerate() {
        let mut complain = |what: String| wrong.push(format!("line {}: {what}", number + 1));
        // In a table of failures the last column names tests; its head says so.
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        if !line.starts_with('|') {
            columns = 0;
        } else if cells.last() == Some(&"test") {
            columns = cells.len();
            continue;
        } else if columns > 0 && cells.len() != columns {
            complain(format!("{} cells, the table has {columns} columns", cells.len()));
        }
        let has_test_column = columns > 0 && !line.starts_with("| ---");
        let text = if has_test_column { cells.last().copied().unwrap_or_default() } else { line };
        let mut files: Option<Vec<&(String, Vec<String>)>> = None;
        let mut any = false;
        for name in text.split('`').skip(1).step_by(2) {
            if is_file(name) {
                any = true;
                let found: Vec<_> = sources.iter().filter(|(path, _)| is_at(path, name)).collect();
                if found.is_empty() {
                    complain(format!("there is no file {name}"));
                }
                files = Some(found);
            } else if is_test(name) {
                any = true;
                named += 1;
                let everywhere = || sources.iter().collect();
                let among = files.clone().unwrap_or_else(everywhere);
                if !among.iter().any(|(_, tests)| tests.iter().any(|test| fits(test, name))) {
                    let place = if files.is_some() { "that file has" } else { "there is" };
                    complain(format!("{place} no test {name}"));
                }
            }
        }
        if has_test_column && !any {
            complain(format!("no test behind {:?}", cells.first().copied().unwrap_or_default()));
        }
    }
    (named, wrong)
}

/// `kills.rs`, `decide/tests.rs`.
fn is_file(name: &str) -> bool {
    name.ends_with(".rs") && !name.contains(' ')
}

/// Whether the file at `path` may be called `name`.
fn is_at(path: &str, name: &str) -> bool {
    path.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

/// A sentence in snake_case, or the beginning or the end of one.
fn is_test(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == REST;
    name.chars().all(is_part) && (name.matches('_').count() > 1 || name.contains(REST))
}

fn fits(test: &str, name: &str) -> bool {
    match name.split_once(REST) {
        Some((begin, end)) => {
            test.len() >= begin.len() + end.len() && test.starts_with(begin) && test.ends_with(end)
        }
        None => test == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "
#[test]
#[ignore = \"long\"]
fn a_job_is_killed_with_version_2() {}
#[tokio::test]
async fn a_job_is_killed_with_version_0() {}
fn not_a_test_at_all() {}
";

    fn wrong(row: &str) -> Vec<String> {
        let sources = [("tests/tests/exactly_once/kills.rs".to_owned(), super::tests(SOURCE))];
        let document = format!("| failure | what | test |\n| --- | --- | --- |\n{row}\n");
        check(&document, &sources).1
    }

    #[test]
    fn names_that_are_in_the_source_pass() {
        for names in [
            "`kills.rs`: all",
            "`kills.rs`: `a_job_is_killed_with_version_2`, `…_0` (long form)",
            "`exactly_once/kills.rs`: `a_job_is_killed_…`",
            "`a_job_is_killed_with_version_0` in `tests/`",
        ] {
            assert_eq!(wrong(&format!("| it dies | `key_by` goes on | {names} |")), [""; 0]);
        }
    }

    #[test]
    fn a_renamed_test_a_missing_file_and_a_row_without_a_test_are_noticed() {
        for (cell, complaint) in [
            ("`kills.rs`: `a_job_is_killed_with_version_1`", "that file has no test a_job_is"),
            ("`kills.rs`: `not_a_test_at_all`", "that file has no test not_a_test_at_all"),
            ("`kills.rs`: `…_7`", "that file has no test …_7"),
            ("`a_job_that_nobody_kills`", "there is no test a_job_that_nobody_kills"),
            ("`ills.rs`: all", "there is no file ills.rs"),
            ("see above", "no test behind \"it dies\""),
        ] {
            let found = wrong(&format!("| it dies | it goes on | {cell} |"));
            assert!(found.len() == 1 && found[0].contains(complaint), "{cell}: {found:?}");
        }
        let cells = wrong("| it dies | `kills.rs` |");
        assert!(cells[0].contains("2 cells, the table has 3 columns"), "{cells:?}");
    }
}
