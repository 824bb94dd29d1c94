//! SIGKILL at random moments while the year is fed.

use std::time::{Duration, Instant};

use millstream_testcontainers::{KafkaCluster, real_kafka_or_skip};
use millstream_tests::flights::{Feed, Query, input_lines};

use millstream_tests::random::Random;

use crate::stage::{BOUNDED_LIMIT, Stage, setting};

// CI runs one test for each pair of a query and a number of brokers, with either transaction version; `--include-ignored` runs all.

#[test]
fn q1_survives_kills_on_one_broker_with_transaction_version_2() {
    killed_at_random(Query::Q1, 1, 2);
}

#[test]
fn q2_survives_kills_on_one_broker_with_transaction_version_0() {
    killed_at_random(Query::Q2, 1, 0);
}

#[test]
fn q2_survives_kills_on_three_brokers_with_transaction_version_2() {
    killed_at_random(Query::Q2, 3, 2);
}

#[test]
fn q1_survives_kills_on_three_brokers_with_transaction_version_0() {
    killed_at_random(Query::Q1, 3, 0);
}

#[test]
#[ignore = "the other half of the matrix"]
fn q1_survives_kills_on_one_broker_with_transaction_version_0() {
    killed_at_random(Query::Q1, 1, 0);
}

#[test]
#[ignore = "the other half of the matrix"]
fn q2_survives_kills_on_one_broker_with_transaction_version_2() {
    killed_at_random(Query::Q2, 1, 2);
}

#[test]
#[ignore = "the other half of the matrix"]
fn q2_survives_kills_on_three_brokers_with_transaction_version_0() {
    killed_at_random(Query::Q2, 3, 0);
}

#[test]
#[ignore = "the other half of the matrix"]
fn q1_survives_kills_on_three_brokers_with_transaction_version_2() {
    killed_at_random(Query::Q1, 3, 2);
}

/// Feeds the year over a time, kills the job at random moments meanwhile, then stops it, goes on with `--bounded`, and checks.
fn killed_at_random(query: Query, brokers: usize, transaction_version: u16) {
    let name = &format!("{} {brokers} brokers TV{transaction_version}", query.name());
    let builder = KafkaCluster::builder().brokers(brokers).transaction_version(transaction_version);
    if !real_kafka_or_skip(name) {
        return;
    }
    let kills = setting("MILLSTREAM_KILLS", 8);
    let feed_time = Duration::from_secs(setting("MILLSTREAM_FEED_SECONDS", 15));
    let mut random = Random::from_environment(name);
    let stage = Stage::new(builder, query);
    let lines = input_lines();
    let inputs = lines.len();
    let begun = Instant::now();
    let feed = Feed::start(&stage.cluster.bootstrap_servers(), &stage.input, lines, feed_time);
    let mut job = stage.command().start(false);
    for kill in 0..kills {
        // One random moment in each of `kills` equal parts of the time; a start that takes longer than its part shifts the rest.
        let part = feed_time.mul_f64(0.95) / u32::try_from(kills).expect("few kills");
        let at = begun
            + part * u32::try_from(kill).expect("few kills")
            + random.time(Duration::ZERO..part);
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        job.kill();
        job = stage.command().start(false);
    }
    let left = feed.is_running();
    feed.finish();
    job.stop();
    stage.command().run_bounded(BOUNDED_LIMIT);
    println!("{name}: {kills} kills in {:?}, input left at the last: {left}", begun.elapsed());

    assert_eq!(stage.check(inputs), Ok(()), "{name}");
    stage.assert_nothing_open();

    // A finished run started again with --bounded ends at once, without it by a named error.
    let again = Instant::now();
    stage.command().run_bounded(Duration::from_secs(10));
    assert!(again.elapsed() < Duration::from_secs(5), "a finished run took {:?}", again.elapsed());
    let mut unbounded = stage.command().start(false);
    assert_eq!(unbounded.exit_code(Duration::from_secs(15)), 73);
    assert!(unbounded.output().contains("has finished"), "{}", unbounded.output());
}
