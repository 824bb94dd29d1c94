//! Fetch: waiting for data, reading it within bounds, what a session leaves out (KIP-74, KIP-98, KIP-227, KIP-320).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use millstream_protocol::messages::{
    FIRST_FETCH_BY_ID, FetchPartitionResponse, FetchRequest, FetchResponse, FetchTopicResponse,
};
use millstream_protocol::wire::RequestHeader;
use millstream_protocol::{
    ErrorCode, IsolationLevel, NO_TOPIC_ID, Response, Timestamp, TopicPartition,
};

use super::cluster::{Clock, Cluster};
use super::connection::Handled;
use super::faults::FaultAction;
use super::fetch_session::{FetchContext, Wanted, name_topics};
use super::log::PartitionLog;

/// A Fetch that waits for enough bytes.
#[derive(Debug)]
pub(crate) struct WaitingFetch {
    pub(crate) header: RequestHeader,
    pub(crate) fault: Option<FaultAction>,
    pub(crate) deadline: Timestamp,
    /// The node that was asked.
    node: i32,
    context: FetchContext,
    request: FetchRequest,
    partitions: Vec<(TopicPartition, Wanted)>,
}

impl WaitingFetch {
    /// Whether one of `moved` is among the partitions that are waited for.
    pub(crate) fn touches(&self, moved: &BTreeSet<TopicPartition>) -> bool {
        !moved.is_empty() && self.partitions.iter().any(|(place, _)| moved.contains(place))
    }
}

impl Cluster {
    pub(crate) fn fetch(
        &mut self,
        clock: Clock,
        header: &RequestHeader,
        mut request: FetchRequest,
        fault: Option<FaultAction>,
    ) -> Handled {
        name_topics(&mut request, |id| {
            let found = self.topics.by_name.iter().find(|(_, topic)| topic.id.as_bytes() == &id);
            found.map(|(name, _)| name.clone())
        });
        let context = match self.sessions.begin(clock.now, header.api_version, &request) {
            Ok(context) => context,
            Err(error_code) => {
                return Handled::Answer(Response::Fetch(FetchResponse {
                    error_code,
                    ..Default::default()
                }));
            }
        };
        let partitions = self.sessions.partitions(&context, &request);
        let wait = Duration::from_millis(u64::try_from(request.max_wait_ms).unwrap_or(0));
        let fetch = WaitingFetch {
            header: header.clone(),
            fault,
            deadline: clock.now.after(wait),
            node: self.serving,
            context,
            request,
            partitions,
        };
        if wait.is_zero() || fetch.partitions.is_empty() || self.fetch_is_ready(&fetch) {
            return Handled::Answer(Response::Fetch(self.finish_fetch(clock, fetch)));
        }
        Handled::Wait(Box::new(fetch))
    }

    /// Whether a fetch need not wait: enough bytes, or something to complain of.
    pub(crate) fn fetch_is_ready(&self, fetch: &WaitingFetch) -> bool {
        let max_bytes = self.fetch_max_bytes(&fetch.request);
        let wanted = usize::try_from(fetch.request.min_bytes).unwrap_or(0).min(max_bytes);
        let mut available = 0;
        for (place, wanted_of) in &fetch.partitions {
            let partition = &wanted_of.partition;
            match self.readable(fetch.node, place, wanted_of) {
                Err(_) => return true,
                Ok(log) => {
                    let limit = usize::try_from(partition.partition_max_bytes).unwrap_or(0);
                    available += log.readable_bytes(
                        partition.fetch_offset,
                        fetch.request.isolation_level,
                        limit.max(1),
                    );
                }
            }
            if available >= wanted {
                return true;
            }
        }
        available >= wanted
    }

    /// Reads what there is and makes the answer.
    pub(crate) fn finish_fetch(&mut self, clock: Clock, fetch: WaitingFetch) -> FetchResponse {
        let isolation = fetch.request.isolation_level;
        let mut left = self.fetch_max_bytes(&fetch.request);
        // KIP-74: the first partition with data gives a whole batch, however large.
        let mut nothing_yet = true;
        let mut answers = Vec::with_capacity(fetch.partitions.len());
        for (place, wanted) in &fetch.partitions {
            let partition = &wanted.partition;
            let answer = match self.readable(fetch.node, place, wanted) {
                Err(error_code) => FetchPartitionResponse {
                    partition: place.partition,
                    error_code,
                    aborted_transactions: committed_only(isolation, Vec::new),
                    ..Default::default()
                },
                Ok(log) => {
                    let limit =
                        usize::try_from(partition.partition_max_bytes).unwrap_or(0).min(left);
                    let read = log.read(partition.fetch_offset, isolation, limit, nothing_yet);
                    nothing_yet &= read.records.is_empty();
                    left = left.saturating_sub(read.records.len());
                    FetchPartitionResponse {
                        partition: place.partition,
                        high_watermark: log.log_end_offset(),
                        last_stable_offset: log.last_stable_offset(),
                        log_start_offset: log.log_start_offset(),
                        aborted_transactions: committed_only(isolation, || read.aborted),
                        records: read.records,
                        ..Default::default()
                    }
                }
            };
            answers.push((place.clone(), answer));
        }
        let session_id = self.sessions.finish(
            clock.now,
            &fetch.context,
            &mut self.random,
            fetch.header.api_version >= FIRST_FETCH_BY_ID,
            &fetch.partitions,
            &mut answers,
        );
        let ids = fetch.partitions.iter().map(|(place, wanted)| (&place.topic, wanted.topic_id));
        let topics = by_topic(answers, &ids.collect());
        FetchResponse { session_id, topics, ..Default::default() }
    }

    /// The log to read, or what forbids it.
    fn readable(
        &self,
        node: i32,
        place: &TopicPartition,
        wanted: &Wanted,
    ) -> Result<&PartitionLog, ErrorCode> {
        let by_id = wanted.topic_id != NO_TOPIC_ID;
        let found = self.topics.partition(&place.topic, place.partition);
        let topic_exists = self.topics.by_name.contains_key(&place.topic);
        let Some((topic, log)) = found else {
            return Err(if by_id && !topic_exists {
                ErrorCode::UNKNOWN_TOPIC_ID
            } else {
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
            });
        };
        // A session outlives the topic of its id.
        if by_id && topic.id.as_bytes() != &wanted.topic_id {
            return Err(ErrorCode::UNKNOWN_TOPIC_ID);
        }
        let partition = &wanted.partition;
        if log.leadership.node != Some(node) {
            return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        }
        check_leader_epoch(partition.current_leader_epoch, log.leadership.epoch)?;
        if (log.log_start_offset()..=log.log_end_offset()).contains(&partition.fetch_offset) {
            Ok(log)
        } else {
            Err(ErrorCode::OFFSET_OUT_OF_RANGE)
        }
    }

    fn fetch_max_bytes(&self, request: &FetchRequest) -> usize {
        usize::try_from(request.max_bytes).unwrap_or(0).min(self.config.fetch_max_bytes)
    }

    /// A topic is gone: fetches that wait for it must say so.
    pub(crate) fn note_topic_gone(&mut self, name: &str) {
        let places: Vec<TopicPartition> = self
            .connections
            .values()
            .filter_map(|connection| match &connection.state {
                super::connection::ConnectionState::Waiting(fetch) => Some(fetch),
                _ => None,
            })
            .flat_map(|fetch| &fetch.partitions)
            .filter(|(place, _)| &*place.topic == name)
            .map(|(place, _)| place.clone())
            .collect();
        self.moved.extend(places);
    }
}

/// KIP-320: a client that knows an older or newer leader than we are must learn of it first.
pub(crate) fn check_leader_epoch(known: i32, current: i32) -> Result<(), ErrorCode> {
    if known < 0 || known == current {
        Ok(())
    } else if known < current {
        Err(ErrorCode::FENCED_LEADER_EPOCH)
    } else {
        Err(ErrorCode::UNKNOWN_LEADER_EPOCH)
    }
}

fn committed_only<T>(isolation: IsolationLevel, list: impl FnOnce() -> T) -> Option<T> {
    (isolation == IsolationLevel::ReadCommitted).then(list)
}

fn by_topic(
    answers: Vec<(TopicPartition, FetchPartitionResponse)>,
    ids: &BTreeMap<&Arc<str>, [u8; 16]>,
) -> Vec<FetchTopicResponse> {
    let mut topics: Vec<FetchTopicResponse> = Vec::new();
    for (place, answer) in answers {
        match topics.last_mut() {
            Some(last) if last.topic == place.topic => last.partitions.push(answer),
            _ => topics.push(FetchTopicResponse {
                topic_id: ids.get(&place.topic).copied().unwrap_or(NO_TOPIC_ID),
                topic: place.topic,
                partitions: vec![answer],
            }),
        }
    }
    topics
}
