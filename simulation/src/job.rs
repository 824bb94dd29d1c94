//! The jobs under test, and what they must write.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use millstream_engine::api::{
    KeyedProcessFunction, OutputCollector, ProcessContext, StreamExecutionEnvironment,
};
use millstream_engine::kafka::{
    ClientConfig, KafkaSink, KafkaSource, OffsetsInitializer, RecordDeserializer, RecordSerializer,
    RecordView,
};
use millstream_engine::state::{
    ListState, ListStateDescriptor, MapState, MapStateDescriptor, ReducingState,
    ReducingStateDescriptor, RuntimeContext, ValueState, ValueStateDescriptor,
};
use millstream_engine::time::WatermarkStrategy;
use millstream_engine::{Cause, Job, JobError, OperatorError, Resolution};

/// One input record: the text `key:number`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    /// What is counted by.
    pub key: u32,
    /// Which record of the key it is, from 1.
    pub number: u32,
}

impl Event {
    /// As the value of a record.
    #[must_use]
    pub fn encode(&self) -> String {
        format!("{}:{}", self.key, self.number)
    }
}

/// The input: `count` records over `keys` keys, those of one key in the order of their numbers.
#[must_use]
pub fn events(count: u32, keys: u32) -> Vec<Event> {
    (0..count).map(|n| Event { key: n % keys.max(1), number: n / keys.max(1) + 1 }).collect()
}

/// What the job must write of `events`: of each key its values in order. Those of a key have to come in the order of their numbers,
/// which begin with 1; one that comes again, because the job went back to an older state, is counted as it was before.
#[must_use]
pub fn expected<'a>(events: impl IntoIterator<Item = &'a Event>) -> BTreeMap<String, Vec<String>> {
    let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for event in events {
        let of_key = lines.entry(event.key.to_string()).or_default();
        of_key.push(format!("{}:{}:{}", event.key, event.number, event.number));
    }
    lines
}

/// Where and how a job runs.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Name of the job.
    pub name: String,
    /// Client properties, with the address of the cluster.
    pub kafka: ClientConfig,
    /// Topic that is read.
    pub input: String,
    /// Topic that is written.
    pub output: String,
    /// Workers.
    pub parallelism: usize,
    /// Between two checkpoints.
    pub checkpoint_interval: Duration,
    /// Whether it ends with the input as it is when the job starts; else it ends when it is stopped.
    pub bounded: bool,
    /// Somebody's word about a state and a ledger that do not fit together.
    pub resolution: Option<Resolution>,
    /// Its operator has another uid, so it is not the job whose state there may be.
    pub other_shape: bool,
    /// The savepoint that it begins from.
    pub from_savepoint: Option<PathBuf>,
}

/// Counts the records of each key and writes each count.
///
/// # Errors
///
/// [`JobError::InvalidJob`] if `setting` is none.
pub fn counting(setting: &Setting) -> Result<Job, JobError> {
    let source = KafkaSource::new(setting.kafka.clone())
        .topics([setting.input.clone()])
        .bounded(setting.bounded.then(OffsetsInitializer::latest))
        .deserializer(Text);
    let sink = KafkaSink::new(setting.kafka.clone()).topic(setting.output.clone()).serializer(Text);
    let mut environment = StreamExecutionEnvironment::new(setting.name.clone())
        .parallelism(setting.parallelism)
        .max_parallelism(4)
        .checkpoint_interval(setting.checkpoint_interval);
    match setting.resolution {
        None => {}
        Some(Resolution::AdoptLocal) => environment = environment.adopt_local(),
        Some(Resolution::AcceptRewind) => environment = environment.accept_rewind(),
    }
    environment
        .from_source(source, WatermarkStrategy::no_watermarks())
        .uid("events")
        .key_by(|event: &Event| event.key)
        .process(if setting.other_shape { "tallies" } else { "counts" }, Counter::default())
        .sink_to(sink)
        .uid("lines");
    let job = Job::new(environment, "/state")?;
    Ok(match &setting.from_savepoint {
        Some(savepoint) => job.from_savepoint(savepoint),
        None => job,
    })
}

/// Records as text.
#[derive(Clone, Debug)]
struct Text;

impl RecordDeserializer for Text {
    type Item = Event;

    fn deserialize(&mut self, record: &RecordView<'_>) -> Result<Option<Event>, Cause> {
        let text = std::str::from_utf8(record.value.unwrap_or_default())?;
        let (key, number) = text.split_once(':').ok_or_else(|| format!("{text:?} is no event"))?;
        Ok(Some(Event { key: key.parse()?, number: number.parse()? }))
    }
}

impl RecordSerializer<(Event, u32)> for Text {
    fn serialize(
        &mut self,
        (event, count): &(Event, u32),
        key: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> Result<bool, Cause> {
        key.extend_from_slice(event.key.to_string().as_bytes());
        let line = format!("{}:{count}:{}", event.key, event.number);
        value.extend_from_slice(line.as_bytes());
        Ok(true)
    }
}

/// Counts, in several kinds of state that must agree: after a crash each may have been applied to the store or not.
#[derive(Clone, Default)]
struct Counter {
    count: ValueState<u32>,
    total: ReducingState<u64>,
    recent: ListState<u32>,
    by_digit: MapState<u32, u32>,
}

/// Elements after which the list is begun anew.
const RECENT_MAX: u32 = 3;

/// No record is counted as this one; written in place of a count that the other states do not agree with.
const DISAGREEMENT: u32 = 0;

impl KeyedProcessFunction for Counter {
    type Key = u32;
    type Input = Event;
    type Output = (Event, u32);

    fn open(&mut self, runtime: &mut RuntimeContext<'_>) -> Result<(), OperatorError> {
        self.count = runtime.value_state(ValueStateDescriptor::new("count"))?;
        let add = |one: u64, other: u64| one.wrapping_add(other);
        self.total = runtime.reducing_state(ReducingStateDescriptor::new("total", add))?;
        self.recent = runtime.list_state(ListStateDescriptor::new("recent"))?;
        self.by_digit = runtime.map_state(MapStateDescriptor::new("by digit"))?;
        Ok(())
    }

    fn process_element(
        &mut self,
        event: Event,
        ctx: &mut ProcessContext<'_, u32>,
        out: &mut OutputCollector<'_, (Event, u32)>,
    ) -> Result<(), OperatorError> {
        let count = self.count.value(ctx)?.copied().unwrap_or(0) + 1;
        self.count.update(ctx, count)?;
        self.total.add(ctx, u64::from(event.number))?;
        if count % RECENT_MAX == 1 {
            self.recent.clear(ctx)?;
        }
        self.recent.add(ctx, &event.number)?;
        let digit = event.number % 10;
        let of_digit = self.by_digit.get(ctx, &digit)?.unwrap_or(0) + 1;
        self.by_digit.put(ctx, &digit, &of_digit)?;

        // Numbers of a key come in order, from 1.
        let number = u64::from(event.number);
        let total = self.total.get(ctx)?.copied();
        let recent = (count - 1) % RECENT_MAX + 1;
        let agree = count == event.number
            && total == Some(number * (number + 1) / 2)
            && self.recent.get(ctx)?.len() == recent as usize
            && of_digit == (event.number - digit) / 10 + u32::from(digit > 0);
        out.collect((event, if agree { count } else { DISAGREEMENT }))
    }
}
