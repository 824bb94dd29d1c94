//! The measured jobs, each in a process of its own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use compact_str::CompactString;
use millstream_engine::Job;
use millstream_engine::api::{StreamExecutionEnvironment, fold};
use millstream_engine::kafka::{
    ClientConfig, KafkaClient, KafkaSink, KafkaSource, OffsetsInitializer, ReadUntil,
    TopicPartition, read_topic,
};
use millstream_engine::time::WatermarkStrategy;
use millstream_engine::window::TumblingEventTimeWindows;
use serde::{Deserialize, Serialize};

use crate::BenchError;
use crate::input::PARTITIONS;
use crate::usage::{Measurement, Usage};

/// A reader that makes no progress for this long has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// Read every record and look at its bytes.
    Consume,
    /// Landings by origin and hour, exactly once.
    Q2,
}

/// One run of one workload.
#[derive(Debug, Args)]
pub(crate) struct JobArguments {
    pub(crate) workload: Workload,
    #[arg(long)]
    pub(crate) bootstrap_server: String,
    #[arg(long)]
    pub(crate) input_topic: String,
    #[arg(long)]
    pub(crate) output_topic: String,
    #[arg(long)]
    pub(crate) state_dir: PathBuf,
    #[arg(long)]
    pub(crate) job: String,
    #[arg(long)]
    pub(crate) parallelism: usize,
    #[arg(long, value_parser = humantime::parse_duration)]
    pub(crate) checkpoint_interval: Duration,
}

/// Short texts are held inline: they cross threads with their record, and cost no allocation there.
#[derive(Deserialize)]
struct Flight {
    origin: CompactString,
    dep_delay: i64,
    arr_delay: i64,
    landed_ms: i64,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct Landings {
    window_start: i64,
    origin: CompactString,
    landings: u64,
    sum_arr_delay: i64,
    max_dep_delay: i64,
}

/// Runs the workload and prints its measurement as one line of JSON.
pub(crate) fn run(arguments: &JobArguments) -> Result<(), BenchError> {
    let begun = Instant::now();
    let (records, records_out) = match arguments.workload {
        Workload::Consume => (consume(arguments)?, 0),
        Workload::Q2 => q2(arguments)?,
    };
    let measurement =
        Measurement { records, records_out, wall: begun.elapsed(), usage: Usage::now()? };
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, &measurement)?;
    Ok(())
}

fn consume(arguments: &JobArguments) -> Result<u64, BenchError> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let client = KafkaClient::connect(ClientConfig::new(&arguments.bootstrap_server)).await?;
        let starts: BTreeMap<TopicPartition, i64> = (0..PARTITIONS)
            .map(|partition| (TopicPartition::new(arguments.input_topic.as_str(), partition), 0))
            .collect();
        let (mut records, mut bytes) = (0_u64, 0_u64);
        let until = ReadUntil::LastStableOffset;
        read_topic(&client, &starts, until, PATIENCE, |_, record| {
            records += 1;
            bytes += record.value.map_or(0, |value| value.len() as u64);
        })
        .await?;
        if bytes == 0 {
            return Err("nothing was read".into());
        }
        client.close().await;
        Ok(records)
    })
}

fn q2(arguments: &JobArguments) -> Result<(u64, u64), BenchError> {
    let kafka = ClientConfig::new(&arguments.bootstrap_server);
    let source = KafkaSource::new(kafka.clone())
        .topics([&arguments.input_topic])
        .bounded(OffsetsInitializer::latest());
    let sink = KafkaSink::new(kafka).topic(&arguments.output_topic);
    let watermarks = WatermarkStrategy::for_bounded_out_of_orderness(Duration::from_hours(12))
        .with_timestamp_assigner(|flight: &Flight, _| flight.landed_ms)
        .without_idleness();
    let env = StreamExecutionEnvironment::new(&arguments.job)
        .parallelism(arguments.parallelism)
        .checkpoint_interval(arguments.checkpoint_interval);
    env.from_source(source.json::<Flight>(), watermarks)
        .key_by(|flight| flight.origin.clone())
        .window(TumblingEventTimeWindows::of(Duration::from_hours(1)))
        .aggregate(fold(
            Landings { max_dep_delay: i64::MIN, ..Landings::default() },
            |hour: &mut Landings, flight: Flight| {
                hour.landings += 1;
                hour.sum_arr_delay += flight.arr_delay;
                hour.max_dep_delay = hour.max_dep_delay.max(flight.dep_delay);
            },
        ))
        .map(|hour| Landings { window_start: hour.window.start, origin: hour.key, ..hour.value })
        .sink_to(sink.json_with_key(|landings: &Landings| landings.origin.clone()));
    let handle = Job::new(env, &arguments.state_dir)?.start()?;
    let monitor = handle.monitor();
    handle.wait()?;
    let end = monitor.snapshot();
    if end.late_dropped > 0 {
        return Err(format!("{} records came late", end.late_dropped).into());
    }
    Ok((end.records_in, end.records_out))
}
