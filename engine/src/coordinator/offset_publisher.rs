//! Tells consumer groups how far the job has come, for lag tools only: no decision is ever taken from it.

use millstream_checkpoint::Positions;
use millstream_protocol::TopicPartition;
use millstream_protocol_client::KafkaClient;
use millstream_protocol_client::surroundings::spawn;
use tokio::task::JoinHandle;

use crate::connector::kafka::OpenedSources;

/// Publishes committed positions as offsets of the sources' `group.id`, where one is set (Flink's
/// `commit.offsets.on.checkpoint`). One publication at a time; those that would have to wait are left to the next checkpoint.
#[derive(Debug)]
pub(crate) struct OffsetPublisher {
    groups: Vec<Group>,
}

#[derive(Debug)]
struct Group {
    source_uid: String,
    group_id: String,
    client: KafkaClient,
    running: Option<JoinHandle<()>>,
}

impl OffsetPublisher {
    pub(crate) fn new(sources: &OpenedSources) -> Self {
        let groups = sources.0.iter().filter_map(|(uid, source)| {
            Some(Group {
                source_uid: uid.to_string(),
                group_id: source.client.config().group_id.clone()?,
                client: source.client.clone(),
                running: None,
            })
        });
        Self { groups: groups.collect() }
    }

    /// Publishes the positions of a committed checkpoint without waiting.
    pub(crate) fn publish(&mut self, positions: &Positions) {
        for group in &mut self.groups {
            if group.running.as_ref().is_some_and(|running| !running.is_finished()) {
                continue;
            }
            let offsets: Vec<(TopicPartition, i64, i32)> = positions
                .of_source(&group.source_uid)
                .map(|position| {
                    let topic_partition = TopicPartition::new(
                        std::sync::Arc::clone(&position.topic),
                        position.partition,
                    );
                    (topic_partition, position.offset, position.leader_epoch)
                })
                .collect();
            let (client, group_id) = (group.client.clone(), group.group_id.clone());
            group.running = Some(spawn(async move {
                if let Err(error) = client.commit_offsets(&group_id, &offsets).await {
                    tracing::warn!(%error, group_id, "offsets of the group could not be published");
                }
            }));
        }
    }
}
