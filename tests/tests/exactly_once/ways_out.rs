//! State and ledger that do not fit together, on a real broker: the named stop, and the way out where there is one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use millstream_engine::kafka::{
    Compression, KafkaClient, NewTopic, ReadUntil, TopicPartition, TopicWriter, read_topic,
};
use millstream_protocol_client::TransactionFilter;
use millstream_testcontainers::{FaultRule, KafkaCluster, Signal, api_key, real_kafka_or_skip};
use millstream_tests::copy_folder;
use millstream_tests::flights::{Feed, FlightsCommand, Query, SteadyFeed, input_lines};
use millstream_tests::wait::wait_until;

use crate::stage::{BOUNDED_LIMIT, Stage, wait_until_it_runs};

const LIMIT: Duration = Duration::from_secs(60);
const LEDGER: &str = "flights-q1.millstream-ledger";

/// Starts the job and expects it to stop with `code`, saying all of `words`.
fn assert_stops(command: &FlightsCommand, code: i32, words: &[&str]) {
    let mut job = command.start(false);
    assert_eq!(job.exit_code(LIMIT), code, "{}", job.output());
    for word in words {
        assert!(job.output().contains(word), "{word:?} is missing in:\n{}", job.output());
    }
}

/// Runs the job until it has some checkpoints, and stops it.
fn run_for_a_while(stage: &Stage, feed: &SteadyFeed) {
    let mut job = stage.command().start(false);
    wait_until_it_runs(&mut job);
    let written = feed.written();
    wait_until("more input", LIMIT, || feed.written() > written + 300);
    job.stop();
}

/// Runs the job with a resolution until it has gone on, and stops it; it has to say `word`.
fn resolve(stage: &Stage, feed: &SteadyFeed, command: &FlightsCommand, word: &str) {
    let mut job = command.start(false);
    wait_until_it_runs(&mut job);
    assert!(job.output().contains(word), "{word:?} is missing in:\n{}", job.output());
    let written = feed.written();
    wait_until("more input", LIMIT, || feed.written() > written + 100);
    job.stop();
    let _ = stage;
}

#[test]
fn a_deleted_ledger_is_adopted_from_the_state_directory() {
    if !real_kafka_or_skip("a deleted ledger") {
        return;
    }
    for level in [2, 0] {
        let stage = Stage::new(KafkaCluster::builder().transaction_version(level), Query::Q1);
        let bootstrap = stage.cluster.bootstrap_servers();
        let feed = SteadyFeed::start(&bootstrap, &stage.input, 10, Duration::from_millis(20));
        run_for_a_while(&stage, &feed);
        // While nothing is wrong the word is refused.
        let adopt = stage.command().argument("--adopt-local");
        assert_stops(&adopt, 73, &["--adopt-local does not apply", "start the job without it"]);
        run_for_a_while(&stage, &feed);

        let (runtime, client) = stage.client();
        runtime.block_on(client.delete_topic(LEDGER)).expect("a deleted topic");
        assert_stops(&stage.command(), 73, &[LEDGER, "does not exist", "--adopt-local"]);
        let rewind = stage.command().argument("--accept-rewind");
        let words = ["--accept-rewind does not apply", LEDGER, "does not exist", "--adopt-local"];
        assert_stops(&rewind, 73, &words);
        resolve(&stage, &feed, &adopt, "is taken as the truth");
        assert_stops(&adopt, 73, &["--adopt-local does not apply"]);
        run_for_a_while(&stage, &feed);

        let lines = feed.stop();
        stage.command().run_bounded(BOUNDED_LIMIT);
        assert_eq!(stage.check_totals(&lines), Ok(()), "TV{level}");
        stage.assert_nothing_open();
    }
}

#[test]
fn a_ledger_that_was_restored_older_is_adopted_from_the_state_directory() {
    if !real_kafka_or_skip("a restored ledger") {
        return;
    }
    let stage = Stage::new(KafkaCluster::builder(), Query::Q1);
    let bootstrap = stage.cluster.bootstrap_servers();
    let feed = SteadyFeed::start(&bootstrap, &stage.input, 10, Duration::from_millis(20));
    run_for_a_while(&stage, &feed);
    let (runtime, client) = stage.client();
    let older = runtime.block_on(last_record(&client));
    run_for_a_while(&stage, &feed);
    runtime.block_on(async {
        client.delete_topic(LEDGER).await.expect("a deleted topic");
        restore(&client, &older).await;
    });
    assert_stops(&stage.command(), 73, &[LEDGER, "created anew", "--adopt-local"]);
    let rewind = stage.command().argument("--accept-rewind");
    assert_stops(&rewind, 73, &["--accept-rewind does not apply", "created anew"]);
    let adopt = stage.command().argument("--adopt-local");
    resolve(&stage, &feed, &adopt, "is taken as the truth");
    run_for_a_while(&stage, &feed);
    let lines = feed.stop();
    stage.command().run_bounded(BOUNDED_LIMIT);
    assert_eq!(stage.check_totals(&lines), Ok(()));
    stage.assert_nothing_open();
}

/// The job was adopted onto a new ledger topic and runs; an old copy of its directory knows the topic that is gone. Whatever is
/// tried on the copy, the job that runs is left alone, and the only way out that is named works.
#[test]
fn a_copy_of_a_history_that_was_given_up_is_told_so_and_fences_nobody() {
    if !real_kafka_or_skip("a history that was given up") {
        return;
    }
    let stage = Stage::new(KafkaCluster::builder(), Query::Q1);
    let bootstrap = stage.cluster.bootstrap_servers();
    let feed = SteadyFeed::start(&bootstrap, &stage.input, 10, Duration::from_millis(20));
    run_for_a_while(&stage, &feed);
    let early = tempfile::tempdir().expect("a folder");
    copy_folder(stage.state.path(), early.path());
    run_for_a_while(&stage, &feed);
    let (runtime, client) = stage.client();
    runtime.block_on(client.delete_topic(LEDGER)).expect("a deleted topic");
    let mut job = stage.command().argument("--adopt-local").start(false);
    wait_until_it_runs(&mut job);

    let old = stage.command().state_dir(early.path());
    let adopt = old.clone().argument("--adopt-local");
    for (command, word) in
        [(&old, "Start it on the directory it ran with last"), (&adopt, "does not apply")]
    {
        let mut stopped = command.start(false);
        assert_eq!(stopped.exit_code(LIMIT), 73, "{}", stopped.output());
        for word in [word, "stale", "--accept-rewind"] {
            assert!(
                stopped.output().contains(word),
                "{word:?} is missing in:\n{}",
                stopped.output()
            );
        }
        assert!(!stopped.output().contains("created anew"), "{}", stopped.output());
    }
    let written = feed.written();
    wait_until("more input", LIMIT, || feed.written() > written + 300);
    assert!(!job.has_ended(), "{}", job.output());
    assert!(!job.output().contains("took over"), "it was fenced:\n{}", job.output());
    job.stop();
    let lines = feed.stop();
    stage.command().run_bounded(BOUNDED_LIMIT);
    assert_eq!(stage.check_totals(&lines), Ok(()));

    // The directory is lost: the way out that was named is one.
    let mut last = old.argument("--accept-rewind").start(true);
    assert_eq!(last.exit_code(BOUNDED_LIMIT), 0, "{}", last.output());
    assert!(last.output().contains("exactly-once for the output behind"), "{}", last.output());
    stage.assert_nothing_open();
}

/// A process on a copy from checkpoint 0 stands still between its look and its fence; meanwhile the job runs elsewhere, and the
/// topic is deleted and made anew. To that process the ledger looks as if the job had never run.
#[test]
fn a_ledger_made_anew_between_look_and_fence_stops_a_process_that_has_no_checkpoint() {
    if !real_kafka_or_skip("a ledger made anew before the fence") {
        return;
    }
    let stage = Stage::new(KafkaCluster::builder().fault_proxy(), Query::Q1);
    let lines: Vec<String> = input_lines().into_iter().take(3000).collect();
    Feed::all(&stage.cluster.direct_bootstrap_servers(), &stage.input, lines.clone());
    // META of checkpoint 0 knows the topic's id, the ledger holds nothing.
    let mut begun = stage.command().environment("MILLSTREAM_CRASH_AT", "FirstMeta").start(false);
    begun.expect_exit(134, LIMIT);
    let copy = tempfile::tempdir().expect("a folder");
    copy_folder(stage.state.path(), copy.path());

    let proxy = stage.cluster.proxy(0).expect("a proxy");
    let fence = proxy.add_rule(FaultRule::requests(api_key::INIT_PRODUCER_ID).times(1).hold());
    let mut late = stage.command().state_dir(copy.path()).start(true);
    assert!(fence.blocking_wait_for(1, LIMIT), "no InitProducerId:\n{}", late.output());
    stage.command().run_bounded(BOUNDED_LIMIT);
    let (runtime, client) = stage.client();
    runtime.block_on(async {
        client.delete_topic(LEDGER).await.expect("a deleted topic");
        client.create_topic(ledger_topic()).await.expect("a topic");
    });
    assert!(!late.has_ended(), "it did not wait for its fence:\n{}", late.output());
    fence.release();

    late.expect_exit(73, LIMIT);
    for word in [LEDGER, "created anew", "--adopt-local"] {
        assert!(late.output().contains(word), "{word:?} is missing in:\n{}", late.output());
    }
    assert_eq!(stage.check_totals(&lines), Ok(()));
    stage.assert_nothing_open();
}

/// Key and value of the ledger's last record.
async fn last_record(client: &KafkaClient) -> (Vec<u8>, Vec<u8>) {
    let starts = BTreeMap::from([(TopicPartition::new(LEDGER, 0), 0)]);
    let mut last = None;
    read_topic(client, &starts, ReadUntil::HighWatermark, LIMIT, |_, record| {
        last = record.key.map(<[u8]>::to_vec).zip(record.value.map(<[u8]>::to_vec));
    })
    .await
    .expect("the ledger");
    last.expect("a record")
}

/// The ledger topic, as the job makes it on one broker.
fn ledger_topic() -> NewTopic {
    let mut topic = NewTopic::new(LEDGER, 1, 1);
    topic.configs.insert("cleanup.policy".to_owned(), "compact".to_owned());
    topic
}

/// A ledger topic with one record.
async fn restore(client: &KafkaClient, (key, value): &(Vec<u8>, Vec<u8>)) {
    client.create_topic(ledger_topic()).await.expect("a topic");
    let mut writer = TopicWriter::new(client, LEDGER, Compression::None);
    writer.append(0, -1, Some(key), Some(value)).expect("a record that fits");
    writer.flush().await.expect("acknowledged");
}

#[test]
fn an_older_directory_goes_on_only_if_the_rewind_is_accepted_and_repeats_output() {
    if !real_kafka_or_skip("an older directory") {
        return;
    }
    let stage = Stage::new(KafkaCluster::builder(), Query::Q1);
    let bootstrap = stage.cluster.bootstrap_servers();
    let feed = SteadyFeed::start(&bootstrap, &stage.input, 10, Duration::from_millis(20));
    run_for_a_while(&stage, &feed);
    let older = tempfile::tempdir().expect("a folder");
    copy_folder(stage.state.path(), older.path());
    run_for_a_while(&stage, &feed);

    let old = stage.command().state_dir(older.path());
    assert_stops(&old, 73, &["stale", "--accept-rewind", LEDGER]);
    let adopt = old.clone().argument("--adopt-local");
    assert_stops(&adopt, 73, &["--adopt-local does not apply", "stale"]);
    let rewind = old.clone().argument("--accept-rewind");
    // A job that runs elsewhere is not fenced by a word that does not apply to the directory it runs on.
    let fresh = stage.command().argument("--accept-rewind");
    assert_stops(&fresh, 73, &["--accept-rewind does not apply"]);
    resolve(&stage, &feed, &rewind, "exactly-once for the output behind");
    // The history that was given up can not be gone on with.
    let mut newer = stage.command().start(false);
    assert_eq!(newer.exit_code(LIMIT), 73, "{}", newer.output());

    let lines = feed.stop();
    old.run_bounded(BOUNDED_LIMIT);
    let output = stage.read_output();
    assert!(output.len() > lines.len(), "nothing was repeated");
    // Nothing is lost: of each carrier there is a total of one flight, of two, and so on to the last.
    let totals: BTreeSet<(String, u64)> = output
        .iter()
        .map(|record| {
            let value = record.value.as_deref().expect("a value");
            let total: serde_json::Value = serde_json::from_str(value).expect("JSON");
            let carrier = total["carrier"].as_str().expect("a carrier").to_owned();
            (carrier, total["flights"].as_u64().expect("a number"))
        })
        .collect();
    assert_eq!(totals.len(), lines.len());
    let mut flights: BTreeMap<&str, u64> = BTreeMap::new();
    for (carrier, count) in &totals {
        let last = flights.entry(carrier).or_default();
        assert_eq!(*count, *last + 1, "{carrier}");
        *last = *count;
    }
    stage.assert_nothing_open();
}

#[test]
fn a_transactional_id_that_expired_is_taken_anew() {
    if !real_kafka_or_skip("an expired transactional id") {
        return;
    }
    for level in [2, 0] {
        let builder = KafkaCluster::builder()
            .transaction_version(level)
            .property("transactional.id.expiration.ms", "2000")
            .property("transaction.remove.expired.transaction.cleanup.interval.ms", "200");
        let stage = Stage::new(builder, Query::Q1);
        let lines: Vec<String> = input_lines().into_iter().take(9000).collect();
        let feed = |from: usize, to: usize| {
            Feed::all(&stage.cluster.bootstrap_servers(), &stage.input, lines[from..to].to_vec());
        };
        let (runtime, client) = stage.client();
        let wait_until_it_expires = || {
            wait_until("the transactional id expires", LIMIT, || {
                let filter = TransactionFilter::default();
                let listed = runtime.block_on(client.list_transactions(&filter)).expect("a list");
                listed.iter().all(|known| known.transactional_id != stage.transactional_id())
            });
        };
        let wait_for_output = |records: usize| {
            wait_until("the output", LIMIT, || stage.count_output(&runtime, &client) >= records);
        };
        // While it is down.
        feed(0, 3000);
        let job = stage.command().start(false);
        wait_for_output(3000);
        job.stop();
        wait_until_it_expires();
        // While it runs and has nothing to do.
        let mut job = stage.command().start(false);
        feed(3000, 6000);
        wait_for_output(6000);
        wait_until_it_expires();
        feed(6000, 9000);
        wait_for_output(9000);
        assert!(!job.has_ended(), "TV{level}:\n{}", job.output());
        job.signal(Signal::Term);
        job.expect_exit(0, LIMIT);
        stage.command().run_bounded(BOUNDED_LIMIT);
        assert_eq!(stage.check_totals(&lines), Ok(()), "TV{level}");
    }
}
