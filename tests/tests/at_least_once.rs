//! Sinks that write at least once: jobs in this process, on the development broker.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use millstream_dev_broker::{FaultAction, FaultRule, Occurrence};
use millstream_engine::api::{RestartStrategy, StreamExecutionEnvironment};
use millstream_engine::kafka::{
    ClientConfig, DeliveryGuarantee, KafkaSink, KafkaSource, OffsetsInitializer,
};
use millstream_engine::time::WatermarkStrategy;
use millstream_engine::{Job, JobHandle};
use millstream_protocol::{ApiKey, ErrorCode, Request};
use millstream_tests::LocalBroker;
use millstream_tests::wait::wait_until;

const LIMIT: Duration = Duration::from_secs(30);
const NUMBERS: u64 = 400;

/// Longer than a test takes.
const NO_COMMIT: Duration = Duration::from_secs(20);

fn broker() -> LocalBroker {
    let broker = LocalBroker::start();
    broker.create_topic("numbers", 1);
    broker.create_topic("out", 1);
    let texts: Vec<String> = (0..NUMBERS).map(|number| number.to_string()).collect();
    let values: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
    broker.write("numbers", 0, &values);
    broker
}

/// Copies the numbers in small batches; `function` sees each.
fn start(
    broker: &LocalBroker,
    state: &Path,
    bounded: bool,
    interval: Duration,
    guarantee: DeliveryGuarantee,
    function: impl Fn(u64) -> u64 + Clone + Send + 'static,
) -> JobHandle {
    let kafka = ClientConfig::new(broker.address());
    let source = KafkaSource::new(kafka.clone())
        .topics(["numbers"])
        .bounded(bounded.then(OffsetsInitializer::latest));
    let sink = KafkaSink::new(kafka.with(["batch.size=128"]).unwrap())
        .topic("out")
        .delivery_guarantee(guarantee);
    let env = StreamExecutionEnvironment::new("copy")
        .parallelism(1)
        .checkpoint_interval(interval)
        .restart_strategy(RestartStrategy::fixed_delay(3, Duration::from_millis(10)));
    env.from_source(source.json::<u64>(), WatermarkStrategy::no_watermarks())
        .map(function)
        .sink_to(sink.json_with_key(|_: &u64| "number".to_owned()));
    Job::new(env, state).unwrap().start().unwrap()
}

/// How often each number was written.
fn counts(broker: &LocalBroker) -> BTreeMap<u64, u32> {
    let mut counts = BTreeMap::new();
    for record in broker.read("out", 1) {
        *counts.entry(record.value.unwrap().parse().unwrap()).or_insert(0) += 1;
    }
    counts
}

#[test]
fn output_is_seen_before_its_checkpoint_is_committed_unless_it_is_written_exactly_once() {
    for guarantee in [DeliveryGuarantee::AtLeastOnce, DeliveryGuarantee::ExactlyOnce] {
        let (broker, state) = (broker(), tempfile::tempdir().unwrap());
        let handle = start(&broker, state.path(), false, NO_COMMIT, guarantee, |number| number);
        let monitor = handle.monitor();
        wait_until("all numbers are read", LIMIT, || monitor.snapshot().records_out == NUMBERS);
        if guarantee == DeliveryGuarantee::AtLeastOnce {
            wait_until("full batches are seen", LIMIT, || counts(&broker).len() > 300);
        } else {
            assert_eq!(counts(&broker), BTreeMap::new());
        }
        assert_eq!(monitor.snapshot().committed, 0);
        handle.stop();
        handle.wait().unwrap();
        let all: BTreeMap<u64, u32> = (0..NUMBERS).map(|number| (number, 1)).collect();
        assert_eq!(counts(&broker), all, "{guarantee:?}");
        // What is committed is not written again.
        let again = start(&broker, state.path(), true, NO_COMMIT, guarantee, |number| number);
        again.wait().unwrap();
        assert_eq!(counts(&broker), all, "{guarantee:?}");
    }
}

#[test]
fn after_a_failure_everything_since_the_last_commit_is_written_again_and_nothing_is_lost() {
    let (broker, state) = (broker(), tempfile::tempdir().unwrap());
    let failures = Arc::new(AtomicU64::new(0));
    let function = move |number| {
        if number == 350 && failures.fetch_add(1, Ordering::Relaxed) == 0 {
            panic!("350 is too much");
        }
        number
    };
    let guarantee = DeliveryGuarantee::AtLeastOnce;
    start(&broker, state.path(), true, NO_COMMIT, guarantee, function).wait().unwrap();
    let counts = counts(&broker);
    assert_eq!(counts.len() as u64, NUMBERS);
    let twice = counts.values().filter(|count| **count == 2).count();
    assert!(twice > 300 && counts.values().all(|count| *count <= 2), "{twice} twice");
}

#[test]
fn nothing_is_committed_before_the_brokers_have_acknowledged_the_output() {
    let (broker, state) = (broker(), tempfile::tempdir().unwrap());
    let refused = FaultAction::Error(ErrorCode::NOT_ENOUGH_REPLICAS);
    let writes_output = |request: &Request| match request {
        Request::Produce(produce) => produce.topics.iter().any(|topic| &*topic.topic == "out"),
        _ => false,
    };
    let rule = FaultRule::new(ApiKey::Produce, Occurrence::Every, refused).when(writes_output);
    broker.add_fault(rule);
    let interval = Duration::from_millis(20);
    let guarantee = DeliveryGuarantee::AtLeastOnce;
    let handle = start(&broker, state.path(), false, interval, guarantee, |number| number);
    let monitor = handle.monitor();
    wait_until("all numbers are read", LIMIT, || monitor.snapshot().records_out == NUMBERS);
    let ended = std::time::Instant::now() + 20 * interval;
    wait_until("some intervals have passed", LIMIT, || std::time::Instant::now() > ended);
    assert_eq!((monitor.snapshot().committed, counts(&broker).len()), (0, 0));
    broker.clear_faults();
    wait_until("the output is committed", LIMIT, || monitor.snapshot().committed > 0);
    assert_eq!(counts(&broker).len() as u64, NUMBERS);
    handle.stop();
    handle.wait().unwrap();
}
