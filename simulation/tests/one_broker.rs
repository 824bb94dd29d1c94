//! The shipped job, client and broker core in one thread: its output is right whatever kills the process.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millstream_dev_broker::core::{Cluster, ClusterConfig, Outgoing};
use millstream_engine::kafka::{ClientConfig, KafkaClient, NewTopic, ReadUntil, read_topic};
use millstream_protocol::frame::FrameDecoder;
use millstream_protocol::{ApiKey, Timestamp, TopicPartition};
use millstream_protocol_client::ProducerRecord;
use millstream_protocol_client::surroundings::{Connecting, SimulatedStream};
use millstream_simulation::job::{Event, Setting, counting, events, expected};
use millstream_simulation::process::{Crash, Fate, Habits, Machine, Process, World};
use millstream_simulation::runtime::{Random, run};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep};

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
                let api = ApiKey::from_code(i16::from_be_bytes([frame[0], frame[1]]));
                self.note("broker", format_args!("{connection} asks {api:?}"));
                self.step(|cluster, now, wall| {
                    cluster.handle_request(now, wall, connection, frame);
                });
            }
            let closed = tokio::select! {
                biased;
                Some(outgoing) = mail.recv() => match outgoing {
                    Outgoing::Response { frame, .. } => {
                        self.note("broker", format_args!("{connection} is answered"));
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

fn setting(bounded: bool) -> Setting {
    Setting {
        name: "counting".to_owned(),
        kafka: ClientConfig::new("broker:9092"),
        input: "in".to_owned(),
        output: "out".to_owned(),
        parallelism: 2,
        checkpoint_interval: Duration::from_millis(50),
        bounded,
        resolution: None,
        other_shape: false,
        from_savepoint: None,
    }
}

const PARTITIONS: u32 = 2;

/// In the harness's own process: topics, then the input, one record after the other.
async fn feed(input: Vec<Event>, topics_made: Arc<Notify>) {
    let client = KafkaClient::connect(ClientConfig::new("broker:9092")).await.unwrap();
    for topic in ["in", "out"] {
        client.create_topic(NewTopic::new(topic, PARTITIONS as i32, 1)).await.unwrap();
    }
    topics_made.notify_one();
    let producer = client.record_producer(None);
    for event in input {
        let (key, value) = (event.key.to_string(), event.encode());
        let partition = (event.key % PARTITIONS) as i32;
        let record = ProducerRecord::to("in", value.as_bytes()).key(key.as_bytes());
        producer.send(&record.partition(partition)).await.unwrap();
        sleep(Duration::from_millis(30)).await;
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

type Stopper = Box<dyn Fn()>;

const RECORDS: u32 = 40;
const KEYS: u32 = 5;

/// A job that is started anew whenever it has died, each time with the next fate, until it has written everything.
fn history(seed: u64, transaction_version: i16, lives: &[(Fate, Crash)]) -> History {
    let history = async {
        let net = Net::new(seed, transaction_version);
        let world: Arc<dyn World> = Arc::new(net.clone());
        let mut random = Random::new(seed);
        let habits = Habits::default();
        let harness = |random: Random| {
            let (world, fate) = (Arc::clone(&world), Fate::default());
            Process::new("harness".into(), world, random, habits.clone(), fate)
        };
        let mut machine = Machine::new("job", Arc::clone(&world), random.fork());
        let topics_made = Arc::new(Notify::new());
        // Whether all input is there, and how to end the job that waits for more.
        let all_in: Mutex<(bool, Option<Stopper>)> = Mutex::default();
        let feeding = async {
            let input = feed(events(RECORDS, KEYS), Arc::clone(&topics_made));
            harness(Random::new(!seed)).run(input).await.unwrap();
            sleep(Duration::from_millis(100)).await;
            let mut all_in = all_in.lock().unwrap();
            all_in.0 = true;
            if let Some(stop) = &all_in.1 {
                stop();
            }
        };
        let mut lives = lives.iter();
        let (mut polls, mut disk_operations, mut passed) = (0, 0, BTreeMap::new());
        let running = async {
            topics_made.notified().await;
            loop {
                let bounded = all_in.lock().unwrap().0;
                let job = counting(&setting(bounded)).unwrap();
                let (fate, crash) = lives.next().cloned().unwrap_or_default();
                let (process, job) = machine.start(job, habits.clone(), fate);
                all_in.lock().unwrap().1 = Some(Box::new(job.stopper()));
                let ended = process.run(job.run).await;
                polls += process.polls();
                disk_operations += process.disk_operations();
                for (place, count) in process.passed() {
                    *passed.entry(place).or_default() += count;
                }
                assert_eq!(process.panicked(), None);
                machine.crashed(crash);
                if let Some(ended) = ended {
                    ended.unwrap_or_else(|error| panic!("{error:#?}"));
                    if bounded {
                        return;
                    }
                }
            }
        };
        tokio::join!(feeding, running);
        let output = harness(Random::new(seed + 1)).run(output()).await.unwrap();
        let notes = net.0.notes.lock().unwrap().clone();
        let took = net.0.origin.elapsed();
        History { notes, output, polls, disk_operations, passed, took }
    };
    run(history).unwrap()
}

fn check(seed: u64, transaction_version: i16, lives: &[(Fate, Crash)]) -> History {
    let history = history(seed, transaction_version, lives);
    let right = history.output == expected(&events(RECORDS, KEYS));
    assert!(
        right,
        "seed {seed}, transaction.version {transaction_version}, {lives:?}: {history:#?}"
    );
    history
}

fn at_poll(n: u64) -> Fate {
    Fate { at_poll: Some(n), ..Fate::default() }
}

const CRASHES: [Crash; 3] = [Crash::Process, Crash::PowerLost, Crash::Torn];

#[test]
fn a_job_runs_in_simulated_time() {
    for version in [2, 1] {
        let begun = std::time::Instant::now();
        let history = check(1, version, &[]);
        println!("{:?} real: {:?} {:#?}", begun.elapsed(), history.took, history.passed);
        assert!(history.passed["Confirmed"] >= 5, "{history:#?}");
        assert!(history.polls > 500, "{history:#?}");
    }
}

#[test]
fn the_same_seed_is_the_same_history() {
    let mut random = Random::new(5);
    for seed in 0..200 {
        let first = at_poll(1 + random.below(1500));
        let lives = [(first, Crash::Torn), (at_poll(900), Crash::PowerLost)];
        let version = if seed % 2 == 0 { 2 } else { 1 };
        let first = history(seed, version, &lives);
        assert_eq!(history(seed, version, &lives), first, "seed {seed}");
    }
}

#[test]
fn a_crash_between_any_two_polls_loses_and_doubles_nothing() {
    let polls = history(1, 2, &[]).polls;
    for at in 1..=polls {
        let crash = CRASHES[(at % 3) as usize];
        let version = if at % 2 == 0 { 2 } else { 1 };
        // The second life meets what the first has left, and dies as well.
        check(1 + at, version, &[(at_poll(at), crash), (at_poll(1 + at * 7 % 300), crash)]);
    }
}

#[test]
fn a_crash_in_any_disk_operation_loses_and_doubles_nothing() {
    let operations = history(1, 2, &[]).disk_operations;
    for at in 1..=operations {
        for crash in CRASHES {
            let fate = Fate { at_disk_operation: Some(at), ..Fate::default() };
            check(1, 2, &[(fate, crash)]);
        }
    }
}

#[test]
fn a_crash_at_any_named_place_loses_and_doubles_nothing() {
    let passed = history(1, 2, &[]).passed;
    assert!(passed.len() >= 34, "{passed:?}");
    // Rows of the decision table are counted as well, and are no places to die at.
    for (place, count) in passed.into_iter().filter(|(place, _)| !place.starts_with("decision")) {
        for nth in 1..=count.min(8) {
            let fate = Fate { at_place: Some((place.clone(), nth)), ..Fate::default() };
            let version = if nth % 2 == 0 { 1 } else { 2 };
            let history = check(1, version, &[(fate, CRASHES[(nth % 3) as usize])]);
            let died = history.notes.iter().any(|note| note.contains("dies at"));
            // Later passages may be the second process's.
            assert!(died || nth > 1, "{place} {nth}: {history:#?}");
        }
    }
}
