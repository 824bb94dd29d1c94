//! Jobs on real threads: they finish, fail with a place, stop and suspend; conditions with deadlines, no sleeping.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper of a test fails the test")]

mod support;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use millstream_engine::CheckpointKind;
use millstream_engine::api::{Count, StreamExecutionEnvironment};
use millstream_engine::connector::collection::{CollectingSink, CollectionSource, OwnedRecord};
use millstream_engine::graph::JobGraph;
use millstream_engine::task::{SealedSnapshot, WorkerReport, WorkerSet};
use millstream_engine::time::WatermarkStrategy;
use millstream_engine::window::TumblingEventTimeWindows;
use support::Confirmed;

const DEADLINE: Duration = Duration::from_secs(60);

fn spawn(graph: &JobGraph, confirmed: &Confirmed) -> (WorkerSet, Receiver<WorkerReport>) {
    let (sender, reports) = channel();
    let sender = Mutex::new(sender);
    let on_report = move |report| {
        let _ = sender.lock().unwrap().send(report);
    };
    (graph.spawn(&confirmed.restore_context(), on_report).unwrap(), reports)
}

fn next(reports: &Receiver<WorkerReport>) -> WorkerReport {
    reports.recv_timeout(DEADLINE).unwrap()
}

/// Takes checkpoints, one after the other, until one covers the end of the input.
fn run_to_the_end(set: &WorkerSet, reports: &Receiver<WorkerReport>, confirmed: &mut Confirmed) {
    let mut finished = 0;
    loop {
        let last = finished == set.len();
        set.trigger_checkpoint(confirmed.checkpoint + 1, CheckpointKind::Checkpoint);
        let mut parts = Vec::new();
        while parts.len() < set.len() {
            match next(reports) {
                WorkerReport::Sealed(sealed) => parts.push(sealed),
                WorkerReport::Finished { .. } => finished += 1,
                other => panic!("{other:?}"),
            }
        }
        confirmed.confirm(SealedSnapshot::merge(parts).unwrap());
        set.confirm_checkpoint(confirmed.checkpoint);
        if last {
            return;
        }
    }
}

fn words() -> CollectionSource<String> {
    let split = |first: i64| {
        let word = |i: i64| (format!("word {}", i % 7), i);
        (first..first + 5_000).map(word).collect()
    };
    CollectionSource::new(vec![split(0), split(5_000), split(10_000)])
}

#[test]
fn a_windowed_job_finishes_on_threads_with_full_channels() {
    let sink = CollectingSink::new();
    let environment = StreamExecutionEnvironment::new("count").parallelism(3).exchange_bytes(1);
    environment
        .from_source(words(), WatermarkStrategy::for_monotonous_timestamps())
        .uid("words")
        .filter(|word: &String| word != "word 0")
        .flat_map(|word: String| [word.clone(), word])
        .key_by(|word: &String| word.clone())
        .window(TumblingEventTimeWindows::of(Duration::from_secs(1)))
        .aggregate(Count::new())
        .uid("counts")
        .map(|result| (result.window.start, result.key, result.value))
        .sink_to(sink.clone());
    let graph = environment.into_job_graph().unwrap();
    let mut confirmed = Confirmed::start(words().start_positions("words"));
    let (set, reports) = spawn(&graph, &confirmed);
    run_to_the_end(&set, &reports, &mut confirmed);
    set.stop();
    set.join();

    let mut expected: BTreeMap<(i64, String), u64> = BTreeMap::new();
    for timestamp in (0..15_000).filter(|timestamp| timestamp % 7 != 0) {
        let window = timestamp / 1_000 * 1_000;
        *expected.entry((window, format!("word {}", timestamp % 7))).or_default() += 2;
    }
    let mut counted = sink.elements();
    counted.sort_unstable();
    let expected: Vec<_> =
        expected.into_iter().map(|((window, word), n)| (window, word, n)).collect();
    assert_eq!(counted, expected);
    let source = graph.metrics().operator("words").unwrap();
    assert_eq!(source.records_out, 15_000);
    let counts = graph.metrics().operator("counts").unwrap();
    assert_eq!(counts.late_records_dropped, 0);
    assert_eq!(counts.watermark, Some(i64::MAX));
    assert_eq!(counts.records_out, expected.len() as u64);
}

#[test]
fn an_error_names_the_operator_and_the_place_of_the_element() {
    let environment = StreamExecutionEnvironment::new("parse").parallelism(1);
    let source = CollectionSource::new(vec![vec![("1".to_owned(), 0), ("x".to_owned(), 0)]]);
    environment
        .from_source(source.clone(), WatermarkStrategy::no_watermarks())
        .uid("input")
        .try_map(|text: String| text.parse::<i64>())
        .uid("parse")
        .sink_to(CollectingSink::new());
    let graph = environment.into_job_graph().unwrap();
    let (set, reports) = spawn(&graph, &Confirmed::start(source.start_positions("input")));
    let WorkerReport::Failed { error, .. } = next(&reports) else { panic!("no failure") };
    assert_eq!(error.to_string(), "operator \"parse\" failed at list 0, element 1");
    assert_eq!(error.cause().to_string(), "invalid digit found in string");
    set.join();
}

#[test]
fn a_panic_in_a_function_is_a_failure_of_the_worker() {
    let environment = StreamExecutionEnvironment::new("panic").parallelism(1);
    let source = CollectionSource::new(vec![vec![(1, 0)]]);
    environment
        .from_source(source.clone(), WatermarkStrategy::no_watermarks())
        .uid("input")
        .map(|_: i32| -> i32 { panic!("on purpose") })
        .sink_to(CollectingSink::new());
    let graph = environment.into_job_graph().unwrap();
    let (set, reports) = spawn(&graph, &Confirmed::start(source.start_positions("input")));
    let WorkerReport::Failed { error, .. } = next(&reports) else { panic!("no failure") };
    assert_eq!(error.cause().to_string(), "panic: on purpose");
    set.join();
}

#[test]
fn a_suspended_job_reads_nothing_more_and_goes_on_in_another_run() {
    let sink = CollectingSink::new();
    let graph = |parallelism| {
        let environment = StreamExecutionEnvironment::new("suspend").parallelism(parallelism);
        environment
            .from_source(words().chunk_elements(1), WatermarkStrategy::no_watermarks())
            .uid("words")
            .key_by(|word: &String| word.clone())
            .aggregate(Count::new())
            .uid("counts")
            .sink_to(sink.clone());
        environment.into_job_graph().unwrap()
    };
    let mut confirmed = Confirmed::start(words().start_positions("words"));
    let first = graph(2);
    let (set, reports) = spawn(&first, &confirmed);
    set.trigger_checkpoint(1, CheckpointKind::Suspend);
    let mut parts = Vec::new();
    while parts.len() < set.len() {
        if let WorkerReport::Sealed(sealed) = next(&reports) {
            parts.push(sealed);
        }
    }
    confirmed.confirm(SealedSnapshot::merge(parts).unwrap());
    set.stop();
    set.join();
    assert!(sink.collected().iter().all(|collected| collected.checkpoint == 1));

    let second = graph(4);
    let (set, reports) = spawn(&second, &confirmed);
    run_to_the_end(&set, &reports, &mut confirmed);
    set.stop();
    set.join();
    let counted = sink.elements();
    assert_eq!(counted.len(), 15_000);
    let last: u64 = counted
        .iter()
        .map(|keyed| (&keyed.key, keyed.value))
        .collect::<BTreeMap<_, _>>()
        .into_values()
        .sum();
    assert_eq!(last, 15_000);
}

#[test]
fn raw_records_go_from_source_through_filter_to_sink() {
    let record = |value: &str| OwnedRecord { key: None, value: Some(value.into()) };
    let source = CollectionSource::new(vec![vec![(record("keep"), 1), (record("drop"), 2)]]);
    let sink = CollectingSink::<OwnedRecord>::new();
    let lengths = CollectingSink::new();
    let environment = StreamExecutionEnvironment::new("raw").parallelism(1);
    environment
        .from_raw_source(source.clone(), WatermarkStrategy::for_monotonous_timestamps())
        .uid("input")
        .filter(|record| record.value == Some(b"keep"))
        .sink_to(sink.clone());
    environment
        .from_raw_source(source.clone(), WatermarkStrategy::for_monotonous_timestamps())
        .uid("input again")
        .map(|record| record.value.map_or(0, <[u8]>::len))
        .sink_to(lengths.clone());
    let graph = environment.into_job_graph().unwrap();
    let mut positions = source.start_positions("input");
    positions.extend(source.start_positions("input again"));
    let mut confirmed = Confirmed::start(positions);
    let (set, reports) = spawn(&graph, &confirmed);
    run_to_the_end(&set, &reports, &mut confirmed);
    set.stop();
    set.join();
    assert_eq!(sink.elements(), [record("keep")]);
    assert_eq!(lengths.elements(), [4, 4]);
    assert!(confirmed.positions.iter().all(|(_, position)| position.finished));
}

#[test]
fn a_graph_that_cannot_run_is_refused() {
    use millstream_engine::GraphError;
    let empty = StreamExecutionEnvironment::new("empty").parallelism(1);
    assert_eq!(empty.into_job_graph().unwrap_err(), GraphError::NoSink);
    let twice = StreamExecutionEnvironment::new("twice").parallelism(1);
    for _ in 0..2 {
        twice
            .from_source(words(), WatermarkStrategy::no_watermarks())
            .uid("words")
            .sink_to(CollectingSink::new());
    }
    let uid = "words".to_owned();
    assert_eq!(twice.into_job_graph().unwrap_err(), GraphError::DuplicateUid { uid });
}
