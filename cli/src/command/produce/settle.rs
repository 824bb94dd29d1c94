//! Where records went.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream_protocol_client::{Delivery, RecordMetadata};
use serde::Serialize;
use tokio::sync::mpsc;

use crate::command::CommandError;
use crate::output::{self, OutputFormat, count};

/// Records that are acknowledged, by partition.
#[derive(Debug, Default)]
pub(super) struct Written {
    partitions: BTreeMap<i32, Range>,
}

#[derive(Debug)]
struct Range {
    records: u64,
    first: Option<i64>,
    last: Option<i64>,
}

#[derive(Serialize)]
struct Row<'a> {
    topic: &'a str,
    partition: i32,
    /// Null if the broker had the record already, after a lost answer, and does not say where.
    offset: Option<i64>,
}

/// Waits for each record in turn, and for JSON prints where it is. The first failure lets no more come; what was sent behind it is
/// waited for all the same, for without a transaction it is written, and `counts`.
pub(super) async fn settle(
    mut deliveries: mpsc::Receiver<Delivery>,
    output: OutputFormat,
    written: Arc<Mutex<Written>>,
    counts: bool,
) -> Result<(), CommandError> {
    let mut lines = Vec::new();
    let (mut number, mut behind) = (0_u64, 0_u64);
    let mut failed: Option<(CommandError, String)> = None;
    while let Some(delivery) = deliveries.recv().await {
        number += 1;
        let partition = delivery.topic_partition().clone();
        let at = match delivery.wait().await {
            Ok(at) => at,
            Err(error) if failed.is_none() => {
                deliveries.close();
                let text = format!("failed to write record {number} to {partition}");
                failed = Some((error.into(), text));
                continue;
            }
            // Of the same cause, as a rule.
            Err(_) => continue,
        };
        behind += u64::from(failed.is_some());
        lock(&written).add(&at);
        if output == OutputFormat::Json {
            let (topic, partition) = (&*partition.topic, partition.partition);
            serde_json::to_writer(&mut lines, &Row { topic, partition, offset: at.offset })?;
            lines.push(b'\n');
            if deliveries.is_empty() || lines.len() > LINES_BYTES {
                output::print(&lines)?;
                lines.clear();
            }
        }
    }
    output::print(&lines)?;
    let Some((error, text)) = failed else { return Ok(()) };
    let after = match behind {
        0 => String::new(),
        _ if !counts => String::new(),
        1 => "; 1 record behind it was on its way and is written".to_owned(),
        more => format!("; {more} records behind it were on their way and are written"),
    };
    let text = format!("{text}: {}{after}", error.cause);
    Err(CommandError::says(error.exit_code, text))
}

/// Nothing that holds it can panic half way.
pub(super) fn lock(written: &Mutex<Written>) -> MutexGuard<'_, Written> {
    written.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Written {
    fn add(&mut self, at: &RecordMetadata) {
        let empty = Range { records: 0, first: None, last: None };
        let range = self.partitions.entry(at.topic_partition.partition).or_insert(empty);
        range.records += 1;
        range.first = range.first.or(at.offset);
        range.last = at.offset.or(range.last);
    }

    /// A line for people.
    pub(super) fn text(&self, topic: &str) -> String {
        let records: u64 = self.partitions.values().map(|range| range.records).sum();
        let records = count(records, "record");
        if self.partitions.is_empty() || self.partitions.len() > MOST_SHOWN {
            let partitions = count(self.partitions.len(), "partition");
            return format!("{topic}: {records} written to {partitions}\n");
        }
        let places =
            self.partitions.iter().map(|(partition, range)| match (range.first, range.last) {
                (Some(first), Some(last)) if first == last => {
                    format!("{partition} (offset {first})")
                }
                (Some(first), Some(last)) => format!("{partition} (offsets {first} to {last})"),
                _ => partition.to_string(),
            });
        let places: Vec<_> = places.collect();
        let plural = if places.len() == 1 { "partition" } else { "partitions" };
        format!("{topic}: {records} written to {plural} {}\n", places.join(", "))
    }
}

/// More partitions are only counted.
const MOST_SHOWN: usize = 8;
/// Written at once.
const LINES_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use millstream_protocol::TopicPartition;

    use super::*;

    #[test]
    fn partitions_and_offsets_are_told() {
        let mut written = Written::default();
        assert_eq!(written.text("out"), "out: 0 records written to 0 partitions\n");
        for (partition, offset) in [(2, Some(7)), (0, Some(1)), (0, Some(2)), (1, None)] {
            written.add(&RecordMetadata {
                topic_partition: TopicPartition::new("out", partition),
                offset,
                log_append_time_ms: None,
            });
        }
        let expected = "out: 4 records written to partitions 0 (offsets 1 to 2), 1, 2 (offset 7)\n";
        assert_eq!(written.text("out"), expected);
    }
}
