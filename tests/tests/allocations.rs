//! Counts heap allocations per record on the raw path: Kafka source → filter → Kafka sink, exactly once.
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
use std::time::Duration;

use millstream_dev_broker::{DevBroker, DevBrokerConfig};
use millstream_engine::Job;
use millstream_engine::api::StreamExecutionEnvironment;
use millstream_engine::kafka::{
    ClientConfig, Compression, KafkaClient, KafkaSink, KafkaSource, NewTopic, OffsetsInitializer,
    TopicWriter,
};
use millstream_engine::time::WatermarkStrategy;

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

#[test]
fn the_raw_path_allocates_nothing_per_record() {
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

    let (few, many) = (100_000, 1_100_000);
    let allocations_few = allocations_of_a_job(&address, "few", few);
    let allocations_many = allocations_of_a_job(&address, "many", many);
    let per_record = (allocations_many as f64 - allocations_few as f64) / f64::from(many - few);
    println!(
        "raw source -> filter -> sink: {per_record:.5} heap allocations per record \
         ({allocations_few} for {few} records, {allocations_many} for {many})"
    );
    assert!(per_record < LIMIT, "{per_record} allocations per record, must be below {LIMIT}");
}

/// Runs the job over `records` records and gives the allocations of that time.
fn allocations_of_a_job(address: &str, name: &str, records: i32) -> u64 {
    let (input, output) = (format!("{name}-in"), format!("{name}-out"));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let client = KafkaClient::connect(ClientConfig::new(address)).await.expect("a client");
        for topic in [&input, &output] {
            client.create_topic(NewTopic::new(topic, 2, 1)).await.expect("a topic");
        }
        let mut writer = TopicWriter::new(&client, &input, Compression::Lz4);
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
