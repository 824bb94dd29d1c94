//! `restart`: a job with a large state is killed under load and started again at once; how long until new output is committed.

use std::io::Write;
use std::time::{Duration, Instant};

use clap::Args;
use millstream_engine::kafka::{ClientConfig, KafkaClient, NewTopic};
use rustix::process::Signal;

use crate::BenchError;
use crate::broker::Broker;
use crate::steady::{
    Feed, Guarantee, JobProcess, PARTITIONS, Reader, Records, Shape, SteadyJobArguments, begin,
};
use crate::targets::{Bound, Spread, Targets};

/// How to measure.
#[derive(Debug, Args)]
pub(crate) struct RestartArguments {
    /// Keys of the state, each of 16 bytes with a value of 100
    #[arg(long, default_value_t = 1_000_000)]
    keys: u64,
    /// Records a second
    #[arg(long, default_value_t = 20_000)]
    rate: u64,
    /// How often it is killed, every second time while a transaction is open
    #[arg(long, default_value_t = 10)]
    kills: u32,
    /// Time between commits
    #[arg(long, default_value = "100ms", value_parser = humantime::parse_duration)]
    checkpoint_interval: Duration,
    /// Workers of the job
    #[arg(long, default_value_t = 2)]
    parallelism: usize,
    /// Fail if a target is missed
    #[arg(long)]
    check: bool,
}

const FIRST_OUTPUT_MAX: f64 = 1.0;
const STALL_MAX: f64 = 5.0;

/// How long anything may take that should take moments; the state is filled meanwhile.
const PATIENCE: Duration = Duration::from_secs(90);

/// What a broker calls a transaction that is neither committed nor aborted.
const OPEN: &str = "Ongoing";

/// What one kill cost, in seconds.
#[derive(Debug)]
struct Kill {
    /// The killed process left a transaction open.
    open: bool,
    /// From the start of the new process to the first committed record that was written after the kill.
    first_output: f64,
    /// How long the reader saw nothing.
    stall: f64,
}

pub(crate) fn run(arguments: &RestartArguments) -> Result<(), BenchError> {
    let mut out = std::io::stdout().lock();
    let (runtime, broker) = begin(&mut out)?;
    writeln!(
        out,
        "{} keys of 16 B with values of 100 B, {} records a second, commits each {:?}, {} workers, {}",
        arguments.keys,
        arguments.rate,
        arguments.checkpoint_interval,
        arguments.parallelism,
        broker.name()
    )?;
    let kills = runtime.block_on(kills(arguments, &broker, &mut out))?;
    let mut targets = Targets::default();
    let (open, closed): (Vec<&Kill>, Vec<&Kill>) = kills.iter().partition(|kill| kill.open);
    for (what, of) in [("a transaction left open", &open), ("none left open", &closed)] {
        let what = format!("start to first new committed output, s, {what} ({})", of.len());
        let figure = Spread::of(of.iter().map(|kill| kill.first_output));
        if of.is_empty() {
            writeln!(out, "  {what:<56} no such kill")?;
        } else {
            targets.judge(&mut out, &what, figure, Bound::AtMost, FIRST_OUTPUT_MAX)?;
        }
    }
    let longest = kills.iter().map(|kill| kill.stall).fold(0.0, f64::max);
    let stall = Spread { median: longest, ..Spread::of(kills.iter().map(|kill| kill.stall)) };
    targets.judge(&mut out, "longest stall of a reader, s", stall, Bound::AtMost, STALL_MAX)?;
    if open.is_empty() {
        return Err("no kill left a transaction open; ask for more kills".into());
    }
    targets.check(arguments.check)
}

async fn state_of(client: &KafkaClient, transactional_id: &str) -> Result<String, BenchError> {
    let described = client.describe_transactions(&[transactional_id]).await;
    let described = described.into_values().next().ok_or("no answer about the transaction")?;
    Ok(described?.state)
}

/// Stops the process in a moment at which its transaction is open: a few milliseconds of each interval, for records are kept
/// until the barrier.
async fn hold_open(
    process: &JobProcess,
    client: &KafkaClient,
    transactional_id: &str,
) -> Result<(), BenchError> {
    let limit = Instant::now() + PATIENCE;
    while Instant::now() < limit {
        if state_of(client, transactional_id).await? == OPEN {
            process.signal(Signal::STOP)?;
            if state_of(client, transactional_id).await? == OPEN {
                return Ok(());
            }
            process.signal(Signal::CONT)?;
        }
    }
    Err(format!("no transaction of {transactional_id} was seen open in {PATIENCE:?}").into())
}

async fn kills(
    arguments: &RestartArguments,
    broker: &Broker,
    out: &mut impl Write,
) -> Result<Vec<Kill>, BenchError> {
    let (input, output, job) = ("restart-in", "restart-out", "restart");
    let transactional_id = format!("{job}/0");
    let address = broker.bootstrap_server();
    let client = KafkaClient::connect(ClientConfig::new(&address)).await?;
    for topic in [input, output] {
        client.create_topic(NewTopic::new(topic, PARTITIONS, 1)).await?;
    }
    let state = tempfile::tempdir_in(".")?;
    let origin = Instant::now();
    let keys = Some(arguments.keys);
    let fill = arguments.keys;
    Feed::open(&address, input, Records { keys, first: 0 }, origin).await?.write(fill).await?;
    let job = SteadyJobArguments {
        bootstrap_server: address.clone(),
        job: job.to_owned(),
        input_topic: input.to_owned(),
        output_topic: output.to_owned(),
        state_dir: state.path().to_owned(),
        parallelism: arguments.parallelism,
        checkpoint_interval: arguments.checkpoint_interval,
        shape: Shape::Keyed,
        guarantee: Guarantee::ExactlyOnce,
        bounded: false,
    };
    let mut reader = Reader::start(&address, output, origin).await?;
    let mut process = JobProcess::start(&job)?;
    reader.until("the state", PATIENCE, |seen| seen.len() as u64 >= fill).await?;
    let records = Records { keys, first: fill };
    let feed = Feed::open(&address, input, records, origin).await?.run(arguments.rate);
    let mut kills = Vec::new();
    for number in 0..arguments.kills.max(1) {
        // Kills at other places between two commits each time.
        let interval = arguments.checkpoint_interval;
        let place = interval.mul_f64(f64::from(number) / f64::from(arguments.kills.max(1)));
        let caught_up = feed.next();
        reader
            .until("steady output", PATIENCE, |seen| {
                seen.last().is_some_and(|last| last.number >= caught_up)
            })
            .await?;
        tokio::time::sleep(Duration::from_secs(1) + place).await;
        if number % 2 == 1 {
            hold_open(&process, &client, &transactional_id).await?;
        }
        if let Some(ended) = process.kill()? {
            return Err(format!("the job had ended with {ended}").into());
        }
        let killed = origin.elapsed();
        // A moment's question, before anybody fences.
        let transaction = state_of(&client, &transactional_id).await?;
        let started = origin.elapsed();
        process = JobProcess::start(&job)?;
        let (mut from, mut first) = (0, None);
        reader
            .until("output after the kill", PATIENCE, |seen| {
                first = seen.iter().skip(from).find(|seen| seen.stamped > killed).copied();
                from = seen.len();
                first.is_some()
            })
            .await?;
        let first = first.ok_or("no output after the kill")?;
        let before = {
            let seen = reader.seen();
            let before = seen.iter().rev().find(|seen| seen.seen < first.seen);
            before.map_or(Duration::ZERO, |seen| seen.seen)
        };
        let kill = Kill {
            open: transaction == OPEN,
            first_output: (first.seen - started).as_secs_f64(),
            stall: (first.seen - before).as_secs_f64(),
        };
        writeln!(
            out,
            "  kill {:>2}: transaction {transaction}, first new committed output after {:.3} s, reader without output for {:.3} s",
            number + 1,
            kill.first_output,
            kill.stall
        )?;
        out.flush()?;
        kills.push(kill);
    }
    let end = feed.stop().await?;
    reader.until("all output", PATIENCE, |seen| seen.len() as u64 >= end).await?;
    process.stop()?;
    reader.exactly_once(end)?;
    client.close().await;
    Ok(kills)
}
