//! Topics of any cluster, with the few calls that tests make; each blocks until it is done.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_engine::kafka::{
    ClientConfig, Compression, KafkaClient, ReadUntil, TopicPartition, TopicWriter, read_topic,
};
use tokio::runtime::Runtime;

use crate::flights::OutputRecord;

/// How long a read may go without an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client of a cluster and a runtime for it.
#[derive(Debug)]
pub struct Topics {
    pub(crate) runtime: Runtime,
    pub(crate) client: KafkaClient,
}

impl Topics {
    /// Connects.
    ///
    /// # Panics
    ///
    /// If that fails; so do all other functions here.
    #[must_use]
    pub fn connect(bootstrap_servers: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let config = ClientConfig::new(bootstrap_servers);
        let client = runtime.block_on(KafkaClient::connect(config)).expect("a client");
        Self { runtime, client }
    }

    /// Writes a value to a partition, for each `(partition, value)`.
    ///
    /// # Panics
    ///
    /// If a record is not acknowledged.
    pub fn write(&self, topic: &str, records: &[(i32, Vec<u8>)]) {
        self.runtime.block_on(async {
            let mut writer = TopicWriter::new(&self.client, topic, Compression::None);
            for (partition, value) in records {
                writer.append(*partition, -1, None, Some(value)).expect("a record that fits");
            }
            writer.flush().await.expect("acknowledged");
        });
    }

    /// Reads what is committed of a topic of `partitions` partitions.
    ///
    /// # Panics
    ///
    /// If it can not be read.
    #[must_use]
    pub fn read(&self, topic: &str, partitions: i32) -> Vec<OutputRecord> {
        self.read_until(topic, partitions, ReadUntil::LastStableOffset, PATIENCE)
    }

    /// The same, up to an end of the caller's choice; for no longer than `patience` without an answer.
    pub(crate) fn read_until(
        &self,
        topic: &str,
        partitions: i32,
        until: ReadUntil,
        patience: Duration,
    ) -> Vec<OutputRecord> {
        let starts: BTreeMap<TopicPartition, i64> =
            (0..partitions).map(|partition| (TopicPartition::new(topic, partition), 0)).collect();
        let mut records = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let read = read_topic(&self.client, &starts, until, patience, |tp, record| {
            records.push(OutputRecord {
                partition: tp.partition,
                offset: record.offset,
                key: record.key.map(text),
                value: record.value.map(text),
            });
        });
        self.runtime.block_on(read).expect("the topic can be read");
        records
    }
}
