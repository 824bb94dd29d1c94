//! `millstream dev`: the development broker in the foreground.

use std::collections::BTreeMap;

use millstream_dev_broker::{DevBroker, DevBrokerConfig};
use millstream_engine::kafka::{
    ClientConfig, Compression, IsolationLevel, KafkaClient, NewTopic, OffsetSpec, TopicPartition,
    TopicWriter,
};

use super::CommandError;
use crate::args::DevArguments;
use crate::exit_code;
use crate::input::{Lines, now_ms};
use crate::output::{self, count, note};
use crate::signals::Signals;

/// Partitions of a topic that was given no number.
const PARTITIONS: i32 = 4;

/// Lines that are written before it is waited for them: bounds what lies in memory.
const LINES_PER_FLUSH: u64 = 10_000;

pub(crate) fn run(arguments: DevArguments) -> Result<(), CommandError> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(serve(arguments))
}

async fn serve(arguments: DevArguments) -> Result<(), CommandError> {
    // Before anything else: a file that is missing should not cost a broker's start.
    let mut loads = Vec::new();
    for load in &arguments.load {
        loads.push((load.topic.as_str(), Lines::open(&load.file)?));
    }
    let mut signals = Signals::listen()?;
    let broker = DevBroker::start(DevBrokerConfig {
        listen: arguments.listen.clone(),
        data_dir: arguments.data_dir.clone(),
        transaction_version: arguments.transaction_version,
        ..DevBrokerConfig::default()
    })?;
    introduce(&arguments, &broker);
    tokio::select! {
        prepared = prepare(broker.address(), &arguments, loads) => prepared?,
        signal = signals.next() => return Err(signal.into()),
    }
    // The only line on standard output is the address, so that a script can wait for it and read it.
    output::print(format!("{}\n", broker.address()).as_bytes())?;
    note(&format!("use it as bootstrap.servers={}; Ctrl-C ends it", broker.address()));
    signals.next().await;
    broker.stop().await;
    Ok(())
}

fn introduce(arguments: &DevArguments, broker: &DevBroker) {
    let kept = arguments.data_dir.as_ref().map_or_else(
        || "in memory, gone when this process ends".to_owned(),
        |dir| dir.display().to_string(),
    );
    let (listening, level) = (broker.listening(), arguments.transaction_version);
    note(&format!(
        "development broker listens on {listening} (transaction.version {level}, data {kept})"
    ));
    if !listening.ip().is_loopback() {
        note(&format!(
            "warning: it asks nobody who they are; everyone who can reach {listening} can read, write and delete"
        ));
    }
    if listening.ip().is_unspecified() {
        note(&format!(
            "clients are told to use {}, so ordinary ones work on this machine only",
            broker.address()
        ));
    }
}

/// Creates the topics and loads the files.
async fn prepare(
    address: &str,
    arguments: &DevArguments,
    loads: Vec<(&str, Lines<'_>)>,
) -> Result<(), CommandError> {
    let mut topics: BTreeMap<&str, Option<i32>> =
        loads.iter().map(|(topic, _)| (*topic, None)).collect();
    topics.extend(arguments.topic.iter().map(|topic| (topic.name.as_str(), topic.partitions)));
    if topics.is_empty() {
        return Ok(());
    }
    let client = KafkaClient::connect(ClientConfig::new(address)).await?;
    for (name, partitions) in &topics {
        create(&client, name, *partitions).await?;
    }
    // Before anything is loaded, so that two files for one topic both are.
    let mut filled = BTreeMap::new();
    for (topic, _) in &loads {
        filled.insert(*topic, records_in(&client, topic).await?);
    }
    for (topic, lines) in loads {
        match filled.get(topic) {
            Some(records @ 1..) => {
                let records = count(records, "record");
                note(&format!("topic {topic} holds {records} already, nothing is loaded into it"));
            }
            _ => load(&client, topic, lines).await?,
        }
    }
    client.close().await;
    Ok(())
}

async fn create(
    client: &KafkaClient,
    name: &str,
    partitions: Option<i32>,
) -> Result<(), CommandError> {
    let wanted = partitions.unwrap_or(PARTITIONS);
    let created = client.create_topic(NewTopic::new(name, wanted, 1)).await?;
    let found = partition_count(client, name).await?;
    if !created && partitions.is_some_and(|wanted| wanted != found) {
        return Err(CommandError {
            exit_code: exit_code::CONFIG,
            cause: format!(
                "topic {name} is there already with {}, not {wanted}; leave the number out, or use another folder",
                count(found, "partition")
            )
            .into(),
        });
    }
    note(&format!("topic {name}, {}", count(found, "partition")));
    Ok(())
}

async fn load(client: &KafkaClient, topic: &str, mut lines: Lines<'_>) -> Result<(), CommandError> {
    let partitions = partition_count(client, topic).await?;
    let mut writer = TopicWriter::new(client, topic, Compression::Lz4);
    let (mut partition, mut written) = (0, 0_u64);
    while let Some(line) = lines.next()? {
        writer.append(partition, now_ms(), None, Some(&line))?;
        partition = (partition + 1) % partitions.max(1);
        written += 1;
        if written.is_multiple_of(LINES_PER_FLUSH) {
            writer.flush().await?;
        }
    }
    if written == 0 {
        return Err(lines.empty().into());
    }
    writer.flush().await?;
    note(&format!("topic {topic}, {} loaded", count(written, "record")));
    Ok(())
}

async fn partition_count(client: &KafkaClient, topic: &str) -> Result<i32, CommandError> {
    let partitions = client.describe_topic(topic).await?.map_or(0, |found| found.partitions.len());
    Ok(i32::try_from(partitions)?)
}

async fn records_in(client: &KafkaClient, topic: &str) -> Result<i64, CommandError> {
    let partitions = 0..partition_count(client, topic).await?;
    let wanted: Vec<_> = partitions
        .map(|partition| (TopicPartition::new(topic, partition), OffsetSpec::Latest))
        .collect();
    let ends = client.list_offsets(&wanted, IsolationLevel::ReadUncommitted).await?;
    Ok(ends.values().map(|end| end.offset).sum())
}
