//! What the cluster is: ApiVersions, Metadata, FindCoordinator.

use millstream_protocol::messages::{
    ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeature, StrBytes,
    SupportedFeature, kp,
};
use millstream_protocol::{ApiKey, ErrorCode};

use super::cluster::Cluster;
use super::connection::{text, topic_name};
use super::nodes::{CoordinatorKind, CoordinatorSeat, coordinator_slot};
use super::topics::{Topic, TopicConfig, topic_name_is_legal};

const TRANSACTION_VERSION: &str = "transaction.version";

/// The APIs of this broker. Nothing is promised that is not done.
const SERVED: [ApiKey; 16] = [
    ApiKey::Produce,
    ApiKey::Fetch,
    ApiKey::ListOffsets,
    ApiKey::Metadata,
    ApiKey::OffsetCommit,
    ApiKey::OffsetFetch,
    ApiKey::FindCoordinator,
    ApiKey::ApiVersions,
    ApiKey::CreateTopics,
    ApiKey::DeleteTopics,
    ApiKey::InitProducerId,
    ApiKey::AddPartitionsToTxn,
    ApiKey::EndTxn,
    ApiKey::DescribeConfigs,
    ApiKey::DescribeTransactions,
    ApiKey::ListTransactions,
];

impl Cluster {
    /// What we speak.
    pub(crate) fn api_versions(&self, error_code: ErrorCode) -> ApiVersionsResponse {
        let api_keys = SERVED
            .into_iter()
            .map(|api| {
                let versions = api.codec_versions();
                // Brokers from 4.0 claim Produce 0 and refuse it: librdkafka takes a higher minimum for a broker
                // that cannot compress (KAFKA-18659).
                let min_version = if api == ApiKey::Produce { 0 } else { *versions.start() };
                ApiVersion { api_key: api.code(), min_version, max_version: client_max(api) }
            })
            .collect();
        ApiVersionsResponse {
            error_code,
            api_keys,
            throttle_time_ms: 0,
            supported_features: vec![SupportedFeature {
                name: TRANSACTION_VERSION.to_owned(),
                min_version: 0,
                max_version: 2,
            }],
            finalized_features_epoch: 1,
            finalized_features: self.finalized_features(),
        }
    }

    /// A feature at level 0 is not finalized, as on a real cluster.
    fn finalized_features(&self) -> Vec<FinalizedFeature> {
        let level = self.config.transaction_version;
        (level > 0)
            .then(|| FinalizedFeature {
                name: TRANSACTION_VERSION.to_owned(),
                max_version_level: level,
                min_version_level: level,
            })
            .into_iter()
            .collect()
    }

    pub(crate) fn handle_api_versions(
        &self,
        version: i16,
        request: &ApiVersionsRequest,
    ) -> ApiVersionsResponse {
        let named = is_software_name(&request.client_software_name)
            && is_software_name(&request.client_software_version);
        if version >= 3 && !named {
            return ApiVersionsResponse {
                error_code: ErrorCode::INVALID_REQUEST,
                ..ApiVersionsResponse::default()
            };
        }
        let mut response = self.api_versions(ErrorCode::NONE);
        if version < 4 {
            // KAFKA-17011: older clients cannot read a feature whose lowest level is 0.
            response.supported_features.retain(|feature| feature.min_version > 0);
        }
        response
    }

    pub(crate) fn metadata(
        &mut self,
        version: i16,
        request: &kp::MetadataRequest,
    ) -> kp::MetadataResponse {
        let topics = match &request.topics {
            None => self.all_topics(),
            // Version 0 knows no null: an empty list means all.
            Some(topics) if topics.is_empty() && version == 0 => self.all_topics(),
            Some(topics) => {
                topics.iter().map(|topic| self.requested_topic(version, request, topic)).collect()
            }
        };
        let up = self.nodes_up();
        let controller = up.first().map_or(self.config.node_id, |(id, ..)| *id);
        let brokers = up
            .into_iter()
            .map(|(id, host, port)| {
                kp::metadata_response::MetadataResponseBroker::default()
                    .with_node_id(id.into())
                    .with_host(text(host))
                    .with_port(i32::from(port))
            })
            .collect();
        kp::MetadataResponse::default()
            .with_brokers(brokers)
            .with_cluster_id((version >= 2).then(|| text(&self.cluster_id)))
            .with_controller_id(controller.into())
            .with_topics(topics)
    }

    fn all_topics(&self) -> Vec<kp::metadata_response::MetadataResponseTopic> {
        self.topics.by_name.iter().map(|(name, topic)| self.described_topic(name, topic)).collect()
    }

    fn requested_topic(
        &mut self,
        version: i16,
        request: &kp::MetadataRequest,
        wanted: &kp::metadata_request::MetadataRequestTopic,
    ) -> kp::metadata_response::MetadataResponseTopic {
        let answer = kp::metadata_response::MetadataResponseTopic::default();
        let Some(name) = &wanted.name else {
            let found = self.topics.by_name.iter().find(|(_, topic)| topic.id == wanted.topic_id);
            return match found {
                Some((name, topic)) => self.described_topic(name, topic),
                None => answer
                    .with_topic_id(wanted.topic_id)
                    .with_error_code(ErrorCode::UNKNOWN_TOPIC_ID.0),
            };
        };
        if let Some(topic) = self.topics.topic(name.as_str()) {
            return self.described_topic(name.as_str(), topic);
        }
        let may_create =
            self.config.auto_create_topics && (version < 4 || request.allow_auto_topic_creation);
        let error = if !topic_name_is_legal(name.as_str()) {
            ErrorCode::INVALID_TOPIC_EXCEPTION
        } else if may_create {
            self.add_topic(name.as_str(), self.config.default_partitions, TopicConfig::default());
            // A real broker answers before the controller has done it, and the client asks again.
            ErrorCode::LEADER_NOT_AVAILABLE
        } else {
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
        };
        answer.with_name(Some(name.clone())).with_error_code(error.0)
    }

    fn described_topic(
        &self,
        name: &str,
        topic: &Topic,
    ) -> kp::metadata_response::MetadataResponseTopic {
        let replicas: Vec<kp::BrokerId> = self.node_ids().map(kp::BrokerId).collect();
        let in_sync: Vec<kp::BrokerId> =
            self.nodes_up().into_iter().map(|(id, ..)| kp::BrokerId(id)).collect();
        let partitions = (0..)
            .zip(&topic.partitions)
            .map(|(index, log)| {
                let error = match log.leadership.node {
                    Some(_) => ErrorCode::NONE,
                    None => ErrorCode::LEADER_NOT_AVAILABLE,
                };
                kp::metadata_response::MetadataResponsePartition::default()
                    .with_error_code(error.0)
                    .with_partition_index(index)
                    .with_leader_id(log.leadership.node.unwrap_or(-1).into())
                    .with_leader_epoch(log.leadership.epoch)
                    .with_replica_nodes(replicas.clone())
                    .with_isr_nodes(in_sync.clone())
            })
            .collect();
        kp::metadata_response::MetadataResponseTopic::default()
            .with_name(Some(topic_name(name)))
            .with_topic_id(topic.id)
            .with_partitions(partitions)
    }

    pub(crate) fn find_coordinator(
        &self,
        version: i16,
        request: &kp::FindCoordinatorRequest,
    ) -> kp::FindCoordinatorResponse {
        if version < 4 {
            let (error, node, host, port) =
                self.found_coordinator(request.key_type, request.key.as_str());
            return kp::FindCoordinatorResponse::default()
                .with_error_code(error.0)
                .with_node_id(node.into())
                .with_host(host)
                .with_port(port);
        }
        let coordinators = request
            .coordinator_keys
            .iter()
            .map(|key| {
                let (error, node, host, port) =
                    self.found_coordinator(request.key_type, key.as_str());
                kp::find_coordinator_response::Coordinator::default()
                    .with_key(key.clone())
                    .with_error_code(error.0)
                    .with_node_id(node.into())
                    .with_host(host)
                    .with_port(port)
            })
            .collect();
        kp::FindCoordinatorResponse::default().with_coordinators(coordinators)
    }

    fn found_coordinator(&self, key_type: i8, key: &str) -> (ErrorCode, i32, StrBytes, i32) {
        let kind = match key_type {
            0 => CoordinatorKind::Group,
            1 => CoordinatorKind::Transaction,
            // Share groups (type 2) are not done.
            _ => return (ErrorCode::INVALID_REQUEST, -1, text(""), -1),
        };
        let holder = match self.coordinator(kind, coordinator_slot(key)) {
            CoordinatorSeat::Vacant => None,
            CoordinatorSeat::Loading(node) | CoordinatorSeat::Taken(node) => Some(node),
        };
        match holder.and_then(|node| Some((node, self.node_address(node)?))) {
            Some((node, (host, port))) => (ErrorCode::NONE, node, text(host), i32::from(port)),
            None => (ErrorCode::COORDINATOR_NOT_AVAILABLE, -1, text(""), -1),
        }
    }
}

/// Whether we serve this version of this API.
pub(crate) fn is_served(api: ApiKey, version: i16) -> bool {
    SERVED.contains(&api) && version <= client_max(api)
}

/// What clients may use: AddPartitionsToTxn above 3 and topic ids in offsets are between brokers or not done.
fn client_max(api: ApiKey) -> i16 {
    match api {
        ApiKey::AddPartitionsToTxn => 3,
        // Version 2 selects by regular expression.
        ApiKey::ListTransactions => 1,
        _ => *api.codec_versions().end(),
    }
}

/// `[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?` (KIP-511).
fn is_software_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(byte))
}
