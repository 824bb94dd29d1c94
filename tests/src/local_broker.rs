//! The development broker for tests that need no real Kafka, with the few calls that tests make.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_dev_broker::{DevBroker, DevBrokerConfig, FaultRule};
use millstream_engine::kafka::{
    ClientConfig, Compression, KafkaClient, NewTopic, ReadUntil, TopicPartition, TopicWriter,
    read_topic,
};
use tokio::runtime::Runtime;

use crate::flights::OutputRecord;

/// A broker on loopback and a client of it; both end when dropped.
#[derive(Debug)]
pub struct LocalBroker {
    runtime: Runtime,
    broker: Option<DevBroker>,
    address: String,
    client: KafkaClient,
}

impl LocalBroker {
    /// Starts one with all defaults.
    ///
    /// # Panics
    ///
    /// If it can not be started.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(DevBrokerConfig::default())
    }

    /// Starts one on a free port.
    ///
    /// # Panics
    ///
    /// If it can not be started.
    #[must_use]
    pub fn start_with(config: DevBrokerConfig) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let config = DevBrokerConfig { listen: "127.0.0.1:0".to_owned(), ..config };
        let (broker, client) = runtime.block_on(async {
            let broker = DevBroker::start(config).expect("a development broker");
            let address = broker.address().to_string();
            let client = KafkaClient::connect(ClientConfig::new(address)).await.expect("a client");
            (broker, client)
        });
        let address = broker.address().to_owned();
        Self { runtime, broker: Some(broker), address, client }
    }

    /// `host:port`.
    #[must_use]
    pub fn address(&self) -> String {
        self.address.clone()
    }

    /// Lets the broker misbehave, from now on.
    pub fn add_fault(&self, rule: FaultRule) {
        if let Some(broker) = &self.broker {
            broker.add_fault(rule);
        }
    }

    /// Ends all misbehaviour.
    pub fn clear_faults(&self) {
        if let Some(broker) = &self.broker {
            broker.clear_faults();
        }
    }

    /// Ends the broker, for good.
    pub fn stop(&mut self) {
        self.broker = None;
    }

    /// Creates a topic.
    ///
    /// # Panics
    ///
    /// If that fails.
    pub fn create_topic(&self, name: &str, partitions: i32) {
        let topic = NewTopic::new(name, partitions, 1);
        self.runtime.block_on(self.client.create_topic(topic)).expect("a topic");
    }

    /// Deletes a topic.
    ///
    /// # Panics
    ///
    /// If that fails.
    pub fn delete_topic(&self, name: &str) {
        self.runtime.block_on(self.client.delete_topic(name)).expect("a deleted topic");
    }

    /// Writes values to a partition.
    ///
    /// # Panics
    ///
    /// If that fails.
    pub fn write(&self, topic: &str, partition: i32, values: &[&[u8]]) {
        self.runtime.block_on(async {
            let mut writer = TopicWriter::new(&self.client, topic, Compression::None);
            for value in values {
                writer.append(partition, -1, None, Some(value)).expect("a record that fits");
            }
            writer.flush().await.expect("acknowledged");
        });
    }

    /// Reads a topic of `partitions` partitions from its beginning, read_committed.
    ///
    /// # Panics
    ///
    /// If that fails.
    #[must_use]
    pub fn read(&self, topic: &str, partitions: i32) -> Vec<OutputRecord> {
        let starts: BTreeMap<TopicPartition, i64> =
            (0..partitions).map(|partition| (TopicPartition::new(topic, partition), 0)).collect();
        let mut records = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let until = ReadUntil::HighWatermark;
        let read =
            read_topic(&self.client, &starts, until, Duration::from_secs(20), |tp, record| {
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

    /// Transactional ids with an open transaction.
    ///
    /// # Panics
    ///
    /// If that fails.
    #[must_use]
    pub fn open_transactions(&self) -> Vec<String> {
        self.runtime.block_on(self.client.list_open_transactions("")).expect("a list")
    }
}
