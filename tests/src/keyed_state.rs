//! A job that uses every kind of keyed state and timers, and what it must write.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use millstream_engine::api::{
    AggregateFunction, KeyedProcessFunction, OutputCollector, ProcessContext,
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
    key: String,
    value: i64,
    timestamp: i64,
}

/// `count` events, as JSON. Written round robin to `partitions` partitions, those of one key come to one partition, in order
/// of their timestamps.
#[must_use]
pub fn events(count: usize, partitions: usize, keys: usize) -> Vec<Event> {
    let event = |index: usize| {
        let key = format!("{}-{}", index % partitions, index / partitions % keys);
        let number = i64::try_from(index).unwrap_or(i64::MAX);
        Event { key, value: number * 7919 % 1000, timestamp: 1_000_000 + number }
    };
    (0..count).map(event).collect()
}

/// How long after an element its timer fires, in milliseconds of event time; elements of one window share a timer.
const TIMER_MS: i64 = 400;

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
        self.fired = runtime.value_state(ValueStateDescriptor::new("fired"))?;
        Ok(())
    }

    fn process_element(
        &mut self,
        Event { key, value, timestamp }: Event,
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
        let mut timers = ctx.timer_service();
        timers.register_event_time_timer(timer_of(timestamp));
        if count == 1 {
            // Long ago: fires at once, and once.
            timers.register_processing_time_timer(1000);
            timers.register_processing_time_timer(2000);
            timers.delete_processing_time_timer(2000);
        }
        let recent = self.recent.get(ctx)?;
        let digits: Vec<(u8, u64)> = self.by_digit.entries(ctx)?;
        let largest = self.largest.get(ctx)?.copied();
        let total = self.total.get(ctx)?;
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
    before: Option<i64>,
) -> String {
    format!("{key} element {count} {recent:?} {digits:?} {largest:?} {total:?} {before:?}")
}

/// Every line that the job writes for `events`, in the order of the text.
#[must_use]
pub fn expected(events: &[Event]) -> Vec<String> {
    #[derive(Default)]
    struct Kept {
        values: Vec<i64>,
        recent: Vec<i64>,
        digits: BTreeMap<u8, u64>,
        timers: BTreeSet<i64>,
    }
    let mut keys: BTreeMap<&str, Kept> = BTreeMap::new();
    let mut lines = Vec::new();
    for Event { key, value, timestamp } in events {
        let kept = keys.entry(key).or_default();
        let before = kept.values.last().copied();
        kept.values.push(*value);
        if kept.recent.len() >= LIST_MAX {
            kept.recent.clear();
        }
        kept.recent.push(*value);
        *kept.digits.entry(u8::try_from(value % 10).unwrap_or(0)).or_default() += 1;
        kept.timers.insert(timer_of(*timestamp));
        let digits: Vec<_> = kept.digits.iter().map(|(digit, count)| (*digit, *count)).collect();
        let (largest, total) = (kept.values.iter().max().copied(), kept.values.iter().sum());
        let count = kept.values.len() as u64;
        lines.push(element_line(key, count, &kept.recent, &digits, largest, Some(total), before));
    }
    for (key, kept) in keys {
        lines.push(format!("{key} clock 1000"));
        let timers = (1..).zip(kept.timers);
        lines.extend(timers.map(|(fired, timestamp)| format!("{key} timer {fired} {timestamp}")));
    }
    lines.sort_unstable();
    lines
}

/// The first word of a line.
#[expect(clippy::ptr_arg, reason = "the sink gives references to its elements")]
fn key_of(line: &String) -> String {
    line.split(' ').next().unwrap_or_default().to_owned()
}

/// Runs the job until it is stopped or, if it is `bounded`, has read what is there.
///
/// # Errors
///
/// [`JobError`] of the job.
pub fn run_job(
    bootstrap_servers: &str,
    input: &str,
    output: &str,
    state_dir: &Path,
    bounded: bool,
) -> Result<(), JobError> {
    let kafka = ClientConfig::new(bootstrap_servers);
    let source = KafkaSource::new(kafka.clone())
        .topics([input])
        .bounded(bounded.then(OffsetsInitializer::latest));
    let watermarks = WatermarkStrategy::for_monotonous_timestamps()
        .with_timestamp_assigner(|event: &Event, _| event.timestamp)
        .without_idleness();
    let environment = StreamExecutionEnvironment::new("keyed-state")
        .parallelism(2)
        .checkpoint_interval(Duration::from_millis(100))
        .state_cache_entries(50);
    environment
        .from_source(source.json::<Event>(), watermarks)
        .uid("events")
        .key_by(|event: &Event| event.key.clone())
        .process("all-kinds", AllKinds::default())
        .sink_to(KafkaSink::new(kafka).topic(output).json_with_key(key_of))
        .uid("lines");
    Job::new(environment, state_dir)?.run()
}
