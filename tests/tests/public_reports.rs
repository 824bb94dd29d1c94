//! Every failure in `testdata/public-reports.tsv` is met by a test that cites its number in its doc comment, or says why not.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail as tests do")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A row of the list.
struct Row {
    number: String,
    behaviour: String,
    /// Why no test can meet it; empty if one does.
    reason: String,
}

#[test]
fn every_report_is_met_by_a_test_or_says_why_not() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository");
    let rows =
        rows(&fs::read_to_string(root.join("testdata/public-reports.tsv")).expect("the list"));
    let mut cited = BTreeMap::new();
    for folder in
        ["protocol", "protocol-client", "engine", "dev-broker", "cli", "tests", "checkpoint"]
    {
        visit(&root.join(folder), &mut cited);
    }
    let problems = problems(&rows, &cited);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    println!("{} reports, {} tests that cite them", rows.len(), cited.values().flatten().count());
}

/// The checker notices what it is for.
#[test]
fn a_missing_test_a_stale_reason_and_a_number_in_prose_are_noticed() {
    let rows = rows("# c\nB001\ta\tmet\t\nB002\ta\tnot met\t\nB003\ta\tmet after all\tbecause\n");
    let source = "/// Cases B001 and B003.\n#[test]\nfn a() {}\n/// B002 is prose.\nfn b() {}\n";
    let cited = citations(source, "x.rs").into_iter().collect();
    let problems = problems(&rows, &cited);
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].starts_with("B002") && problems[1].starts_with("B003"), "{problems:?}");
}

fn rows(list: &str) -> Vec<Row> {
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            let [number, _area, behaviour, reason] = fields[..] else {
                unreachable!("four fields: {line}");
            };
            Row {
                number: number.to_owned(),
                behaviour: behaviour.to_owned(),
                reason: reason.to_owned(),
            }
        })
        .collect()
}

fn problems(rows: &[Row], cited: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut problems = Vec::new();
    for row in rows {
        let Row { number, behaviour, reason } = row;
        match (cited.get(number), reason.is_empty()) {
            (None, true) => problems.push(format!("{number}: no test cites it ({behaviour})")),
            (Some(tests), false) => problems
                .push(format!("{number}: {tests:?} cite it, so its reason is stale ({reason})")),
            _ => {}
        }
    }
    problems
}

fn visit(folder: &Path, cited: &mut BTreeMap<String, BTreeSet<String>>) {
    for entry in fs::read_dir(folder).expect("a folder of the repository") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            visit(&path, cited);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("source text");
            for (number, tests) in citations(&text, &path.display().to_string()) {
                cited.entry(number).or_default().extend(tests);
            }
        }
    }
}

/// Numbers in the doc comments of tests, with the tests.
fn citations(source: &str, path: &str) -> Vec<(String, BTreeSet<String>)> {
    let mut found = Vec::new();
    let mut numbers: BTreeSet<String> = BTreeSet::new();
    let mut is_test = false;
    for line in source.lines().map(str::trim_start) {
        if let Some(comment) = line.strip_prefix("///") {
            numbers.extend(
                comment
                    .split(|c: char| !c.is_ascii_alphanumeric())
                    .filter(is_number)
                    .map(str::to_owned),
            );
        } else if line.starts_with("#[") {
            is_test |= line.contains("test");
        } else {
            if is_test && let Some(name) = line.split_once("fn ").map(|(_, rest)| rest) {
                let name = name.split(['(', '<']).next().unwrap_or_default();
                let test = BTreeSet::from([format!("{path}: {name}")]);
                found.extend(std::mem::take(&mut numbers).into_iter().map(|n| (n, test.clone())));
            }
            // Attributes may stand on several lines.
            if !line.starts_with([')', '"']) && !line.ends_with(',') {
                numbers.clear();
                is_test = false;
            }
        }
    }
    found
}

fn is_number(word: &&str) -> bool {
    word.len() == 4
        && word.starts_with('B')
        && word[1..].chars().all(|digit| digit.is_ascii_digit())
}
