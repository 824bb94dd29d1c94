//! What our client does in a process of its own: the same as the peers' programs, with the same options.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use millstream_protocol::producer::BatchId;
use millstream_protocol::records::{
    Appended, BatchBuilder, Compression, DecodeLimits, Decompressor, SealedBatch,
};
use millstream_protocol::{IsolationLevel, TopicPartition};
use millstream_protocol_client::{
    ClientConfig, Committing, FetchEvent, FetchStart, KafkaClient, Producer, ProducerRecord,
};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::values::{Outcome, Tally, Values};
use crate::BenchError;

/// A reader that gets nothing for this long has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Verb {
    /// Read every record by view.
    Consume,
    /// Write record by record.
    Produce,
    /// Write batches that are filled by the caller.
    ProduceBatches,
}

/// One run of our client.
#[derive(Debug, Args)]
pub(crate) struct ClientArguments {
    verb: Verb,
    #[arg(long)]
    bootstrap_server: String,
    #[arg(long)]
    topic: String,
    #[arg(long, default_value_t = 1)]
    partitions: i32,
    #[arg(long)]
    records: u64,
    #[arg(long, default_value = "none")]
    codec: Compression,
    #[arg(long, default_value_t = 100)]
    value_size: usize,
    /// Bytes of a batch before compression; default the client's own
    #[arg(long)]
    batch_size: Option<u32>,
    /// Properties of the client, name=value
    #[arg(short = 'X')]
    properties: Vec<String>,
    /// Write in transactions that are committed this often (milliseconds)
    #[arg(long)]
    commit_interval_ms: Option<u64>,
}

/// Runs it and prints the outcome as one line of JSON.
pub(crate) fn run(arguments: &ClientArguments) -> Result<(), BenchError> {
    // One thread: what the reader works on was just received by the same core.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(async {
        let mut config = ClientConfig::new(&arguments.bootstrap_server);
        config.linger = Duration::from_millis(5);
        config.compression_type = arguments.codec;
        config.batch_size = arguments.batch_size.unwrap_or(config.batch_size);
        let config = config.with(&arguments.properties)?;
        let client = KafkaClient::connect(config).await?;
        let outcome = match arguments.verb {
            Verb::Consume => consume(arguments, &client).await?,
            Verb::Produce => produce(arguments, &client).await?,
            Verb::ProduceBatches => produce_batches(arguments, &client).await?,
        };
        client.close().await;
        Ok::<_, BenchError>(outcome)
    })?;
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, &outcome)?;
    Ok(())
}

async fn consume(arguments: &ClientArguments, client: &KafkaClient) -> Result<Outcome, BenchError> {
    let starts = (0..arguments.partitions)
        .map(|partition| FetchStart {
            topic_partition: TopicPartition::new(arguments.topic.as_str(), partition),
            offset: 0,
            leader_epoch: -1,
        })
        .collect();
    let mut consumer =
        client.partition_consumer(starts, IsolationLevel::ReadCommitted, Arc::new(|| ()));
    let limits = DecodeLimits::default();
    let mut decompressor = Decompressor::new();
    let mut tally = Tally::default();
    let mut began = None;
    while tally.records < arguments.records {
        let event = timeout(PATIENCE, consumer.next()).await?.ok_or("the client was closed")?;
        let fetched = match event {
            FetchEvent::Records(fetched) => fetched,
            FetchEvent::Progress { .. } => continue,
            FetchEvent::Failed { error, .. } => return Err(error.into()),
        };
        began.get_or_insert_with(Instant::now);
        let mut batches = fetched.visible_batches(limits).with_decompressor(decompressor);
        for batch in batches.by_ref() {
            let Some(block) = batch?.records else { continue };
            for record in &block {
                tally.add(record?.value.unwrap_or_default());
            }
        }
        decompressor = batches.into_decompressor();
    }
    Ok(tally.outcome(began.map_or(0.0, |began| began.elapsed().as_secs_f64())))
}

async fn produce(arguments: &ClientArguments, client: &KafkaClient) -> Result<Outcome, BenchError> {
    let id = format!("bench-{}", std::process::id());
    let interval = arguments.commit_interval_ms.map(Duration::from_millis);
    let producer = client.record_producer(interval.map(|_| id.as_str()));
    producer.prepare(&arguments.topic).await?;
    if interval.is_some() {
        producer.init_transactions().await?;
        producer.begin_transaction().await?;
    }
    let values = Values::new(arguments.value_size);
    let mut tally = Tally::default();
    let began = Instant::now();
    let mut committed = began;
    let mut committing: Option<Committing> = None;
    for n in 0..arguments.records {
        let value = values.at(n);
        tally.add(value);
        // What becomes of it is told by the flush at the end.
        producer.send(&ProducerRecord::to(&arguments.topic, value)).await?;
        if let Some(interval) = interval
            && n % 256 == 0
            && committed.elapsed() >= interval
        {
            // The one before was over long ago, as a rule.
            if let Some(before) = committing.take() {
                before.wait().await?;
            }
            committing = Some(producer.commit_and_begin_transaction()?);
            committed = Instant::now();
        }
    }
    if interval.is_some() {
        // Waits for the one before by itself.
        producer.commit_transaction().await?;
    } else {
        producer.flush().await?;
    }
    Ok(tally.outcome(began.elapsed().as_secs_f64()))
}

/// Batches that were acknowledged, for their memory.
type Spare = Arc<Mutex<Vec<SealedBatch>>>;

async fn produce_batches(
    arguments: &ClientArguments,
    client: &KafkaClient,
) -> Result<Outcome, BenchError> {
    let producer = client.producer(None);
    let room = Arc::new(Notify::new());
    let on_room = Arc::clone(&room);
    producer.on_capacity(Arc::new(move || on_room.notify_one()));
    let spare = Spare::default();
    let acknowledged = Arc::clone(&spare);
    producer.on_delivery(Arc::new(move |delivery| {
        // A failed one is told by the flush.
        acknowledged.lock().unwrap_or_else(PoisonError::into_inner).push(delivery.batch);
    }));
    let values = Values::new(arguments.value_size);
    let batch_bytes = usize::try_from(client.config().batch_size)?;
    let mut builder = BatchBuilder::new(arguments.codec, batch_bytes);
    let mut sent = 0;
    let mut tally = Tally::default();
    let began = Instant::now();
    let mut timestamp = wall_clock_ms()?;
    for n in 0..arguments.records {
        let value = values.at(n);
        tally.add(value);
        while builder.append(timestamp, None, Some(value), &[])? == Appended::Full {
            hand_over(arguments, &producer, &mut builder, &spare, &mut sent)?;
            while !producer.has_capacity(0) {
                room.notified().await;
            }
            // The batch goes out while it is still in the cache.
            tokio::task::yield_now().await;
            timestamp = wall_clock_ms()?;
        }
    }
    hand_over(arguments, &producer, &mut builder, &spare, &mut sent)?;
    producer.flush(0).await?;
    Ok(tally.outcome(began.elapsed().as_secs_f64()))
}

/// Batches go to the partitions in turn.
fn hand_over(
    arguments: &ClientArguments,
    producer: &Producer,
    builder: &mut BatchBuilder,
    spare: &Spare,
    sent: &mut u64,
) -> Result<(), BenchError> {
    if let Some(acknowledged) = spare.lock().unwrap_or_else(PoisonError::into_inner).pop() {
        builder.recycle(acknowledged);
    }
    if let Some(batch) = builder.build()? {
        let partition = i32::try_from(*sent % u64::from(arguments.partitions.unsigned_abs()))?;
        let target = TopicPartition::new(arguments.topic.as_str(), partition);
        producer.send_reported_batch(target, batch, 0, BatchId(*sent), tokio::time::Instant::now());
        *sent += 1;
    }
    Ok(())
}

fn wall_clock_ms() -> Result<i64, BenchError> {
    Ok(i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?)
}
