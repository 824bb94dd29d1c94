//! A job that uses every kind of keyed state and timers, and what it must write.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use millstream_engine::api::{
    AggregateFunction, Count, KeyedProcessFunction, OutputCollector, ProcessContext,
    StreamExecutionEnvironment, TimeDomain,
};
use millstream_engine::kafka::{ClientConfig, KafkaSink, KafkaSource, OffsetsInitializer};
use millstream_engine::state::{
    AggregatingState, AggregatingStateDescriptor, ListState, ListStateDescriptor, MapState,
    MapStateDescriptor, ReducingState, ReducingStateDescriptor, RuntimeContext, StateTtlConfig,
    TtlTimeCharacteristic, ValueState, ValueStateDescriptor,
};
use millstream_engine::time::WatermarkStrategy;
use millstream_engine::{Job, JobError, OperatorError};
use serde::{Deserialize, Serialize};

/// One input record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Event {
    /// Begins with the partition that it belongs to.
    pub key: String,
    /// Anything.
    pub value: i64,
    /// Event time in milliseconds.
    pub timestamp: i64,
    /// When a timer of the key is to fire, in milliseconds since 1970 by the machine's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<i64>,
}

impl Event {
    /// The partition that it belongs to.
    #[must_use]
    pub fn partition(&self) -> i32 {
        self.key.split('-').next().and_then(|digits| digits.parse().ok()).unwrap_or(0)
    }
}

/// `count` events, as JSON. Written round robin to `partitions` partitions, those of one key come to one partition, in order
/// of their timestamps.
#[must_use]
pub fn events(count: usize, partitions: usize, keys: usize) -> Vec<Event> {
    events_at(0..count, partitions, keys, 1_000_000)
}

/// The events with these numbers, the first of which is that of `from_ms`.
#[must_use]
pub fn events_at(
    numbers: Range<usize>,
    partitions: usize,
    keys: usize,
    from_ms: i64,
) -> Vec<Event> {
    let first = numbers.start;
    let event = |index: usize| {
        let key = format!("{}-{}", index % partitions, index / partitions % keys);
        let number = i64::try_from(index).unwrap_or(i64::MAX);
        let timestamp = from_ms + i64::try_from(index - first).unwrap_or(i64::MAX);
        Event { key, value: number * 7919 % 1000, timestamp, clock: None }
    };
    numbers.map(event).collect()
}

/// How long after an element its timer fires, in milliseconds of event time; elements of one window share a timer.
const TIMER_MS: i64 = 400;

/// How long the state `brief` lives, in milliseconds of event time: longer than any input without a gap lasts.
pub const BRIEF_MS: i64 = 100_000;

/// Elements of a list after which it is begun anew.
const LIST_MAX: usize = 8;

/// The state of one key.
#[derive(Clone, Default)]
struct AllKinds {
    count: ValueState<u64>,
    recent: ListState<i64>,
    by_digit: MapState<u8, u64>,
    largest: ReducingState<i64>,
    total: AggregatingState<Total>,
    quick: ValueState<i64>,
    brief: ValueState<i64>,
    fired: ValueState<u64>,
}

#[derive(Clone)]
struct Total;

impl AggregateFunction for Total {
    type Input = i64;
    type Accumulator = (u64, i64);
    type Output = i64;

    fn create_accumulator(&self) -> (u64, i64) {
        (0, 0)
    }
    fn add(&self, element: i64, (count, sum): &mut (u64, i64)) {
        *count += 1;
        *sum += element;
    }
    fn result(&self, (_, sum): &(u64, i64)) -> i64 {
        *sum
    }
}

impl KeyedProcessFunction for AllKinds {
    type Key = String;
    type Input = Event;
    type Output = String;

    fn open(&mut self, runtime: &mut RuntimeContext<'_>) -> Result<(), OperatorError> {
        self.count = runtime.value_state(ValueStateDescriptor::new("count"))?;
        self.recent = runtime.list_state(ListStateDescriptor::new("recent"))?;
        self.by_digit = runtime.map_state(MapStateDescriptor::new("by digit"))?;
        self.largest = runtime.reducing_state(ReducingStateDescriptor::new("largest", i64::max))?;
        self.total = runtime.aggregating_state(AggregatingStateDescriptor::new("total", Total))?;
        // Lives for longer than the input lasts: what is checked is that it is kept.
        let ttl = StateTtlConfig::new(Duration::from_secs(1_000_000))
            .time_characteristic(TtlTimeCharacteristic::EventTime);
        self.quick = runtime.value_state(ValueStateDescriptor::new("quick").with_ttl(ttl))?;
        let ttl = StateTtlConfig::new(Duration::from_millis(BRIEF_MS.unsigned_abs()))
            .time_characteristic(TtlTimeCharacteristic::EventTime);
        self.brief = runtime.value_state(ValueStateDescriptor::new("brief").with_ttl(ttl))?;
        self.fired = runtime.value_state(ValueStateDescriptor::new("fired"))?;
        Ok(())
    }

    fn process_element(
        &mut self,
        Event { key, value, timestamp, clock }: Event,
        ctx: &mut ProcessContext<'_, String>,
        out: &mut OutputCollector<'_, String>,
    ) -> Result<(), OperatorError> {
        let count = self.count.value(ctx)?.copied().unwrap_or(0) + 1;
        self.count.update(ctx, count)?;
        if self.recent.get(ctx)?.len() >= LIST_MAX {
            self.recent.clear(ctx)?;
        }
        self.recent.add(ctx, &value)?;
        let digit = u8::try_from(value % 10).unwrap_or(0);
        let of_digit = self.by_digit.get(ctx, &digit)?.unwrap_or(0) + 1;
        self.by_digit.put(ctx, &digit, &of_digit)?;
        self.largest.add(ctx, value)?;
        self.total.add(ctx, value)?;
        let before = self.quick.value(ctx)?.copied();
        self.quick.update(ctx, value)?;
        let brief = self.brief.value(ctx)?.copied();
        self.brief.update(ctx, value)?;
        let mut timers = ctx.timer_service();
        timers.register_event_time_timer(timer_of(timestamp));
        if count == 1 {
            // Long ago: fires at once, and once.
            timers.register_processing_time_timer(1000);
            timers.register_processing_time_timer(2000);
            timers.delete_processing_time_timer(2000);
        }
        if let Some(clock) = clock {
            timers.register_processing_time_timer(clock);
        }
        let recent = self.recent.get(ctx)?;
        let digits: Vec<(u8, u64)> = self.by_digit.entries(ctx)?;
        let largest = self.largest.get(ctx)?.copied();
        let total = self.total.get(ctx)?;
        let before = [before, brief];
        out.collect(element_line(&key, count, &recent, &digits, largest, total, before))
    }

    fn on_timer(
        &mut self,
        timestamp: i64,
        ctx: &mut ProcessContext<'_, String>,
        out: &mut OutputCollector<'_, String>,
    ) -> Result<(), OperatorError> {
        let key = ctx.current_key()?;
        if ctx.time_domain() == Some(TimeDomain::ProcessingTime) {
            return out.collect(format!("{key} clock {timestamp}"));
        }
        let fired = self.fired.value(ctx)?.copied().unwrap_or(0) + 1;
        self.fired.update(ctx, fired)?;
        out.collect(format!("{key} timer {fired} {timestamp}"))
    }
}

fn timer_of(timestamp: i64) -> i64 {
    (timestamp / TIMER_MS + 2) * TIMER_MS
}

fn element_line(
    key: &str,
    count: u64,
    recent: &[i64],
    digits: &[(u8, u64)],
    largest: Option<i64>,
    total: Option<i64>,
    before: [Option<i64>; 2],
) -> String {
    format!("{key} element {count} {recent:?} {digits:?} {largest:?} {total:?} {before:?}")
}

/// A line that the job writes, and what makes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    /// The line.
    pub text: String,
    /// What makes it.
    pub cause: LineCause,
}

/// What makes a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LineCause {
    /// The event at this place.
    Element(usize),
    /// A timer in event time.
    EventTime(i64),
    /// A timer in processing time.
    ProcessingTime(i64),
}

/// Every line that the job writes for `events`, in the order of the text.
#[must_use]
pub fn expected(events: &[Event]) -> Vec<String> {
    expected_lines(events).into_iter().map(|line| line.text).collect()
}

/// The same, with what makes each line. A key's element after a gap of more than [`BRIEF_MS`] has to be processed when event
/// time has come there.
#[must_use]
pub fn expected_lines(events: &[Event]) -> Vec<Line> {
    #[derive(Default)]
    struct Kept {
        values: Vec<i64>,
        recent: Vec<i64>,
        digits: BTreeMap<u8, u64>,
        timers: BTreeSet<i64>,
        clocks: BTreeSet<i64>,
        last: i64,
    }
    let mut keys: BTreeMap<&str, Kept> = BTreeMap::new();
    let mut lines = Vec::new();
    for (index, Event { key, value, timestamp, clock }) in events.iter().enumerate() {
        let kept = keys.entry(key).or_default();
        let before = kept.values.last().copied();
        let brief = before.filter(|_| timestamp - kept.last < BRIEF_MS);
        kept.last = *timestamp;
        kept.values.push(*value);
        if kept.recent.len() >= LIST_MAX {
            kept.recent.clear();
        }
        kept.recent.push(*value);
        *kept.digits.entry(u8::try_from(value % 10).unwrap_or(0)).or_default() += 1;
        kept.timers.insert(timer_of(*timestamp));
        kept.clocks.extend(*clock);
        kept.clocks.insert(1000);
        let digits: Vec<_> = kept.digits.iter().map(|(digit, count)| (*digit, *count)).collect();
        let (largest, total) = (kept.values.iter().max().copied(), kept.values.iter().sum());
        let count = kept.values.len() as u64;
        let before = [before, brief];
        let text = element_line(key, count, &kept.recent, &digits, largest, Some(total), before);
        lines.push(Line { text, cause: LineCause::Element(index) });
    }
    for (key, kept) in keys {
        lines.extend(kept.clocks.into_iter().map(|at| Line {
            text: format!("{key} clock {at}"),
            cause: LineCause::ProcessingTime(at),
        }));
        lines.extend((1..).zip(kept.timers).map(|(fired, at)| Line {
            text: format!("{key} timer {fired} {at}"),
            cause: LineCause::EventTime(at),
        }));
    }
    lines.sort_unstable();
    lines
}

/// The first word of a line.
#[expect(clippy::ptr_arg, reason = "the sink gives references to its elements")]
fn key_of(line: &String) -> String {
    line.split(' ').next().unwrap_or_default().to_owned()
}

/// How the job is run.
#[derive(Clone, Debug)]
pub struct KeyedStateJob {
    /// Its name.
    pub name: String,
    /// Brokers to begin with.
    pub bootstrap_servers: String,
    /// Topic of [`Event`]s.
    pub input: String,
    /// Uid of their source.
    pub source_uid: String,
    /// Topic of lines.
    pub output: String,
    /// Topic for how many events each key has had, by an operator and a source of their own; without it they are not there.
    pub counts: Option<String>,
    /// Workers.
    pub parallelism: usize,
    /// Time between checkpoints.
    pub checkpoint_interval: Duration,
    /// Ends once everything is read.
    pub bounded: bool,
}

impl KeyedStateJob {
    /// With two workers and ten checkpoints a second.
    #[must_use]
    pub fn new(bootstrap_servers: &str, input: &str, output: &str) -> Self {
        Self {
            name: "keyed-state".to_owned(),
            bootstrap_servers: bootstrap_servers.to_owned(),
            input: input.to_owned(),
            source_uid: "events".to_owned(),
            output: output.to_owned(),
            counts: None,
            parallelism: 2,
            checkpoint_interval: Duration::from_millis(100),
            bounded: false,
        }
    }

    /// The job with its state in `state_dir`.
    ///
    /// # Errors
    ///
    /// [`JobError`] if it is no job.
    pub fn job(&self, state_dir: &Path) -> Result<Job, JobError> {
        let kafka = ClientConfig::new(&self.bootstrap_servers);
        let source = KafkaSource::new(kafka.clone())
            .topics([&self.input])
            .bounded(self.bounded.then(OffsetsInitializer::latest));
        let watermarks = || {
            WatermarkStrategy::for_monotonous_timestamps()
                .with_timestamp_assigner(|event: &Event, _| event.timestamp)
                .without_idleness()
        };
        let environment = StreamExecutionEnvironment::new(&self.name)
            .parallelism(self.parallelism)
            .checkpoint_interval(self.checkpoint_interval)
            .state_cache_entries(50);
        environment
            .from_source(source.clone().json::<Event>(), watermarks())
            .uid(&self.source_uid)
            .key_by(|event: &Event| event.key.clone())
            .process("all-kinds", AllKinds::default())
            .sink_to(KafkaSink::new(kafka.clone()).topic(&self.output).json_with_key(key_of))
            .uid("lines");
        if let Some(counts) = &self.counts {
            environment
                .from_source(source.json::<Event>(), watermarks())
                .uid("events-to-count")
                .key_by(|event: &Event| event.key.clone())
                .aggregate(Count::new())
                .uid("counts")
                .map(|counted| format!("{} {}", counted.key, counted.value))
                .sink_to(KafkaSink::new(kafka).topic(counts).json_with_key(key_of))
                .uid("counts-out");
        }
        Job::new(environment, state_dir)
    }
}

/// Every line of the topic of counts, in the order of the text.
#[must_use]
pub fn expected_counts(events: &[Event]) -> Vec<String> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut lines = Vec::new();
    for event in events {
        let count = counts.entry(&event.key).or_default();
        *count += 1;
        lines.push(format!("{} {count}", event.key));
    }
    lines.sort_unstable();
    lines
}
