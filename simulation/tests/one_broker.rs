//! The shipped job, client and broker core in one thread: its output is right whatever kills the process.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millstream_dev_broker::core::{Cluster, ClusterConfig, Outgoing};
use millstream_engine::kafka::{ClientConfig, KafkaClient, NewTopic, ReadUntil, read_topic};
use millstream_protocol::frame::FrameDecoder;
use millstream_protocol::{Timestamp, TopicPartition};
use millstream_protocol_client::ProducerRecord;
use millstream_protocol_client::surroundings::{Connecting, SimulatedStream};
use millstream_simulation::job::{Event, Setting, counting, events, expected};
use millstream_simulation::process::{Crash, Fate, Habits, Machine, Process, World};
use millstream_simulation::runtime::{Random, run};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

/// One broker and a network that loses nothing.
struct OneBroker {
    origin: Instant,
    cluster: Mutex<Cluster>,
    mailboxes: Mutex<BTreeMap<u64, mpsc::UnboundedSender<Outgoing>>>,
    timers: Notify,
    notes: Mutex<Vec<String>>,
}

impl fmt::Debug for OneBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OneBroker")
    }
}

#[derive(Clone, Debug)]
struct Net(Arc<OneBroker>);

impl Net {
    fn new(seed: u64, transaction_version: i16) -> Self {
        let config = ClusterConfig {
            advertised_host: "broker".to_owned(),
            transaction_version,
            ..ClusterConfig::default()
        };
        let net = Self(Arc::new(OneBroker {
            origin: Instant::now(),
            cluster: Mutex::new(Cluster::new(config, seed)),
            mailboxes: Mutex::default(),
            timers: Notify::new(),
            notes: Mutex::default(),
        }));
        tokio::spawn(net.clone().tick());
        net
    }

    fn step(&self, step: impl FnOnce(&mut Cluster, Timestamp, i64)) {
        let now = Timestamp::ZERO.after(self.0.origin.elapsed());
        let wall = EPOCH_MS + i64::try_from(now.as_micros() / 1000).unwrap();
        let mut cluster = self.0.cluster.lock().unwrap();
        step(&mut cluster, now, wall);
        while let Some(outgoing) = cluster.poll_outgoing() {
            let (Outgoing::Response { connection, .. }
            | Outgoing::Done { connection }
            | Outgoing::Close { connection }) = &outgoing;
            if let Some(mailbox) = self.0.mailboxes.lock().unwrap().get(connection) {
                let _ = mailbox.send(outgoing);
            }
        }
        self.0.timers.notify_one();
    }

    async fn tick(self) {
        loop {
            let due = self.0.cluster.lock().unwrap().poll_timeout();
            let Some(due) = due else {
                self.0.timers.notified().await;
                continue;
            };
            let at = self.0.origin + due.since(Timestamp::ZERO);
            tokio::select! {
                biased;
                () = self.0.timers.notified() => {}
                () = tokio::time::sleep_until(at) => self.step(Cluster::handle_timeout),
            }
        }
    }

    async fn serve(self, connection: u64, mut stream: DuplexStream) {
        let (mailbox, mut mail) = mpsc::unbounded_channel();
        self.0.mailboxes.lock().unwrap().insert(connection, mailbox);
        let mut decoder = FrameDecoder::new(16 << 20);
        loop {
            while let Ok(Some(frame)) = decoder.next_frame() {
                self.step(|cluster, now, wall| {
                    cluster.handle_request(now, wall, connection, frame);
                });
            }
            let closed = tokio::select! {
                biased;
                Some(outgoing) = mail.recv() => match outgoing {
                    Outgoing::Response { frame, .. } => {
                        stream.write_all(&frame.to_bytes()).await.is_err()
                    }
                    Outgoing::Done { .. } => false,
                    Outgoing::Close { .. } => true,
                },
                read = stream.read_buf(decoder.read_buffer()) => !matches!(read, Ok(1..)),
            };
            if closed {
                break;
            }
        }
        self.0.mailboxes.lock().unwrap().remove(&connection);
        self.step(|cluster, _, _| cluster.handle_disconnect(connection));
    }
}

const EPOCH_MS: i64 = 1_700_000_000_000;

impl World for Net {
    fn connect(&self, _process: &Arc<str>, _host: &str, _port: u16) -> Connecting {
        let net = self.clone();
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let connection = {
                let mut mailboxes = net.0.mailboxes.lock().unwrap();
                let next = mailboxes.last_key_value().map_or(1, |(last, _)| last + 1);
                let (sender, _) = mpsc::unbounded_channel();
                mailboxes.insert(next, sender);
                next
            };
            let (ours, theirs) = tokio::io::duplex(1 << 16);
            tokio::spawn(net.serve(connection, theirs));
            Ok(Box::new(ours) as Box<dyn SimulatedStream>) as io::Result<_>
        })
    }

    fn wall_time(&self, _process: &Arc<str>) -> Duration {
        Duration::from_millis(EPOCH_MS.unsigned_abs()) + self.0.origin.elapsed()
    }

    fn note(&self, process: &str, event: fmt::Arguments<'_>) {
        let at = self.0.origin.elapsed();
        self.0.notes.lock().unwrap().push(format!("{at:?} {process}: {event}"));
    }
}

/// What a history did.
#[derive(Debug, PartialEq, Eq)]
struct History {
    notes: Vec<String>,
    output: BTreeMap<String, Vec<String>>,
    polls: u64,
    disk_operations: u64,
    passed: BTreeMap<String, u64>,
    took: Duration,
}

fn setting() -> Setting {
    Setting {
        name: "counting".to_owned(),
        kafka: ClientConfig::new("broker:9092"),
        input: "in".to_owned(),
        output: "out".to_owned(),
        parallelism: 2,
        checkpoint_interval: Duration::from_millis(50),
    }
}

const PARTITIONS: u32 = 2;

/// In the harness's own process: topics, and the input.
async fn prepare(input: Vec<Event>) {
    let client = KafkaClient::connect(ClientConfig::new("broker:9092")).await.unwrap();
    for topic in ["in", "out"] {
        client.create_topic(NewTopic::new(topic, PARTITIONS as i32, 1)).await.unwrap();
    }
    let producer = client.record_producer(None);
    for event in input {
        let (key, value) = (event.key.to_string(), event.encode());
        let partition = (event.key % PARTITIONS) as i32;
        let record = ProducerRecord::to("in", value.as_bytes()).key(key.as_bytes());
        producer.send(&record.partition(partition)).await.unwrap();
    }
    producer.close().await.unwrap();
    client.close().await;
}

async fn output() -> BTreeMap<String, Vec<String>> {
    let client = KafkaClient::connect(ClientConfig::new("broker:9092")).await.unwrap();
    let starts = (0..PARTITIONS as i32).map(|p| (TopicPartition::new("out", p), 0)).collect();
    let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let patience = Duration::from_secs(30);
    read_topic(&client, &starts, ReadUntil::LastStableOffset, patience, |_, record| {
        let text = |bytes: Option<&[u8]>| String::from_utf8(bytes.unwrap().to_vec()).unwrap();
        lines.entry(text(record.key)).or_default().push(text(record.value));
    })
    .await
    .unwrap();
    client.close().await;
    lines
}

fn history(
    seed: u64,
    records: u32,
    transaction_version: i16,
    fate: &Fate,
    crash: Crash,
) -> History {
    let fate = fate.clone();
    let history = async move {
        let net = Net::new(seed, transaction_version);
        let world: Arc<dyn World> = Arc::new(net.clone());
        let mut random = Random::new(seed);
        let habits = Habits::default();
        let harness = |random: &mut Random| {
            Process::new(
                "harness".into(),
                Arc::clone(&world),
                random.fork(),
                habits.clone(),
                Fate::default(),
            )
        };
        let input = events(records, 5);
        harness(&mut random).run(prepare(input)).await.unwrap();
        let mut machine = Machine::new("job", Arc::clone(&world), random.fork());
        let job = counting(&setting()).unwrap();
        let (process, job) = machine.start(job, habits.clone(), fate);
        let mut ended = process.run(job.run).await;
        let (polls, disk_operations) = (process.polls(), process.disk_operations());
        let passed = process.passed();
        assert_eq!(process.panicked(), None);
        while ended.is_none() {
            machine.crashed(crash);
            let job = counting(&setting()).unwrap();
            let (process, job) = machine.start(job, habits.clone(), Fate::default());
            ended = process.run(job.run).await;
            assert_eq!(process.panicked(), None);
        }
        ended.unwrap().unwrap();
        let output = harness(&mut random).run(output()).await.unwrap();
        let notes = net.0.notes.lock().unwrap().clone();
        let took = net.0.origin.elapsed();
        History { notes, output, polls, disk_operations, passed, took }
    };
    run(history).unwrap()
}

#[test]
fn a_job_runs_in_simulated_time() {
    let input = events(40, 5);
    let begun = std::time::Instant::now();
    let history = history(1, 40, 2, &Fate::default(), Crash::Process);
    println!("{:?} real, {history:#?}", begun.elapsed());
    assert_eq!(history.output, expected(&input));
    assert!(history.passed["Confirmed"] >= 1);
}

#[test]
fn the_same_seed_is_the_same_history() {
    for seed in 0..200 {
        let fate = Fate { at_poll: Some(200 + seed * 3), ..Fate::default() };
        let tv = if seed % 2 == 0 { 2 } else { 1 };
        let first = history(seed, 40, tv, &fate, Crash::Torn);
        assert_eq!(history(seed, 40, tv, &fate, Crash::Torn), first, "seed {seed}");
    }
}

#[test]
fn a_crash_between_any_two_polls_loses_and_doubles_nothing() {
    let polls = history(1, 40, 2, &Fate::default(), Crash::Process).polls;
    let begun = std::time::Instant::now();
    for at in 1..=polls {
        let crash = [Crash::Process, Crash::PowerLost, Crash::Torn][at as usize % 3];
        let fate = Fate { at_poll: Some(at), ..Fate::default() };
        let tv = if at % 2 == 0 { 2 } else { 1 };
        let history = history(1 + at, 40, tv, &fate, crash);
        assert_eq!(history.output, expected(&events(40, 5)), "at {at}: {history:#?}");
    }
    println!("{polls} histories in {:?}", begun.elapsed());
}

#[test]
fn a_crash_in_any_disk_operation_loses_and_doubles_nothing() {
    let operations = history(1, 40, 2, &Fate::default(), Crash::Process).disk_operations;
    for at in 1..=operations {
        for crash in [Crash::Process, Crash::PowerLost, Crash::Torn] {
            let fate = Fate { at_disk_operation: Some(at), ..Fate::default() };
            let history = history(1, 40, 2, &fate, crash);
            assert_eq!(history.output, expected(&events(40, 5)), "at {at}: {history:#?}");
        }
    }
}
