//! The records of a key are in the order of the input; where the job went back they go back once, from where it was to where it went.

use std::collections::{BTreeMap, VecDeque};

use super::{CommittedRecord, Oracle, Violation};

/// Looks at the numbers of the input in each key's records (`key:count:number`). `expected`: the lines of each key in order.
///
/// # Errors
///
/// The first key whose numbers go back where they must not.
pub fn check<'a>(
    output: impl Iterator<Item = &'a CommittedRecord>,
    expected: &BTreeMap<String, Vec<String>>,
) -> Result<(), Violation> {
    let mut last: BTreeMap<&'a [u8], (u64, &CommittedRecord)> = BTreeMap::new();
    let mut steps: BTreeMap<&[u8], VecDeque<(u64, u64)>> =
        expected.iter().map(|(key, lines)| (key.as_bytes(), steps_back(lines))).collect();
    for record in output {
        let text = std::str::from_utf8(&record.value).unwrap_or_default();
        let Some(number) = number_of(text) else { continue };
        if let Some((before, at)) = last.insert(&record.key, (number, record))
            && before > number
            && steps.get_mut(&*record.key).and_then(VecDeque::pop_front) != Some((before, number))
        {
            return Err(Violation::new(
                Oracle::Order,
                format!(
                    "key {}: {number} at {}@{} comes after {before} at {}@{}",
                    String::from_utf8_lossy(&record.key),
                    record.place,
                    record.offset,
                    at.place,
                    at.offset
                ),
            ));
        }
    }
    Ok(())
}

/// Where the lines of a key go back, and where to.
fn steps_back(lines: &[String]) -> VecDeque<(u64, u64)> {
    let numbers: Vec<u64> = lines.iter().filter_map(|line| number_of(line)).collect();
    let pairs = numbers.windows(2).filter_map(|pair| match pair {
        [before, number] if before > number => Some((*before, *number)),
        _ => None,
    });
    pairs.collect()
}

fn number_of(line: &str) -> Option<u64> {
    line.rsplit(':').next()?.parse().ok()
}
