//! Flights through Kafka, exactly once: kill it whenever you like, the output stays right.
//!
//! `q1` keeps running totals by carrier, one output record for each input; `q2` counts landings by origin and hour.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use compact_str::CompactString;
use millstream_engine::api::{StreamExecutionEnvironment, fold};
use millstream_engine::kafka::{ClientConfig, KafkaSink, KafkaSource, OffsetsInitializer};
use millstream_engine::time::WatermarkStrategy;
use millstream_engine::window::TumblingEventTimeWindows;
use millstream_engine::{Job, JobError, exit};
use serde::{Deserialize, Serialize};

#[derive(Parser)]
struct Arguments {
    #[arg(long, value_parser = ["q1", "q2"], help = "Totals by carrier, or landings by hour")]
    query: String,
    #[arg(long, value_name = "HOST:PORT", help = "Kafka broker to begin with")]
    bootstrap_server: String,
    #[arg(long, help = "Topic with flight events as JSON; it has to exist")]
    input_topic: String,
    #[arg(long, help = "Topic for the results; it has to exist")]
    output_topic: String,
    #[arg(long, value_name = "FOLDER", help = "Where state is kept; made if missing")]
    state_dir: PathBuf,
    #[arg(long, help = "Name of the job; fixes its transactional id [default: flights-QUERY]")]
    job: Option<String>,
    #[arg(long, default_value_t = 1, help = "Worker threads, 1 to 256")]
    parallelism: usize,
    #[arg(long, default_value = "1s", value_parser = interval, help = "Time between checkpoints")]
    checkpoint_interval: Duration,
    #[arg(long, help = "End once everything that is there at the start has been read")]
    bounded: bool,
    #[arg(
        short = 'D',
        value_name = "KEY=VALUE",
        help = "An option by its name in Flink, as in \
        restart-strategy.type=fixed-delay or execution.checkpointing.timeout=1min"
    )]
    options: Vec<String>,
    #[arg(
        long,
        conflicts_with = "accept_rewind",
        help = "The ledger is gone or older than the state folder: take the folder as the truth"
    )]
    adopt_local: bool,
    #[arg(
        long,
        help = "The state folder is older than the ledger: go on from it, and write again"
    )]
    accept_rewind: bool,
    #[arg(long, value_name = "FOLDER", help = "Begin from a savepoint, in an empty state folder")]
    from_savepoint: Option<PathBuf>,
    #[arg(
        long,
        requires = "from_savepoint",
        help = "Leave behind what the job has no operator for"
    )]
    allow_non_restored_state: bool,
    #[arg(short = 'X', value_name = "KEY=VALUE", help = "A property of Kafka's clients")]
    properties: Vec<String>,
}

fn interval(text: &str) -> Result<Duration, &'static str> {
    let parsed = humantime::parse_duration(text).ok().filter(|length| length.as_millis() > 0);
    parsed.ok_or("give a time from 1ms on, as in 100ms or 2s")
}

// Carriers and airports have two or three letters: `CompactString` holds them inline, so that no record is allocated on
// one worker and freed on another.
#[derive(Deserialize)]
struct Flight {
    carrier: CompactString,
    origin: CompactString,
    distance: i64,
    dep_delay: i64,
    arr_delay: i64,
    landed_ms: i64,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct Totals {
    carrier: CompactString,
    flights: u64,
    miles: i64,
    worst_arr_delay: i64,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct Landings {
    window_start: i64,
    origin: CompactString,
    landings: u64,
    sum_arr_delay: i64,
    max_dep_delay: i64,
}

/// The two halves of `KEY=VALUE`.
fn set_option(
    env: StreamExecutionEnvironment,
    option: &str,
) -> Result<StreamExecutionEnvironment, JobError> {
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    Ok(env.option(name.trim(), value.trim())?)
}

fn main() -> std::process::ExitCode {
    let ansi = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(ansi).init();
    exit(run(&Arguments::parse()))
}

fn run(arguments: &Arguments) -> Result<(), JobError> {
    let job = arguments.job.clone().unwrap_or(format!("flights-{}", arguments.query));
    let kafka = ClientConfig::new(&arguments.bootstrap_server).with(&arguments.properties)?;
    let source = KafkaSource::new(kafka.clone())
        .topics([&arguments.input_topic])
        .bounded(arguments.bounded.then(OffsetsInitializer::latest));
    let sink = KafkaSink::new(kafka).topic(&arguments.output_topic);
    let watermarks = WatermarkStrategy::for_bounded_out_of_orderness(Duration::from_hours(12))
        .with_timestamp_assigner(|flight: &Flight, _| flight.landed_ms)
        .without_idleness();
    let mut env = StreamExecutionEnvironment::new(job)
        .parallelism(arguments.parallelism)
        .checkpoint_interval(arguments.checkpoint_interval);
    for option in &arguments.options {
        env = set_option(env, option)?;
    }
    if arguments.adopt_local {
        env = env.adopt_local();
    }
    if arguments.accept_rewind {
        env = env.accept_rewind();
    }
    let flights = env.from_source(source.json::<Flight>(), watermarks).uid("flights");
    let no_landing = Landings { max_dep_delay: i64::MIN, ..Landings::default() };
    match arguments.query.as_str() {
        "q1" => flights
            .key_by(|flight| flight.carrier.clone())
            .aggregate(fold(Totals { worst_arr_delay: i64::MIN, ..Totals::default() }, add_flight))
            .map(|total| Totals { carrier: total.key, ..total.value })
            .sink_to(sink.json_with_key(|totals: &Totals| totals.carrier.clone())),
        _ => flights
            .key_by(|flight| flight.origin.clone())
            .window(TumblingEventTimeWindows::of(Duration::from_hours(1)))
            .aggregate(fold(no_landing, add_landing))
            .map(|row| Landings { window_start: row.window.start, origin: row.key, ..row.value })
            .sink_to(sink.json_with_key(|landings: &Landings| landings.origin.clone())),
    };
    let mut job = Job::new(env, &arguments.state_dir)?;
    if let Some(savepoint) = &arguments.from_savepoint {
        job = job.from_savepoint(savepoint);
    }
    if arguments.allow_non_restored_state {
        job = job.allow_non_restored_state();
    }
    job.run()
}

fn add_flight(totals: &mut Totals, flight: Flight) {
    totals.flights += 1;
    totals.miles = totals.miles.saturating_add(flight.distance);
    totals.worst_arr_delay = totals.worst_arr_delay.max(flight.arr_delay);
}

fn add_landing(hour: &mut Landings, flight: Flight) {
    hour.landings += 1;
    hour.sum_arr_delay = hour.sum_arr_delay.saturating_add(flight.arr_delay);
    hour.max_dep_delay = hour.max_dep_delay.max(flight.dep_delay);
}
