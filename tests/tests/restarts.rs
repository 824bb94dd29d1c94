//! What follows a failure, and what a job tells about its checkpoints: jobs in this process, on the development broker.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail as tests do"
)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use millstream_dev_broker::{FaultAction, FaultRule, Occurrence};
use millstream_engine::api::{RestartStrategy, StreamExecutionEnvironment, fold};
use millstream_engine::kafka::{ClientConfig, KafkaSink, KafkaSource, OffsetsInitializer};
use millstream_engine::time::WatermarkStrategy;
use millstream_engine::{
    CheckpointStatus, CheckpointTrigger, Job, JobError, JobHandle, Phase, RestartKind,
};
use millstream_protocol::{ApiKey, ErrorCode};
use millstream_tests::LocalBroker;
use millstream_tests::wait::wait_until;

const LIMIT: Duration = Duration::from_secs(30);
const MOMENT: Duration = Duration::from_millis(10);
const NUMBERS: u64 = 200;

/// A broker with the numbers from 0 to 199 in one partition.
struct Stage {
    broker: LocalBroker,
    state: tempfile::TempDir,
}

impl Stage {
    fn new() -> Self {
        let stage = Self { broker: LocalBroker::start(), state: tempfile::tempdir().unwrap() };
        stage.broker.create_topic("numbers", 1);
        stage.broker.create_topic("sums", 1);
        stage.write(0..NUMBERS);
        stage
    }

    fn write(&self, numbers: std::ops::Range<u64>) {
        let texts: Vec<String> = numbers.map(|number| number.to_string()).collect();
        let values: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
        self.broker.write("numbers", 0, &values);
    }

    /// Sums the numbers, one output record for each; `function` sees each before.
    fn start(
        &self,
        bounded: bool,
        configure: impl FnOnce(StreamExecutionEnvironment) -> StreamExecutionEnvironment,
        function: impl Fn(u64) -> u64 + Clone + Send + 'static,
    ) -> JobHandle {
        let kafka = ClientConfig::new(self.broker.address());
        let source = KafkaSource::new(kafka.clone())
            .topics(["numbers"])
            .bounded(bounded.then(OffsetsInitializer::latest));
        let env = StreamExecutionEnvironment::new("sums")
            .parallelism(1)
            .checkpoint_interval(Duration::from_millis(20));
        let env = configure(env);
        env.from_source(source.json::<u64>(), WatermarkStrategy::no_watermarks())
            .uid("numbers")
            .map(function)
            .uid("function")
            .key_by(|_| 0_u32)
            .aggregate(fold(0_u64, |sum: &mut u64, number| *sum += number))
            .uid("sum")
            .map(|sum| sum.value)
            .sink_to(KafkaSink::new(kafka).topic("sums").json_with_key(|_: &u64| "sum".to_owned()));
        Job::new(env, self.state.path()).unwrap().start().unwrap()
    }

    /// Every sum once, in order: nothing lost, nothing doubled, state as the output says.
    fn assert_sums(&self, numbers: u64) {
        let found: Vec<String> = self
            .broker
            .read("sums", 1)
            .into_iter()
            .map(|record| record.value.unwrap_or_default())
            .collect();
        let mut sum = 0;
        let expected: Vec<String> = (0..numbers)
            .map(|number| {
                sum += number;
                sum.to_string()
            })
            .collect();
        assert_eq!(found, expected);
    }
}

/// Fails the first `times` times that it sees 150.
fn failing(times: u64) -> impl Fn(u64) -> u64 + Clone + Send + 'static {
    let failures = Arc::new(AtomicU64::new(0));
    move |number| {
        if number == 150 && failures.fetch_add(1, Ordering::Relaxed) < times {
            panic!("150 is too much");
        }
        number
    }
}

fn fixed_delay(
    attempts: u32,
) -> impl FnOnce(StreamExecutionEnvironment) -> StreamExecutionEnvironment {
    move |env| env.restart_strategy(RestartStrategy::fixed_delay(attempts, MOMENT))
}

fn chain(error: &JobError) -> String {
    millstream_engine::error_chain(error)
}

#[test]
fn a_function_that_fails_is_restarted_and_nothing_is_lost_or_doubled() {
    let stage = Stage::new();
    let handle = stage.start(true, fixed_delay(3), failing(2));
    let monitor = handle.monitor();
    handle.wait().expect("the third attempt reads everything");
    stage.assert_sums(NUMBERS);
    let now = monitor.snapshot();
    assert_eq!((now.restarts, now.rollbacks, now.phase), (2, 0, Phase::Finished));
    let restarts = monitor.restarts();
    assert_eq!(restarts.len(), 2);
    for restart in restarts {
        assert_eq!((restart.kind, restart.delay), (RestartKind::Failure, MOMENT));
        assert!(restart.reason.contains("150 is too much"), "{restart}");
    }
}

#[test]
fn the_error_of_a_job_that_is_given_up_lists_its_restarts_and_holds_back_no_reader() {
    let stage = Stage::new();
    let error = stage.start(false, fixed_delay(2), failing(u64::MAX)).wait().unwrap_err();
    let JobError::GaveUp { restarts, .. } = &error else { panic!("{error:?}") };
    assert_eq!(restarts.0.len(), 2);
    let said = chain(&error);
    // What is alike is one line.
    assert_eq!(said.matches("restarted from checkpoint").count(), 1, "{said}");
    assert!(said.contains("(2 times, last "), "{said}");
    assert!(said.contains("allows 2 restarts"), "{said}");
    assert!(said.contains("150 is too much"), "{said}");
    assert_eq!(stage.broker.open_transactions(), Vec::<String>::new());
    // The next start, with a function that was corrected, makes it good.
    stage.start(true, fixed_delay(0), |number| number).wait().unwrap();
    stage.assert_sums(NUMBERS);
}

#[test]
fn without_restarts_the_first_failure_ends_the_job() {
    let stage = Stage::new();
    let none = |env: StreamExecutionEnvironment| env.restart_strategy(RestartStrategy::NoRestart);
    let handle = stage.start(true, none, failing(1));
    let monitor = handle.monitor();
    let error = handle.wait().unwrap_err();
    assert!(chain(&error).contains("allows no restart"), "{}", chain(&error));
    assert_eq!(monitor.restarts(), []);
}

#[test]
fn failures_that_are_too_frequent_end_the_job() {
    let stage = Stage::new();
    let rate = |env: StreamExecutionEnvironment| {
        env.restart_strategy(RestartStrategy::failure_rate(3, Duration::from_secs(3600), MOMENT))
    };
    let handle = stage.start(true, rate, failing(u64::MAX));
    let monitor = handle.monitor();
    let error = handle.wait().unwrap_err();
    assert!(chain(&error).contains("allows 3 failures in 3600s"), "{}", chain(&error));
    assert_eq!(monitor.snapshot().restarts, 3);
}

/// The default strategy restarts without end; a record that can not be decoded would never let it.
#[test]
fn a_record_at_which_the_job_fails_again_and_again_ends_it_under_any_strategy() {
    let stage = Stage::new();
    stage.broker.write("numbers", 0, &[b"not a number"]);
    let endless = |env: StreamExecutionEnvironment| {
        env.restart_strategy(RestartStrategy::fixed_delay(u32::MAX, MOMENT))
    };
    let handle = stage.start(true, endless, |number| number);
    let monitor = handle.monitor();
    let error = handle.wait().unwrap_err();
    assert_eq!(error.exit_code(), 65);
    let said = chain(&error);
    assert!(said.contains("numbers-0 offset 200"), "{said}");
    assert!(said.contains("the same record made the job fail 3 times in a row"), "{said}");
    assert_eq!(monitor.snapshot().restarts, 2);
    // The numbers before it are committed, or are once it is left out.
    let failures = monitor.checkpoints();
    assert!(failures.iter().all(|known| known.status != CheckpointStatus::InProgress));
}

#[test]
fn a_transaction_that_dies_is_replayed_without_asking_the_strategy() {
    let stage = Stage::new();
    let refused = FaultAction::Error(ErrorCode::INVALID_TXN_STATE);
    let none = |env: StreamExecutionEnvironment| env.restart_strategy(RestartStrategy::NoRestart);
    // The first EndTxn is the owner record's.
    stage.broker.add_fault(FaultRule::new(ApiKey::EndTxn, Occurrence::Nth(2), refused));
    let handle = stage.start(true, none, |number| number);
    let monitor = handle.monitor();
    handle.wait().expect("the replay");
    stage.assert_sums(NUMBERS);
    let now = monitor.snapshot();
    assert_eq!((now.rollbacks, now.restarts), (1, 0));
    let restarts = monitor.restarts();
    assert_eq!(restarts.len(), 1);
    assert_eq!(restarts[0].kind, RestartKind::FailedCheckpoint);
    assert_eq!(restarts[0].delay, Duration::ZERO);
    let failed = monitor.checkpoints().into_iter().find(|known| {
        matches!(&known.status, CheckpointStatus::Failed { reason } if reason.contains("EndTxn"))
    });
    assert_eq!(failed.map(|known| known.checkpoint), Some(1));
}

#[test]
fn checkpoints_that_fail_more_often_than_tolerable_are_a_failure_of_the_job() {
    let stage = Stage::new();
    let handle = stage.start(
        false,
        |env| {
            env.restart_strategy(RestartStrategy::NoRestart)
                .tolerable_failed_checkpoints(2)
                .checkpoint_history(100)
        },
        |number| number,
    );
    let monitor = handle.monitor();
    wait_until("the first checkpoint", LIMIT, || monitor.snapshot().committed > 0);
    let refused = FaultAction::Error(ErrorCode::INVALID_TXN_STATE);
    stage.broker.add_fault(FaultRule::new(ApiKey::EndTxn, Occurrence::Every, refused));
    stage.write(NUMBERS..NUMBERS + 10);
    let error = handle.wait().unwrap_err();
    let said = chain(&error);
    assert!(said.contains("3 checkpoints in a row failed, 2 may"), "{said}");
    assert_eq!(said.matches("rolled back to checkpoint").count(), 1, "{said}");
    assert!(said.contains("(2 times, last "), "{said}");
    stage.broker.clear_faults();
    stage.start(true, |env| env, |number| number).wait().unwrap();
    stage.assert_sums(NUMBERS + 10);
}

#[test]
fn each_checkpoint_is_measured_and_the_last_ones_are_kept() {
    let stage = Stage::new();
    let handle = stage.start(false, |env| env.checkpoint_history(4), |number| number);
    let mut written = NUMBERS;
    for round in 1..=6 {
        wait_until("a checkpoint", LIMIT, || handle.monitor().snapshot().committed >= round);
        stage.write(written..written + 10);
        written += 10;
    }
    wait_until("all output", LIMIT, || stage.broker.read("sums", 1).len() as u64 == written);
    handle.stop();
    let monitor = handle.monitor();
    handle.wait().unwrap();
    stage.assert_sums(written);

    let known = monitor.checkpoints();
    assert_eq!(known.len(), 4);
    let numbers: Vec<u64> = known.iter().map(|known| known.checkpoint).collect();
    let last = monitor.snapshot().checkpoint;
    assert_eq!(numbers, (last - 3..=last).collect::<Vec<_>>());
    for (index, known) in known.iter().enumerate() {
        assert_eq!(known.status, CheckpointStatus::Completed);
        let phases = known.trigger_duration
            + known.alignment_duration
            + known.snapshot_duration
            + known.delta_duration.max(known.acknowledge_duration)
            + known.commit_duration;
        assert!(!phases.is_zero() && phases <= known.end_to_end_duration, "{known}");
        assert!(known.stall <= known.end_to_end_duration, "{known}");
        assert!(known.apply_duration.is_some(), "everything is applied at the end: {known:?}");
        assert!(known.triggered_at_ms > 1_600_000_000_000, "{known:?}");
        let (requested, last) = (known.trigger == CheckpointTrigger::Requested, index == 3);
        assert_eq!(requested, last, "{known:?}");
        // One key is all that this job has; the last checkpoint had nothing left to change.
        if !last {
            assert_eq!(known.dirty_keys, 1, "{known:?}");
            assert!(known.state_bytes > 0 && known.delta_file_bytes > known.state_bytes);
        }
    }
}

#[test]
fn as_many_delta_files_stay_as_checkpoints_are_retained() {
    for retained in [1, 3] {
        let stage = Stage::new();
        let configure = |env: StreamExecutionEnvironment| env.retained_checkpoints(retained);
        let handle = stage.start(false, configure, |number| number);
        for round in 1..=5 {
            wait_until("a checkpoint", LIMIT, || handle.monitor().snapshot().committed >= round);
            stage.write(NUMBERS + 10 * (round - 1)..NUMBERS + 10 * round);
        }
        handle.stop();
        let monitor = handle.monitor();
        handle.wait().unwrap();
        let last = monitor.snapshot().checkpoint;
        let expected: Vec<u64> = (last + 1 - retained as u64..=last).collect();
        assert_eq!(delta_files(stage.state.path()), expected);
        // They are in nobody's way.
        stage.start(true, configure, |number| number).wait().unwrap();
        stage.assert_sums(NUMBERS + 50);
    }
}

/// Numbers of the checkpoints that have a delta file.
fn delta_files(state: &Path) -> Vec<u64> {
    let entries = std::fs::read_dir(state.join("deltas")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut numbers: Vec<u64> = names
        .filter(|name| name.ends_with(".delta"))
        .map(|name| name.split('-').nth(1).unwrap().parse().unwrap())
        .collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn a_checkpoint_that_takes_too_long_is_rolled_back_and_replayed() {
    let stage = Stage::new();
    let (let_go, wait_here) = std::sync::mpsc::channel::<()>();
    let wait_here = Arc::new(std::sync::Mutex::new(wait_here));
    let (reached, at_500) = std::sync::mpsc::channel();
    let slow = move |number| {
        if number == 500 {
            let _ = reached.send(());
            // Ends once the test has let go.
            let _ = wait_here.lock().unwrap().recv();
        }
        number
    };
    let configure = |env: StreamExecutionEnvironment| {
        env.parallelism(2).checkpoint_timeout(Duration::from_millis(200)).checkpoint_history(1000)
    };
    stage.broker.create_topic("zeros", 2);
    let kafka = ClientConfig::new(stage.broker.address());
    let source = KafkaSource::new(kafka.clone()).topics(["zeros"]);
    let env = configure(StreamExecutionEnvironment::new("slow"))
        .checkpoint_interval(Duration::from_millis(20));
    env.from_source(source.json::<u64>(), WatermarkStrategy::no_watermarks())
        .uid("zeros")
        .map(slow)
        .uid("slow")
        .sink_to(KafkaSink::new(kafka).topic("sums").json_with_key(|_: &u64| "zero".to_owned()));
    let handle = Job::new(env, stage.state.path()).unwrap().start().unwrap();
    let monitor = handle.monitor();
    stage.broker.write("zeros", 0, &[b"500"]);
    at_500.recv_timeout(LIMIT).expect("the function is called");
    // One worker hangs, the other has work, so that there is something to commit.
    let mut zeros = 0;
    wait_until("a checkpoint fails", LIMIT, || {
        stage.broker.write("zeros", 1, &[b"0"]);
        zeros += 1;
        let known = monitor.checkpoints();
        known.into_iter().any(|known| {
            matches!(&known.status, CheckpointStatus::Failed { reason } if reason.contains("200ms"))
        })
    });
    drop(let_go);
    wait_until("all output", LIMIT, || stage.broker.read("sums", 1).len() > zeros);
    assert_eq!(stage.broker.read("sums", 1).len(), zeros + 1);
    assert!(monitor.snapshot().rollbacks >= 1);
    handle.stop();
    handle.wait().unwrap();
}

#[test]
fn a_pause_between_checkpoints_is_kept() {
    let stage = Stage::new();
    let pause = Duration::from_millis(300);
    let handle = stage.start(
        false,
        |env| env.min_pause_between_checkpoints(pause).checkpoint_history(100),
        |number| number,
    );
    let mut written = NUMBERS;
    while handle.monitor().snapshot().committed < 4 {
        stage.write(written..written + 1);
        written += 1;
    }
    wait_until("all output", LIMIT, || stage.broker.read("sums", 1).len() as u64 == written);
    handle.stop();
    let monitor = handle.monitor();
    handle.wait().unwrap();
    stage.assert_sums(written);
    let known = monitor.checkpoints();
    for pair in known.windows(2) {
        let [before, after] = pair else { unreachable!() };
        if after.trigger != CheckpointTrigger::Interval {
            continue;
        }
        let begun = u64::try_from(after.triggered_at_ms - before.triggered_at_ms).unwrap();
        let end_to_end = before.end_to_end_duration.as_millis();
        // Milliseconds are cut off in three places.
        assert!(u128::from(begun) + 3 >= pause.as_millis() + end_to_end, "{before:?} {after:?}");
    }
}

/// Counts each number under a key of 64 bytes, with the longest interval that a transaction's timeout allows.
fn start_counting(stage: &Stage, dirty_bytes: usize) -> JobHandle {
    let kafka = ClientConfig::new(stage.broker.address());
    let env = StreamExecutionEnvironment::new("counts")
        .parallelism(2)
        .checkpoint_interval(LONG_INTERVAL)
        .checkpoint_dirty_bytes(dirty_bytes);
    let source = KafkaSource::new(kafka.clone()).topics(["numbers"]);
    env.from_source(source.json::<u64>(), WatermarkStrategy::no_watermarks())
        .uid("numbers")
        .key_by(|number| format!("{number:064}"))
        .aggregate(fold(0_u64, |count: &mut u64, _: u64| *count += 1))
        .uid("counts")
        .map(|count| (count.key, count.value))
        .sink_to(
            KafkaSink::new(kafka).topic("sums").json_with_key(|row: &(String, u64)| row.0.clone()),
        );
    Job::new(env, stage.state.path()).unwrap().start().unwrap()
}

const LONG_INTERVAL: Duration = Duration::from_secs(20);

#[test]
fn many_changed_bytes_are_committed_long_before_the_interval() {
    const WAVE: u64 = 4000;
    let stage = Stage::new();
    let committed = || stage.broker.read("sums", 1).len();
    let begun = Instant::now();
    let handle = start_counting(&stage, 64 << 10);
    let mut written = NUMBERS;
    for _ in 0..3 {
        let before = committed();
        stage.write(written..written + WAVE);
        written += WAVE;
        wait_until("most of the wave is committed", LIMIT, || {
            committed() >= before + usize::try_from(WAVE / 2).unwrap()
        });
    }
    let triggers: Vec<_> = handle.checkpoints().iter().map(|taken| taken.trigger).collect();
    assert!(begun.elapsed() < LONG_INTERVAL, "the machine was too slow: the interval has passed");
    assert!(triggers.len() >= 3, "{triggers:?}");
    assert!(triggers.iter().all(|trigger| *trigger == CheckpointTrigger::DirtyBytes));
    handle.stop();
    handle.wait().expect("it stops");

    // Below the limit nothing is committed before the stop.
    let handle = start_counting(&stage, 64 << 20);
    let (monitor, before) = (handle.monitor(), committed());
    stage.write(written..written + WAVE);
    written += WAVE;
    wait_until("all is read", LIMIT, || monitor.snapshot().records_in == WAVE);
    assert_eq!((handle.checkpoints(), committed()), (Vec::new(), before));
    handle.stop();
    handle.wait().expect("it stops");
    let triggers: Vec<_> = monitor.checkpoints().iter().map(|taken| taken.trigger).collect();
    assert_eq!(triggers, [CheckpointTrigger::Requested]);

    let mut found: Vec<(String, u64)> = (stage.broker.read("sums", 1).into_iter())
        .map(|record| serde_json::from_str(&record.value.unwrap()).unwrap())
        .collect();
    found.sort();
    let expected: Vec<_> = (0..written).map(|number| (format!("{number:064}"), 1)).collect();
    assert_eq!(found, expected);
}
