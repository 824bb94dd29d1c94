//! The Kafka source: topics, where to begin, where to end, and how a record becomes an element.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_checkpoint::{Positions, SourcePosition, TopicId};
use millstream_protocol::{IsolationLevel, TopicPartition};
use millstream_protocol_client::{ClientConfig, KafkaClient, OffsetSpec};
use serde::de::DeserializeOwned;

use super::error::ConnectorError;
use super::format::{JsonDeserializer, RecordDeserializer};
use super::offsets_initializer::OffsetsInitializer;
use super::source_reader::{KafkaSourceReader, RawKafkaSourceReader};
use crate::api::{Source, SourceContext};
use crate::error::OperatorError;

/// What the coordinator has to know of a Kafka source.
#[derive(Clone, Debug)]
pub(crate) struct KafkaSourceDescription {
    pub(crate) config: ClientConfig,
    pub(crate) topics: Vec<String>,
    pub(crate) starting_offsets: OffsetsInitializer,
    pub(crate) bounded: Option<OffsetsInitializer>,
}

/// A source of borrowed records: nothing is copied until the job says so.
#[derive(Clone, Debug)]
pub struct RawKafkaSource {
    description: KafkaSourceDescription,
}

/// A source of elements of type `D::Item`.
#[derive(Clone, Debug)]
pub struct KafkaSource<D = ()> {
    description: KafkaSourceDescription,
    deserializer: D,
}

impl KafkaSource {
    /// A source on the cluster of `config`, from the earliest, without end, unless told otherwise; name
    /// [`topics`](Self::topics) and a format. It reads committed records only: a job with `isolation.level` set to
    /// `read_uncommitted` is refused.
    #[must_use]
    pub fn new(config: ClientConfig) -> Self {
        let description = KafkaSourceDescription {
            config,
            topics: Vec::new(),
            starting_offsets: OffsetsInitializer::earliest(),
            bounded: None,
        };
        Self { description, deserializer: () }
    }

    /// The topics to read, all of their partitions.
    #[must_use]
    pub fn topics<S: Into<String>>(mut self, topics: impl IntoIterator<Item = S>) -> Self {
        self.description.topics = topics.into_iter().map(Into::into).collect();
        self
    }

    /// Where a job that has no state yet begins. Default: earliest.
    #[must_use]
    pub fn starting_offsets(mut self, offsets: OffsetsInitializer) -> Self {
        self.description.starting_offsets = offsets;
        self
    }

    /// Ends the source at `offsets`, taken when the process starts; `None`, the default, is no end.
    #[must_use]
    pub fn bounded(mut self, offsets: impl Into<Option<OffsetsInitializer>>) -> Self {
        self.description.bounded = offsets.into();
        self
    }

    /// Values are JSON objects with the fields of `T`.
    #[must_use]
    pub fn json<T: DeserializeOwned + Send + 'static>(self) -> KafkaSource<JsonDeserializer<T>> {
        self.deserializer(JsonDeserializer::default())
    }

    /// Like [`json`](Self::json), but records that are not such objects are left out (Flink's `json.ignore-parse-errors`).
    /// The log tells of the first ones, with topic, partition and offset.
    #[must_use]
    pub fn json_ignoring_parse_errors<T: DeserializeOwned + Send + 'static>(
        self,
    ) -> KafkaSource<JsonDeserializer<T>> {
        self.deserializer(JsonDeserializer::default().ignore_parse_errors())
    }

    /// Records become elements as `deserializer` says.
    #[must_use]
    pub fn deserializer<D: RecordDeserializer>(self, deserializer: D) -> KafkaSource<D> {
        KafkaSource { description: self.description, deserializer }
    }

    /// Records stay records, borrowed from the fetched bytes.
    #[must_use]
    pub fn raw(self) -> RawKafkaSource {
        RawKafkaSource { description: self.description }
    }
}

impl<D: RecordDeserializer> Source for KafkaSource<D> {
    type Reader = KafkaSourceReader<D>;

    fn create_reader(&self, context: SourceContext) -> Result<Self::Reader, OperatorError> {
        KafkaSourceReader::new(context, self.deserializer.clone())
    }

    fn description(&self) -> Arc<dyn Any + Send + Sync> {
        Arc::new(self.description.clone())
    }
}

impl Source for RawKafkaSource {
    type Reader = RawKafkaSourceReader;

    fn create_reader(&self, context: SourceContext) -> Result<Self::Reader, OperatorError> {
        RawKafkaSourceReader::new(context)
    }

    fn description(&self) -> Arc<dyn Any + Send + Sync> {
        Arc::new(self.description.clone())
    }
}

/// A source that is connected: what its readers share.
#[derive(Clone, Debug)]
pub(crate) struct OpenedSource {
    pub(crate) client: KafkaClient,
    /// Where a bounded source ends, by partition.
    pub(crate) ends: Option<Arc<BTreeMap<TopicPartition, i64>>>,
}

/// All Kafka sources of a job by uid; the coordinator hands it to the readers.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenedSources(pub(crate) BTreeMap<Arc<str>, OpenedSource>);

impl KafkaSourceDescription {
    /// Connects, checks the topics and takes the end offsets of a bounded source.
    pub(crate) async fn open(&self, uid: &str) -> Result<OpenedSource, ConnectorError> {
        let failed =
            |source| ConnectorError::Client { role: "source", uid: uid.to_owned(), source };
        let client = KafkaClient::connect(self.config.clone()).await.map_err(failed)?;
        let partitions = names(&self.partitions(&client, uid).await?);
        let ends = match self.bounded {
            None => None,
            Some(offsets) => {
                Some(Arc::new(resolve(&client, &partitions, offsets).await.map_err(failed)?))
            }
        };
        Ok(OpenedSource { client, ends })
    }

    /// Start positions of a job without state.
    pub(crate) async fn first_positions(
        &self,
        uid: &Arc<str>,
        opened: &OpenedSource,
    ) -> Result<Vec<SourcePosition>, ConnectorError> {
        let failed =
            |source| ConnectorError::Client { role: "source", uid: uid.to_string(), source };
        let partitions = self.partitions(&opened.client, uid).await?;
        let starts = resolve(&opened.client, &names(&partitions), self.starting_offsets)
            .await
            .map_err(failed)?;
        let start = |found: &Found| {
            starts.get(&found.topic_partition).map(|offset| position(found, *offset))
        };
        Ok(partitions.iter().filter_map(start).collect())
    }

    /// Positions to run from: those of the state, and the beginning of partitions that came since. Refuses a state whose
    /// records are gone.
    pub(crate) async fn resume_positions(
        &self,
        uid: &Arc<str>,
        opened: &OpenedSource,
        known: &Positions,
    ) -> Result<Vec<SourcePosition>, ConnectorError> {
        let failed =
            |source| ConnectorError::Client { role: "source", uid: uid.to_string(), source };
        if let Some(other) = known.of_source(uid).find(|known| !self.reads(&known.topic)) {
            return Err(ConnectorError::OtherTopics {
                uid: uid.to_string(),
                topic: other.topic.to_string(),
                topics: self.topics.join(", "),
            });
        }
        let partitions = self.partitions(&opened.client, uid).await?;
        let earliest = resolve(&opened.client, &names(&partitions), OffsetsInitializer::earliest())
            .await
            .map_err(failed)?;
        let mut positions = Vec::new();
        for found in &partitions {
            let topic_partition = &found.topic_partition;
            let Some(earliest) = earliest.get(topic_partition).copied() else { continue };
            let TopicPartition { topic, partition } = topic_partition;
            match known.get(uid, topic, *partition) {
                // A partition that the state does not know was added while the job ran or was down: all of it is new.
                None => positions.push(position(found, earliest)),
                // Offsets of the topic that bore the name before say nothing about this one.
                Some(known) if found.is_another_topic_than(known) => {
                    return Err(ConnectorError::TopicRecreated {
                        uid: uid.to_string(),
                        topic_partition: topic_partition.clone(),
                        offset: known.offset,
                        old_id: known.topic_id,
                        new_id: found.topic_id,
                    });
                }
                Some(known) if known.offset < earliest => {
                    return Err(ConnectorError::Gap {
                        uid: uid.to_string(),
                        topic_partition: topic_partition.clone(),
                        offset: known.offset,
                        earliest,
                        lost: earliest - known.offset,
                    });
                }
                Some(known) => positions.push(SourcePosition {
                    topic_id: found.topic_id,
                    finished: false,
                    ..known.clone()
                }),
            }
        }
        for known in known.of_source(uid) {
            let topic_partition = TopicPartition::new(Arc::clone(&known.topic), known.partition);
            if !earliest.contains_key(&topic_partition) {
                let (uid, offset) = (uid.to_string(), known.offset);
                return Err(ConnectorError::PartitionMissing { uid, topic_partition, offset });
            }
        }
        Ok(positions)
    }

    async fn partitions(
        &self,
        client: &KafkaClient,
        uid: &str,
    ) -> Result<Vec<Found>, ConnectorError> {
        let mut partitions = Vec::new();
        for topic in &self.topics {
            let found = client.describe_topic(topic).await.map_err(|source| {
                ConnectorError::Client { role: "source", uid: uid.to_owned(), source }
            })?;
            let description = found.ok_or_else(|| ConnectorError::TopicMissing {
                role: "source",
                uid: uid.to_owned(),
                topic: topic.clone(),
                bootstrap: self.config.bootstrap_servers.join(","),
            })?;
            let name: Arc<str> = topic.as_str().into();
            let topic_id = TopicId(description.topic_id);
            partitions.extend(description.partitions.iter().map(|found| Found {
                topic_partition: TopicPartition::new(Arc::clone(&name), found.partition),
                topic_id,
            }));
        }
        Ok(partitions)
    }

    fn reads(&self, topic: &str) -> bool {
        self.topics.iter().any(|name| name == topic)
    }
}

/// A partition on the cluster.
#[derive(Clone, Debug)]
struct Found {
    topic_partition: TopicPartition,
    topic_id: TopicId,
}

impl Found {
    /// Whether the topic was made anew since `known` was read. Brokers before 2.8 do not tell.
    fn is_another_topic_than(&self, known: &SourcePosition) -> bool {
        let told = ![self.topic_id, known.topic_id].contains(&TopicId::UNKNOWN);
        told && self.topic_id != known.topic_id
    }
}

fn names(found: &[Found]) -> Vec<TopicPartition> {
    found.iter().map(|found| found.topic_partition.clone()).collect()
}

/// Offsets of `partitions`; "latest" is the last stable offset, since a reader of committed records gets no further.
async fn resolve(
    client: &KafkaClient,
    partitions: &[TopicPartition],
    offsets: OffsetsInitializer,
) -> Result<BTreeMap<TopicPartition, i64>, millstream_protocol_client::ClientError> {
    let wanted: Vec<(TopicPartition, OffsetSpec)> =
        partitions.iter().map(|tp| (tp.clone(), offsets.spec())).collect();
    let listed = client.list_offsets(&wanted, IsolationLevel::ReadCommitted).await?;
    Ok(listed.into_iter().map(|(tp, found)| (tp, found.offset)).collect())
}

fn position(found: &Found, offset: i64) -> SourcePosition {
    SourcePosition {
        topic: Arc::clone(&found.topic_partition.topic),
        topic_id: found.topic_id,
        partition: found.topic_partition.partition,
        offset,
        leader_epoch: -1,
        max_event_time: None,
        finished: false,
    }
}

#[cfg(test)]
mod tests;
