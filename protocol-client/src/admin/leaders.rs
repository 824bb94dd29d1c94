//! Calls about partitions, asked of their leaders.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millstream_protocol::messages::kp::MetadataResponse;
use millstream_protocol::network::Destination;
use millstream_protocol::{ErrorCode, NodeId, Request, Response, TopicPartition};

use super::ask::Refusal;
use super::topics::find;
use crate::attempts::Attempts;
use crate::client::Ask;
use crate::{ClientError, KafkaClient};

/// Results by partition: each succeeds or fails by itself.
pub(super) type ByPartition<T> = BTreeMap<TopicPartition, Result<T, ClientError>>;

impl KafkaClient {
    /// Asks the leaders of `partitions`, following their moves, until each partition has a result, a refusal, or the time
    /// is over. Fails as a whole only if no partition can have a result.
    pub(super) async fn ask_leaders<T>(
        &self,
        attempts: &mut Attempts,
        partitions: impl IntoIterator<Item = TopicPartition>,
        question: impl Fn(&Attempts, &[TopicPartition]) -> Request,
        read: impl Fn(Response) -> Vec<(TopicPartition, Result<T, Refusal>)>,
    ) -> Result<ByPartition<T>, ClientError> {
        let mut open: BTreeSet<TopicPartition> = partitions.into_iter().collect();
        let mut results = ByPartition::new();
        while !open.is_empty() {
            let topics: BTreeSet<_> = open.iter().map(|tp| Arc::clone(&tp.topic)).collect();
            let topics: Vec<_> = topics.into_iter().collect();
            let metadata = self.cluster_metadata(attempts, &topics).await?;
            for (tp, error) in refused_by_metadata(&metadata, &open, attempts) {
                open.remove(&tp);
                results.insert(tp, Err(error));
            }
            let mut last = String::from("a partition has no leader");
            for (leader, partitions) in by_leader(&metadata, &open) {
                let ask = Ask::new(Destination::Node(leader), question(attempts, &partitions));
                let response = match self.request(ask.slow(), attempts.remaining()).await {
                    Ok(response) => response,
                    Err(error) if error.is_retriable() => {
                        last = error.to_string();
                        continue;
                    }
                    Err(error) => {
                        return Err(ClientError::of_request(attempts.operation(), error));
                    }
                };
                for (tp, result) in read(response) {
                    let result = match result {
                        Ok(result) => Ok(result),
                        Err((code, _)) if code.is_retriable() => {
                            last = format!("{tp}: {code}");
                            continue;
                        }
                        Err((code, message)) => {
                            Err(ClientError::of_code(&of(attempts, &tp), code, message))
                        }
                    };
                    if open.remove(&tp) {
                        results.insert(tp, result);
                    }
                }
            }
            if !open.is_empty()
                && let Err(timed_out) = attempts.pause(&last).await
            {
                results.extend(open.into_iter().map(|tp| (tp, Err(timed_out.clone()))));
                break;
            }
        }
        Ok(results)
    }
}

fn of(attempts: &Attempts, tp: &TopicPartition) -> String {
    format!("{} of {tp}", attempts.operation())
}

/// Partitions that may not be seen, or are still missing after several looks.
fn refused_by_metadata(
    metadata: &MetadataResponse,
    open: &BTreeSet<TopicPartition>,
    attempts: &Attempts,
) -> Vec<(TopicPartition, ClientError)> {
    let given_up = attempts.failures() >= MISSING_TRIES;
    let refused = open.iter().filter_map(|tp| {
        let operation = of(attempts, tp);
        let unknown = || ClientError::UnknownTopic {
            operation: operation.clone(),
            topic: tp.topic.to_string(),
        };
        let Some(topic) = find(metadata, &tp.topic) else {
            return given_up.then(|| (tp.clone(), unknown()));
        };
        let code = ErrorCode(topic.error_code);
        if code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION {
            return given_up.then(|| (tp.clone(), unknown()));
        }
        if code.is_error() && !code.is_retriable() {
            return Some((tp.clone(), ClientError::of_code(&operation, code, None::<&str>)));
        }
        let exists = topic.partitions.iter().any(|p| p.partition_index == tp.partition);
        (given_up && !exists && !code.is_error()).then(|| {
            let count = topic.partitions.len();
            let ending = if count == 1 { "" } else { "s" };
            let message = format!("the topic has {count} partition{ending}");
            let code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
            (tp.clone(), ClientError::of_code(&operation, code, Some(message)))
        })
    });
    refused.collect()
}

/// Partitions without a leader are left for the next round.
fn by_leader(
    metadata: &MetadataResponse,
    open: &BTreeSet<TopicPartition>,
) -> BTreeMap<NodeId, Vec<TopicPartition>> {
    let mut partitions: BTreeMap<NodeId, Vec<TopicPartition>> = BTreeMap::new();
    for tp in open {
        let topic = find(metadata, &tp.topic);
        let partition = topic
            .and_then(|topic| topic.partitions.iter().find(|p| p.partition_index == tp.partition));
        if let Some(leader) = partition.map(|p| p.leader_id.0).filter(|leader| *leader >= 0) {
            partitions.entry(NodeId(leader)).or_default().push(tp.clone());
        }
    }
    partitions
}

/// Partition indexes by topic; `partitions` come in any order.
pub(super) fn by_topic<'a>(
    partitions: impl IntoIterator<Item = &'a TopicPartition>,
) -> BTreeMap<&'a str, Vec<i32>> {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for tp in partitions {
        topics.entry(&tp.topic).or_default().push(tp.partition);
    }
    topics
}

/// How often "unknown" is not believed yet.
const MISSING_TRIES: u32 = 3;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use millstream_protocol::backoff::ExponentialBackoff;
    use millstream_protocol::messages::kp::TopicName;
    use millstream_protocol::messages::kp::metadata_response::{
        MetadataResponsePartition, MetadataResponseTopic,
    };

    use super::*;
    use crate::admin::text;

    fn topic(name: &str, code: ErrorCode, leaders: &[i32]) -> MetadataResponseTopic {
        let partitions = leaders.iter().zip(0..).map(|(leader, index)| {
            MetadataResponsePartition::default()
                .with_partition_index(index)
                .with_leader_id((*leader).into())
        });
        MetadataResponseTopic::default()
            .with_name(Some(TopicName(text(name))))
            .with_error_code(code.0)
            .with_partitions(partitions.collect())
    }

    fn attempts() -> Attempts {
        let backoff = ExponentialBackoff::new(Duration::from_millis(1), Duration::from_millis(1));
        Attempts::new("look".to_owned(), Duration::from_secs(60), backoff, 1)
    }

    fn partitions(of: &[(&str, i32)]) -> BTreeSet<TopicPartition> {
        of.iter().map(|(topic, partition)| TopicPartition::new(*topic, *partition)).collect()
    }

    #[test]
    fn partitions_without_leader_wait() {
        let metadata = MetadataResponse::default().with_topics(vec![
            topic("a", ErrorCode::NONE, &[1, -1, 2]),
            topic("b", ErrorCode::NONE, &[2]),
        ]);
        let open = partitions(&[("a", 0), ("a", 1), ("a", 2), ("a", 9), ("b", 0), ("c", 0)]);
        let found = by_leader(&metadata, &open);
        let tps = |of| partitions(of).into_iter().collect::<Vec<_>>();
        let expected = [(NodeId(1), tps(&[("a", 0)])), (NodeId(2), tps(&[("a", 2), ("b", 0)]))];
        assert_eq!(found, expected.into());
    }

    #[tokio::test]
    async fn missing_partitions_are_believed_after_some_looks_and_forbidden_ones_at_once() {
        let metadata = MetadataResponse::default().with_topics(vec![
            topic("short", ErrorCode::NONE, &[1]),
            topic("gone", ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, &[]),
            topic("secret", ErrorCode::TOPIC_AUTHORIZATION_FAILED, &[]),
            topic("electing", ErrorCode::LEADER_NOT_AVAILABLE, &[]),
        ]);
        let open =
            partitions(&[("short", 0), ("short", 1), ("gone", 0), ("secret", 0), ("electing", 0)]);
        let mut attempts = attempts();
        let texts = |attempts: &Attempts| {
            let refused = refused_by_metadata(&metadata, &open, attempts);
            refused.into_iter().map(|(_, error)| error.to_string()).collect::<Vec<_>>()
        };
        let at_once = texts(&attempts);
        assert_eq!(at_once.len(), 1);
        assert!(at_once[0].starts_with("look of secret-0: "), "{at_once:?}");
        for _ in 0..MISSING_TRIES {
            attempts.pause("missing").await.expect("time is left");
        }
        let later = texts(&attempts);
        assert_eq!(later.len(), 3, "{later:?}");
        assert!(later[0].starts_with("look of gone-0: topic 'gone' does not exist"), "{later:?}");
        assert!(later[2].contains("the topic has 1 partition"), "{later:?}");
    }

    #[test]
    fn partitions_are_gathered_by_topic() {
        let of = [("b", 1), ("a", 0), ("b", 0)].map(|(t, p)| TopicPartition::new(t, p));
        assert_eq!(by_topic(&of), BTreeMap::from([("a", vec![0]), ("b", vec![1, 0])]));
    }
}
