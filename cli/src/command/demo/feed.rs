//! Loads the flight events into the input topic, spread over a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use millstream_engine::kafka::{Compression, KafkaClient, TopicWriter};

use crate::command::CommandError;
use crate::input::now_ms;

/// Partitions of the demo's topics.
pub(crate) const PARTITIONS: i32 = 4;

/// Slices into which a load is cut: short enough that every kill and every checkpoint finds the job at work.
const SLICES: usize = 200;

/// How many events have been written and acknowledged so far.
pub(crate) type Fed = Arc<AtomicUsize>;

/// Writes `lines` to `topic`, spread over its partitions in turn; the last of them no sooner than after `over`.
pub(crate) async fn feed(
    client: &KafkaClient,
    topic: &str,
    lines: &[Vec<u8>],
    over: Duration,
    fed: &Fed,
) -> Result<(), CommandError> {
    let mut writer = TopicWriter::new(client, topic, Compression::Lz4);
    let slice_len = lines.len().div_ceil(SLICES).max(1);
    let slices = u32::try_from(lines.len().div_ceil(slice_len)).unwrap_or(u32::MAX).max(1);
    let mut ticks = tokio::time::interval((over / slices).max(Duration::from_millis(1)));
    // The first tick is at once: a slice goes at the end of its part of the time, and input remains until the end.
    ticks.tick().await;
    let mut partition = 0;
    for slice in lines.chunks(slice_len) {
        ticks.tick().await;
        for line in slice {
            writer.append(partition, now_ms(), None, Some(line))?;
            partition = (partition + 1) % PARTITIONS;
        }
        writer.flush().await?;
        fed.fetch_add(slice.len(), Ordering::Relaxed);
    }
    Ok(())
}
