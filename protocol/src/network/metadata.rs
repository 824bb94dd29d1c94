//! What is known of the cluster: brokers, the controller, topics and their leaders.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::{
    MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{MetadataRequest, MetadataResponse, TopicName};
use kafka_protocol::protocol::StrBytes;

use crate::{ErrorCode, NO_TOPIC_ID, NodeId, TopicPartition};

/// Brokers as they are advertised, by id; topics that are tracked, by name.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    cluster_id: Option<Arc<str>>,
    controller: Option<NodeId>,
    brokers: BTreeMap<NodeId, BrokerEndpoint>,
    topics: BTreeMap<Arc<str>, TopicMetadata>,
    revision: u64,
}

/// Equal if they say the same, whenever it was learned.
impl PartialEq for Metadata {
    fn eq(&self, other: &Self) -> bool {
        let Self { cluster_id, controller, brokers, topics, revision: _ } = self;
        *cluster_id == other.cluster_id
            && *controller == other.controller
            && *brokers == other.brokers
            && *topics == other.topics
    }
}

impl Eq for Metadata {}

/// Where a broker listens for us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerEndpoint {
    /// Advertised host name or address.
    pub host: Arc<str>,
    /// Advertised port.
    pub port: u16,
    /// The broker's rack, if it has one.
    pub rack: Option<Arc<str>>,
}

/// A topic as last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicMetadata {
    /// The topic's id (KIP-516). All zero if the broker gives none (before 2.8).
    pub topic_id: [u8; 16],
    /// Every partition ever seen of this topic id. A broker may leave out one for a moment, so they only grow.
    pub partitions: BTreeMap<i32, PartitionMetadata>,
    /// What the last answer said of the topic; `NONE` if it is well.
    pub error: ErrorCode,
}

/// A partition as last seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionMetadata {
    /// The leader, or `None` during an election.
    pub leader: Option<NodeId>,
    /// The leader's epoch (KIP-320); -1 if the broker's epochs can not be relied on (Metadata below v9).
    pub leader_epoch: i32,
    /// Brokers that hold a copy.
    pub replicas: Vec<NodeId>,
}

/// A partition's leader and its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leader {
    /// The leading broker.
    pub node: NodeId,
    /// Its epoch (KIP-320); -1 if unknown.
    pub epoch: i32,
}

/// Something in an answer that more than the cache must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetadataNews {
    /// A topic of the same name is another topic now: offsets and positions mean nothing any more.
    TopicRecreated {
        /// The topic.
        topic: Arc<str>,
        /// Its id before.
        old_id: [u8; 16],
        /// Its id now.
        new_id: [u8; 16],
    },
    /// Another cluster answered: the address was given to it, or the configuration mixes two.
    ClusterIdChanged {
        /// The cluster before.
        old: Arc<str>,
        /// The cluster now.
        new: Arc<str>,
    },
}

impl Metadata {
    /// Changes with every change: what was concluded from metadata of the same revision still holds.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// The cluster's id (KIP-78), once known.
    #[must_use]
    pub fn cluster_id(&self) -> Option<&Arc<str>> {
        self.cluster_id.as_ref()
    }

    /// The controller, if one is known; under KRaft any broker, which passes requests on.
    #[must_use]
    pub fn controller(&self) -> Option<NodeId> {
        self.controller
    }

    /// All brokers, by id.
    #[must_use]
    pub fn brokers(&self) -> &BTreeMap<NodeId, BrokerEndpoint> {
        &self.brokers
    }

    /// A topic, if any answer told of it.
    #[must_use]
    pub fn topic(&self, name: &str) -> Option<&TopicMetadata> {
        self.topics.get(name)
    }

    /// How many partitions the topic is known to have; `None` before it was seen.
    #[must_use]
    pub fn partition_count(&self, topic: &str) -> Option<usize> {
        self.topics.get(topic).map(|t| t.partitions.len()).filter(|count| *count > 0)
    }

    /// The partition's leader; `None` while it is unknown or being elected.
    #[must_use]
    pub fn leader(&self, partition: &TopicPartition) -> Option<Leader> {
        let found = self.topics.get(&partition.topic)?.partitions.get(&partition.partition)?;
        Some(Leader { node: found.leader?, epoch: found.leader_epoch })
    }

    /// Takes a leader that a Produce or Fetch answer named (KIP-951) if its epoch is newer and its broker known. True if it
    /// was taken.
    pub fn apply_leader_hint(
        &mut self,
        partition: &TopicPartition,
        leader: NodeId,
        epoch: i32,
    ) -> bool {
        if !self.brokers.contains_key(&leader) || epoch < 0 {
            return false;
        }
        let known = self
            .topics
            .get_mut(&partition.topic)
            .and_then(|topic| topic.partitions.get_mut(&partition.partition));
        match known {
            Some(known) if epoch > known.leader_epoch => {
                known.leader = Some(leader);
                known.leader_epoch = epoch;
                self.revision = next_revision();
                true
            }
            _ => false,
        }
    }

    /// A topic's id, if a broker has told it.
    #[must_use]
    pub fn topic_id(&self, name: &str) -> Option<[u8; 16]> {
        let id = self.topics.get(name)?.topic_id;
        (id != NO_TOPIC_ID).then_some(id)
    }

    /// Forgets a topic that nobody tracks any more.
    pub fn forget_topic(&mut self, name: &str) {
        self.topics.remove(name);
        self.revision = next_revision();
    }

    /// Takes an answer of `version`. Topics that it does not mention stay as they were, those that are not `tracked` are
    /// left out.
    pub fn update(
        &mut self,
        response: &MetadataResponse,
        version: i16,
        tracked: impl Fn(&str) -> bool,
    ) -> Vec<MetadataNews> {
        self.revision = next_revision();
        let mut news = Vec::new();
        if let Some(id) = &response.cluster_id {
            let new: Arc<str> = Arc::from(id.as_str());
            if let Some(old) = self.cluster_id.replace(Arc::clone(&new))
                && old != new
            {
                news.push(MetadataNews::ClusterIdChanged { old, new });
            }
        }
        let brokers: BTreeMap<_, _> = response
            .brokers
            .iter()
            .filter_map(|broker| {
                let endpoint = BrokerEndpoint {
                    host: Arc::from(broker.host.as_str()),
                    port: u16::try_from(broker.port).ok()?,
                    rack: broker.rack.as_ref().map(|rack| Arc::from(rack.as_str())),
                };
                // No broker has a negative id; here those stand for the bootstrap addresses.
                (broker.node_id.0 >= 0).then_some((NodeId(broker.node_id.0), endpoint))
            })
            .collect();
        // An answer without brokers comes from one that is still starting, or from a liar: what we know is better.
        if !brokers.is_empty() {
            self.brokers = brokers;
            let controller = NodeId(response.controller_id.0);
            self.controller = self.brokers.contains_key(&controller).then_some(controller);
        }
        for topic in response.topics.iter().filter(|t| t.name.as_ref().is_some_and(|n| tracked(n)))
        {
            self.update_topic(topic, version, &mut news);
        }
        news
    }

    fn update_topic(
        &mut self,
        seen: &MetadataResponseTopic,
        version: i16,
        news: &mut Vec<MetadataNews>,
    ) {
        let Some(name) = &seen.name else { return };
        let topic_id = seen.topic_id.into_bytes();
        let name: Arc<str> = Arc::from(name.0.as_str());
        let known = self.topics.entry(Arc::clone(&name)).or_insert_with(|| TopicMetadata {
            topic_id,
            partitions: BTreeMap::new(),
            error: ErrorCode::NONE,
        });
        known.error = ErrorCode(seen.error_code);
        if topic_id != NO_TOPIC_ID && topic_id != known.topic_id {
            let old_id = std::mem::replace(&mut known.topic_id, topic_id);
            if old_id != NO_TOPIC_ID {
                known.partitions.clear();
                news.push(MetadataNews::TopicRecreated { topic: name, old_id, new_id: topic_id });
            }
        }
        for partition in &seen.partitions {
            update_partition(&mut known.partitions, partition, version);
        }
    }
}

/// A request for exactly these topics, and for the brokers. It never creates topics.
pub fn metadata_request<'a>(topics: impl IntoIterator<Item = &'a Arc<str>>) -> MetadataRequest {
    let topics = topics.into_iter().map(|name| {
        MetadataRequestTopic::default()
            .with_name(Some(TopicName(StrBytes::from_string(name.to_string()))))
    });
    MetadataRequest::default()
        .with_topics(Some(topics.collect()))
        .with_allow_auto_topic_creation(false)
}

fn update_partition(
    known: &mut BTreeMap<i32, PartitionMetadata>,
    seen: &MetadataResponsePartition,
    version: i16,
) {
    // Below v9 (brokers before 2.4) an answer may carry an old epoch; without epochs there is no order to keep.
    let mut leader_epoch = if version >= 9 { seen.leader_epoch } else { -1 };
    if let Some(known) = known.get(&seen.partition_index) {
        if leader_epoch < 0 {
            // Brokers that have just come up may not know it. The leader may be another by now, but not an older one.
            leader_epoch = known.leader_epoch;
        }
        if leader_epoch < known.leader_epoch {
            return;
        }
    }
    let partition = PartitionMetadata {
        leader: (seen.leader_id.0 >= 0).then_some(NodeId(seen.leader_id.0)),
        leader_epoch,
        replicas: seen.replica_nodes.iter().map(|node| NodeId(node.0)).collect(),
    };
    known.insert(seen.partition_index, partition);
}

/// Counted over all instances, so that two of them never have the same one by chance.
fn next_revision() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}
