//! The answers of an honest broker: enough for every call of the client to run through, and nothing kept.

mod admin;
mod data;
mod groups;
mod records;

use millstream_protocol::messages::kp::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use millstream_protocol::messages::kp::{
    self, GroupId, MetadataResponse, TopicName, TransactionalId,
};
use millstream_protocol::messages::{
    ApiVersion, ApiVersionsResponse, FinalizedFeature, StrBytes, SupportedFeature,
};
use millstream_protocol::{ApiKey, Request, Response};
use uuid::Uuid;

use records::Batches;
pub(crate) use records::batch;

/// One broker with any topic one asks for: two partitions each, offsets 0 to 1000, coordinator of everything.
#[derive(Debug)]
pub struct Broker {
    host: StrBytes,
    port: i32,
    /// Finalized level of `transaction.version`.
    transaction_version: i16,
    batches: Batches,
}

impl Broker {
    /// A broker that advertises this address.
    #[must_use]
    pub fn new(host: &str, port: u16, transaction_version: i16) -> Self {
        Self { host: text(host), port: port.into(), transaction_version, batches: Batches::new() }
    }

    /// The answer to a request of `version`; `None` for the one request that has none (Produce without acknowledgement).
    #[must_use]
    pub fn answer(&self, request: &Request, version: i16) -> Option<Response> {
        Some(match request {
            Request::ApiVersions(_) => Response::ApiVersions(self.api_versions()),
            Request::Metadata(request) => Response::Metadata(self.metadata(request, version)),
            Request::FindCoordinator(request) => {
                Response::FindCoordinator(self.find_coordinator(request))
            }
            Request::DescribeCluster(_) => Response::DescribeCluster(self.describe_cluster()),
            Request::Produce(request) if request.acks == 0 => return None,
            Request::Produce(request) => Response::Produce(data::produce(request)),
            Request::Fetch(request) => Response::Fetch(data::fetch(request, &self.batches)),
            Request::ListOffsets(request) => {
                Response::ListOffsets(data::list_offsets(request, version))
            }
            Request::OffsetForLeaderEpoch(request) => {
                Response::OffsetForLeaderEpoch(data::offset_for_leader_epoch(request))
            }
            other => groups::answer(other, version)
                .or_else(|| admin::answer(other, version))
                .expect("every other API has an answer"),
        })
    }

    fn api_versions(&self) -> ApiVersionsResponse {
        let feature = || "transaction.version".to_owned();
        ApiVersionsResponse {
            api_keys: ApiKey::ALL
                .iter()
                .map(|api| ApiVersion {
                    api_key: api.code(),
                    min_version: *api.codec_versions().start(),
                    max_version: *api.codec_versions().end(),
                })
                .collect(),
            supported_features: vec![SupportedFeature {
                name: feature(),
                min_version: 0,
                max_version: 2,
            }],
            finalized_features_epoch: 3,
            finalized_features: vec![FinalizedFeature {
                name: feature(),
                max_version_level: self.transaction_version,
                min_version_level: self.transaction_version,
            }],
            ..ApiVersionsResponse::default()
        }
    }

    fn metadata(&self, request: &kp::MetadataRequest, version: i16) -> MetadataResponse {
        let broker = MetadataResponseBroker::default()
            .with_node_id(1.into())
            .with_host(self.host.clone())
            .with_port(self.port)
            .with_rack(Some(text("r1")));
        let asked = request.topics.iter().flatten().filter_map(|topic| topic.name.clone());
        let mut names: Vec<TopicName> = asked.collect();
        if request.topics.is_none() {
            names.push(topic_name("t"));
        }
        let topics = names.into_iter().map(|name| {
            let partitions = (0..PARTITIONS).map(|index| {
                let partition = MetadataResponsePartition::default()
                    .with_partition_index(index)
                    .with_leader_id(1.into())
                    .with_replica_nodes(vec![1.into()])
                    .with_isr_nodes(vec![1.into()]);
                if version >= 7 { partition.with_leader_epoch(LEADER_EPOCH) } else { partition }
            });
            let topic = MetadataResponseTopic::default()
                .with_name(Some(name))
                .with_partitions(partitions.collect());
            if version >= 10 { topic.with_topic_id(TOPIC_ID) } else { topic }
        });
        let response = MetadataResponse::default()
            .with_brokers(vec![broker])
            .with_controller_id(1.into())
            .with_topics(topics.collect());
        if version >= 2 { response.with_cluster_id(Some(text("cluster"))) } else { response }
    }

    fn find_coordinator(
        &self,
        request: &kp::FindCoordinatorRequest,
    ) -> kp::FindCoordinatorResponse {
        let mut keys = request.coordinator_keys.clone();
        if keys.is_empty() {
            keys.push(request.key.clone());
        }
        let coordinators = keys.into_iter().map(|key| {
            kp::find_coordinator_response::Coordinator::default()
                .with_key(key)
                .with_node_id(1.into())
                .with_host(self.host.clone())
                .with_port(self.port)
        });
        kp::FindCoordinatorResponse::default().with_coordinators(coordinators.collect())
    }

    fn describe_cluster(&self) -> kp::DescribeClusterResponse {
        let broker = kp::describe_cluster_response::DescribeClusterBroker::default()
            .with_broker_id(1.into())
            .with_host(self.host.clone())
            .with_port(self.port);
        kp::DescribeClusterResponse::default()
            .with_cluster_id(text("cluster"))
            .with_controller_id(1.into())
            .with_brokers(vec![broker])
    }
}

const PARTITIONS: i32 = 2;
const LEADER_EPOCH: i32 = 5;
const END_OFFSET: i64 = 1000;
const TOPIC_ID: Uuid = Uuid::from_bytes([7; 16]);
const PRODUCER_ID: i64 = 4000;

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn topic_name(name: &str) -> TopicName {
    TopicName(text(name))
}

fn group_id(name: &str) -> GroupId {
    GroupId(text(name))
}

fn transactional_id(name: &str) -> TransactionalId {
    TransactionalId(text(name))
}
