//! The demo's job: landings by origin and hour, and the child process that runs it under the threat of SIGKILL.

use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use millstream_engine::api::{StreamExecutionEnvironment, fold};
use millstream_engine::kafka::{ClientConfig, KafkaSink, KafkaSource, OffsetsInitializer};
use millstream_engine::time::WatermarkStrategy;
use millstream_engine::window::TumblingEventTimeWindows;
use millstream_engine::{Job, JobHandle, JobMonitor, Phase};
use serde::{Deserialize, Serialize};

use super::flight::{Flight, Landings};
use crate::args::DemoJobArguments;
use crate::command::CommandError;

/// No flight lands more than this after one that departed later.
const OUT_OF_ORDERNESS: Duration = Duration::from_secs(12 * 3600);
const HOUR: Duration = Duration::from_secs(3600);

/// How often a child tells its parent where it stands.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);

/// Where the job reads, writes and keeps its state.
#[derive(Clone, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) bootstrap_server: &'a str,
    pub(crate) input_topic: &'a str,
    pub(crate) output_topic: &'a str,
    pub(crate) state_dir: &'a Path,
    pub(crate) job: &'a str,
    pub(crate) parallelism: usize,
    pub(crate) checkpoint_interval: Duration,
    pub(crate) bounded: bool,
}

/// Builds the job at `place` and starts it.
pub(crate) fn start(place: &Place<'_>) -> Result<JobHandle, CommandError> {
    let kafka = ClientConfig::new(place.bootstrap_server);
    let source = KafkaSource::new(kafka.clone())
        .topics([place.input_topic])
        .bounded(place.bounded.then(OffsetsInitializer::latest));
    let sink = KafkaSink::new(kafka).topic(place.output_topic);
    let watermarks = WatermarkStrategy::for_bounded_out_of_orderness(OUT_OF_ORDERNESS)
        .with_timestamp_assigner(|flight: &Flight, _| flight.landed_ms)
        .without_idleness();
    let env = StreamExecutionEnvironment::new(place.job)
        .parallelism(place.parallelism)
        .checkpoint_interval(place.checkpoint_interval);
    env.from_source(source.json::<Flight>(), watermarks)
        .uid("flights")
        .key_by(|flight| flight.origin.clone())
        .window(TumblingEventTimeWindows::of(HOUR))
        .aggregate(fold(Landings::none(), Landings::add))
        .map(|hour| Landings { window_start: hour.window.start, origin: hour.key, ..hour.value })
        .sink_to(sink.json_with_key(|landings: &Landings| landings.origin.clone()));
    Ok(Job::new(env, place.state_dir)?.stop_on_signals().start()?)
}

/// What a child says on its standard output, one JSON object a line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    /// True once the job runs (again).
    pub(crate) running: bool,
    /// Checkpoint from which state was resumed; 0 for a first start.
    pub(crate) resumed_from: u64,
    pub(crate) checkpoint: u64,
    pub(crate) records_in: u64,
    pub(crate) records_out: u64,
}

impl Report {
    pub(crate) fn of(monitor: &JobMonitor) -> Self {
        let now = monitor.snapshot();
        Self {
            running: matches!(now.phase, Phase::Running | Phase::Finishing | Phase::Finished),
            resumed_from: now.resumed_from,
            checkpoint: now.checkpoint,
            records_in: now.records_in,
            records_out: now.records_out,
        }
    }
}

/// The hidden command `demo-job`.
pub(crate) fn run(arguments: &DemoJobArguments) -> Result<(), CommandError> {
    end_with_parent();
    let handle = start(&Place {
        bootstrap_server: &arguments.bootstrap_server,
        input_topic: &arguments.input_topic,
        output_topic: &arguments.output_topic,
        state_dir: &arguments.state_dir,
        job: &arguments.job,
        parallelism: arguments.parallelism,
        checkpoint_interval: arguments.checkpoint_interval,
        bounded: arguments.bounded,
    })?;
    let monitor = handle.monitor();
    std::thread::spawn(move || {
        loop {
            // A parent that does not listen any more is about to end us; nothing to do about it here.
            let _ = report(&Report::of(&monitor));
            std::thread::sleep(REPORT_INTERVAL);
        }
    });
    let monitor = handle.monitor();
    handle.wait()?;
    report(&Report::of(&monitor))?;
    Ok(())
}

fn report(report: &Report) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, report)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// The parent holds our standard input open; when it dies, however, we end too.
fn end_with_parent() {
    std::thread::spawn(|| {
        let mut byte = [0];
        while matches!(std::io::stdin().read(&mut byte), Ok(1..)) {}
        std::process::exit(i32::from(crate::exit_code::FAILED));
    });
}
