//! `throughput`: the same job over the same input, once exactly once and once at least once, in turn.

use std::io::Write;
use std::time::{Duration, Instant};

use clap::Args;
use millstream_engine::kafka::{ClientConfig, KafkaClient, NewTopic};

use crate::BenchError;
use crate::steady::{
    Feed, Guarantee, PARTITIONS, Phases, Records, Shape, SteadyJobArguments, begin, measure,
};
use crate::targets::{Bound, Spread, Targets};
use crate::usage::Measurement;

/// What to compare.
#[derive(Debug, Args)]
pub(crate) struct ThroughputArguments {
    /// Records of the input, 100 bytes each
    #[arg(long, default_value_t = 24_000_000)]
    records: u64,
    /// Runs of each, in turn, after one that warms the broker and is not counted
    #[arg(long, default_value_t = 7)]
    runs: u32,
    /// Time between commits of both
    #[arg(long, default_value = "100ms", value_parser = humantime::parse_duration)]
    checkpoint_interval: Duration,
    /// What the job does
    #[arg(long, value_enum, default_value_t = Shape::Copy)]
    shape: Shape,
    /// Workers of the job
    #[arg(long, default_value_t = 2)]
    parallelism: usize,
    /// Fail if a target is missed
    #[arg(long)]
    check: bool,
}

/// Part of the throughput of at least once that exactly once keeps.
const KEPT: f64 = 0.9;

const INPUT: &str = "throughput-in";

pub(crate) fn run(arguments: &ThroughputArguments) -> Result<(), BenchError> {
    let mut out = std::io::stdout().lock();
    let (runtime, broker) = begin(&mut out)?;
    let address = broker.bootstrap_server();
    let client = runtime.block_on(KafkaClient::connect(ClientConfig::new(&address)))?;
    runtime.block_on(load(arguments, &client, &address))?;
    writeln!(
        out,
        "{:?} of {} records of 100 B, commits each {:?}, {} workers, {}",
        arguments.shape,
        arguments.records,
        arguments.checkpoint_interval,
        arguments.parallelism,
        broker.name()
    )?;
    let mut runs: [Vec<Measurement>; 2] = [Vec::new(), Vec::new()];
    let kinds = [Guarantee::AtLeastOnce, Guarantee::ExactlyOnce];
    for number in 0..=arguments.runs.max(1) {
        for (kind, measured) in kinds.iter().zip(&mut runs) {
            let topic = format!("throughput-{kind:?}-{number}");
            runtime.block_on(client.create_topic(NewTopic::new(&topic, PARTITIONS, 1)))?;
            let (run, phases) = one(arguments, &address, &topic, *kind)?;
            runtime.block_on(client.delete_topic(&topic))?;
            let counted = number > 0;
            writeln!(
                out,
                "  {kind:?}{}: {:.3} M records/s, {:.2} CPU-s per million; checkpoints {phases}",
                if counted { "" } else { " (to warm up)" },
                run.million_per_second(),
                run.cpu_per_million()
            )?;
            out.flush()?;
            if counted {
                measured.push(run);
            }
        }
    }
    runtime.block_on(client.close());
    let [at_least_once, exactly_once] = &runs;
    let rate = |runs: &[Measurement]| Spread::of(runs.iter().map(Measurement::million_per_second));
    let (base, ours) = (rate(at_least_once), rate(exactly_once));
    writeln!(
        out,
        "  at least once, M records/s: {}; exactly once: {}",
        base.text(3),
        ours.text(3)
    )?;
    // Neighbours in time, so that what the machine does meanwhile falls on both.
    let ratios = at_least_once
        .iter()
        .zip(exactly_once)
        .map(|(base, ours)| ours.million_per_second() / base.million_per_second());
    let mut targets = Targets::default();
    let kept = Spread::of(ratios);
    targets.judge(&mut out, "exactly once to at least once", kept, Bound::AtLeast, KEPT)?;
    targets.check(arguments.check)
}

async fn load(
    arguments: &ThroughputArguments,
    client: &KafkaClient,
    address: &str,
) -> Result<(), BenchError> {
    client.create_topic(NewTopic::new(INPUT, PARTITIONS, 1)).await?;
    let keys = (arguments.shape == Shape::Keyed).then_some(100_000);
    let feed = Feed::open(address, INPUT, Records { keys, first: 0 }, Instant::now()).await?;
    feed.write(arguments.records).await
}

fn one(
    arguments: &ThroughputArguments,
    address: &str,
    topic: &str,
    guarantee: Guarantee,
) -> Result<(Measurement, Phases), BenchError> {
    let state = tempfile::tempdir_in(".")?;
    let (run, phases) = measure(&SteadyJobArguments {
        bootstrap_server: address.to_owned(),
        job: topic.to_owned(),
        input_topic: INPUT.to_owned(),
        output_topic: topic.to_owned(),
        state_dir: state.path().to_owned(),
        parallelism: arguments.parallelism,
        checkpoint_interval: arguments.checkpoint_interval,
        shape: arguments.shape,
        guarantee,
        bounded: true,
    })?;
    if (run.records, run.records_out) != (arguments.records, arguments.records) {
        return Err(format!("{topic}: of {} records {run:?}", arguments.records).into());
    }
    Ok((run, phases))
}
