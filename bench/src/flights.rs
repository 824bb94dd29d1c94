//! `flights`: q2 against the bare consume of the same topic.

use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;
use millstream_engine::kafka::{ClientConfig, KafkaClient, NewTopic};

use crate::BenchError;
use crate::broker::{Broker, Kind};
use crate::input::{self, PARTITIONS};
use crate::job::Workload;
use crate::report::{self, Row};
use crate::usage::Measurement;

/// Targets of the first slice, in CPU-seconds per million records.
const CONSUME_TARGET: f64 = 0.5;
const Q2_TARGET: f64 = 2.0;

/// How to run it.
#[derive(Debug, Args)]
pub(crate) struct FlightsArguments {
    /// Brokers to measure on
    #[arg(long, value_enum, default_values_t = [Kind::Dev, Kind::Kafka], value_delimiter = ',')]
    brokers: Vec<Kind>,
    /// Times the year of 327,346 flights is repeated
    #[arg(long, default_value_t = 5)]
    repeat: u32,
    /// Runs of each workload; medians are reported
    #[arg(long, default_value_t = 3)]
    runs: u32,
    /// Workers of q2
    #[arg(long, default_value_t = 2)]
    parallelism: usize,
    /// Time between checkpoints of q2
    #[arg(long, default_value = "100ms", value_parser = humantime::parse_duration)]
    checkpoint_interval: Duration,
    /// Fail if a median is above its target
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(arguments: &FlightsArguments) -> Result<(), BenchError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut rows = Vec::new();
    for kind in &arguments.brokers {
        match runtime.block_on(Broker::start(*kind))? {
            Ok(broker) => rows.extend(runtime.block_on(measure(arguments, &broker))?),
            Err(reason) => eprintln!("skipped {kind:?}: {reason}"),
        }
    }
    let mut out = std::io::stdout().lock();
    report::print(&mut out, &rows)?;
    let missed: Vec<String> = rows
        .iter()
        .filter(|row| row.cpu() > row.target)
        .map(|row| {
            format!("{} on {}: {:.2} > {:.1}", row.workload, row.broker, row.cpu(), row.target)
        })
        .collect();
    if arguments.check && !missed.is_empty() {
        return Err(format!("target missed: {}", missed.join("; ")).into());
    }
    Ok(())
}

async fn measure(arguments: &FlightsArguments, broker: &Broker) -> Result<Vec<Row>, BenchError> {
    let client = KafkaClient::connect(ClientConfig::new(broker.bootstrap_server())).await?;
    let input_topic = "bench-flights";
    let records = input::load(&client, input_topic, arguments.repeat).await?;
    eprintln!("{}: {records} records loaded", broker.name());
    let mut rows =
        [(Workload::Consume, "consume", CONSUME_TARGET), (Workload::Q2, "q2", Q2_TARGET)].map(
            |(workload, name, target)| {
                (workload, Row { broker: broker.name(), workload: name, runs: Vec::new(), target })
            },
        );
    for run in 0..arguments.runs {
        for (workload, row) in &mut rows {
            let job = format!("bench-{}-{run}", row.workload);
            let output_topic = format!("{job}-out");
            client.create_topic(NewTopic::new(&output_topic, PARTITIONS, 1)).await?;
            let measured = one(arguments, broker, *workload, input_topic, &output_topic, &job)?;
            if measured.records != records {
                return Err(format!("{job} read {} of {records} records", measured.records).into());
            }
            eprintln!(
                "{}: {} run {}: {:.2} CPU-s per million records, {:.1} s",
                broker.name(),
                row.workload,
                run + 1,
                measured.cpu_per_million(),
                measured.wall.as_secs_f64()
            );
            row.runs.push(measured);
        }
    }
    client.close().await;
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

/// Runs one workload in a process of its own.
fn one(
    arguments: &FlightsArguments,
    broker: &Broker,
    workload: Workload,
    input_topic: &str,
    output_topic: &str,
    job: &str,
) -> Result<Measurement, BenchError> {
    let state = tempfile::tempdir()?;
    let name = match workload {
        Workload::Consume => "consume",
        Workload::Q2 => "q2",
    };
    let output = Command::new(std::env::current_exe()?)
        .args(["job", name, "--bootstrap-server", &broker.bootstrap_server()])
        .args(["--input-topic", input_topic, "--output-topic", output_topic, "--job", job])
        .arg("--state-dir")
        .arg(state.path())
        .args(["--parallelism", &arguments.parallelism.to_string()])
        .args([
            "--checkpoint-interval",
            &format!("{}us", arguments.checkpoint_interval.as_micros()),
        ])
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("{job} ended with {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
