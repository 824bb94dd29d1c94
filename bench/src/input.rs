//! The flight events, as often as wanted: each repetition is moved on in time so that nothing comes late.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use millstream_engine::kafka::{Compression, KafkaClient, NewTopic, TopicWriter};
use serde_json::Value;

use crate::BenchError;

/// One repetition is moved on by this much: longer than the year of the data.
const SHIFT_MS: i64 = 400 * 24 * 3_600_000;

/// Partitions of the topics.
pub(crate) const PARTITIONS: i32 = 4;

/// Records between two waits for the broker.
const FLUSH_EVERY: usize = 20_000;

/// Writes the events `times` times to a new topic; gives the number of records.
pub(crate) async fn load(client: &KafkaClient, topic: &str, times: u32) -> Result<u64, BenchError> {
    client.create_topic(NewTopic::new(topic, PARTITIONS, 1)).await?;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/flights/flights.jsonl.gz");
    let lines: Vec<String> =
        BufReader::new(MultiGzDecoder::new(File::open(file)?)).lines().collect::<Result<_, _>>()?;
    let mut writer = TopicWriter::new(client, topic, Compression::Lz4);
    let mut written: u64 = 0;
    for repetition in 0..i64::from(times) {
        for line in &lines {
            let moved = if repetition == 0 { line.clone() } else { moved_on(line, repetition)? };
            let partition = i32::try_from(written % u64::from(PARTITIONS.unsigned_abs()))?;
            writer.append(partition, 0, None, Some(moved.as_bytes()))?;
            written += 1;
            if written.is_multiple_of(FLUSH_EVERY as u64) {
                writer.flush().await?;
            }
        }
    }
    writer.flush().await?;
    Ok(written)
}

fn moved_on(line: &str, repetition: i64) -> Result<String, BenchError> {
    let mut event: Value = serde_json::from_str(line)?;
    for field in ["scheduled_ms", "departed_ms", "landed_ms"] {
        if let Some(value) = event.get_mut(field)
            && let Some(time) = value.as_i64()
        {
            *value = (time + repetition * SHIFT_MS).into();
        }
    }
    Ok(event.to_string())
}
