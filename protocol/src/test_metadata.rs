//! Metadata for the machines' tests.

use kafka_protocol::messages::TopicName;
use kafka_protocol::messages::metadata_response::{
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::protocol::StrBytes;

use crate::network::Metadata;

/// Metadata with a leader (node, epoch) per partition of `topic`; node -1 for none.
pub(crate) fn metadata(topic: &str, leaders: &[(i32, i32, i32)]) -> Metadata {
    metadata_with_id(topic, crate::NO_TOPIC_ID, leaders)
}

/// The same, of a topic whose id is told.
pub(crate) fn metadata_with_id(
    topic: &str,
    topic_id: [u8; 16],
    leaders: &[(i32, i32, i32)],
) -> Metadata {
    let partitions = leaders
        .iter()
        .map(|(partition, node, epoch)| {
            MetadataResponsePartition::default()
                .with_partition_index(*partition)
                .with_leader_id((*node).into())
                .with_leader_epoch(*epoch)
        })
        .collect();
    let brokers = (0..10)
        .map(|node| {
            MetadataResponseBroker::default()
                .with_node_id(node.into())
                .with_host(StrBytes::from_static_str("broker"))
                .with_port(9092)
        })
        .collect();
    let topic = MetadataResponseTopic::default()
        .with_name(Some(TopicName(StrBytes::from_string(topic.to_owned()))))
        .with_topic_id(uuid::Uuid::from_bytes(topic_id))
        .with_partitions(partitions);
    let response = MetadataResponse::default().with_brokers(brokers).with_topics(vec![topic]);
    let mut metadata = Metadata::default();
    metadata.update(&response, 10, |_| true);
    metadata
}
