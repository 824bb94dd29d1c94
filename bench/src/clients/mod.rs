//! `clients`: our client against others, on one real broker, each in processes of its own and in turn.

mod contestant;
mod job;
mod process;
mod table;
mod values;
mod workload;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::Write;

use clap::{Args, ValueEnum};
use millstream_protocol_client::{ClientConfig, KafkaClient, NewTopic};

pub(crate) use job::{ClientArguments, run as run_client};

use self::contestant::{Contestant, Peer, contestants, ours};
use self::process::Run;
use self::table::Row;
pub(crate) use self::values::Values;
use self::values::{Outcome, Tally};
use self::workload::{PARTITIONS, Shape, Workload};
use crate::BenchError;
use crate::broker::{Broker, Kind};

/// How to compare.
#[derive(Debug, Args)]
pub(crate) struct ClientsArguments {
    /// What to compare
    #[arg(long, value_enum, default_values_t = Workload::value_variants().to_vec(), value_delimiter = ',')]
    workloads: Vec<Workload>,
    /// Whom to compare with
    #[arg(long, value_enum, default_values_t = Peer::value_variants().to_vec(), value_delimiter = ',')]
    peers: Vec<Peer>,
    /// Compare with nobody
    #[arg(long, conflicts_with = "peers")]
    no_peers: bool,
    /// Runs of each size; medians are reported
    #[arg(long, default_value_t = 5)]
    runs: u32,
    /// Records of a short run; what it costs is taken off a long one
    #[arg(long, default_value_t = 1_000_000)]
    few: u64,
    /// Records of a long run
    #[arg(long, default_value_t = 5_000_000)]
    many: u64,
    /// Bytes of the batches that consumers read, before compression; Kafka's default
    #[arg(long, default_value_t = 16_384)]
    input_batch_size: u32,
    /// A broker that runs already; default is one of the benchmark's own
    #[arg(long)]
    bootstrap_server: Option<String>,
    /// Fail if a target is missed
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(arguments: &ClientsArguments) -> Result<(), BenchError> {
    let peers = build_peers(arguments)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let mut broker = None;
    let address = match &arguments.bootstrap_server {
        Some(address) => address.clone(),
        None => match runtime.block_on(Broker::start(Kind::Kafka))? {
            Ok(started) => broker.insert(started).bootstrap_server(),
            Err(reason) => return Err(format!("no broker to compare on: {reason}").into()),
        },
    };
    let name = broker.as_ref().map_or(address.clone(), Broker::name);
    let client = runtime.block_on(KafkaClient::connect(ClientConfig::new(&address)))?;
    let mut bench = Bench {
        arguments,
        runtime: &runtime,
        client,
        address,
        inputs: BTreeSet::new(),
        outputs: 0,
    };
    let mut all_hit = true;
    for workload in &arguments.workloads {
        let shape = workload.shape();
        let (few, many) = bench.sizes(shape);
        let mut out = std::io::stdout().lock();
        writeln!(
            out,
            "{} ({name}; {} runs of {few} and {many} records; load {})",
            shape.title,
            arguments.runs,
            load_average()
        )?;
        let rows = bench.compare(*workload, contestants(*workload, &peers)?)?;
        all_hit &= table::print(&mut out, *workload, &rows)?;
        out.flush()?;
    }
    runtime.block_on(bench.client.close());
    if arguments.check && !all_hit {
        return Err("targets were missed".into());
    }
    Ok(())
}

/// Builds who can be built, and says who can not, which is an error if targets are checked.
fn build_peers(arguments: &ClientsArguments) -> Result<Vec<(Peer, Vec<OsString>)>, BenchError> {
    let wanted: &[Peer] = if arguments.no_peers { &[] } else { &arguments.peers };
    let mut built = Vec::new();
    for peer in wanted {
        eprintln!("building {peer:?} …");
        match peer.build() {
            Ok(program) => built.push((*peer, program)),
            Err(reason) if arguments.check => return Err(format!("{peer:?}: {reason}").into()),
            Err(reason) => eprintln!("without {peer:?}: {reason}"),
        }
    }
    Ok(built)
}

/// The load of the last minute, which says how far the figures can be trusted.
fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("unknown").to_owned()
}

struct Bench<'a> {
    arguments: &'a ClientsArguments,
    runtime: &'a tokio::runtime::Runtime,
    client: KafkaClient,
    address: String,
    /// Topics that are filled.
    inputs: BTreeSet<String>,
    /// Topics that were written to, by number.
    outputs: u64,
}

impl Bench<'_> {
    fn sizes(&self, shape: Shape) -> (u64, u64) {
        (self.arguments.few / shape.records_divisor, self.arguments.many / shape.records_divisor)
    }

    /// Runs all contestants in turn, as often as asked for.
    fn compare(
        &mut self,
        workload: Workload,
        contestants: Vec<Contestant>,
    ) -> Result<Vec<Row>, BenchError> {
        let shape = workload.shape();
        let (few, many) = self.sizes(shape);
        let values = Values::new(shape.value_size);
        let expected: BTreeMap<u64, Outcome> =
            [few, many].map(|records| (records, Tally::of(&values, records).outcome(0.0))).into();
        let mut rows: Vec<Row> = contestants
            .into_iter()
            .map(|contestant| Row { contestant, few: Vec::new(), many: Vec::new() })
            .collect();
        for round in 0..self.arguments.runs {
            for (records, expected) in &expected {
                for row in &mut rows {
                    let run = if shape.consume {
                        self.consume(shape, &row.contestant, *records)?
                    } else {
                        self.produce(shape, &row.contestant, *records, round == 0)?
                    };
                    agree(&row.contestant, &run.outcome, expected)?;
                    eprintln!(
                        "{}, round {}, {records} records: {:.3} CPU-s, {:.2} s",
                        row.contestant.name,
                        round + 1,
                        run.cpu_seconds,
                        run.outcome.seconds
                    );
                    if *records == few { row.few.push(run) } else { row.many.push(run) }
                }
            }
        }
        Ok(rows)
    }

    fn consume(
        &mut self,
        shape: Shape,
        contestant: &Contestant,
        records: u64,
    ) -> Result<Run, BenchError> {
        let partitions = contestant.partitions.unwrap_or(PARTITIONS);
        let topic = self.input(shape, partitions, records)?;
        self.start(shape, contestant, &topic, partitions, records)
    }

    /// Writes to a topic that is deleted afterwards; reads it back before that if asked to.
    fn produce(
        &mut self,
        shape: Shape,
        contestant: &Contestant,
        records: u64,
        read_back: bool,
    ) -> Result<Run, BenchError> {
        self.outputs += 1;
        let topic = format!("bench-out-{}", self.outputs);
        self.create(&topic, PARTITIONS)?;
        let run = self.start(shape, contestant, &topic, PARTITIONS, records)?;
        if read_back {
            let reader = ours("consume", "the reader")?;
            let read = self.start(shape, &reader, &topic, PARTITIONS, records)?;
            agree(&reader, &read.outcome, &run.outcome)?;
        }
        self.runtime.block_on(self.client.delete_topic(&topic))?;
        Ok(run)
    }

    /// The topic with so many records, filled on first use.
    fn input(&mut self, shape: Shape, partitions: i32, records: u64) -> Result<String, BenchError> {
        let Shape { value_size, codec, .. } = shape;
        let topic = format!("bench-in-{value_size}-{codec}-{partitions}-{records}");
        if self.inputs.insert(topic.clone()) {
            self.create(&topic, partitions)?;
            let batch_size = self.arguments.input_batch_size.to_string();
            let loader = ours("produce-batches", "the loader")?;
            let mut command = loader.command();
            command.args(["--batch-size", &batch_size]);
            self.finish(&mut command, shape, &topic, partitions, records);
            process::run(command)?;
        }
        Ok(topic)
    }

    fn create(&self, topic: &str, partitions: i32) -> Result<(), BenchError> {
        let new = NewTopic::new(topic, partitions, 1);
        self.runtime.block_on(self.client.create_topic(new))?;
        Ok(())
    }

    fn start(
        &self,
        shape: Shape,
        contestant: &Contestant,
        topic: &str,
        partitions: i32,
        records: u64,
    ) -> Result<Run, BenchError> {
        let mut command = contestant.command();
        self.finish(&mut command, shape, topic, partitions, records);
        process::run(command)
    }

    /// The options that all clients have in common.
    fn finish(
        &self,
        command: &mut std::process::Command,
        shape: Shape,
        topic: &str,
        partitions: i32,
        records: u64,
    ) {
        command
            .args(["--bootstrap-server", &self.address, "--topic", topic])
            .args(["--partitions", &partitions.to_string()])
            .args(["--records", &records.to_string()])
            .args(["--codec", shape.codec, "--value-size", &shape.value_size.to_string()]);
    }
}

/// A client that saw other records than it should is no measure of anything.
fn agree(contestant: &Contestant, seen: &Outcome, expected: &Outcome) -> Result<(), BenchError> {
    if seen.agrees_with(expected) {
        return Ok(());
    }
    Err(format!("{}: {seen:?} instead of {expected:?}", contestant.name).into())
}
