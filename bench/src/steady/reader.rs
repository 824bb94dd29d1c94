//! Reads committed records of a topic from its beginning, and notes when each was seen.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use millstream_engine::kafka::{ClientConfig, IsolationLevel, KafkaClient, TopicPartition};
use millstream_protocol::records::{DecodeLimits, Decompressor};
use millstream_protocol_client::{FetchEvent, FetchStart};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{PARTITIONS, stamp_of};
use crate::BenchError;

/// A record as it was seen; times count from the reader's origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) number: u64,
    /// When it was handed to the producer.
    pub(crate) stamped: Duration,
    pub(crate) seen: Duration,
}

#[derive(Debug, Default)]
struct Shared {
    // Guards what the reading task appends to once a fetch.
    seen: Mutex<Vec<Seen>>,
    arrived: Notify,
}

/// A reader at work. Ends when dropped.
pub(crate) struct Reader {
    shared: Arc<Shared>,
    task: JoinHandle<Result<(), BenchError>>,
}

impl Reader {
    pub(crate) async fn start(
        bootstrap_server: &str,
        topic: &str,
        origin: Instant,
    ) -> Result<Self, BenchError> {
        let client = KafkaClient::connect(ClientConfig::new(bootstrap_server)).await?;
        let shared = Arc::new(Shared::default());
        let task = tokio::spawn(read(client, topic.to_owned(), origin, Arc::clone(&shared)));
        Ok(Self { shared, task })
    }

    /// What was seen so far, in the order in which it was.
    pub(crate) fn seen(&self) -> MutexGuard<'_, Vec<Seen>> {
        self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `condition` holds of what was seen so far.
    pub(crate) async fn until(
        &mut self,
        what: &str,
        limit: Duration,
        mut condition: impl FnMut(&[Seen]) -> bool,
    ) -> Result<(), BenchError> {
        let shared = Arc::clone(&self.shared);
        let waiting = async {
            loop {
                if condition(&shared.seen.lock().unwrap_or_else(PoisonError::into_inner)) {
                    return Ok::<(), BenchError>(());
                }
                tokio::select! {
                    () = shared.arrived.notified() => {}
                    ended = &mut self.task => {
                        ended??;
                        return Err("the reader has ended".into());
                    }
                }
            }
        };
        timeout(limit, waiting).await.unwrap_or_else(|_| {
            let seen = shared.seen.lock().unwrap_or_else(PoisonError::into_inner).len();
            Err(format!("waited {limit:?} for {what}; {seen} records were seen").into())
        })
    }

    /// An error unless each of the first `end` numbers was seen once, and no other.
    pub(crate) fn exactly_once(&self, end: u64) -> Result<(), BenchError> {
        let mut counts = vec![0_u32; usize::try_from(end)?];
        for seen in self.seen().iter() {
            let count = counts.get_mut(usize::try_from(seen.number)?);
            *count.ok_or_else(|| format!("record {} was never written", seen.number))? += 1;
        }
        let lost = counts.iter().filter(|count| **count == 0).count();
        let doubled = counts.iter().filter(|count| **count > 1).count();
        if lost + doubled > 0 {
            return Err(format!("of {end} records {lost} were lost, {doubled} doubled").into());
        }
        Ok(())
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn read(
    client: KafkaClient,
    topic: String,
    origin: Instant,
    shared: Arc<Shared>,
) -> Result<(), BenchError> {
    let starts = (0..PARTITIONS)
        .map(|partition| FetchStart {
            topic_partition: TopicPartition::new(topic.as_str(), partition),
            offset: 0,
            leader_epoch: -1,
        })
        .collect();
    let mut consumer =
        client.partition_consumer(starts, IsolationLevel::ReadCommitted, Arc::new(|| ()));
    let mut decompressor = Decompressor::new();
    loop {
        let fetched = match consumer.next().await.ok_or("the client was closed")? {
            FetchEvent::Records(fetched) => fetched,
            FetchEvent::Progress { .. } => continue,
            FetchEvent::Failed { error, .. } => return Err(error.into()),
        };
        let now = origin.elapsed();
        let mut batches =
            fetched.visible_batches(DecodeLimits::default()).with_decompressor(decompressor);
        {
            let mut seen = shared.seen.lock().unwrap_or_else(PoisonError::into_inner);
            for batch in batches.by_ref() {
                let Some(block) = batch?.records else { continue };
                for record in &block {
                    let value = record?.value.unwrap_or_default();
                    let (number, stamped) = stamp_of(value).ok_or("a record without a stamp")?;
                    seen.push(Seen { number, stamped, seen: now });
                }
            }
        }
        decompressor = batches.into_decompressor();
        shared.arrived.notify_one();
    }
}
