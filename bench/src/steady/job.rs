//! The job under a steady load, and how it is run as a process of its own.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use millstream_engine::api::{
    KeyedProcessFunction, OutputCollector, ProcessContext, StreamExecutionEnvironment,
};
use millstream_engine::kafka::{
    ClientConfig, DeliveryGuarantee, KafkaSink, KafkaSource, OffsetsInitializer,
    RecordDeserializer, RecordSerializer, RecordView,
};
use millstream_engine::state::{RuntimeContext, ValueState, ValueStateDescriptor};
use millstream_engine::time::WatermarkStrategy;
use millstream_engine::{CheckpointStatistics, Job, OperatorError};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use super::KEY_BYTES;
use crate::BenchError;
use crate::targets::Spread;
use crate::usage::{Measurement, Usage, cpu_seconds_of};

/// Checkpoints whose phases are told of.
const CHECKPOINTS_KEPT: usize = 500;

/// What is done with the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shape {
    /// They are written as they are.
    Copy,
    /// The last value of each key is kept, and every record written.
    Keyed,
}

/// What the sink promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Guarantee {
    ExactlyOnce,
    AtLeastOnce,
}

/// One run of the job.
#[derive(Clone, Debug, Args)]
pub(crate) struct SteadyJobArguments {
    #[arg(long)]
    pub(crate) bootstrap_server: String,
    #[arg(long)]
    pub(crate) job: String,
    #[arg(long)]
    pub(crate) input_topic: String,
    #[arg(long)]
    pub(crate) output_topic: String,
    #[arg(long)]
    pub(crate) state_dir: PathBuf,
    #[arg(long)]
    pub(crate) parallelism: usize,
    #[arg(long, value_parser = humantime::parse_duration)]
    pub(crate) checkpoint_interval: Duration,
    #[arg(long, value_enum, default_value_t = Shape::Copy)]
    pub(crate) shape: Shape,
    #[arg(long, value_enum, default_value_t = Guarantee::ExactlyOnce)]
    pub(crate) guarantee: Guarantee,
    /// End at what is there at the start, and print a measurement
    #[arg(long)]
    pub(crate) bounded: bool,
}

/// Runs the job: to the end of its input, or until it is told to stop.
pub(crate) fn run(arguments: &SteadyJobArguments) -> Result<(), BenchError> {
    let job = Job::new(environment(arguments), &arguments.state_dir)?;
    let handle = job.stop_on_signals().start()?;
    let monitor = handle.monitor();
    if !arguments.bounded {
        handle.wait()?;
        let phases = Phases::of(&monitor.checkpoints());
        return Ok(serde_json::to_writer(std::io::stdout().lock(), &phases)?);
    }
    // Connecting and taking over is the same for all; what counts begins with the first record.
    while !handle.is_finished() && monitor.snapshot().records_in == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let begun = Instant::now();
    handle.wait()?;
    let wall = begun.elapsed();
    let end = monitor.snapshot();
    let measurement = Measurement {
        records: end.records_in,
        records_out: end.records_out,
        wall,
        usage: Usage::now()?,
    };
    let phases = Phases::of(&monitor.checkpoints());
    serde_json::to_writer(std::io::stdout().lock(), &(measurement, phases))?;
    Ok(())
}

/// How long the phases of the last checkpoints took, in milliseconds: medians.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Phases {
    /// How many checkpoints.
    checkpoints: usize,
    /// From the trigger until the barrier had passed everything.
    barrier: f64,
    snapshot: f64,
    delta: f64,
    acknowledge: f64,
    commit: f64,
    all: f64,
}

impl Phases {
    fn of(checkpoints: &[CheckpointStatistics]) -> Self {
        let median = |phase: fn(&CheckpointStatistics) -> Duration| {
            Spread::of(checkpoints.iter().map(|it| phase(it).as_secs_f64() * 1e3)).median
        };
        Self {
            checkpoints: checkpoints.len(),
            barrier: median(|it| it.trigger_duration + it.alignment_duration),
            snapshot: median(|it| it.snapshot_duration),
            delta: median(|it| it.delta_duration),
            acknowledge: median(|it| it.acknowledge_duration),
            commit: median(|it| it.commit_duration),
            all: median(|it| it.end_to_end_duration),
        }
    }
}

impl fmt::Display for Phases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { checkpoints, barrier, snapshot, delta, acknowledge, commit, all } = self;
        write!(
            f,
            "{checkpoints}: barrier {barrier:.1}, snapshot {snapshot:.1}, acknowledged {acknowledge:.1} (delta file {delta:.1}), commit {commit:.1}, in all {all:.1}"
        )
    }
}

fn environment(arguments: &SteadyJobArguments) -> StreamExecutionEnvironment {
    let kafka = ClientConfig::new(&arguments.bootstrap_server);
    let bounded = arguments.bounded.then(OffsetsInitializer::latest);
    let source = KafkaSource::new(kafka.clone()).topics([&arguments.input_topic]).bounded(bounded);
    let guarantee = match arguments.guarantee {
        Guarantee::ExactlyOnce => DeliveryGuarantee::ExactlyOnce,
        Guarantee::AtLeastOnce => DeliveryGuarantee::AtLeastOnce,
    };
    let sink = KafkaSink::new(kafka).topic(&arguments.output_topic).delivery_guarantee(guarantee);
    let environment = StreamExecutionEnvironment::new(&arguments.job)
        .parallelism(arguments.parallelism)
        .checkpoint_interval(arguments.checkpoint_interval)
        .checkpoint_history(CHECKPOINTS_KEPT);
    match arguments.shape {
        Shape::Copy => {
            environment
                .from_raw_source(source.raw(), WatermarkStrategy::no_watermarks())
                .sink_to(sink.raw());
        }
        Shape::Keyed => {
            environment
                .from_source(source.deserializer(Keyed), WatermarkStrategy::no_watermarks())
                .key_by(|(key, _): &Element| *key)
                .process("last", Last::default())
                .sink_to(sink.serializer(Keyed));
        }
    }
    environment
}

type Element = ([u8; KEY_BYTES], String);

/// Records with a key of 16 bytes and a text as value.
#[derive(Clone)]
struct Keyed;

impl RecordDeserializer for Keyed {
    type Item = Element;

    fn deserialize(
        &mut self,
        record: &RecordView<'_>,
    ) -> Result<Option<Element>, millstream_engine::Cause> {
        let key = record.key.and_then(|key| key.try_into().ok()).ok_or("a key of 16 bytes")?;
        let value = str::from_utf8(record.value.unwrap_or_default())?;
        Ok(Some((key, value.to_owned())))
    }
}

impl RecordSerializer<Element> for Keyed {
    fn serialize(
        &mut self,
        element: &Element,
        key: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> Result<bool, millstream_engine::Cause> {
        key.extend_from_slice(&element.0);
        value.extend_from_slice(element.1.as_bytes());
        Ok(true)
    }
}

/// Keeps the last value of each key.
#[derive(Clone, Default)]
struct Last {
    last: ValueState<String>,
}

impl KeyedProcessFunction for Last {
    type Key = [u8; KEY_BYTES];
    type Input = Element;
    type Output = Element;

    fn open(&mut self, runtime: &mut RuntimeContext<'_>) -> Result<(), OperatorError> {
        self.last = runtime.value_state(ValueStateDescriptor::new("last"))?;
        Ok(())
    }

    fn process_element(
        &mut self,
        element: Element,
        ctx: &mut ProcessContext<'_, [u8; KEY_BYTES]>,
        out: &mut OutputCollector<'_, Element>,
    ) -> Result<(), OperatorError> {
        // Read, so that a state that is not restored would be noticed by its cost.
        let _known = self.last.value(ctx)?.is_some();
        self.last.update(ctx, element.1.clone())?;
        out.collect(element)
    }
}

/// The job's process. Killed when dropped.
#[derive(Debug)]
pub(crate) struct JobProcess(Child);

impl JobProcess {
    pub(crate) fn start(arguments: &SteadyJobArguments) -> Result<Self, BenchError> {
        Ok(Self(command(arguments)?.stdout(Stdio::piped()).spawn()?))
    }

    /// Processor time that it has used so far, in seconds.
    pub(crate) fn cpu_seconds(&self) -> Result<f64, BenchError> {
        cpu_seconds_of(&self.0.id().to_string())
    }

    /// Tells it to take a last checkpoint and end, and waits. Gives what it says of its checkpoints.
    pub(crate) fn stop(mut self) -> Result<Phases, BenchError> {
        self.signal(Signal::TERM)?;
        let mut said = String::new();
        if let Some(mut out) = self.0.stdout.take() {
            out.read_to_string(&mut said)?;
        }
        match self.0.wait()? {
            ended if ended.success() => Ok(serde_json::from_str(&said)?),
            ended => Err(format!("the job ended with {ended}").into()),
        }
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), BenchError> {
        let id = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        Ok(kill_process(id.ok_or("a process without id")?, signal)?)
    }

    /// SIGKILL. Gives how it had ended if it was gone already.
    pub(crate) fn kill(mut self) -> Result<Option<ExitStatus>, BenchError> {
        let ended = self.0.try_wait()?;
        self.0.kill()?;
        self.0.wait()?;
        Ok(ended)
    }
}

impl Drop for JobProcess {
    fn drop(&mut self) {
        // Of one that has ended there is nothing to end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a bounded job to its end.
pub(crate) fn measure(arguments: &SteadyJobArguments) -> Result<(Measurement, Phases), BenchError> {
    let output = command(arguments)?.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{} ended with {}", arguments.job, output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn command(arguments: &SteadyJobArguments) -> Result<Command, BenchError> {
    let name = |value: &dyn Fn() -> Option<clap::builder::PossibleValue>| {
        value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    };
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg("steady-job")
        .args(["--bootstrap-server", &arguments.bootstrap_server, "--job", &arguments.job])
        .args(["--input-topic", &arguments.input_topic])
        .args(["--output-topic", &arguments.output_topic])
        .arg("--state-dir")
        .arg::<&Path>(&arguments.state_dir)
        .args(["--parallelism", &arguments.parallelism.to_string()])
        .arg("--checkpoint-interval")
        .arg(format!("{}us", arguments.checkpoint_interval.as_micros()))
        .args(["--shape", &name(&|| arguments.shape.to_possible_value())])
        .args(["--guarantee", &name(&|| arguments.guarantee.to_possible_value())])
        .args(arguments.bounded.then_some("--bounded"))
        .stdin(Stdio::null());
    Ok(command)
}
