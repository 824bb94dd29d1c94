//! The committed output is that of a slow reference: each record as often as it is there, none besides. That is once, but for what
//! is written again because somebody agreed to it.

use std::collections::BTreeMap;

use super::{CommittedRecord, Oracle, Violation};

/// Compares committed output with what the whole input makes. `complete`: nothing may be missing. `twice`: somebody has given
/// up that each record is there once.
///
/// # Errors
///
/// What differs.
pub fn check<'a>(
    output: impl Iterator<Item = &'a CommittedRecord>,
    expected: &BTreeMap<String, Vec<String>>,
    complete: bool,
    twice: bool,
) -> Result<(), Violation> {
    let mut counts: BTreeMap<&str, i64> = BTreeMap::new();
    for line in expected.values().flatten() {
        *counts.entry(line).or_default() -= 1;
    }
    let mut foreign = Vec::new();
    for record in output {
        let line = std::str::from_utf8(&record.value).unwrap_or("(not text)");
        match counts.get_mut(line) {
            Some(count) => *count += 1,
            None => foreign.push(format!("{line:?} at {}@{}", record.place, record.offset)),
        }
    }
    let doubled: Vec<&str> =
        counts.iter().filter(|(_, count)| **count > 0 && !twice).map(|(line, _)| *line).collect();
    let missing: Vec<&str> =
        counts.iter().filter(|(_, count)| **count < 0).map(|(line, _)| *line).collect();
    let lost = complete && !missing.is_empty();
    if foreign.is_empty() && doubled.is_empty() && !lost {
        return Ok(());
    }
    let missing = if complete { missing } else { Vec::new() };
    Err(Violation::new(
        Oracle::Output,
        format!("lost {missing:?}, doubled {doubled:?}, wrong {foreign:?}"),
    ))
}
