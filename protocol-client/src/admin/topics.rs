//! Describe, create and delete topics.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_protocol::messages::kp::create_topics_request::{
    CreatableTopic, CreatableTopicConfig,
};
use millstream_protocol::messages::kp::metadata_response::MetadataResponseTopic;
use millstream_protocol::messages::kp::{
    CreateTopicsRequest, DeleteTopicsRequest, MetadataResponse, TopicName,
};
use millstream_protocol::network::{Destination, metadata_request};
use millstream_protocol::{ErrorCode, NodeId, Request, Response};

use super::ask::Answer;
use super::text;
use crate::attempts::Attempts;
use crate::client::Ask;
use crate::{ClientError, KafkaClient};

/// A topic as any broker describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicDescription {
    /// Its name.
    pub name: Arc<str>,
    /// Its id (KIP-516), other after each re-creation. All zero if the broker gives none (before 2.8).
    pub topic_id: [u8; 16],
    /// Kafka keeps its own state there, as `__consumer_offsets`.
    pub is_internal: bool,
    /// Its partitions, ascending.
    pub partitions: Vec<PartitionDescription>,
}

/// A partition of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionDescription {
    /// Its index, from 0.
    pub partition: i32,
    /// The leading broker's id; -1 during an election.
    pub leader: i32,
    /// The leader's epoch (KIP-320); -1 if the broker does not tell (before 2.1).
    pub leader_epoch: i32,
    /// Ids of brokers with a copy, the preferred leader first.
    pub replicas: Vec<i32>,
    /// Those of them whose copy is complete.
    pub in_sync_replicas: Vec<i32>,
}

/// A topic to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name: 1 to 249 of the characters a-z A-Z 0-9 . _ - and not `.` or `..`.
    pub name: String,
    /// How many partitions, at least 1; -1 for the broker's default (from 2.4, KIP-464).
    pub partitions: i32,
    /// How many copies of each, 1 to the number of brokers; -1 for the broker's default (from 2.4, KIP-464).
    pub replication_factor: i16,
    /// Topic properties, as `cleanup.policy`; the rest is the broker's default.
    pub configs: BTreeMap<String, String>,
}

impl NewTopic {
    /// A topic with the broker's default properties.
    #[must_use]
    pub fn new(name: impl Into<String>, partitions: i32, replication_factor: i16) -> Self {
        Self { name: name.into(), partitions, replication_factor, configs: BTreeMap::new() }
    }
}

impl KafkaClient {
    /// What the brokers say of a topic (Metadata 4 to 12); `None` if it does not exist, which is asked a few times because a
    /// topic just created is not known everywhere at once. Never creates it.
    ///
    /// # Errors
    ///
    /// [`ClientError::Broker`] for a missing permission (DESCRIBE) or an illegal name; else as
    /// [any call](KafkaClient#errors-of-any-call).
    pub async fn describe_topic(
        &self,
        name: &str,
    ) -> Result<Option<TopicDescription>, ClientError> {
        self.describe(name, MISSING_TRIES).await
    }

    /// As [`describe_topic`](Self::describe_topic), but the first broker that answers is believed: `None` may be said of a topic
    /// that was created moments ago, and takes no time. For who is about to create it.
    ///
    /// # Errors
    ///
    /// As [`describe_topic`](Self::describe_topic).
    pub async fn describe_topic_once(
        &self,
        name: &str,
    ) -> Result<Option<TopicDescription>, ClientError> {
        self.describe(name, 0).await
    }

    /// `missing_tries`: so often "unknown" is not believed.
    async fn describe(
        &self,
        name: &str,
        missing_tries: u32,
    ) -> Result<Option<TopicDescription>, ClientError> {
        let mut attempts = self.attempts(format!("describe topic '{name}'"));
        let topics = [Arc::from(name)];
        loop {
            let metadata = self.cluster_metadata(&mut attempts, &topics).await?;
            let Some(topic) = find(&metadata, name) else {
                attempts.pause("the answer leaves the topic out").await?;
                continue;
            };
            match ErrorCode(topic.error_code) {
                ErrorCode::NONE => return Ok(Some(description(topic))),
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => {
                    if attempts.failures() >= missing_tries {
                        return Ok(None);
                    }
                    attempts.pause("the topic is unknown").await?;
                }
                code if code.is_retriable() => attempts.pause(&code.to_string()).await?,
                code => {
                    return Err(ClientError::of_code(attempts.operation(), code, None::<&str>));
                }
            }
        }
    }

    /// Every topic that the user may see (Metadata 4 to 12), sorted by name, Kafka's internal ones too. One whose partitions
    /// have no leaders yet is among them.
    ///
    /// # Errors
    ///
    /// As [any call](KafkaClient#errors-of-any-call).
    pub async fn list_topics(&self) -> Result<Vec<TopicDescription>, ClientError> {
        let mut attempts = self.attempts("list topics");
        let question = |_: &Attempts| {
            // Null asks for all.
            let request = metadata_request(&[]).with_topics(None);
            Ask::new(Destination::AnyBroker, Request::Metadata(request))
        };
        let mut topics = self
            .ask(&mut attempts, question, |_, response| {
                let Response::Metadata(metadata) = response else { return Answer::left_out() };
                let named = metadata.topics.iter().filter(|topic| topic.name.is_some());
                Answer::Done(named.map(description).collect::<Vec<_>>())
            })
            .await?;
        topics.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(topics)
    }

    /// Creates a topic and waits until every broker that answers knows a leader of every partition: CreateTopics 2 to 7
    /// (KIP-4), asked of the controller. `false` if it existed already, whatever its partitions and properties are.
    ///
    /// # Errors
    ///
    /// [`ClientError::Broker`] for what the cluster refuses: an illegal name, too few brokers, a policy, a permission.
    /// [`ClientError::TimedOut`] also if it was created and is not seen everywhere in time; else as
    /// [any call](KafkaClient#errors-of-any-call).
    pub async fn create_topic(&self, topic: NewTopic) -> Result<bool, ClientError> {
        let mut attempts = self.attempts(format!("create topic '{}'", topic.name));
        let created = loop {
            let request = create_request(&topic, &attempts);
            let ask = Ask::new(Destination::Controller, Request::CreateTopics(request)).slow();
            let response = match self.request(ask, attempts.remaining()).await {
                Ok(response) => response,
                Err(error) => {
                    attempts.after(error).await?;
                    continue;
                }
            };
            let Response::CreateTopics(response) = response else { continue };
            let Some(result) = response.topics.first() else {
                attempts.pause("the answer leaves the topic out").await?;
                continue;
            };
            match ErrorCode(result.error_code) {
                ErrorCode::NONE => break true,
                // A lost answer may have been our own success.
                ErrorCode::TOPIC_ALREADY_EXISTS => break attempts.outcome_unknown(),
                ErrorCode::NOT_CONTROLLER => {
                    self.cluster_metadata(&mut attempts, &[]).await?;
                    attempts.pause("the controller moved").await?;
                }
                code if code.is_retriable() => attempts.pause(&code.to_string()).await?,
                code => {
                    let message = result.error_message.as_deref();
                    return Err(ClientError::of_code(attempts.operation(), code, message));
                }
            }
        };
        self.wait_everywhere(&mut attempts, &topic.name, is_led).await?;
        Ok(created)
    }

    /// Deletes a topic and waits until no broker that answers knows it: DeleteTopics 1 to 5 (KIP-4), asked of the controller.
    ///
    /// # Errors
    ///
    /// [`ClientError::UnknownTopic`] if there is none of this name; [`ClientError::Broker`] for a missing permission or a
    /// cluster that forbids deleting (`delete.topic.enable`); else as [any call](KafkaClient#errors-of-any-call).
    pub async fn delete_topic(&self, name: &str) -> Result<(), ClientError> {
        let mut attempts = self.attempts(format!("delete topic '{name}'"));
        loop {
            let request = DeleteTopicsRequest::default()
                .with_topic_names(vec![TopicName(text(name))])
                .with_timeout_ms(timeout_ms(&attempts));
            // Version 6 names topics in another shape, for their ids.
            let ask = Ask::new(Destination::Controller, Request::DeleteTopics(request)).up_to(5);
            let response = match self.request(ask.slow(), attempts.remaining()).await {
                Ok(response) => response,
                Err(error) => {
                    attempts.after(error).await?;
                    continue;
                }
            };
            let Response::DeleteTopics(response) = response else { continue };
            let Some(result) = response.responses.first() else {
                attempts.pause("the answer leaves the topic out").await?;
                continue;
            };
            match ErrorCode(result.error_code) {
                ErrorCode::NONE => break,
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION if attempts.outcome_unknown() => break,
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => {
                    return Err(ClientError::UnknownTopic {
                        operation: attempts.operation().to_owned(),
                        topic: name.to_owned(),
                    });
                }
                ErrorCode::NOT_CONTROLLER => {
                    self.cluster_metadata(&mut attempts, &[]).await?;
                    attempts.pause("the controller moved").await?;
                }
                code if code.is_retriable() => attempts.pause(&code.to_string()).await?,
                code => {
                    let message = result.error_message.as_deref();
                    return Err(ClientError::of_code(attempts.operation(), code, message));
                }
            }
        }
        self.wait_everywhere(&mut attempts, name, is_gone).await
    }

    /// Waits until every broker that can be asked shows the topic as `shows` wants it: brokers learn one after another,
    /// and the next call may ask any of them.
    pub(super) async fn wait_everywhere(
        &self,
        attempts: &mut Attempts,
        name: &str,
        shows: impl Fn(Option<&MetadataResponseTopic>) -> bool,
    ) -> Result<(), ClientError> {
        let topics: [Arc<str>; 1] = [Arc::from(name)];
        loop {
            let metadata = self.cluster_metadata(attempts, &topics).await?;
            let mut everywhere = shows(find(&metadata, name));
            for broker in &metadata.brokers {
                let request = Request::Metadata(metadata_request(&topics));
                let ask = Ask::new(Destination::Node(NodeId(broker.node_id.0)), request);
                // A broker that does not answer is no reason to wait: it asks for the truth when it is back.
                if let Ok(Response::Metadata(metadata)) =
                    self.request(ask, attempts.remaining()).await
                {
                    everywhere &= shows(find(&metadata, name));
                }
            }
            if everywhere {
                self.refresh_metadata();
                return Ok(());
            }
            attempts.pause("not every broker has seen the change").await?;
        }
    }
}

pub(super) fn is_led(topic: Option<&MetadataResponseTopic>) -> bool {
    topic.is_some_and(|topic| {
        topic.error_code == 0
            && !topic.partitions.is_empty()
            && topic.partitions.iter().all(|partition| partition.leader_id.0 >= 0)
    })
}

fn is_gone(topic: Option<&MetadataResponseTopic>) -> bool {
    topic.is_none_or(|topic| ErrorCode(topic.error_code) == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
}

pub(super) fn find<'a>(
    metadata: &'a MetadataResponse,
    name: &str,
) -> Option<&'a MetadataResponseTopic> {
    metadata.topics.iter().find(|topic| topic.name.as_ref().is_some_and(|n| n.as_str() == name))
}

fn description(topic: &MetadataResponseTopic) -> TopicDescription {
    let mut partitions: Vec<_> = topic
        .partitions
        .iter()
        .map(|partition| PartitionDescription {
            partition: partition.partition_index,
            leader: partition.leader_id.0,
            leader_epoch: partition.leader_epoch,
            replicas: partition.replica_nodes.iter().map(|node| node.0).collect(),
            in_sync_replicas: partition.isr_nodes.iter().map(|node| node.0).collect(),
        })
        .collect();
    partitions.sort_by_key(|partition| partition.partition);
    let name = topic.name.as_ref().map_or("", |name| name.as_str());
    TopicDescription {
        name: Arc::from(name),
        topic_id: topic.topic_id.into_bytes(),
        is_internal: topic.is_internal,
        partitions,
    }
}

fn create_request(topic: &NewTopic, attempts: &Attempts) -> CreateTopicsRequest {
    let configs = topic.configs.iter().map(|(name, value)| {
        CreatableTopicConfig::default().with_name(text(name)).with_value(Some(text(value)))
    });
    let creatable = CreatableTopic::default()
        .with_name(TopicName(text(&topic.name)))
        .with_num_partitions(topic.partitions)
        .with_replication_factor(topic.replication_factor)
        .with_configs(configs.collect());
    CreateTopicsRequest::default()
        .with_topics(vec![creatable])
        .with_timeout_ms(timeout_ms(attempts))
}

/// How long the controller may wait for the change, in what is left of the call.
pub(super) fn timeout_ms(attempts: &Attempts) -> i32 {
    i32::try_from(attempts.remaining().as_millis()).unwrap_or(i32::MAX).min(15_000)
}

/// How often "unknown" is not believed yet.
const MISSING_TRIES: u32 = 3;
