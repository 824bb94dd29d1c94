//! Misbehaviour on order: a test writes rules, the cluster follows them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use millstream_protocol::messages::{
    ApiVersionsResponse, FetchPartitionResponse, FetchResponse, FetchTopicResponse,
    ProducePartitionResponse, ProduceResponse, ProduceTopicResponse, kp,
};
use millstream_protocol::wire::RequestHeader;
use millstream_protocol::{ApiKey, ErrorCode, Request, Response};

/// What happens to a request that a rule applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultAction {
    /// Handle it, hold the answer (and the requests behind it) back for this long.
    Delay(Duration),
    /// Close the connection without handling it.
    DropBefore,
    /// Handle it, then close the connection instead of answering: the client cannot know the outcome.
    DropAfter,
    /// Answer with this code everywhere the answer has room for one, without handling it.
    Error(ErrorCode),
}

/// Which of the requests that match a rule it applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Occurrence {
    /// Only the n-th, from 1.
    Nth(u64),
    /// The first n.
    First(u64),
    /// All.
    Every,
}

/// A condition on a request.
type Predicate = Arc<dyn Fn(&Request) -> bool + Send + Sync>;

/// One rule: which requests, and what happens to them.
#[derive(Clone)]
pub struct FaultRule {
    api_key: ApiKey,
    occurrence: Occurrence,
    action: FaultAction,
    predicate: Option<Predicate>,
    seen: u64,
}

impl FaultRule {
    /// A rule for requests of `api_key`.
    #[must_use]
    pub fn new(api_key: ApiKey, occurrence: Occurrence, action: FaultAction) -> Self {
        Self { api_key, occurrence, action, predicate: None, seen: 0 }
    }

    /// Narrows the rule to requests that `predicate` accepts; only those are counted.
    #[must_use]
    pub fn when(mut self, predicate: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        self.predicate = Some(Arc::new(predicate));
        self
    }

    fn applies(&mut self, request: &Request) -> bool {
        let accepted = self.predicate.as_ref().is_none_or(|predicate| predicate(request));
        if request.api_key() != self.api_key || !accepted {
            return false;
        }
        self.seen += 1;
        match self.occurrence {
            Occurrence::Nth(n) => self.seen == n,
            Occurrence::First(n) => self.seen <= n,
            Occurrence::Every => true,
        }
    }
}

impl fmt::Debug for FaultRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultRule")
            .field("api_key", &self.api_key)
            .field("occurrence", &self.occurrence)
            .field("action", &self.action)
            .field("seen", &self.seen)
            .finish_non_exhaustive()
    }
}

/// The rules in force. The first rule that applies to a request decides; every rule counts it.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    rules: Vec<FaultRule>,
}

impl Faults {
    /// Adds a rule after those there are.
    pub fn add(&mut self, rule: FaultRule) {
        self.rules.push(rule);
    }

    /// Removes all rules.
    pub fn clear(&mut self) {
        self.rules.clear();
    }

    pub(crate) fn next(&mut self, request: &Request) -> Option<FaultAction> {
        let mut action = None;
        for rule in &mut self.rules {
            if rule.applies(request) && action.is_none() {
                action = Some(rule.action.clone());
            }
        }
        action
    }
}

/// An answer to `request` that says `code`. `None` if the client expects no answer.
pub(crate) fn error_response(
    request: &Request,
    header: &RequestHeader,
    code: ErrorCode,
) -> Option<Response> {
    let error = code.0;
    Some(match request {
        Request::Produce(request) if request.acks == 0 => return None,
        Request::Produce(request) => {
            let topics = request.topics.iter().map(|topic| ProduceTopicResponse {
                topic: topic.topic.clone(),
                partitions: topic
                    .partitions
                    .iter()
                    .map(|partition| ProducePartitionResponse {
                        partition: partition.partition,
                        error_code: code,
                        ..Default::default()
                    })
                    .collect(),
            });
            Response::Produce(ProduceResponse { topics: topics.collect(), ..Default::default() })
        }
        Request::Fetch(request) => {
            let topics = request.topics.iter().map(|topic| FetchTopicResponse {
                topic: topic.topic.clone(),
                topic_id: topic.topic_id,
                partitions: topic
                    .partitions
                    .iter()
                    .map(|partition| FetchPartitionResponse {
                        partition: partition.partition,
                        error_code: code,
                        ..Default::default()
                    })
                    .collect(),
            });
            let whole = if request.topics.is_empty() { code } else { ErrorCode::NONE };
            Response::Fetch(FetchResponse {
                error_code: whole,
                session_id: 0,
                topics: topics.collect(),
                ..Default::default()
            })
        }
        Request::ApiVersions(_) => {
            Response::ApiVersions(ApiVersionsResponse { error_code: code, ..Default::default() })
        }
        Request::ListOffsets(request) => {
            use kp::list_offsets_response::{
                ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
            };
            let topics = request.topics.iter().map(|topic| {
                let partitions = topic.partitions.iter().map(|partition| {
                    ListOffsetsPartitionResponse::default()
                        .with_partition_index(partition.partition_index)
                        .with_error_code(error)
                });
                ListOffsetsTopicResponse::default()
                    .with_name(topic.name.clone())
                    .with_partitions(partitions.collect())
            });
            kp::ListOffsetsResponse::default().with_topics(topics.collect()).into()
        }
        Request::Metadata(request) => {
            use kp::metadata_response::MetadataResponseTopic;
            let topics = request.topics.iter().flatten().map(|topic| {
                MetadataResponseTopic::default()
                    .with_name(topic.name.clone())
                    .with_topic_id(topic.topic_id)
                    .with_error_code(error)
            });
            kp::MetadataResponse::default().with_topics(topics.collect()).into()
        }
        Request::OffsetCommit(request) => {
            use kp::offset_commit_response::{
                OffsetCommitResponsePartition, OffsetCommitResponseTopic,
            };
            let topics = request.topics.iter().map(|topic| {
                let partitions = topic.partitions.iter().map(|partition| {
                    OffsetCommitResponsePartition::default()
                        .with_partition_index(partition.partition_index)
                        .with_error_code(error)
                });
                OffsetCommitResponseTopic::default()
                    .with_name(topic.name.clone())
                    .with_partitions(partitions.collect())
            });
            kp::OffsetCommitResponse::default().with_topics(topics.collect()).into()
        }
        Request::OffsetFetch(request) => {
            use kp::offset_fetch_response::OffsetFetchResponseGroup;
            let groups = request.groups.iter().map(|group| {
                OffsetFetchResponseGroup::default()
                    .with_group_id(group.group_id.clone())
                    .with_error_code(error)
            });
            let answer = kp::OffsetFetchResponse::default();
            if header.api_version >= 8 {
                answer.with_groups(groups.collect()).into()
            } else {
                answer.with_error_code(error).into()
            }
        }
        Request::FindCoordinator(request) => {
            use kp::find_coordinator_response::Coordinator;
            let answer = kp::FindCoordinatorResponse::default();
            if header.api_version >= 4 {
                let coordinators = request.coordinator_keys.iter().map(|key| {
                    Coordinator::default()
                        .with_key(key.clone())
                        .with_node_id((-1).into())
                        .with_port(-1)
                        .with_error_code(error)
                });
                answer.with_coordinators(coordinators.collect()).into()
            } else {
                answer.with_error_code(error).with_node_id((-1).into()).with_port(-1).into()
            }
        }
        Request::CreateTopics(request) => {
            use kp::create_topics_response::CreatableTopicResult;
            let topics = request.topics.iter().map(|topic| {
                CreatableTopicResult::default().with_name(topic.name.clone()).with_error_code(error)
            });
            kp::CreateTopicsResponse::default().with_topics(topics.collect()).into()
        }
        Request::DeleteTopics(request) => {
            use kp::delete_topics_response::DeletableTopicResult;
            let named = request.topic_names.iter().map(|name| Some(name.clone()));
            let names = request.topics.iter().map(|topic| topic.name.clone()).chain(named);
            let responses = names
                .map(|name| DeletableTopicResult::default().with_name(name).with_error_code(error));
            kp::DeleteTopicsResponse::default().with_responses(responses.collect()).into()
        }
        Request::InitProducerId(_) => kp::InitProducerIdResponse::default()
            .with_error_code(error)
            .with_producer_id((-1).into())
            .with_producer_epoch(-1)
            .into(),
        Request::AddPartitionsToTxn(request) => {
            use kp::add_partitions_to_txn_response::{
                AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult,
            };
            let topics = request.v3_and_below_topics.iter().map(|topic| {
                let results = topic.partitions.iter().map(|index| {
                    AddPartitionsToTxnPartitionResult::default()
                        .with_partition_index(*index)
                        .with_partition_error_code(error)
                });
                AddPartitionsToTxnTopicResult::default()
                    .with_name(topic.name.clone())
                    .with_results_by_partition(results.collect())
            });
            kp::AddPartitionsToTxnResponse::default()
                .with_results_by_topic_v3_and_below(topics.collect())
                .into()
        }
        Request::EndTxn(_) => kp::EndTxnResponse::default()
            .with_error_code(error)
            .with_producer_id((-1).into())
            .with_producer_epoch(-1)
            .into(),
        Request::DescribeConfigs(request) => {
            use kp::describe_configs_response::DescribeConfigsResult;
            let results = request.resources.iter().map(|resource| {
                DescribeConfigsResult::default()
                    .with_resource_type(resource.resource_type)
                    .with_resource_name(resource.resource_name.clone())
                    .with_error_code(error)
            });
            kp::DescribeConfigsResponse::default().with_results(results.collect()).into()
        }
        Request::DescribeTransactions(request) => {
            use kp::describe_transactions_response::TransactionState;
            let states = request.transactional_ids.iter().map(|id| {
                TransactionState::default().with_transactional_id(id.clone()).with_error_code(error)
            });
            kp::DescribeTransactionsResponse::default()
                .with_transaction_states(states.collect())
                .into()
        }
        Request::ListTransactions(_) => {
            kp::ListTransactionsResponse::default().with_error_code(error).into()
        }
        _ => return None,
    })
}
