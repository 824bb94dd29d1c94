//! Loads the flight events into the input topic, all at once or paced over a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use millstream_engine::kafka::{Compression, KafkaClient, TopicWriter};

use crate::command::CommandError;

/// Partitions of the demo's topics.
pub(crate) const PARTITIONS: i32 = 4;

/// Slices into which a paced load is cut: short enough that every kill finds the job at work.
const SLICES: u32 = 200;

/// How many events have been written and acknowledged so far.
pub(crate) type Fed = Arc<AtomicUsize>;

/// Writes `lines` to `topic`, spread over its partitions in turn, taking at least `over`.
pub(crate) async fn feed(
    client: &KafkaClient,
    topic: &str,
    lines: &[String],
    over: Duration,
    fed: &Fed,
) -> Result<(), CommandError> {
    let mut writer = TopicWriter::new(client, topic, Compression::Lz4);
    let slices = if over.is_zero() { 1 } else { SLICES };
    let slice_len = lines.len().div_ceil(slices as usize).max(1);
    let mut ticks = tokio::time::interval((over / slices).max(Duration::from_millis(1)));
    let mut partition = 0;
    for slice in lines.chunks(slice_len) {
        ticks.tick().await;
        for line in slice {
            writer.append(partition, now_ms(), None, Some(line.as_bytes()))?;
            partition = (partition + 1) % PARTITIONS;
        }
        writer.flush().await?;
        fed.fetch_add(slice.len(), Ordering::Relaxed);
    }
    Ok(())
}

/// Record timestamps are the time of loading, as with any producer that sets none.
fn now_ms() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
