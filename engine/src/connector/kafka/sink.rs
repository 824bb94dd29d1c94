//! The Kafka sink: which topic, how an element becomes a record, with which guarantee, and who writes.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use millstream_protocol_client::{ClientConfig, KafkaClient, Producer};
use serde::Serialize;

use super::error::ConnectorError;
use super::format::{JsonSerializer, RecordSerializer};
use super::sink_writer::{KafkaSinkWriter, RawKafkaSinkWriter, RecordTimestamps};
use crate::api::{Sink, SinkContext};
use crate::error::OperatorError;
use crate::task::WorkerNotifier;

/// What a sink promises of the records it writes (Flink's `DeliveryGuarantee`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeliveryGuarantee {
    /// Each element is written once, whatever happens. Readers of committed records see it when its checkpoint is committed.
    #[default]
    ExactlyOnce,
    /// Nothing is lost: a checkpoint is committed only once all its output is acknowledged. What was written since the last
    /// one is written again after a crash, a rollback or a restart. Every reader sees records as soon as they are written.
    AtLeastOnce,
}

/// What the coordinator has to know of a Kafka sink.
#[derive(Clone, Debug)]
pub(crate) struct KafkaSinkDescription {
    pub(crate) config: ClientConfig,
    pub(crate) topic: String,
    pub(crate) timestamps: RecordTimestamps,
    pub(crate) guarantee: DeliveryGuarantee,
}

/// The workers' notifiers by sink and worker.
type Writers = BTreeMap<(Arc<str>, usize), WorkerNotifier>;

/// A producer that the sinks of all workers share.
#[derive(Clone, Debug)]
pub(crate) struct SharedProducer {
    pub(crate) producer: Producer,
    // Guards the workers to be woken when there is room again; taken when a writer is made and when room has become.
    writers: Arc<Mutex<Writers>>,
}

impl SharedProducer {
    pub(crate) fn new(producer: Producer) -> Self {
        let writers: Arc<Mutex<Writers>> = Arc::default();
        let told = Arc::clone(&writers);
        producer.on_capacity(Arc::new(move || {
            let writers = told.lock().unwrap_or_else(PoisonError::into_inner);
            writers.values().for_each(WorkerNotifier::notify);
        }));
        Self { producer, writers }
    }

    /// The producer, for the writer of the sink `uid` at `worker`, whose notifier is called when there is room again. It
    /// takes the place of the same writer in an earlier attempt.
    pub(crate) fn join(&self, uid: Arc<str>, worker: usize, notifier: WorkerNotifier) -> Producer {
        let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        writers.insert((uid, worker), notifier);
        self.producer.clone()
    }
}

/// The producers that all sinks of the process share, and the number of partitions of each sink's topic.
#[derive(Clone, Debug)]
pub(crate) struct SinkOutput {
    /// Its transactions are the job's checkpoints.
    pub(crate) transactional: SharedProducer,
    /// Of sinks that write at least once, if there are any.
    pub(crate) idempotent: Option<SharedProducer>,
    pub(crate) partitions: Arc<BTreeMap<String, i32>>,
}

/// A sink that writes each element once, whatever happens, unless [another guarantee](Self::delivery_guarantee) is asked
/// for. Records become visible to read_committed readers when the checkpoint they belong to is committed.
#[derive(Clone, Debug)]
pub struct KafkaSink<S = ()> {
    description: KafkaSinkDescription,
    serializer: S,
}

/// A sink that writes borrowed records as they are: timestamp, key, value and headers.
#[derive(Clone, Debug)]
pub struct RawKafkaSink {
    description: KafkaSinkDescription,
}

impl KafkaSink {
    /// A sink on the cluster of `config`; name a [`topic`](Self::topic) and a format. All Kafka sinks of a job are on one
    /// cluster: one transaction covers them.
    #[must_use]
    pub fn new(config: ClientConfig) -> Self {
        let description = KafkaSinkDescription {
            config,
            topic: String::new(),
            timestamps: RecordTimestamps::default(),
            guarantee: DeliveryGuarantee::default(),
        };
        Self { description, serializer: () }
    }

    /// The topic to write. It must exist.
    #[must_use]
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.description.topic = topic.into();
        self
    }

    /// Records carry the event time of their elements (as Flink's do) instead of the time of writing. Mind the topic's
    /// `retention.ms`: the broker deletes records by this timestamp.
    #[must_use]
    pub fn with_event_time(mut self) -> Self {
        self.description.timestamps = RecordTimestamps::EventTime;
        self
    }

    /// What is promised of the records; default exactly once.
    #[must_use]
    pub fn delivery_guarantee(mut self, guarantee: DeliveryGuarantee) -> Self {
        self.description.guarantee = guarantee;
        self
    }

    /// Values are JSON objects; the key is what `key` gives, as text. Partitions are chosen by key as Java's producer does.
    #[must_use]
    pub fn json_with_key<T, K, B>(self, key: K) -> KafkaSink<JsonSerializer<K>>
    where
        T: Serialize,
        K: Fn(&T) -> B + Clone + Send + 'static,
        B: AsRef<[u8]>,
    {
        KafkaSink { description: self.description, serializer: JsonSerializer::with_key(key) }
    }

    /// Elements become records as `serializer` says.
    #[must_use]
    pub fn serializer<S: Clone + Send + 'static>(self, serializer: S) -> KafkaSink<S> {
        KafkaSink { description: self.description, serializer }
    }

    /// Takes borrowed records and writes them unchanged.
    #[must_use]
    pub fn raw(self) -> RawKafkaSink {
        RawKafkaSink { description: self.description }
    }
}

impl<S: Clone + Send + 'static> Sink for KafkaSink<S> {
    type Writer = KafkaSinkWriter<S>;

    fn create_writer(&self, context: SinkContext) -> Result<Self::Writer, OperatorError> {
        KafkaSinkWriter::new(context, &self.description, self.serializer.clone())
    }

    fn description(&self) -> Arc<dyn Any + Send + Sync> {
        Arc::new(self.description.clone())
    }
}

impl Sink for RawKafkaSink {
    type Writer = RawKafkaSinkWriter;

    fn create_writer(&self, context: SinkContext) -> Result<Self::Writer, OperatorError> {
        RawKafkaSinkWriter::new(context, &self.description)
    }

    fn description(&self) -> Arc<dyn Any + Send + Sync> {
        Arc::new(self.description.clone())
    }
}

impl KafkaSinkDescription {
    /// Checks the topic; gives its number of partitions.
    pub(crate) async fn open(
        &self,
        uid: &str,
        client: &KafkaClient,
    ) -> Result<i32, ConnectorError> {
        let found = client.describe_topic(&self.topic).await.map_err(|source| {
            ConnectorError::Client { role: "sink", uid: uid.to_owned(), source }
        })?;
        let description = found.ok_or_else(|| ConnectorError::TopicMissing {
            role: "sink",
            uid: uid.to_owned(),
            topic: self.topic.clone(),
            bootstrap: self.config.bootstrap_servers.join(","),
        })?;
        Ok(i32::try_from(description.partitions.len()).unwrap_or(i32::MAX))
    }
}

impl<T, S: RecordSerializer<T>> crate::api::SinkWriter<T> for KafkaSinkWriter<S> {
    fn write(&mut self, element: T, timestamp: i64) -> Result<(), OperatorError> {
        self.write_element(&element, timestamp)
    }
}
