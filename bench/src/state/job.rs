//! The measured job: one worker, one value per key, fed key by key.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millstream_checkpoint::{Positions, SourcePosition, TopicId};
use millstream_engine::OperatorError;
use millstream_engine::api::{
    KeyedProcessFunction, OutputCollector, ProcessContext, Sink, SinkContext, SinkWriter, Source,
    SourceContext, SourceOutput, SourceReader, SourceStatus, SplitReader,
    StreamExecutionEnvironment, Writer,
};
use millstream_engine::graph::JobGraph;
use millstream_engine::state::{RuntimeContext, ValueState, ValueStateDescriptor};
use millstream_engine::time::WatermarkStrategy;

use crate::BenchError;

pub(super) const SOURCE: &str = "keys";

/// Which keys are written and how far the source may go.
#[derive(Debug, Default)]
pub(super) struct Feed {
    /// Elements that may be emitted since the job began.
    pub(super) limit: AtomicU64,
    pub(super) emitted: AtomicU64,
    /// The key of element e is e × stride modulo keys.
    pub(super) stride: AtomicU64,
    pub(super) keys: AtomicU64,
    /// Elements that the function has processed, and those among them whose key had a value.
    pub(super) processed: AtomicU64,
    pub(super) updated: AtomicU64,
}

/// Makes the graph of the job.
pub(super) fn graph(feed: &Arc<Feed>, value_bytes: usize) -> Result<JobGraph, BenchError> {
    let environment = StreamExecutionEnvironment::new("state").parallelism(1);
    let function =
        Write { value: ValueState::default(), feed: Arc::clone(feed), length: value_bytes };
    environment
        .from_source(KeySource(Arc::clone(feed)), WatermarkStrategy::no_watermarks())
        .uid(SOURCE)
        .key_by(|(key, _): &([u8; 16], u64)| *key)
        .process("write", function)
        .sink_to(Nowhere)
        .uid("nowhere");
    Ok(environment.into_job_graph()?)
}

/// Where the source begins.
pub(super) fn positions() -> Positions {
    let mut positions = Positions::new();
    let position = SourcePosition {
        topic: "none".into(),
        topic_id: TopicId::UNKNOWN,
        partition: 0,
        offset: 0,
        leader_epoch: -1,
        max_event_time: None,
        finished: false,
    };
    positions.insert(SOURCE, position);
    positions
}

/// Writes a value of so many bytes under every key.
#[derive(Clone)]
struct Write {
    value: ValueState<String>,
    feed: Arc<Feed>,
    length: usize,
}

impl KeyedProcessFunction for Write {
    type Key = [u8; 16];
    type Input = ([u8; 16], u64);
    type Output = ();

    fn open(&mut self, runtime: &mut RuntimeContext<'_>) -> Result<(), OperatorError> {
        self.value = runtime.value_state(ValueStateDescriptor::new("value"))?;
        Ok(())
    }

    fn process_element(
        &mut self,
        (_, element): ([u8; 16], u64),
        ctx: &mut ProcessContext<'_, [u8; 16]>,
        _out: &mut OutputCollector<'_, ()>,
    ) -> Result<(), OperatorError> {
        let known = self.value.value(ctx)?.is_some();
        self.value.update(ctx, text(element, self.length))?;
        self.feed.updated.fetch_add(u64::from(known), Ordering::Relaxed);
        self.feed.processed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// Text that does not repeat; with its length in front it has `bytes` bytes.
fn text(element: u64, bytes: usize) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::with_capacity(bytes);
    let mut state = element;
    while text.len() + 1 < bytes {
        let mut bits = mixed(&mut state);
        for _ in 0..10_usize.min(bytes - 1 - text.len()) {
            let letter = LETTERS.get((bits & 63) as usize).copied().unwrap_or(b'A');
            text.push(char::from(letter));
            bits >>= 6;
        }
    }
    text
}

/// SplitMix64.
fn mixed(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[derive(Clone)]
struct KeySource(Arc<Feed>);

struct KeyReader {
    feed: Arc<Feed>,
    position: SourcePosition,
}

impl Source for KeySource {
    type Reader = KeyReader;

    fn create_reader(&self, context: SourceContext) -> Result<KeyReader, OperatorError> {
        let position = context.positions.into_iter().next();
        let position = position.ok_or_else(|| OperatorError::new("no position"))?;
        Ok(KeyReader { feed: Arc::clone(&self.0), position })
    }
}

impl SplitReader for KeyReader {
    fn split_count(&self) -> usize {
        1
    }

    fn position(&self, _split: usize) -> SourcePosition {
        self.position.clone()
    }
}

/// Elements of one unit.
const UNIT: u64 = 256;

impl SourceReader for KeyReader {
    type Item = ([u8; 16], u64);

    fn poll_next<O>(&mut self, output: &mut O) -> Result<SourceStatus, OperatorError>
    where
        O: SourceOutput<Self::Item>,
    {
        let emitted = self.feed.emitted.load(Ordering::Relaxed);
        let left = self.feed.limit.load(Ordering::Relaxed).saturating_sub(emitted).min(UNIT);
        if left == 0 {
            return Ok(SourceStatus::Pending);
        }
        let stride = self.feed.stride.load(Ordering::Relaxed);
        let keys = self.feed.keys.load(Ordering::Relaxed).max(1);
        for element in emitted..emitted + left {
            let number = element.wrapping_mul(stride) % keys;
            let mut state = number;
            let first = mixed(&mut state).to_be_bytes();
            let mut key = [0; 16];
            let (one, other) = key.split_at_mut(8);
            one.copy_from_slice(&first);
            other.copy_from_slice(&number.to_be_bytes());
            output.emit(0, (key, element), 0)?;
        }
        self.feed.emitted.store(emitted + left, Ordering::Relaxed);
        self.position.offset += i64::try_from(left).unwrap_or(0);
        Ok(SourceStatus::Emitted)
    }
}

#[derive(Clone)]
struct Nowhere;

impl Sink for Nowhere {
    type Writer = Self;

    fn create_writer(&self, _context: SinkContext) -> Result<Self, OperatorError> {
        Ok(Self)
    }
}

impl Writer for Nowhere {
    fn on_barrier(&mut self, _checkpoint: u64) -> Result<(), OperatorError> {
        Ok(())
    }
}

impl SinkWriter<()> for Nowhere {
    fn write(&mut self, _element: (), _timestamp: i64) -> Result<(), OperatorError> {
        Ok(())
    }
}
