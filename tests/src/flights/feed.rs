//! Writes the flight events to a topic, all at once or over a time.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use millstream_engine::kafka::{ClientConfig, Compression, KafkaClient, TopicWriter};

/// Partitions of the flights topic.
pub const PARTITIONS: i32 = 4;

/// Slices into which a paced feed is cut.
const SLICES: u32 = 500;

/// Where the flight data lies.
#[must_use]
pub(super) fn data_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/flights")
}

/// Every event of the year.
///
/// # Panics
///
/// If the file can not be read.
#[must_use]
pub fn input_lines() -> Vec<String> {
    let file = File::open(data_folder().join("flights.jsonl.gz")).expect("the flight data");
    BufReader::new(MultiGzDecoder::new(file)).lines().map(|line| line.expect("a line")).collect()
}

/// A feed under way, on a thread of its own.
#[derive(Debug)]
pub struct Feed {
    total: usize,
    written: Arc<AtomicUsize>,
    abandoned: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Feed {
    /// Writes `lines` to `topic` (it must exist), taking about `over`.
    #[must_use]
    pub fn start(bootstrap_servers: &str, topic: &str, lines: Vec<String>, over: Duration) -> Self {
        let (bootstrap_servers, topic) = (bootstrap_servers.to_owned(), topic.to_owned());
        let total = lines.len();
        let written = Arc::new(AtomicUsize::new(0));
        let abandoned = Arc::new(AtomicBool::new(false));
        let (counter, left) = (Arc::clone(&written), Arc::clone(&abandoned));
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(write(&bootstrap_servers, &topic, &lines, over, &counter, &left));
        });
        Self { total, written, abandoned, thread: Some(thread) }
    }

    /// Writes everything now and waits.
    ///
    /// # Panics
    ///
    /// If a write fails.
    pub fn all(bootstrap_servers: &str, topic: &str, lines: Vec<String>) {
        Self::start(bootstrap_servers, topic, lines, Duration::ZERO).finish();
    }

    /// Events written so far.
    #[must_use]
    pub fn written(&self) -> usize {
        self.written.load(Ordering::Relaxed)
    }

    /// Whether events remain.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.written() < self.total
    }

    /// Waits for the end.
    ///
    /// # Panics
    ///
    /// If a write failed.
    pub fn finish(mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the feed ended well");
        }
        assert_eq!(self.written(), self.total, "events written");
    }
}

/// A feed whose test has failed ends without a word when its cluster does.
impl Drop for Feed {
    fn drop(&mut self) {
        self.abandoned.store(true, Ordering::Release);
    }
}

/// A feed without an end: a few events at a time until it is stopped, the year again and again.
#[derive(Debug)]
pub struct SteadyFeed {
    lines: Arc<Vec<String>>,
    written: Arc<AtomicUsize>,
    stopped: Arc<AtomicBool>,
    abandoned: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl SteadyFeed {
    /// Writes `at_once` events every `pause`.
    #[must_use]
    pub fn start(bootstrap_servers: &str, topic: &str, at_once: usize, pause: Duration) -> Self {
        let (bootstrap_servers, topic) = (bootstrap_servers.to_owned(), topic.to_owned());
        let lines = Arc::new(input_lines());
        let (written, stopped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let abandoned = Arc::new(AtomicBool::new(false));
        let (events, count) = (Arc::clone(&lines), Arc::clone(&written));
        let (stop, left) = (Arc::clone(&stopped), Arc::clone(&abandoned));
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let config = ClientConfig::new(bootstrap_servers);
                let client = KafkaClient::connect(config).await.expect("a client");
                let mut writer = TopicWriter::new(&client, &topic, Compression::Lz4);
                let mut ticks = tokio::time::interval(pause);
                let mut events = events.iter().cycle();
                let mut next_partition = 0;
                while !stop.load(Ordering::Acquire) && !left.load(Ordering::Acquire) {
                    ticks.tick().await;
                    for line in events.by_ref().take(at_once) {
                        writer
                            .append(next_partition, -1, None, Some(line.as_bytes()))
                            .expect("a record that fits");
                        next_partition = (next_partition + 1) % PARTITIONS;
                    }
                    let flushed = writer.flush().await;
                    if left.load(Ordering::Acquire) {
                        return;
                    }
                    flushed.expect("the broker acknowledges");
                    count.fetch_add(at_once, Ordering::Release);
                }
                client.close().await;
            });
        });
        Self { lines, written, stopped, abandoned, thread: Some(thread) }
    }

    /// Events written so far.
    #[must_use]
    pub fn written(&self) -> usize {
        self.written.load(Ordering::Acquire)
    }

    /// Ends it; gives all that was written.
    ///
    /// # Panics
    ///
    /// If a write failed.
    #[must_use]
    pub fn stop(mut self) -> Vec<String> {
        self.stopped.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the feed ended well");
        }
        let written = self.written.load(Ordering::Acquire);
        self.lines.iter().cycle().take(written).cloned().collect()
    }
}

/// As that of [`Feed`].
impl Drop for SteadyFeed {
    fn drop(&mut self) {
        self.abandoned.store(true, Ordering::Release);
    }
}

async fn write(
    bootstrap_servers: &str,
    topic: &str,
    lines: &[String],
    over: Duration,
    written: &AtomicUsize,
    abandoned: &AtomicBool,
) {
    let client =
        KafkaClient::connect(ClientConfig::new(bootstrap_servers)).await.expect("a client");
    let mut writer = TopicWriter::new(&client, topic, Compression::Lz4);
    let slices = if over.is_zero() { 20 } else { SLICES };
    let mut ticks = tokio::time::interval((over / slices).max(Duration::from_millis(1)));
    let mut next_partition = 0;
    for slice in lines.chunks(lines.len().div_ceil(slices as usize).max(1)) {
        ticks.tick().await;
        for line in slice {
            writer
                .append(next_partition, -1, None, Some(line.as_bytes()))
                .expect("a record that fits");
            next_partition = (next_partition + 1) % PARTITIONS;
        }
        let flushed = writer.flush().await;
        if abandoned.load(Ordering::Acquire) {
            return;
        }
        flushed.expect("the broker acknowledges");
        written.fetch_add(slice.len(), Ordering::Relaxed);
    }
    client.close().await;
}
