//! Writes numbered and stamped records at a steady rate, or as fast as it goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use millstream_engine::kafka::{ClientConfig, KafkaClient, TopicPartition};
use millstream_protocol::records::{Appended, BatchBuilder, Compression};
use millstream_protocol_client::Producer;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::{KEY_BYTES, PARTITIONS, VALUE_BYTES, stamp};
use crate::BenchError;
use crate::clients::Values;

/// The records of one tick go to one partition, the next in turn: as a producer with a sticky partitioner does.
const TICK: Duration = Duration::from_millis(2);

/// Bytes of a batch that is written as fast as it goes.
const BATCH_BYTES: usize = 256 * 1024;

/// What the records are like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Records {
    /// How many different keys they have; without, they have none.
    pub(crate) keys: Option<u64>,
    /// The number of the first.
    pub(crate) first: u64,
}

/// A writer of one topic.
pub(crate) struct Feed {
    client: KafkaClient,
    producer: Producer,
    topic: Arc<str>,
    builder: BatchBuilder,
    values: Values,
    value: Vec<u8>,
    records: Records,
    next: u64,
    partition: i32,
    /// Records written to each partition.
    counts: [u64; PARTITIONS as usize],
    origin: Instant,
}

impl Feed {
    /// `origin`: where the stamps count from.
    pub(crate) async fn open(
        bootstrap_server: &str,
        topic: &str,
        records: Records,
        origin: Instant,
    ) -> Result<Self, BenchError> {
        let client = KafkaClient::connect(ClientConfig::new(bootstrap_server)).await?;
        Ok(Self {
            producer: client.producer(None),
            client,
            topic: topic.into(),
            builder: BatchBuilder::new(Compression::None, BATCH_BYTES),
            values: Values::new(VALUE_BYTES),
            value: Vec::new(),
            records,
            next: records.first,
            partition: 0,
            counts: [0; PARTITIONS as usize],
            origin,
        })
    }

    /// Writes `count` records as fast as the broker takes them.
    pub(crate) async fn write(mut self, count: u64) -> Result<(), BenchError> {
        const FLUSH_EVERY: u64 = 100_000;
        let end = self.next + count;
        while self.next < end {
            self.burst(2000.min(end - self.next))?;
            if self.next % FLUSH_EVERY < 2000 {
                self.producer.flush(0).await?;
            }
        }
        self.producer.flush(0).await?;
        self.client.close().await;
        Ok(())
    }

    /// Goes on writing `rate` records a second until it is told to stop.
    pub(crate) fn run(self, rate: u64) -> RunningFeed {
        let stop = Arc::new(AtomicBool::new(false));
        let written = Arc::new(AtomicU64::new(self.next));
        let task = tokio::spawn(self.keep_rate(rate, Arc::clone(&stop), Arc::clone(&written)));
        RunningFeed { stop, written, task }
    }

    async fn keep_rate(
        mut self,
        rate: u64,
        stop: Arc<AtomicBool>,
        written: Arc<AtomicU64>,
    ) -> Result<(), BenchError> {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let (begun, first) = (Instant::now(), self.next);
        while !stop.load(Ordering::Acquire) {
            tick.tick().await;
            let due = first + (begun.elapsed().as_secs_f64() * rate as f64) as u64;
            self.burst(due.saturating_sub(self.next))?;
            written.store(self.next, Ordering::Release);
        }
        self.producer.flush(0).await?;
        self.client.close().await;
        Ok(())
    }

    /// Hands over so many records of the next partition.
    fn burst(&mut self, count: u64) -> Result<(), BenchError> {
        if count == 0 {
            return Ok(());
        }
        let partition = self.partition;
        let target = TopicPartition::new(Arc::clone(&self.topic), partition);
        for _ in 0..count {
            let number = self.next;
            self.next += 1;
            stamp(&mut self.value, number, self.origin.elapsed(), self.values.at(number));
            let key = self.records.keys.map(|keys| self.next_key(keys));
            let key = key.as_ref().map(|key| key.as_slice());
            if self.builder.append(-1, key, Some(&self.value), &[])? == Appended::Full {
                if let Some(batch) = self.builder.build()? {
                    self.producer.send_batch(target.clone(), batch, 0);
                }
                self.builder.append(-1, key, Some(&self.value), &[])?;
            }
        }
        if let Some(batch) = self.builder.build()? {
            self.producer.send_batch(target, batch, 0);
        }
        self.partition = (partition + 1) % PARTITIONS;
        Ok(())
    }

    /// The keys of a partition in turn, in an order that no table likes. Every key belongs to one partition.
    fn next_key(&mut self, keys: u64) -> [u8; KEY_BYTES] {
        let partitions = u64::from(PARTITIONS.unsigned_abs());
        let partition = u64::from(self.partition.unsigned_abs());
        let count = self.counts.get_mut(self.partition.unsigned_abs() as usize);
        let count = count.map_or(0, |count| std::mem::replace(count, *count + 1));
        // A prime: no key comes twice before all others.
        let at = count.wrapping_mul(999_983) % (keys / partitions).max(1);
        let mut key = [0; KEY_BYTES];
        let text = format!("{:016x}", at * partitions + partition);
        for (to, from) in key.iter_mut().zip(text.bytes()) {
            *to = from;
        }
        key
    }
}

/// A feed at work.
pub(crate) struct RunningFeed {
    stop: Arc<AtomicBool>,
    written: Arc<AtomicU64>,
    task: JoinHandle<Result<(), BenchError>>,
}

impl RunningFeed {
    /// The number of the next record.
    pub(crate) fn next(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Ends it; gives the number behind the last record, all of which are acknowledged.
    pub(crate) async fn stop(self) -> Result<u64, BenchError> {
        self.stop.store(true, Ordering::Release);
        self.task.await??;
        Ok(self.written.load(Ordering::Acquire))
    }
}
