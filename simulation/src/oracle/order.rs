//! The records of a key are in the order of the input.

use std::collections::BTreeMap;

use super::{CommittedRecord, Oracle, Violation};

/// Looks at the numbers of the input in each key's records (`key:count:number`).
///
/// # Errors
///
/// The first key whose numbers go back.
pub fn check<'a>(output: impl Iterator<Item = &'a CommittedRecord>) -> Result<(), Violation> {
    let mut last: BTreeMap<&'a [u8], (u64, &CommittedRecord)> = BTreeMap::new();
    for record in output {
        let text = std::str::from_utf8(&record.value).unwrap_or_default();
        let Some(number) = text.rsplit(':').next().and_then(|number| number.parse().ok()) else {
            continue;
        };
        if let Some((before, at)) = last.insert(&record.key, (number, record))
            && before > number
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
