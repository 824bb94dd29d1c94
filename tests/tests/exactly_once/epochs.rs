//! More checkpoints than a producer has epochs: 32,767 of them, and the transactional id stays the same.

use std::time::{Duration, Instant};

use millstream_engine::Job;
use millstream_engine::api::{StreamExecutionEnvironment, fold};
use millstream_engine::kafka::{ClientConfig, KafkaSink, KafkaSource, OffsetsInitializer};
use millstream_engine::time::WatermarkStrategy;
use millstream_testcontainers::{KafkaCluster, real_kafka_or_skip};
use millstream_tests::flights::{Query, SteadyFeed};
use millstream_tests::wait::wait_until;

use crate::stage::{Stage, setting};

#[test]
#[ignore = "takes minutes"]
fn epochs_run_out_with_transaction_version_2() {
    run_out(2);
}

#[test]
#[ignore = "takes minutes"]
fn epochs_run_out_with_transaction_version_0() {
    run_out(0);
}

fn run_out(level: u16) {
    let name = format!("epochs run out TV{level}");
    if !real_kafka_or_skip(&name) {
        return;
    }
    let checkpoints = setting("MILLSTREAM_CHECKPOINTS", 33_500);
    let stage = Stage::new(KafkaCluster::builder().transaction_version(level), Query::Q1);
    let bootstrap = stage.cluster.bootstrap_servers();
    let feed = SteadyFeed::start(&bootstrap, &stage.input, 4, Duration::from_millis(1));
    let state = tempfile::tempdir().expect("a folder");
    let start = |bounded: bool| {
        let kafka = ClientConfig::new(&bootstrap);
        let source = KafkaSource::new(kafka.clone())
            .topics([&stage.input])
            .bounded(bounded.then(OffsetsInitializer::latest));
        let sink = KafkaSink::new(kafka).topic(&stage.output);
        let env = StreamExecutionEnvironment::new("epochs")
            .parallelism(1)
            .checkpoint_interval(Duration::from_millis(1));
        env.from_source(source.json::<serde_json::Value>(), WatermarkStrategy::no_watermarks())
            .uid("flights")
            .key_by(|_| 0_u32)
            .aggregate(fold(0_u64, |count: &mut u64, _| *count += 1))
            .uid("count")
            .map(|count| count.value)
            .sink_to(sink.json_with_key(|_: &u64| "count".to_owned()));
        Job::new(env, state.path()).expect("a job").start().expect("a started job")
    };
    let begun = Instant::now();
    let job = start(false);
    let monitor = job.monitor();
    wait_until("so many checkpoints", Duration::from_secs(3600), || {
        job.is_finished() || monitor.snapshot().committed >= checkpoints
    });
    assert!(!job.is_finished(), "{:?}", job.wait());
    let lines = feed.stop();
    job.stop();
    job.wait().expect("a clean end");
    let snapshot = monitor.snapshot();
    println!(
        "{name}: {} checkpoints, {} rollbacks in {:?}",
        snapshot.committed,
        snapshot.rollbacks,
        begun.elapsed()
    );
    start(true).wait().expect("the rest");
    let mut counts: Vec<usize> = stage
        .read_output()
        .into_iter()
        .map(|record| record.value.unwrap_or_default().parse().expect("a count"))
        .collect();
    counts.sort_unstable();
    assert!(counts.into_iter().eq(1..=lines.len()), "{name}: a count is lost or doubled");
    stage.assert_nothing_open();
}
