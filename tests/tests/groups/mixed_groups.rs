//! Ours and Java's in one group, by each assignor and protocol.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use millstream_protocol::records::Compression;
use millstream_protocol_client::{ClientConfig, KafkaClient};
use millstream_testcontainers::{
    Availability, JavaClient, JavaRecord, KafkaCluster, availability, real_kafka_or_skip, skip,
};
use millstream_tests::records::send;
use millstream_tests::wait::wait_until;
use tokio::runtime::Runtime;

use crate::members::{Member, Place, now_ms};
use crate::oracle::{Life, judge};

const TOPIC: &str = "orders";
const GROUP: &str = "billing";
const PARTITIONS: i32 = 6;
const SESSION: Duration = Duration::from_secs(10);
/// How long a rebalance may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct Stage<'a> {
    place: Place<'a>,
    kafka: &'a KafkaCluster,
    java: &'a JavaClient,
    ours: BTreeMap<String, String>,
    javas: BTreeMap<String, String>,
    running: BTreeMap<String, Member>,
    ended: Vec<Life>,
    produced: i64,
    outages: Vec<(u64, u64)>,
    runtime: Runtime,
}

impl Stage<'_> {
    fn join_ours(&mut self, name: &str) {
        println!("{} {name} joins", now_ms());
        let member = Member::ours(&self.place, name, &self.ours);
        self.running.insert(name.to_owned(), member);
    }

    fn join_java(&mut self, name: &str) {
        println!("{} {name} joins", now_ms());
        let member = Member::java(&self.place, name, &self.javas);
        self.running.insert(name.to_owned(), member);
    }

    fn kill(&mut self, name: &str) {
        println!("{} {name} is killed", now_ms());
        let life = self.running.remove(name).unwrap().kill();
        self.ended.push(life);
    }

    fn close(&mut self, name: &str) {
        println!("{} {name} leaves", now_ms());
        let life = self.running.remove(name).unwrap().close();
        self.ended.push(life);
    }

    fn restart_broker(&mut self) {
        let down = now_ms();
        println!("{down} the coordinator is killed");
        self.kafka.kill_broker(0).unwrap();
        self.kafka.start_broker(0).unwrap();
        self.outages.push((down, now_ms()));
    }

    /// Ten more records for each partition.
    fn produce(&mut self) {
        let servers = self.place.servers.clone();
        let topic = self.place.topic.clone();
        let records: Vec<JavaRecord> = (0..PARTITIONS * 10)
            .map(|index| JavaRecord {
                partition: Some(index % PARTITIONS),
                timestamp: Some(1_357_017_420_000),
                value: Some(b"value".to_vec()),
                ..JavaRecord::default()
            })
            .collect();
        self.runtime.block_on(async {
            let client = KafkaClient::connect(ClientConfig::new(servers)).await.unwrap();
            send(&client.producer(None), &topic, Compression::None, &records, 0).await;
            client.close().await;
        });
        self.produced += 10;
    }

    /// Waits until every partition has one owner, every member as many as its share, and all records are read.
    fn wait_until_settled(&self) {
        let started = Instant::now();
        let all = usize::try_from(PARTITIONS).unwrap();
        let share = all / self.running.len();
        wait_until("the group is settled", PATIENCE, || {
            let lives: Vec<_> = self.running.values().map(Member::life).collect();
            let failed: Vec<_> = lives.iter().filter_map(|life| life.failed.as_ref()).collect();
            assert_eq!(failed, Vec::<&String>::new());
            let owned: Vec<_> = lives.iter().map(Life::owned).collect();
            owned.iter().map(BTreeSet::len).sum::<usize>() == all
                && owned.iter().flatten().collect::<BTreeSet<_>>().len() == all
                && owned.iter().all(|owned| owned.len() >= share)
                && self.unread(lives.iter().chain(&self.ended)).is_empty()
        });
        println!("{} settled after {:?}", now_ms(), started.elapsed());
    }

    fn unread<'l>(&self, lives: impl Iterator<Item = &'l Life>) -> BTreeSet<(i32, i64)> {
        let read: BTreeSet<_> = lives.flat_map(|life| life.records.iter().copied()).collect();
        let all = (0..PARTITIONS).flat_map(|p| (0..self.produced).map(move |offset| (p, offset)));
        all.filter(|record| !read.contains(record)).collect()
    }
}

/// Runs `scene` on a cluster and a folder of its own, where that is possible.
fn on_stage(
    name: &str,
    ours: &[(&str, &str)],
    javas: &[(&str, &str)],
    scene: impl FnOnce(Stage<'_>),
) {
    if !real_kafka_or_skip(name) {
        return;
    }
    if *availability() != Availability::Jars {
        skip(name, "no JVM for Kafka's Java client");
        return;
    }
    let kafka = KafkaCluster::builder()
        .property("group.consumer.session.timeout.ms", "10000")
        .property("group.consumer.heartbeat.interval.ms", "1000")
        .property("group.consumer.min.session.timeout.ms", "5000")
        .property("group.consumer.min.heartbeat.interval.ms", "500")
        .property("group.initial.rebalance.delay.ms", "500")
        .start()
        .unwrap();
    let java = JavaClient::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let servers = kafka.bootstrap_servers();
    java.create_topic(&servers, TOPIC, PARTITIONS.unsigned_abs(), &BTreeMap::new()).unwrap();
    let common = [
        ("group.id", GROUP),
        ("auto.offset.reset", "earliest"),
        ("auto.commit.interval.ms", "500"),
    ];
    let properties = |more: &[(&str, &str)]| -> BTreeMap<String, String> {
        let all = common.iter().chain(more);
        all.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    scene(Stage {
        place: Place { servers, topic: TOPIC.to_owned(), folder: folder.path() },
        kafka: &kafka,
        java: &java,
        ours: properties(ours),
        javas: properties(javas),
        running: BTreeMap::new(),
        ended: Vec::new(),
        produced: 0,
        outages: Vec::new(),
        runtime: Runtime::new().unwrap(),
    });
}

fn live_through(mut stage: Stage<'_>) {
    stage.produce();
    stage.join_ours("ours-1");
    stage.wait_until_settled();
    let from = now_ms();
    stage.join_java("java-1");
    stage.produce();
    stage.wait_until_settled();
    stage.join_ours("ours-2");
    stage.wait_until_settled();
    // The first one led the group.
    stage.kill("ours-1");
    stage.produce();
    stage.wait_until_settled();
    stage.restart_broker();
    stage.produce();
    stage.wait_until_settled();
    stage.kill("java-1");
    stage.produce();
    stage.wait_until_settled();
    stage.join_java("java-2");
    stage.wait_until_settled();
    stage.join_ours("ours-3");
    stage.wait_until_settled();
    stage.close("ours-2");
    stage.produce();
    stage.wait_until_settled();
    let to = now_ms();
    stage.close("java-2");
    stage.wait_until_settled();
    stage.close("ours-3");

    let verdict = judge(&stage.ended, PARTITIONS, (from, to), &stage.outages);
    println!("{verdict:?}");
    assert!(verdict.handovers >= 12, "{verdict:?}");
    assert_eq!(verdict.owned_twice, Vec::<String>::new());
    let bound = SESSION + Duration::from_secs(10);
    assert!(u128::from(verdict.longest_gap_ms) <= bound.as_millis(), "{verdict:?}");
    assert_eq!(stage.unread(stage.ended.iter()), BTreeSet::new());
    let committed = stage.java.committed(&stage.place.servers, GROUP).unwrap();
    let ends: BTreeMap<_, _> =
        (0..PARTITIONS).map(|p| ((TOPIC.to_owned(), p), stage.produced)).collect();
    assert_eq!(committed, ends);
}

const QUICK: [(&str, &str); 2] =
    [("session.timeout.ms", "10000"), ("heartbeat.interval.ms", "1000")];

#[test]
fn members_of_ours_and_javas_share_a_group_by_range() {
    let strategy = |class| [&QUICK[..], &[("partition.assignment.strategy", class)]].concat();
    on_stage(
        "members_of_ours_and_javas_share_a_group_by_range",
        &strategy("range"),
        &strategy("org.apache.kafka.clients.consumer.RangeAssignor"),
        live_through,
    );
}

#[test]
fn members_of_ours_and_javas_share_a_group_by_cooperative_sticky() {
    let class = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor";
    let strategy = [&QUICK[..], &[("partition.assignment.strategy", class)]].concat();
    on_stage(
        "members_of_ours_and_javas_share_a_group_by_cooperative_sticky",
        &strategy,
        &strategy,
        live_through,
    );
}

#[test]
fn members_of_ours_and_javas_share_a_group_of_the_new_protocol() {
    let protocol = [("group.protocol", "consumer")];
    on_stage(
        "members_of_ours_and_javas_share_a_group_of_the_new_protocol",
        &protocol,
        &protocol,
        live_through,
    );
}

/// A static member comes back and has what it had; the other one notices nothing. Its double takes over its place.
fn static_members_come_back(mut stage: Stage<'_>, killed: bool) {
    let join = |stage: &mut Stage<'_>, name: &str, instance_id: &str| {
        let mut properties = stage.ours.clone();
        properties.insert("group.instance.id".to_owned(), instance_id.to_owned());
        let member = Member::ours(&stage.place, name, &properties);
        stage.running.insert(name.to_owned(), member);
    };
    stage.produce();
    join(&mut stage, "one", "i1");
    stage.wait_until_settled();
    join(&mut stage, "two", "i2");
    stage.wait_until_settled();
    let (one, two) = (stage.running["one"].life().owned(), stage.running["two"].life());
    if killed {
        stage.kill("one")
    } else {
        stage.close("one")
    }
    join(&mut stage, "one again", "i1");
    stage.produce();
    stage.wait_until_settled();
    assert_eq!(stage.running["one again"].life().owned(), one);
    assert_eq!(stage.running["two"].life().changes, two.changes);
    if killed {
        join(&mut stage, "double", "i1");
        let fenced = || stage.running["one again"].life().failed;
        wait_until("the older one is fenced", PATIENCE, || fenced().is_some());
        let text = fenced().unwrap();
        assert!(text.contains("another member uses group.instance.id 'i1'"), "{text}");
        // What it had read and committed before is read.
        stage.kill("one again");
        stage.wait_until_settled();
    }
}

#[test]
fn a_killed_static_member_comes_back_to_its_partitions_and_fences_its_double() {
    on_stage(
        "a_killed_static_member_comes_back_to_its_partitions_and_fences_its_double",
        &QUICK,
        &QUICK,
        |stage| static_members_come_back(stage, true),
    );
}

#[test]
fn a_static_member_of_the_new_protocol_comes_back_to_its_partitions() {
    let protocol = [("group.protocol", "consumer")];
    on_stage(
        "a_static_member_of_the_new_protocol_comes_back_to_its_partitions",
        &protocol,
        &protocol,
        |stage| static_members_come_back(stage, false),
    );
}
