//! The days of airports: a function with every kind of state and timers in both times, and a console that takes savepoints.
//!
//! Departures wait in a list until event time has passed their day; then they are added up, and a report goes out. An airport
//! of which nothing has come for a while, by the machine's clock, is reported as quiet. `docs/stateful.md` walks through it.
//!
//! The console reads lines of standard input: `savepoint FOLDER`, `stop FOLDER`, `drain FOLDER`, `checkpoints`. Where they end
//! the job is stopped.

use std::fmt::Write as _;
use std::io::{BufRead, IsTerminal, Write as _};
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use clap::Parser;
use millstream_engine::api::{
    AggregateFunction, KeyedProcessFunction, OutputCollector, ProcessContext,
    StreamExecutionEnvironment, TimeDomain,
};
use millstream_engine::kafka::{ClientConfig, KafkaSink, KafkaSource};
use millstream_engine::state::{
    AggregatingState, AggregatingStateDescriptor, ListState, ListStateDescriptor, MapState,
    MapStateDescriptor, ReducingState, ReducingStateDescriptor, RuntimeContext, StateTtlConfig,
    ValueState, ValueStateDescriptor,
};
use millstream_engine::time::WatermarkStrategy;
use millstream_engine::{
    CheckpointStatistics, CheckpointStatus, Job, JobError, JobHandle, OperatorError, error_chain,
    exit,
};
use serde::{Deserialize, Serialize};

#[derive(Parser)]
struct Arguments {
    #[arg(long, value_name = "HOST:PORT", help = "Kafka broker to begin with")]
    bootstrap_server: String,
    #[arg(long, help = "Topic with flight events as JSON; it has to exist")]
    input_topic: String,
    #[arg(long, help = "Topic for the reports; it has to exist")]
    output_topic: String,
    #[arg(long, value_name = "FOLDER", help = "Where state is kept; made if missing")]
    state_dir: PathBuf,
    #[arg(long, default_value_t = 1, help = "Worker threads, 1 to 256")]
    parallelism: usize,
    #[arg(
        long,
        default_value = "1h",
        value_parser = humantime::parse_duration,
        help = "After how long without a departure, by the clock, an airport is quiet"
    )]
    quiet: Duration,
    #[arg(long, value_name = "FOLDER", help = "Begin from a savepoint, in an empty state folder")]
    from_savepoint: Option<PathBuf>,
    #[arg(short = 'D', value_name = "KEY=VALUE", help = "An option by its name in Flink")]
    options: Vec<String>,
    #[arg(short = 'X', value_name = "KEY=VALUE", help = "A property of Kafka's clients")]
    properties: Vec<String>,
}

const DAY_MS: i64 = 24 * 3_600_000;

#[derive(Deserialize)]
struct Flight {
    origin: String,
    carrier: String,
    dep_delay: i64,
    departed_ms: i64,
}

/// A departure that waits for the end of its day.
#[derive(Clone, Serialize, Deserialize)]
struct Departure {
    departed_ms: i64,
    carrier: String,
    delay: i64,
}

/// What goes out: of a day that is over, with the totals up to its end, or of an airport that is quiet.
#[derive(Serialize)]
struct Report {
    origin: String,
    /// Days since 1970; none if the airport is quiet.
    day: Option<i64>,
    departures: usize,
    by_carrier: Vec<(String, u64)>,
    worst_delay: i64,
    mean_delay: i64,
}

/// The mean of whole minutes.
#[derive(Clone, Default)]
struct Mean;

impl AggregateFunction for Mean {
    type Input = i64;
    type Accumulator = (i64, i64);
    type Output = i64;

    fn create_accumulator(&self) -> (i64, i64) {
        (0, 0)
    }

    fn add(&self, minutes: i64, (sum, count): &mut (i64, i64)) {
        *sum = sum.saturating_add(minutes);
        *count += 1;
    }

    fn result(&self, (sum, count): &(i64, i64)) -> i64 {
        sum / (*count).max(1)
    }
}

/// The days of each airport.
#[derive(Clone, Default)]
struct AirportDays {
    quiet_ms: i64,
    /// Departures whose day is not over.
    waiting: ListState<Departure>,
    /// All departures by carrier.
    by_carrier: MapState<String, u64>,
    worst_delay: ReducingState<i64>,
    mean_delay: AggregatingState<Mean>,
    /// When the airport will be called quiet, unless something comes before.
    quiet_at: ValueState<i64>,
}

impl KeyedProcessFunction for AirportDays {
    type Key = String;
    type Input = Flight;
    type Output = Report;

    fn open(&mut self, runtime: &mut RuntimeContext<'_>) -> Result<(), OperatorError> {
        let month = StateTtlConfig::new(Duration::from_hours(30 * 24));
        self.waiting = runtime.list_state(ListStateDescriptor::new("waiting"))?;
        self.by_carrier =
            runtime.map_state(MapStateDescriptor::new("by-carrier").with_ttl(month))?;
        self.worst_delay =
            runtime.reducing_state(ReducingStateDescriptor::new("worst-delay", i64::max))?;
        self.mean_delay =
            runtime.aggregating_state(AggregatingStateDescriptor::new("mean-delay", Mean))?;
        self.quiet_at = runtime.value_state(ValueStateDescriptor::new("quiet-at"))?;
        Ok(())
    }

    fn process_element(
        &mut self,
        flight: Flight,
        ctx: &mut ProcessContext<'_, String>,
        _out: &mut OutputCollector<'_, Report>,
    ) -> Result<(), OperatorError> {
        let Flight { carrier, dep_delay: delay, departed_ms, .. } = flight;
        self.waiting.add(ctx, &Departure { departed_ms, carrier, delay })?;
        let midnight = (departed_ms.div_euclid(DAY_MS) + 1) * DAY_MS;
        let before = self.quiet_at.value(ctx)?.copied();

        let mut timers = ctx.timer_service();
        timers.register_event_time_timer(midnight);
        if let Some(before) = before {
            timers.delete_processing_time_timer(before);
        }
        let quiet_at = timers.current_processing_time() + self.quiet_ms;
        timers.register_processing_time_timer(quiet_at);
        self.quiet_at.update(ctx, quiet_at)
    }

    fn on_timer(
        &mut self,
        timestamp: i64,
        ctx: &mut ProcessContext<'_, String>,
        out: &mut OutputCollector<'_, Report>,
    ) -> Result<(), OperatorError> {
        if ctx.time_domain() == Some(TimeDomain::ProcessingTime) {
            self.quiet_at.clear(ctx)?;
            let report = self.report(None, 0, ctx)?;
            return out.collect(report);
        }
        let waiting = self.waiting.get(ctx)?;
        let (over, open): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|departure| departure.departed_ms < timestamp);
        self.waiting.update(ctx, &open)?;
        for departure in &over {
            let count = self.by_carrier.get(ctx, &departure.carrier)?.unwrap_or(0);
            self.by_carrier.put(ctx, &departure.carrier, &(count + 1))?;
            self.worst_delay.add(ctx, departure.delay)?;
            self.mean_delay.add(ctx, departure.delay)?;
        }
        let report = self.report(Some(timestamp / DAY_MS - 1), over.len(), ctx)?;
        out.collect(report)
    }
}

impl AirportDays {
    fn new(quiet: Duration) -> Self {
        let quiet_ms = i64::try_from(quiet.as_millis()).unwrap_or(i64::MAX / 2);
        Self { quiet_ms, ..Self::default() }
    }

    fn report(
        &self,
        day: Option<i64>,
        departures: usize,
        ctx: &mut ProcessContext<'_, String>,
    ) -> Result<Report, OperatorError> {
        Ok(Report {
            origin: ctx.current_key()?,
            day,
            departures,
            by_carrier: self.by_carrier.entries(ctx)?,
            worst_delay: self.worst_delay.get(ctx)?.copied().unwrap_or(0),
            mean_delay: self.mean_delay.get(ctx)?.unwrap_or(0),
        })
    }
}

fn main() -> std::process::ExitCode {
    let ansi = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(ansi).init();
    exit(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Result<(), JobError> {
    let kafka = ClientConfig::new(&arguments.bootstrap_server).with(&arguments.properties)?;
    let mut env = StreamExecutionEnvironment::new("airport-days")
        .parallelism(arguments.parallelism)
        .checkpoint_interval(Duration::from_millis(100));
    for option in &arguments.options {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        env = env.option(name.trim(), value.trim())?;
    }
    let source = KafkaSource::new(kafka.clone()).topics([&arguments.input_topic]);
    let sink = KafkaSink::new(kafka).topic(&arguments.output_topic);
    let watermarks = WatermarkStrategy::for_bounded_out_of_orderness(Duration::from_hours(1))
        .with_timestamp_assigner(|flight: &Flight, _| flight.departed_ms)
        .without_idleness();
    env.from_source(source.json::<Flight>(), watermarks)
        .uid("flights")
        .key_by(|flight| flight.origin.clone())
        .process("airport-days", AirportDays::new(arguments.quiet))
        .sink_to(sink.json_with_key(|report: &Report| report.origin.clone()))
        .uid("reports");

    let mut job = Job::new(env, &arguments.state_dir)?;
    if let Some(savepoint) = &arguments.from_savepoint {
        job = job.from_savepoint(savepoint);
    }
    let job = job.stop_on_signals().start()?;
    console(&job);
    job.wait()
}

/// Does what the lines of standard input say, until they or the job end.
fn console(job: &JobHandle) {
    let (lines, typed) = channel();
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock().lines().map_while(Result::ok);
        input.try_for_each(|line| lines.send(line))
    });
    while !job.is_finished() {
        match typed.recv_timeout(Duration::from_millis(50)) {
            Ok(line) => {
                // Whoever asked may not listen any more.
                let _ = writeln!(std::io::stdout(), "{}", answer(job, line.trim()));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return job.stop(),
        }
    }
}

fn answer(job: &JobHandle, line: &str) -> String {
    let (verb, folder) = line.split_once(' ').unwrap_or((line, ""));
    let taken = match verb {
        "savepoint" => job.savepoint(folder),
        "stop" => job.stop_with_savepoint(folder, false),
        "drain" => job.stop_with_savepoint(folder, true),
        "checkpoints" => return checkpoints(&job.monitor().checkpoints()),
        _ => return "savepoint FOLDER, stop FOLDER, drain FOLDER, checkpoints".to_owned(),
    };
    match taken {
        Ok(manifest) => {
            let (checkpoint, entries) = (manifest.at.checkpoint, manifest.entries());
            format!("{folder} holds checkpoint {checkpoint}, entries of state: {entries}")
        }
        Err(error) => format!("error: {}", error_chain(&error)),
    }
}

/// The last checkpoints, one a line, and the longest of them.
fn checkpoints(last: &[CheckpointStatistics]) -> String {
    let mut text = String::new();
    for checkpoint in last {
        let (number, trigger) = (checkpoint.checkpoint, checkpoint.trigger);
        // A text can always grow.
        let _ = writeln!(text, "checkpoint {number} ({trigger:?}) {checkpoint}");
    }
    let committed = last.iter().filter(|it| it.status == CheckpointStatus::Completed);
    let longest = committed.map(|it| it.end_to_end_duration).max().unwrap_or_default();
    text + &format!("the longest took {longest:?}")
}
