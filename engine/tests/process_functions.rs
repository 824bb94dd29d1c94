//! Functions with state and timers: whatever the schedule, the barriers, the crashes and the parallelism, what is committed is
//! what a plain recomputation gives.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper of a test fails the test")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use millstream_engine::api::{
    KeyedProcessFunction, OutputCollector, ProcessContext, StreamExecutionEnvironment, TimeDomain,
};
use millstream_engine::connector::collection::{CollectingSink, CollectionSource};
use millstream_engine::graph::{JobGraph, RestoreContext};
use millstream_engine::state::{
    ListState, ListStateDescriptor, MapState, MapStateDescriptor, RuntimeContext, ValueState,
    ValueStateDescriptor,
};
use millstream_engine::task::{StepOutcome, WorkerReport};
use millstream_engine::time::{ManualClock, WatermarkStrategy};
use millstream_engine::{CheckpointKind, GraphError, OperatorError};
use support::{Confirmed, Ended, Random, Run};

type Element = (u16, i64);

/// Per key: the values of each second, given out as a list when the second is over; and how many seconds there were.
#[derive(Clone, Default)]
struct ByTimer {
    values: MapState<i64, i64>,
    seconds: ListState<i64>,
    count: ValueState<u64>,
}

/// Key, end of the second, values by timestamp, ends of all seconds so far.
type Second = (u16, i64, Vec<(i64, i64)>, Vec<i64>);

const SECOND: i64 = 100;

impl KeyedProcessFunction for ByTimer {
    type Key = u16;
    type Input = Element;
    type Output = Second;

    fn open(&mut self, runtime: &mut RuntimeContext<'_>) -> Result<(), OperatorError> {
        self.values = runtime.map_state(MapStateDescriptor::new("values"))?;
        self.seconds = runtime.list_state(ListStateDescriptor::new("seconds"))?;
        self.count = runtime.value_state(ValueStateDescriptor::new("count"))?;
        Ok(())
    }

    fn process_element(
        &mut self,
        (_, value): Element,
        ctx: &mut ProcessContext<'_, u16>,
        _out: &mut OutputCollector<'_, Second>,
    ) -> Result<(), OperatorError> {
        let timestamp = ctx.timestamp();
        let so_far = self.values.get(ctx, &timestamp)?.unwrap_or(0);
        self.values.put(ctx, &timestamp, &(so_far + value))?;
        let mut timers = ctx.timer_service();
        timers.register_event_time_timer((timestamp / SECOND + 1) * SECOND);
        // One that is taken back at once never fires.
        timers.register_event_time_timer((timestamp / SECOND + 1) * SECOND + 1);
        timers.delete_event_time_timer((timestamp / SECOND + 1) * SECOND + 1);
        Ok(())
    }

    fn on_timer(
        &mut self,
        timestamp: i64,
        ctx: &mut ProcessContext<'_, u16>,
        out: &mut OutputCollector<'_, Second>,
    ) -> Result<(), OperatorError> {
        assert_eq!(ctx.time_domain(), Some(TimeDomain::EventTime));
        assert!(ctx.timer_service().current_watermark() >= timestamp);
        let mut values = self.values.entries(ctx)?;
        values.retain(|(at, _)| *at < timestamp);
        values.sort_unstable();
        for (at, _) in &values {
            self.values.remove(ctx, at)?;
        }
        self.seconds.add(ctx, &timestamp)?;
        let count = self.count.value(ctx)?.copied().unwrap_or(0) + 1;
        self.count.update(ctx, count)?;
        let seconds = self.seconds.get(ctx)?;
        assert_eq!(seconds.len() as u64, count);
        out.collect((ctx.current_key()?, timestamp, values, seconds))
    }
}

fn random_splits(random: &mut Random) -> Vec<Vec<(Element, i64)>> {
    let splits = 1 + random.below(4);
    let mut split = |_| {
        let elements = random.below(80);
        let mut split: Vec<(Element, i64)> = (0..elements)
            .map(|_| {
                let key = u16::try_from(random.below(12)).unwrap();
                let value = i64::try_from(random.below(100)).unwrap();
                ((key, value), i64::try_from(random.below(2_000)).unwrap())
            })
            .collect();
        split.sort_by_key(|(_, timestamp)| *timestamp);
        split
    };
    (0..splits).map(&mut split).collect()
}

fn expected(splits: &[Vec<(Element, i64)>]) -> Vec<Second> {
    let mut values: BTreeMap<(u16, i64), BTreeMap<i64, i64>> = BTreeMap::new();
    let mut ends: BTreeMap<u16, BTreeSet<i64>> = BTreeMap::new();
    for ((key, value), timestamp) in splits.iter().flatten() {
        let end = (timestamp / SECOND + 1) * SECOND;
        *values.entry((*key, end)).or_default().entry(*timestamp).or_default() += value;
        ends.entry(*key).or_default().insert(end);
    }
    let second = |((key, end), values): (_, BTreeMap<i64, i64>)| {
        let ends = ends[&key].range(..=end).copied().collect();
        (key, end, values.into_iter().collect(), ends)
    };
    values.into_iter().map(second).collect()
}

#[test]
fn timers_and_state_give_the_recomputed_answer_over_crashes() {
    let seeds = match std::env::var("MILLSTREAM_SEED") {
        Ok(seed) => {
            let seed = seed.parse().unwrap();
            seed..seed + 1
        }
        Err(_) => 0..200,
    };
    let mut results = 0;
    for seed in seeds {
        println!("repeat with MILLSTREAM_SEED={seed}");
        let mut random = Random::new(seed);
        let splits = random_splits(&mut random);
        let source = CollectionSource::new(splits.clone()).chunk_elements(1 + random.below(9));
        let sink = CollectingSink::new().with_pending_max(3 + random.below(60));
        let (exchange_bytes, cache) = (1 + random.below(400), 1 + random.below(20));
        let graph = |parallelism: usize| {
            let environment = StreamExecutionEnvironment::new("functions")
                .parallelism(parallelism)
                .max_parallelism(16)
                .exchange_bytes(exchange_bytes)
                .state_cache_entries(cache);
            environment
                .from_source(source.clone(), WatermarkStrategy::for_monotonous_timestamps())
                .uid("input")
                .key_by(|(key, _): &Element| *key)
                .process("seconds", ByTimer::default())
                .sink_to(sink.clone())
                .uid("output");
            environment.into_job_graph().unwrap()
        };
        let mut confirmed = Confirmed::start(source.start_positions("input"));
        let crashes = random.below(5);
        let barrier_every = 3 + random.below(60);
        for crash in 0..=crashes {
            let graph = graph(1 + random.below(4));
            let mut run = Run::new(&graph, &confirmed);
            let steps = if crash == crashes { 1_000_000 } else { random.below(300) };
            let ended = run.drive(&mut random, &mut confirmed, barrier_every, steps);
            sink.abort_after(confirmed.checkpoint);
            if ended == Ended::Finished {
                break;
            }
            assert!(crash < crashes, "the job does not end");
        }
        let mut found: Vec<Second> = sink.elements();
        found.sort();
        results += found.len();
        assert_eq!(found, expected(&splits), "seed {seed}");
        assert_eq!(confirmed.state.dirty_bytes().bytes(), 0);
    }
    assert!(results > 100, "nothing was compared");
}

/// Emits the time at which a timer in processing time fired, a second after the element.
#[derive(Clone, Default)]
struct Later {
    seen: ValueState<i64>,
}

impl KeyedProcessFunction for Later {
    type Key = u16;
    type Input = Element;
    type Output = (u16, i64, i64);

    fn open(&mut self, runtime: &mut RuntimeContext<'_>) -> Result<(), OperatorError> {
        self.seen = runtime.value_state(ValueStateDescriptor::new("seen"))?;
        Ok(())
    }

    fn process_element(
        &mut self,
        (_, delay): Element,
        ctx: &mut ProcessContext<'_, u16>,
        _out: &mut OutputCollector<'_, (u16, i64, i64)>,
    ) -> Result<(), OperatorError> {
        let mut timers = ctx.timer_service();
        let now = timers.current_processing_time();
        timers.register_processing_time_timer(now + delay);
        self.seen.update(ctx, now)
    }

    fn on_timer(
        &mut self,
        timestamp: i64,
        ctx: &mut ProcessContext<'_, u16>,
        out: &mut OutputCollector<'_, (u16, i64, i64)>,
    ) -> Result<(), OperatorError> {
        assert_eq!(ctx.time_domain(), Some(TimeDomain::ProcessingTime));
        let now = ctx.timer_service().current_processing_time();
        out.collect((ctx.current_key()?, timestamp, now))
    }
}

fn later_job(sink: &CollectingSink<(u16, i64, i64)>) -> (JobGraph, CollectionSource<Element>) {
    let source = CollectionSource::new(vec![vec![((1, 50), 0), ((2, 10), 0)]]);
    let environment = StreamExecutionEnvironment::new("later").parallelism(1).max_parallelism(4);
    environment
        .from_source(source.clone(), WatermarkStrategy::no_watermarks())
        .uid("input")
        .key_by(|(key, _): &Element| *key)
        .process("later", Later::default())
        .sink_to(sink.clone())
        .uid("output");
    (environment.into_job_graph().unwrap(), source)
}

#[test]
fn timers_in_processing_time_fire_by_the_clock_and_late_after_a_restart() {
    let sink = CollectingSink::new();
    let (graph, source) = later_job(&sink);
    let mut confirmed = Confirmed::start(source.start_positions("input"));
    let clock = Arc::new(ManualClock::new());
    clock.advance(Duration::from_millis(1_000));
    let reports = Arc::new(std::sync::Mutex::new(Vec::new()));
    let receiver = Arc::clone(&reports);
    let restore = RestoreContext { clock: clock.clone(), ..confirmed.restore_context() };
    let (mut workers, set) =
        graph.build_workers(&restore, move |it| receiver.lock().unwrap().push(it)).unwrap();
    let worker = workers.first_mut().unwrap();
    // The elements, but not the end of the input that comes behind them.
    while graph.metrics().operator("later").unwrap().records_in < 2 {
        worker.step();
    }
    set.trigger_checkpoint(1, CheckpointKind::Checkpoint);
    while reports.lock().unwrap().is_empty() {
        worker.step();
    }
    let report = reports.lock().unwrap().remove(0);
    let WorkerReport::Sealed(sealed) = report else { panic!("{report:?}") };
    confirmed.confirm(sealed);
    assert_eq!(sink.elements(), []);
    drop(workers);

    // A clock that was set back by a restart does not go back here.
    let behind = Arc::new(ManualClock::new());
    behind.advance(Duration::from_millis(400));
    let restore = RestoreContext { clock: behind.clone(), ..confirmed.restore_context() };
    let receiver = Arc::clone(&reports);
    let (mut workers, _set) =
        graph.build_workers(&restore, move |it| receiver.lock().unwrap().push(it)).unwrap();
    let worker = workers.first_mut().unwrap();
    worker.step();
    assert_eq!(sink.elements(), []);
    // Ten seconds later: both are late, the earlier one first.
    behind.advance(Duration::from_millis(10_000));
    while worker.step() == StepOutcome::Worked {}
    let reports = reports.lock().unwrap();
    assert!(matches!(reports.as_slice(), [WorkerReport::Finished { .. }]), "{reports:?}");
    assert_eq!(sink.elements(), [(2, 1_010, 10_400), (1, 1_050, 10_400)]);
}

/// A function whose registration is wrong.
#[derive(Clone, Default)]
struct Wrong {
    one: ValueState<u64>,
}

impl KeyedProcessFunction for Wrong {
    type Key = u16;
    type Input = Element;
    type Output = ();

    fn open(&mut self, runtime: &mut RuntimeContext<'_>) -> Result<(), OperatorError> {
        self.one = runtime.value_state(ValueStateDescriptor::new("one"))?;
        runtime.list_state(ListStateDescriptor::<u64>::new("one"))?;
        Ok(())
    }

    fn process_element(
        &mut self,
        _element: Element,
        _ctx: &mut ProcessContext<'_, u16>,
        _out: &mut OutputCollector<'_, ()>,
    ) -> Result<(), OperatorError> {
        Ok(())
    }
}

#[test]
fn two_states_of_one_name_are_refused_before_the_job_starts() {
    let environment = StreamExecutionEnvironment::new("wrong");
    environment
        .from_source(CollectionSource::new(vec![]), WatermarkStrategy::no_watermarks())
        .key_by(|(key, _): &Element| *key)
        .process("wrong", Wrong::default())
        .sink_to(CollectingSink::new());
    let error = environment.into_job_graph().unwrap_err();
    let GraphError::InvalidFunction { uid, reason } = &error else { panic!("{error}") };
    assert_eq!(uid, "wrong");
    assert!(reason.contains("two states are named \"one\""), "{reason}");
}

/// Uses a state that it has never registered.
#[derive(Clone, Default)]
struct Unregistered {
    state: ListState<u64>,
}

impl KeyedProcessFunction for Unregistered {
    type Key = u16;
    type Input = Element;
    type Output = ();

    fn open(&mut self, _runtime: &mut RuntimeContext<'_>) -> Result<(), OperatorError> {
        Ok(())
    }

    fn process_element(
        &mut self,
        _element: Element,
        ctx: &mut ProcessContext<'_, u16>,
        _out: &mut OutputCollector<'_, ()>,
    ) -> Result<(), OperatorError> {
        self.state.add(ctx, &1)
    }
}

#[test]
fn a_state_that_was_not_registered_ends_the_run_with_the_operators_name() {
    let source = CollectionSource::new(vec![vec![((1, 1), 0)]]);
    let environment = StreamExecutionEnvironment::new("unregistered").parallelism(1);
    environment
        .from_source(source.clone(), WatermarkStrategy::no_watermarks())
        .uid("input")
        .key_by(|(key, _): &Element| *key)
        .process("forgetful", Unregistered::default())
        .sink_to(CollectingSink::new());
    let graph = environment.into_job_graph().unwrap();
    let confirmed = Confirmed::start(source.start_positions("input"));
    let reports = Arc::new(std::sync::Mutex::new(Vec::new()));
    let receiver = Arc::clone(&reports);
    let (mut workers, _set) = graph
        .build_workers(&confirmed.restore_context(), move |it| receiver.lock().unwrap().push(it))
        .unwrap();
    while workers.first_mut().unwrap().step() == StepOutcome::Worked {}
    let reports = reports.lock().unwrap();
    let [WorkerReport::Failed { error, .. }] = reports.as_slice() else { panic!("{reports:?}") };
    assert_eq!(error.uid(), Some("forgetful"));
    assert!(error.cause().to_string().contains("is not registered here"), "{error:?}");
}

/// Emits the sum of a key's values so far.
#[derive(Clone, Default)]
struct SumSoFar {
    sum: ValueState<i64>,
    values: ListState<i64>,
}

impl KeyedProcessFunction for SumSoFar {
    type Key = u16;
    type Input = Element;
    type Output = (u16, i64);

    fn open(&mut self, runtime: &mut RuntimeContext<'_>) -> Result<(), OperatorError> {
        self.sum = runtime.value_state(ValueStateDescriptor::new("sum"))?;
        self.values = runtime.list_state(ListStateDescriptor::new("values"))?;
        Ok(())
    }

    fn process_element(
        &mut self,
        (key, value): Element,
        ctx: &mut ProcessContext<'_, u16>,
        out: &mut OutputCollector<'_, (u16, i64)>,
    ) -> Result<(), OperatorError> {
        let sum = self.sum.value(ctx)?.copied().unwrap_or(0) + value;
        self.sum.update(ctx, sum)?;
        self.values.add(ctx, &value)?;
        assert_eq!(self.values.get(ctx)?.iter().sum::<i64>(), sum);
        out.collect((key, sum))
    }
}

#[test]
fn elements_are_processed_while_a_large_checkpoint_is_encoded() {
    const KEYS: u16 = 10_000;
    let round = |value: i64| (0..KEYS).map(move |key| ((key, value), 0));
    let source = CollectionSource::new(vec![round(1).chain(round(2)).collect()]);
    let sink = CollectingSink::new();
    let environment = StreamExecutionEnvironment::new("large").parallelism(1);
    environment
        .from_source(source.clone(), WatermarkStrategy::no_watermarks())
        .uid("input")
        .key_by(|(key, _): &Element| *key)
        .process("sums", SumSoFar::default())
        .sink_to(sink.clone())
        .uid("output");
    let graph = environment.into_job_graph().unwrap();
    let processed = || graph.metrics().operator("sums").unwrap().records_in;
    let mut confirmed = Confirmed::start(source.start_positions("input"));
    let reports = Arc::new(std::sync::Mutex::new(Vec::new()));
    let receiver = Arc::clone(&reports);
    let (mut workers, set) = graph
        .build_workers(&confirmed.restore_context(), move |it| receiver.lock().unwrap().push(it))
        .unwrap();
    let worker = workers.first_mut().unwrap();
    while processed() < u64::from(KEYS) {
        worker.step();
    }
    assert!(confirmed.state.dirty_bytes().bytes() > usize::from(KEYS) * 8);
    set.trigger_checkpoint(1, CheckpointKind::Checkpoint);
    let before = processed();
    while reports.lock().unwrap().is_empty() {
        worker.step();
    }
    assert!(processed() > before + 256, "only {} elements meanwhile", processed() - before);
    let report = reports.lock().unwrap().remove(0);
    let WorkerReport::Sealed(sealed) = report else { panic!("{report:?}") };
    confirmed.confirm(sealed);
    // What came after the barrier is gone with the worker.
    drop(workers);
    sink.abort_after(1);
    let mut random = Random::new(1);
    let mut run = Run::new(&graph, &confirmed);
    assert_eq!(run.drive(&mut random, &mut confirmed, 50, 1_000_000), Ended::Finished);
    let mut sums = sink.elements();
    sums.sort_unstable();
    let expected: Vec<_> = (0..KEYS).flat_map(|key| [(key, 1), (key, 3)]).collect();
    assert_eq!(sums.len(), expected.len());
    assert!(sums == expected);
}
