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
    /// How long the job waits for landings that come late; with less than the input's, it would drop some.
    pub(crate) out_of_orderness: Duration,
    pub(crate) bounded: bool,
}

/// Starts the job at `place` on threads of this process.
pub(crate) fn start(place: &Place<'_>) -> Result<JobHandle, CommandError> {
    Ok(job(place)?.start()?)
}

fn job(place: &Place<'_>) -> Result<Job, CommandError> {
    let kafka = ClientConfig::new(place.bootstrap_server);
    let source = KafkaSource::new(kafka.clone())
        .topics([place.input_topic])
        .bounded(place.bounded.then(OffsetsInitializer::latest));
    let sink = KafkaSink::new(kafka).topic(place.output_topic);
    let watermarks = WatermarkStrategy::for_bounded_out_of_orderness(place.out_of_orderness)
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
    Ok(Job::new(env, place.state_dir)?)
}

/// What a child says on its standard output, one JSON object a line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// True once the job runs (again).
    pub(crate) running: bool,
    /// Checkpoint from which state was resumed; 0 for a first start.
    pub(crate) resumed_from: u64,
    pub(crate) checkpoint: u64,
    /// Transactions that this process has committed for checkpoints.
    pub(crate) committed: u64,
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
            committed: now.committed,
            records_in: now.records_in,
            records_out: now.records_out,
        }
    }

    /// With the counts of the runs `before` added.
    pub(crate) fn after(mut self, before: &Self) -> Self {
        self.checkpoint = self.checkpoint.max(before.checkpoint);
        self.committed += before.committed;
        self.records_in += before.records_in;
        self.records_out += before.records_out;
        self
    }
}

/// The hidden command `demo-job`.
pub(crate) fn run(arguments: &DemoJobArguments) -> Result<(), CommandError> {
    end_with_parent();
    let place = Place {
        bootstrap_server: &arguments.bootstrap_server,
        input_topic: &arguments.input_topic,
        output_topic: &arguments.output_topic,
        state_dir: &arguments.state_dir,
        job: &arguments.job,
        parallelism: arguments.parallelism,
        checkpoint_interval: arguments.checkpoint_interval,
        out_of_orderness: arguments.out_of_orderness,
        bounded: arguments.bounded,
    };
    let handle = job(&place)?.stop_on_signals().start()?;
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
