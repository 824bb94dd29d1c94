//! The two forms of the test.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use millstream_protocol::{IsolationLevel, TopicPartition};
use millstream_protocol_client::{KafkaClient, NewTopic, OffsetSpec};
use millstream_testcontainers::{
    Availability, KafkaCluster, availability, real_kafka_or_skip, skip,
};
use millstream_tests::random::Random;
use millstream_tests::records::consume_all;
use tokio::runtime::Builder;
use tokio::sync::watch;

use super::faults::{Fault, Victim, shuffled, strike};
use super::load::{self, NUMBERED, Plan, TRANSACTIONS};
use super::numbered::{Reading, assert_sound};

/// How long and how hard.
struct Form {
    plan: Plan,
    steps: Vec<(Fault, Victim)>,
    /// Silence after which clients give up on a broker.
    request_timeout: Duration,
    /// Silence after which the cluster gives up on a broker; `None` for Kafka's own.
    session_timeout: Option<Duration>,
}

#[test]
fn numbered_records_survive_every_fault_in_short() {
    run(
        "numbered_records_survive_every_fault_in_short",
        Form {
            plan: Plan { records: 100_000, partitions: 4, per_second: 2_500 },
            steps: vec![
                (Fault::Restart, Victim::Leader),
                (Fault::Kill, Victim::TransactionCoordinator),
                (Fault::Isolate(Duration::from_secs(6)), Victim::GroupCoordinator),
            ],
            request_timeout: Duration::from_secs(2),
            session_timeout: Some(Duration::from_secs(2)),
        },
    );
}

/// `cargo test -p millstream-tests --test failover -- --ignored --nocapture`
#[test]
#[ignore = "takes about ten minutes"]
fn a_million_numbered_records_survive_every_fault() {
    let cut = Fault::Isolate(Duration::from_secs(30));
    run(
        "a_million_numbered_records_survive_every_fault",
        Form {
            plan: Plan { records: 1_000_000, partitions: 8, per_second: 4_000 },
            steps: vec![
                (Fault::Restart, Victim::Leader),
                (Fault::ElectPreferred, Victim::Leader),
                (Fault::Kill, Victim::Leader),
                (Fault::Kill, Victim::TransactionCoordinator),
                (Fault::Kill, Victim::GroupCoordinator),
                (cut, Victim::Leader),
                (cut, Victim::TransactionCoordinator),
                (Fault::ElectPreferred, Victim::Leader),
            ],
            request_timeout: Duration::from_secs(10),
            session_timeout: None,
        },
    );
}

fn start(form: &Form) -> KafkaCluster {
    let mut builder = KafkaCluster::builder().brokers(3).heap("384m").fault_proxy().links();
    if let Some(timeout) = form.session_timeout {
        let ms = timeout.as_millis().to_string();
        builder = builder
            .property("broker.session.timeout.ms", &ms)
            .property("broker.heartbeat.interval.ms", "300")
            .property("replica.lag.time.max.ms", &ms)
            .property("replica.fetch.wait.max.ms", "250");
    }
    builder.start().unwrap()
}

fn run(name: &str, form: Form) {
    if !real_kafka_or_skip(name) {
        return;
    }
    if *availability() != Availability::Jars {
        skip(name, "ways between brokers can be cut only if a JVM runs them");
        return;
    }
    let mut random = Random::from_environment(name);
    let cluster = start(&form);
    let runtime = Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(under_load(&cluster, form, &mut random));
}

async fn under_load(cluster: &KafkaCluster, form: Form, random: &mut Random) {
    let (plan, started) = (form.plan, Instant::now());
    let servers = cluster.bootstrap_servers();
    let new_client = |more: &'static [&'static str]| {
        let servers = servers.clone();
        async move { load::client(&servers, form.request_timeout, more).await }
    };
    let admin = new_client(&[]).await;
    create_topics(&admin, plan).await;

    let (hurry, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (ends, at_end) = watch::channel(None);
    let small_batches = &["linger.ms=5", "batch.size=16384"];
    let member = &[
        "group.id=readers",
        "auto.offset.reset=earliest",
        "enable.auto.commit=false",
        "heartbeat.interval.ms=500",
    ];
    let writer = new_client(small_batches).await;
    // Each fault has its share of the records to strike.
    let allowed = Arc::new(AtomicU64::new(0));
    let writing =
        load::produce(writer, plan, Arc::clone(&hurry), Arc::clone(&allowed), Arc::clone(&sent));
    let writing = tokio::spawn(writing);
    let reading = tokio::spawn(load::read(new_client(&[]).await, plan, at_end.clone()));
    let member = load::read_as_member(new_client(member).await, plan, at_end.clone());
    let member = tokio::spawn(member);
    let transacting = tokio::spawn(load::transact(new_client(&[]).await, Arc::clone(&hurry)));

    let steps = shuffled(form.steps, random);
    let share = plan.records / (steps.len() as u64 + 1);
    for (number, (fault, victim)) in (1..).zip(steps) {
        allowed.store(number * share, Ordering::Relaxed);
        let before = sent.load(Ordering::Relaxed);
        let done = strike(cluster, &admin, fault, victim).await;
        let now = sent.load(Ordering::Relaxed);
        eprintln!("{done}; {} records sent meanwhile, {now} so far", now - before);
        assert!(now > before, "nothing was written while: {done}");
    }
    hurry.store(true, Ordering::Relaxed);
    let acknowledged = writing.await.unwrap();
    let fates = transacting.await.unwrap();
    let last = written_ends(&admin, plan).await;
    ends.send(Some(last)).unwrap();
    let live = reading.await.unwrap();
    let of_member = member.await.unwrap();
    let afterwards = load::read(new_client(&[]).await, plan, at_end).await;
    eprintln!(
        "{} records and {} transactions in {:.1} s",
        plan.records,
        fates.len(),
        started.elapsed().as_secs_f64()
    );

    for (what, readings) in
        [("read afterwards", &afterwards), ("read along", &live), ("read as member", &of_member)]
    {
        judge(what, readings, plan, &acknowledged);
    }
    let read = consume_all(&admin, TRANSACTIONS, IsolationLevel::ReadCommitted).await;
    let read: Vec<_> = read
        .iter()
        .map(|record| {
            let value = record.value.as_deref().unwrap();
            let at = |from: usize| u64::from_be_bytes(*value[from..].first_chunk().unwrap());
            (record.partition, at(0), at(8))
        })
        .collect();
    assert_eq!(load::broken(&fates, &read), [""; 0]);
    assert!(fates.contains(&load::Fate::Committed) && fates.contains(&load::Fate::Aborted));
}

async fn create_topics(admin: &KafkaClient, plan: Plan) {
    for (topic, partitions) in [(NUMBERED, plan.partitions), (TRANSACTIONS, 2)] {
        admin.create_topic(NewTopic::new(topic, partitions, 3)).await.unwrap();
    }
}

async fn written_ends(admin: &KafkaClient, plan: Plan) -> Vec<i64> {
    let partitions = (0..plan.partitions).map(|index| TopicPartition::new(NUMBERED, index));
    let asked: Vec<_> = partitions.map(|tp| (tp, OffsetSpec::Latest)).collect();
    let found = admin.list_offsets(&asked, IsolationLevel::ReadCommitted).await.unwrap();
    asked.iter().map(|(tp, _)| found[tp].offset).collect()
}

fn judge(what: &str, readings: &[Reading], plan: Plan, acknowledged: &[Vec<Option<i64>>]) {
    for (partition, (reading, acknowledged)) in readings.iter().zip(acknowledged).enumerate() {
        let what = format!("{what}, partition {partition}, {reading:?}");
        assert_sound(&reading.defects(plan.per_partition()), &what);
        assert_sound(&reading.misplaced(acknowledged), &what);
    }
    assert_eq!(readings.len(), acknowledged.len());
}
