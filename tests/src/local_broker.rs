//! The development broker for tests that need no real Kafka, with the few calls that tests make.

use std::time::Duration;

use millstream_dev_broker::{DevBroker, DevBrokerConfig, FaultRule};
use millstream_engine::kafka::{NewTopic, ReadUntil};

use crate::flights::OutputRecord;
use crate::topics::Topics;

/// A broker on loopback and a client of it; both end when dropped.
#[derive(Debug)]
pub struct LocalBroker {
    topics: Topics,
    broker: Option<DevBroker>,
    address: String,
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
        let config = DevBrokerConfig { listen: "127.0.0.1:0".to_owned(), ..config };
        let broker = DevBroker::start(config).expect("a development broker");
        let address = broker.address().to_owned();
        Self { topics: Topics::connect(&address), broker: Some(broker), address }
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
        self.topics.runtime.block_on(self.topics.client.create_topic(topic)).expect("a topic");
    }

    /// Deletes a topic.
    ///
    /// # Panics
    ///
    /// If that fails.
    pub fn delete_topic(&self, name: &str) {
        self.topics
            .runtime
            .block_on(self.topics.client.delete_topic(name))
            .expect("a deleted topic");
    }

    /// Writes values to a partition.
    ///
    /// # Panics
    ///
    /// If that fails.
    pub fn write(&self, topic: &str, partition: i32, values: &[&[u8]]) {
        let records: Vec<_> = values.iter().map(|value| (partition, value.to_vec())).collect();
        self.topics.write(topic, &records);
    }

    /// Reads a topic of `partitions` partitions from its beginning, read_committed.
    ///
    /// # Panics
    ///
    /// If that fails.
    #[must_use]
    pub fn read(&self, topic: &str, partitions: i32) -> Vec<OutputRecord> {
        let patience = Duration::from_secs(20);
        self.topics.read_until(topic, partitions, ReadUntil::HighWatermark, patience)
    }

    /// Transactional ids with an open transaction.
    ///
    /// # Panics
    ///
    /// If that fails.
    #[must_use]
    pub fn open_transactions(&self) -> Vec<String> {
        self.topics.runtime.block_on(self.topics.client.list_open_transactions("")).expect("a list")
    }
}
