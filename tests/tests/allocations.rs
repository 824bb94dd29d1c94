//! Counts heap allocations per record: on the engine's raw path (Kafka source → filter → Kafka sink, exactly once), in a
//! reader of record views, and in a writer of slices.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail as tests do"
)]
#![expect(unsafe_code, reason = "a global allocator that counts can not be written without it")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millstream_dev_broker::{DevBroker, DevBrokerConfig};
use millstream_engine::Job;
use millstream_engine::api::StreamExecutionEnvironment;
use millstream_engine::kafka::{
    ClientConfig, Compression, KafkaClient, KafkaSink, KafkaSource, NewTopic, OffsetsInitializer,
    TopicWriter,
};
use millstream_engine::time::WatermarkStrategy;
use millstream_protocol::records::{DecodeLimits, Decompressor};
use millstream_protocol::{IsolationLevel, TopicPartition};
use millstream_protocol_client::{FetchEvent, FetchStart, ProducerRecord};
use tokio::runtime::Runtime;

/// Allocations of all threads that are not the broker's.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The broker would be another process outside a test.
    static BROKER: Cell<bool> = const { Cell::new(false) };
}

struct Counting;

// SAFETY: every call is passed on unchanged to the system's allocator, which keeps the contract; the counter and the
// thread-local flag (const-initialised, without a destructor) allocate nothing themselves.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises about `layout` are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `System` with this layout, as every allocation here does.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: as for `dealloc`; the caller's promises about `new_size` are passed on.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count() {
    if !BROKER.with(Cell::get) {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

/// Less than one allocation per hundred records; the rest is per fetch, per batch and per checkpoint.
const LIMIT: f64 = 0.01;
const FEW: i32 = 100_000;

/// The counter is one for all threads: one test at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Holds `allocations(address, records)`, which works on `records` records, to the limit per record. What is needed once
/// drops out.
fn hold_to_the_limit(name: &str, many: i32, allocations: impl Fn(&str, i32) -> u64) {
    let _only_us = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let broker_runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .on_thread_start(|| BROKER.with(|broker| broker.set(true)))
        .enable_all()
        .build()
        .expect("a runtime");
    let config = DevBrokerConfig { listen: "127.0.0.1:0".to_owned(), ..DevBrokerConfig::default() };
    let broker = broker_runtime
        .block_on(broker_runtime.spawn(async { DevBroker::start(config) }))
        .expect("the broker's task")
        .expect("a broker");
    let address = broker.address().to_string();
    let (of_few, of_many) = (allocations(&address, FEW), allocations(&address, many));
    let per_record = (of_many as f64 - of_few as f64) / f64::from(many - FEW);
    println!(
        "{name}: {per_record:.5} heap allocations per record \
         ({of_few} for {FEW} records, {of_many} for {many})"
    );
    assert!(per_record < LIMIT, "{per_record} allocations per record, must be below {LIMIT}");
}

#[test]
fn the_raw_path_allocates_nothing_per_record() {
    hold_to_the_limit("raw source -> filter -> sink", 1_100_000, |address, records| {
        allocations_of_a_job(address, &format!("job-{records}"), records)
    });
}

#[test]
fn consuming_by_view_allocates_nothing_per_record() {
    hold_each_codec_to_the_limit("consume by view", allocations_of_a_reader);
}

#[test]
fn producing_by_slice_allocates_nothing_per_record() {
    hold_each_codec_to_the_limit("produce by slice", allocations_of_a_writer);
}

fn hold_each_codec_to_the_limit(name: &str, allocations: fn(&str, &str, Compression, i32) -> u64) {
    for compression in [Compression::None, Compression::Lz4] {
        hold_to_the_limit(&format!("{name}, {compression}"), 600_000, |address, records| {
            allocations(address, &format!("topic-{records}"), compression, records)
        });
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime")
}

/// Writes `records` records of 100 bytes to a new topic of two partitions, with short keys.
async fn fill(client: &KafkaClient, topic: &str, compression: Compression, records: i32) {
    client.create_topic(NewTopic::new(topic, 2, 1)).await.expect("a topic");
    let mut writer = TopicWriter::new(client, topic, compression);
    for record in 0..records {
        let value = format!("{record:0>100}");
        let key = record.to_string();
        writer
            .append(record % 2, 0, Some(key.as_bytes()), Some(value.as_bytes()))
            .expect("a record that fits");
        if record % 20_000 == 0 {
            writer.flush().await.expect("acknowledged");
        }
    }
    writer.flush().await.expect("acknowledged");
}

fn allocations_of_a_reader(
    address: &str,
    topic: &str,
    compression: Compression,
    records: i32,
) -> u64 {
    runtime().block_on(async {
        let client = KafkaClient::connect(ClientConfig::new(address)).await.expect("a client");
        fill(&client, topic, compression, records).await;
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        let start = |partition| FetchStart {
            topic_partition: TopicPartition::new(topic, partition),
            offset: 0,
            leader_epoch: -1,
        };
        let starts = vec![start(0), start(1)];
        let mut consumer =
            client.partition_consumer(starts, IsolationLevel::ReadCommitted, Arc::new(|| ()));
        let mut decompressor = Decompressor::new();
        let (mut seen, mut bytes) = (0, 0);
        while seen < records {
            let event = consumer.next().await.expect("the client is open");
            let FetchEvent::Records(fetched) = event else { continue };
            let mut batches =
                fetched.visible_batches(DecodeLimits::default()).with_decompressor(decompressor);
            for batch in batches.by_ref() {
                let Some(block) = batch.expect("a batch in order").records else { continue };
                for record in &block {
                    seen += 1;
                    bytes += record.expect("a record in order").value.map_or(0, <[u8]>::len);
                }
            }
            decompressor = batches.into_decompressor();
        }
        assert_eq!(bytes, 100 * seen as usize);
        let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
        client.close().await;
        allocations
    })
}

fn allocations_of_a_writer(
    address: &str,
    topic: &str,
    compression: Compression,
    records: i32,
) -> u64 {
    runtime().block_on(async {
        let mut config = ClientConfig::new(address);
        config.compression_type = compression;
        let client = KafkaClient::connect(config).await.expect("a client");
        client.create_topic(NewTopic::new(topic, 2, 1)).await.expect("a topic");
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        let producer = client.record_producer(None);
        let mut value = [b'v'; 100];
        for record in 0..records {
            let (number, _) = value.split_at_mut(4);
            number.copy_from_slice(&record.to_be_bytes());
            producer.send(&ProducerRecord::to(topic, &value)).await.expect("taken");
        }
        producer.close().await.expect("acknowledged");
        let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
        client.close().await;
        allocations
    })
}

/// Runs the job over `records` records and gives the allocations of that time.
fn allocations_of_a_job(address: &str, name: &str, records: i32) -> u64 {
    let (input, output) = (format!("{name}-in"), format!("{name}-out"));
    runtime().block_on(async {
        let client = KafkaClient::connect(ClientConfig::new(address)).await.expect("a client");
        fill(&client, &input, Compression::Lz4, records).await;
        client.create_topic(NewTopic::new(&output, 2, 1)).await.expect("a topic");
        client.close().await;
    });

    let before = ALLOCATIONS.load(Ordering::Relaxed);
    let state = tempfile::tempdir().expect("a folder");
    let config = ClientConfig::new(address);
    let source = KafkaSource::new(config.clone())
        .topics([&input])
        .bounded(OffsetsInitializer::latest())
        .raw();
    let sink = KafkaSink::new(config).topic(&output).raw();
    let env = StreamExecutionEnvironment::new(format!("allocations-{name}"))
        .parallelism(2)
        .checkpoint_interval(Duration::from_millis(100));
    env.from_raw_source(source, WatermarkStrategy::no_watermarks())
        .filter(|record| {
            record.value.is_some_and(|value| value.ends_with(b"0") || !value.is_empty())
        })
        .sink_to(sink);
    let handle = Job::new(env, state.path()).expect("a job").start().expect("a thread");
    let monitor = handle.monitor();
    handle.wait().expect("the job ends well");
    assert_eq!(monitor.snapshot().records_out, u64::from(records.unsigned_abs()));
    ALLOCATIONS.load(Ordering::Relaxed) - before
}
