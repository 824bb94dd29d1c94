//! Whatever the schedule, the bounds, the barriers, the crashes and the parallelism: the committed output is that of a plain
//! recomputation.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper of a test fails the test")]

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_engine::api::{AggregateFunction, Keyed, StreamExecutionEnvironment};
use millstream_engine::connector::collection::{Collected, CollectingSink, CollectionSource};
use millstream_engine::graph::JobGraph;
use millstream_engine::time::WatermarkStrategy;
use millstream_engine::window::{TumblingEventTimeWindows, WindowResult};
use proptest::prelude::*;
use support::{Confirmed, Ended, Random, Run};

type Element = (u16, i64);
type Splits = Vec<Vec<(Element, i64)>>;

#[derive(Clone)]
struct Sum;

impl AggregateFunction for Sum {
    type Input = Element;
    type Accumulator = (u64, i64);
    type Output = (u64, i64);

    fn create_accumulator(&self) -> (u64, i64) {
        (0, 0)
    }
    fn add(&self, (_, value): Element, (count, sum): &mut (u64, i64)) {
        *count += 1;
        *sum += value;
    }
    fn result(&self, accumulator: &(u64, i64)) -> (u64, i64) {
        *accumulator
    }
}

/// What a run is like; everything else follows from the seed.
#[derive(Clone, Debug)]
struct Scenario {
    splits: Splits,
    chunk_elements: usize,
    exchange_bytes: usize,
    cache_entries: usize,
    pending_max: usize,
    barrier_every: usize,
    crashes: usize,
    seed: u64,
}

fn scenario() -> impl Strategy<Value = Scenario> {
    let element = ((0..12_u16, -50..50_i64), 0..1_000_i64);
    let splits = prop::collection::vec(prop::collection::vec(element, 0..60), 1..5);
    (
        splits,
        1..9_usize,
        1..400_usize,
        1..20_usize,
        3..60_usize,
        3..80_usize,
        0..4_usize,
        any::<u64>(),
    )
        .prop_map(
            |(
                splits,
                chunk_elements,
                exchange_bytes,
                cache_entries,
                pending_max,
                barrier_every,
                crashes,
                seed,
            )| {
                Scenario {
                    splits,
                    chunk_elements,
                    exchange_bytes,
                    cache_entries,
                    pending_max,
                    barrier_every,
                    crashes,
                    seed,
                }
            },
        )
}

impl Scenario {
    fn source(&self) -> CollectionSource<Element> {
        CollectionSource::new(self.splits.clone()).chunk_elements(self.chunk_elements)
    }

    fn environment(&self, parallelism: usize) -> StreamExecutionEnvironment {
        StreamExecutionEnvironment::new("property")
            .parallelism(parallelism)
            .max_parallelism(16)
            .exchange_bytes(self.exchange_bytes)
            .state_cache_entries(self.cache_entries)
    }

    /// Runs the job to its end over all its crashes, each time with another parallelism.
    fn run<T: Clone>(
        &self,
        sink: &CollectingSink<T>,
        graph: impl Fn(usize) -> JobGraph,
    ) -> Vec<Collected<T>> {
        let mut random = Random::new(self.seed);
        let mut confirmed = Confirmed::start(self.source().start_positions("input"));
        for crash in 0..=self.crashes {
            let graph = graph(1 + random.below(4));
            let mut run = Run::new(&graph, &confirmed);
            let last = crash == self.crashes;
            let steps = if last { 1_000_000 } else { random.below(400) };
            let ended = run.drive(&mut random, &mut confirmed, self.barrier_every, steps);
            sink.abort_after(confirmed.checkpoint);
            if ended == Ended::Finished {
                let mut collected = sink.collected();
                collected.sort_by_key(|collected| collected.checkpoint);
                return collected;
            }
        }
        panic!("the job does not end");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn running_aggregates_emit_every_input_once(scenario in scenario()) {
        let sink = CollectingSink::new().with_pending_max(scenario.pending_max);
        let graph = |parallelism| {
            let environment = scenario.environment(parallelism);
            environment
                .from_source(scenario.source(), WatermarkStrategy::no_watermarks())
                .uid("input")
                .key_by(|(key, _): &Element| *key)
                .aggregate(Sum)
                .uid("totals")
                .sink_to(sink.clone())
                .uid("output");
            environment.into_job_graph().unwrap()
        };
        let collected = scenario.run(&sink, graph);

        // Per key the outputs differ by the inputs, in some order, and count from 1.
        let mut outputs: BTreeMap<u16, Vec<i64>> = BTreeMap::new();
        let mut totals: BTreeMap<u16, (u64, i64)> = BTreeMap::new();
        for Collected { element: Keyed { key, value: (count, sum) }, .. } in collected {
            let total = totals.entry(key).or_default();
            prop_assert_eq!(count, total.0 + 1);
            outputs.entry(key).or_default().push(sum - total.1);
            *total = (count, sum);
        }
        let mut inputs: BTreeMap<u16, Vec<i64>> = BTreeMap::new();
        for ((key, value), _) in scenario.splits.iter().flatten() {
            inputs.entry(*key).or_default().push(*value);
        }
        inputs.values_mut().chain(outputs.values_mut()).for_each(|values| values.sort_unstable());
        prop_assert_eq!(outputs, inputs);
    }

    #[test]
    fn windows_hold_every_input_once(scenario in scenario()) {
        let sink = CollectingSink::new().with_pending_max(scenario.pending_max);
        let graph = |parallelism| {
            let environment = scenario.environment(parallelism);
            // No element is older than another by more than the range of timestamps.
            let strategy = WatermarkStrategy::for_bounded_out_of_orderness(Duration::from_millis(1_000));
            environment
                .from_source(scenario.source(), strategy)
                .uid("input")
                .key_by(|(key, _): &Element| *key)
                .window(TumblingEventTimeWindows::of(Duration::from_millis(100)))
                .aggregate(Sum)
                .uid("sums")
                .sink_to(sink.clone())
                .uid("output");
            environment.into_job_graph().unwrap()
        };
        let collected = scenario.run(&sink, graph);
        prop_assert!(collected.iter().all(|c| c.timestamp == c.element.window.max_timestamp()));
        prop_assert_eq!(sorted(collected), recomputed(&scenario.splits, |_| true));
    }

    #[test]
    fn windows_of_splits_in_order_lose_nothing_and_close_in_order(mut scenario in scenario()) {
        for split in &mut scenario.splits {
            split.sort_by_key(|(_, timestamp)| *timestamp);
        }
        let sink = CollectingSink::new();
        let graph = |parallelism| {
            let environment = scenario.environment(parallelism);
            environment
                .from_source(scenario.source(), WatermarkStrategy::for_monotonous_timestamps())
                .uid("input")
                .key_by(|(key, _): &Element| *key)
                .window(TumblingEventTimeWindows::of(Duration::from_millis(100)))
                .aggregate(Sum)
                .uid("sums")
                .sink_to(sink.clone())
                .uid("output");
            environment.into_job_graph().unwrap()
        };
        let collected = scenario.run(&sink, graph);
        let mut last: BTreeMap<u16, i64> = BTreeMap::new();
        for Collected { element: WindowResult { key, window, .. }, .. } in &collected {
            prop_assert!(last.insert(*key, window.end).is_none_or(|last| last < window.end));
        }
        prop_assert_eq!(sorted(collected), recomputed(&scenario.splits, |_| true));
    }

    /// Results of windows into windows again: the watermark must not overtake the results of the windows that it closed.
    #[test]
    fn windows_of_windows_hold_every_input_once(scenario in scenario()) {
        let sink = CollectingSink::new().with_pending_max(scenario.pending_max);
        let graph = |parallelism| {
            let environment = scenario.environment(parallelism);
            let strategy = WatermarkStrategy::for_bounded_out_of_orderness(Duration::from_millis(1_000));
            environment
                .from_source(scenario.source(), strategy)
                .uid("input")
                .key_by(|(key, _): &Element| *key)
                .window(TumblingEventTimeWindows::of(Duration::from_millis(50)))
                .aggregate(Sum)
                .uid("sums by key")
                .map(|result: WindowResult<u16, (u64, i64)>| (result.key % 2, result.value.1))
                .key_by(|(parity, _): &Element| *parity)
                .window(TumblingEventTimeWindows::of(Duration::from_millis(200)))
                .aggregate(Sum)
                .uid("sums by parity")
                .map(|result: WindowResult<u16, (u64, i64)>| (result.window.start, result.key, result.value.1))
                .sink_to(sink.clone())
                .uid("output");
            environment.into_job_graph().unwrap()
        };
        let collected = sorted(scenario.run(&sink, graph));
        let mut sums: BTreeMap<(i64, u16), i64> = BTreeMap::new();
        for ((key, value), timestamp) in scenario.splits.iter().flatten() {
            *sums.entry((timestamp / 200 * 200, key % 2)).or_default() += value;
        }
        let expected: Vec<_> = sums.into_iter().map(|((start, key), sum)| (start, key, sum)).collect();
        prop_assert_eq!(collected, expected);
    }

    /// With a watermark that is too fast some elements are late. Which ones depends on the schedule, but each is either in its
    /// window or dropped, and no window comes twice.
    #[test]
    fn late_elements_never_open_a_window_again(scenario in scenario()) {
        let sink = CollectingSink::new().with_pending_max(scenario.pending_max);
        let graph = |parallelism| {
            let environment = scenario.environment(parallelism);
            environment
                .from_source(scenario.source(), WatermarkStrategy::for_monotonous_timestamps())
                .uid("input")
                .key_by(|(key, _): &Element| *key)
                .window(TumblingEventTimeWindows::of(Duration::from_millis(100)))
                .aggregate(Sum)
                .uid("sums")
                .sink_to(sink.clone())
                .uid("output");
            environment.into_job_graph().unwrap()
        };
        let windows = sorted(scenario.run(&sink, graph));
        let all = recomputed(&scenario.splits, |_| true);
        let count = |windows: &[WindowResult<u16, (u64, i64)>]| -> BTreeMap<(u16, i64), u64> {
            windows.iter().map(|w| ((w.key, w.window.end), w.value.0)).collect()
        };
        let (found, possible) = (count(&windows), count(&all));
        prop_assert_eq!(found.len(), windows.len(), "a window came twice");
        for (window, elements) in found {
            prop_assert!(possible.get(&window).is_some_and(|most| elements <= *most));
        }
    }
}

fn sorted<T: Ord>(collected: Vec<Collected<T>>) -> Vec<T> {
    let mut elements: Vec<T> = collected.into_iter().map(|collected| collected.element).collect();
    elements.sort_unstable();
    elements
}

fn recomputed(
    splits: &Splits,
    keep: impl Fn(&Element) -> bool,
) -> Vec<WindowResult<u16, (u64, i64)>> {
    let windows = TumblingEventTimeWindows::of(Duration::from_millis(100));
    let mut sums: BTreeMap<_, (u64, i64)> = BTreeMap::new();
    for (element, timestamp) in splits.iter().flatten().filter(|(element, _)| keep(element)) {
        let window = windows.assign(*timestamp).unwrap();
        Sum.add(*element, sums.entry((element.0, window)).or_default());
    }
    sums.into_iter().map(|((key, window), value)| WindowResult { key, window, value }).collect()
}
