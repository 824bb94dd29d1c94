//! Starting again from what was stored: any prefix of the effects of an earlier run.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use millstream_protocol::Timestamp;
use uuid::Uuid;

use super::cluster::Cluster;
use super::groups::CommittedOffset;
use super::log::PartitionLog;
use super::nodes::Leadership;
use super::storage::{StateRecord, Stored};
use super::topics::{Topic, TopicConfig};
use super::transaction::TransactionState;

pub(super) fn replay(cluster: &mut Cluster, stored: Stored, now: Timestamp) {
    for record in stored.state {
        // A damaged record was the last one written; what follows it would not be trusted either.
        let Some(record) = StateRecord::decode(record) else { break };
        apply(cluster, record, &stored.logs);
    }
    // As on a real broker that returns: the leader is the same, its epoch is not.
    for log in cluster.topics.by_name.values_mut().flat_map(|topic| &mut topic.partitions) {
        log.leadership.epoch += 1;
    }
    for transaction in cluster.transactions.values_mut() {
        match transaction.state {
            TransactionState::Ongoing => {
                transaction.deadline = Some(now.after(transaction.timeout()));
            }
            state if state.is_prepared() => {
                // Some markers may be there already; a second one would count as a zombie's.
                let topics = &cluster.topics;
                let producer_id = transaction.producer_id;
                transaction.partitions.retain(|place| {
                    topics
                        .partition(&place.topic, place.partition)
                        .is_some_and(|(_, log)| log.producers.has_any_open_transaction(producer_id))
                });
                cluster.markers.insert((now, transaction.transactional_id.clone()));
            }
            _ => {}
        }
    }
}

fn apply(cluster: &mut Cluster, record: StateRecord, logs: &BTreeMap<(Uuid, i32), Bytes>) {
    match record {
        StateRecord::TopicCreated { name, id, leader_epoch, partitions, config } => {
            let config = TopicConfig::from_stored(config);
            let segment_bytes = config.segment_bytes(&cluster.config);
            let node = Some(cluster.config.node_id);
            let logs = (0..partitions)
                .map(|partition| {
                    let mut log = match logs.get(&(id, partition)) {
                        Some(content) => PartitionLog::replay(content.clone(), segment_bytes),
                        None => PartitionLog::new(),
                    };
                    log.leadership = Leadership { node, epoch: leader_epoch };
                    log
                })
                .collect();
            let topic = Topic { id, config, partitions: logs };
            cluster.topics.by_name.insert(Arc::from(name), topic);
        }
        StateRecord::TopicDeleted { id } => {
            let name = cluster.topics.by_name.iter().find(|(_, topic)| topic.id == id);
            if let Some(name) = name.map(|(name, _)| Arc::clone(name)) {
                cluster.topics.by_name.remove(&name);
                cluster.groups.forget_topic(&name);
            }
        }
        StateRecord::ClusterId(id) => cluster.cluster_id = id,
        StateRecord::ProducerIds { next } => cluster.next_producer_id = next,
        StateRecord::Transaction(transaction) => {
            cluster.transactions.insert(transaction.transactional_id.clone(), transaction);
        }
        StateRecord::Offset { group, topic_partition, offset, leader_epoch, metadata } => {
            cluster.groups.commit(
                &group,
                topic_partition,
                CommittedOffset { offset, leader_epoch, metadata },
            );
        }
    }
}

/// Records that make the present state when they are applied to an empty cluster.
pub(super) fn snapshot(cluster: &Cluster) -> Vec<StateRecord> {
    let topics = cluster.topics.by_name.iter().map(|(name, topic)| StateRecord::TopicCreated {
        name: name.to_string(),
        id: topic.id,
        leader_epoch: topic.partitions.iter().map(|log| log.leadership.epoch).max().unwrap_or(0),
        partitions: i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX),
        config: topic.config.given().clone(),
    });
    let transactions = cluster.transactions.values().cloned().map(StateRecord::Transaction);
    let ids = StateRecord::ProducerIds { next: cluster.next_producer_id };
    let cluster_id = StateRecord::ClusterId(cluster.cluster_id.clone());
    let offsets = cluster.groups.all().map(|(group, place, committed)| StateRecord::Offset {
        group: group.to_owned(),
        topic_partition: place.clone(),
        offset: committed.offset,
        leader_epoch: committed.leader_epoch,
        metadata: committed.metadata.clone(),
    });
    [cluster_id, ids].into_iter().chain(topics).chain(transactions).chain(offsets).collect()
}
