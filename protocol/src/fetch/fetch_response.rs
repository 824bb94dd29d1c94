//! What an answer to a fetch does to the partitions it was asked for.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::batch_walk::{self, Defect};
use super::fetch_error::{Reaction, reaction};
use super::fetch_partition::{Bound, Phase};
use super::fetcher::{Asked, topics_of};
use super::{FetchError, FetchEvent, FetchedPartition, Fetcher, SessionOutcome, SessionViolation};
use crate::StaleMetadata;
use crate::messages::{FetchPartitionResponse, FetchResponse, LeaderIdAndEpoch};
use crate::network::RequestError;
use crate::{ErrorCode, NodeId, Timestamp, TopicPartition};

impl Fetcher {
    pub(super) fn handle_fetch(
        &mut self,
        now: Timestamp,
        node: NodeId,
        asked: &BTreeMap<TopicPartition, Asked>,
        mut response: FetchResponse,
    ) {
        let Some(state) = self.nodes.get_mut(&node) else { return };
        match state.session.handle_response(&mut response) {
            SessionOutcome::Accepted => state.failures = 0,
            SessionOutcome::Throttled => return,
            SessionOutcome::Discarded(violation) => {
                tracing::debug!(%node, %violation, "fetch session starts anew");
                state.failures = state.failures.saturating_add(1);
                // A session that was evicted is replaced at once; a broker that refuses session after session is not
                // asked in a tight loop.
                if state.failures > 1 || !is_session_error(&violation) {
                    let delay = self.config.retry_backoff.delay(state.failures, &mut self.jitter);
                    state.retry_at = Some(now.after(delay));
                }
                return;
            }
        }
        let mut silent = asked.clone();
        for topic in response.topics {
            for partition in topic.partitions {
                let key = TopicPartition::new(Arc::clone(&topic.topic), partition.partition);
                // The session let it pass, so it was asked for by some request; but by this one?
                let Some(asked) = silent.remove(&key) else { continue };
                if self.is_current(&key, asked) {
                    self.handle_partition(now, node, key, partition);
                }
            }
        }
        // What an incremental answer leaves out has nothing new.
        for (key, asked) in silent {
            if self.is_current(&key, asked) {
                if let Some(state) = self.partitions.get_mut(&key) {
                    state.recover();
                }
                self.report_progress(&key);
            }
        }
    }

    /// The request failed as a whole. `None`: the answer was one to another request.
    pub(super) fn handle_fetch_failure(
        &mut self,
        now: Timestamp,
        node: NodeId,
        asked: &BTreeMap<TopicPartition, Asked>,
        error: Option<&RequestError>,
    ) {
        if let Some(state) = self.nodes.get_mut(&node) {
            state.session.handle_failure();
            state.failures = state.failures.saturating_add(1);
            let delay = self.config.retry_backoff.delay(state.failures, &mut self.jitter);
            state.retry_at = Some(now.after(delay));
        }
        for topic_partition in topics_of(asked.keys()).into_values() {
            self.stale.push_back(StaleMetadata::Leader { topic_partition, hint: None });
        }
        for (key, asked) in asked {
            if !self.is_current(key, *asked) {
                continue;
            }
            // Whoever was read from, the leader knows better.
            if let Some(state) = self.partitions.get_mut(key) {
                state.read_from_leader();
            }
            match error {
                Some(error) if is_lasting(error) => {
                    self.fail(key, FetchError::Request(error.clone()));
                }
                Some(error @ RequestError::Decode(_)) => {
                    self.bear(now, key, |_| FetchError::Request(error.clone()));
                }
                Some(_) | None => {}
            }
        }
    }

    /// A leader is not known, so nobody can be asked.
    pub(super) fn leader_unknown(
        &mut self,
        now: Timestamp,
        topic_partition: &TopicPartition,
        known: bool,
    ) {
        self.refresh(topic_partition, None);
        let Some(state) = self.partitions.get_mut(topic_partition) else { return };
        let after = state.back_off(now, &self.config.retry_backoff, &mut self.jitter);
        if !known && after >= self.config.patience {
            self.fail(topic_partition, FetchError::UnknownTopicOrPartition { after });
        }
    }

    /// Bears a failure that may be permanent for a while, then fails with `error`, which is told the position.
    pub(super) fn bear(
        &mut self,
        now: Timestamp,
        topic_partition: &TopicPartition,
        error: impl FnOnce(i64) -> FetchError,
    ) {
        let Some(state) = self.partitions.get_mut(topic_partition) else { return };
        let lasted = state.back_off(now, &self.config.retry_backoff, &mut self.jitter);
        if lasted >= self.config.patience {
            let offset = state.offset;
            self.fail(topic_partition, error(offset));
        }
    }

    /// What a code other than `NONE` and `OFFSET_OUT_OF_RANGE` does, from Fetch and from ListOffsets.
    pub(super) fn handle_error_code(
        &mut self,
        now: Timestamp,
        topic_partition: &TopicPartition,
        code: ErrorCode,
        hint: Option<LeaderIdAndEpoch>,
    ) {
        let unknown =
            code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION || code == ErrorCode::UNKNOWN_TOPIC_ID;
        let after = self.config.patience;
        let error = move |_| {
            if unknown {
                FetchError::UnknownTopicOrPartition { after }
            } else {
                FetchError::Broker { code }
            }
        };
        match reaction(code) {
            Reaction::Refresh => {
                self.refresh(topic_partition, hint);
                self.wait(now, topic_partition);
            }
            Reaction::Retry => self.wait(now, topic_partition),
            Reaction::RefreshForAWhile => {
                self.refresh(topic_partition, hint);
                self.bear(now, topic_partition, error);
            }
            Reaction::RetryForAWhile | Reaction::Diagnose => self.bear(now, topic_partition, error),
            Reaction::GiveUp => self.fail(topic_partition, FetchError::Broker { code }),
        }
    }

    fn handle_partition(
        &mut self,
        now: Timestamp,
        node: NodeId,
        key: TopicPartition,
        answer: FetchPartitionResponse,
    ) {
        let Some(state) = self.partitions.get_mut(&key) else { return };
        let refused = answer.error_code != ErrorCode::NONE || answer.diverging_epoch.is_some();
        if refused && state.read_from_leader() {
            // A replica may lag behind what the leader handed out, whose last epoch it then does not have either, or have lost
            // its place: only the leader's word counts.
            tracing::debug!(%key, %node, code = %answer.error_code, "the leader is read again");
            self.refresh(&key, answer.current_leader);
            self.wait(now, &key);
            return;
        }
        if answer.error_code == ErrorCode::OFFSET_OUT_OF_RANGE {
            state.phase = Phase::Diagnosing(Bound::Earliest);
            let position = state.offset;
            // Some brokers tell the log start with the refusal, which spares the question.
            if position < answer.log_start_offset {
                let log_start_offset = answer.log_start_offset;
                self.fail(&key, FetchError::OffsetBelowLogStart { position, log_start_offset });
            }
            return;
        }
        if answer.error_code != ErrorCode::NONE {
            self.handle_error_code(now, &key, answer.error_code, answer.current_leader);
            return;
        }
        if let Some(diverging) = answer.diverging_epoch {
            if diverging.epoch < 0 || diverging.end_offset < 0 {
                // The leader knows nothing of the epoch, which is no loss by itself: the log's bounds tell.
                state.phase = Phase::Diagnosing(Bound::Earliest);
                return;
            }
            let error = FetchError::Truncated {
                position: state.offset,
                leader_epoch: state.leader_epoch,
                diverging_epoch: diverging.epoch,
                end_offset: diverging.end_offset,
            };
            self.fail(&key, error);
            return;
        }
        let named = NodeId(answer.preferred_read_replica);
        if named.0 >= 0 && named != node && answer.records.is_empty() {
            // A leader that names a replica sends nothing else, not even its high watermark. That is no success yet: a replica
            // which refuses, named again and again, is not to be asked in a tight loop.
            state.read_from(named, now.after(self.config.read_replica_lease));
            return;
        }
        state.high_watermark = answer.high_watermark;
        state.last_stable_offset = answer.last_stable_offset;
        if answer.records.is_empty() {
            state.recover();
            self.report_progress(&key);
        } else {
            self.handle_records(node, key, answer);
        }
    }

    fn handle_records(
        &mut self,
        node: NodeId,
        key: TopicPartition,
        answer: FetchPartitionResponse,
    ) {
        let Some(state) = self.partitions.get_mut(&key) else { return };
        let position = state.offset;
        let walk = batch_walk::walk(&answer.records, position);
        if walk.whole_bytes == 0 {
            let error = match walk.defect {
                Some(Defect::Corrupt { offset, detail }) => {
                    FetchError::CorruptBatch { offset, detail: Arc::from(detail) }
                }
                None => FetchError::NoWholeBatch { position, bytes: answer.records.len() },
            };
            self.fail(&key, error);
            return;
        }
        if walk.next_offset == position {
            self.fail(&key, FetchError::NoProgress { position });
            return;
        }
        // A defect behind whole batches is met again, at the front of the next answer.
        state.recover();
        state.offset = walk.next_offset;
        state.leader_epoch = walk.leader_epoch;
        state.unread_bytes = state.unread_bytes.saturating_add(walk.whole_bytes);
        state.progress_is_last = false;
        self.served += 1;
        state.served = self.served;
        self.events.push_back(FetchEvent::Records(FetchedPartition {
            topic_partition: key,
            node,
            fetch_offset: position,
            next_offset: walk.next_offset,
            leader_epoch: walk.leader_epoch,
            high_watermark: answer.high_watermark,
            last_stable_offset: answer.last_stable_offset,
            log_start_offset: answer.log_start_offset,
            records: answer.records.slice(..walk.whole_bytes),
            aborted_transactions: answer.aborted_transactions.unwrap_or_default(),
            isolation_level: self.config.isolation_level,
        }));
    }

    fn report_progress(&mut self, key: &TopicPartition) {
        let Some(state) = self.partitions.get_mut(key) else { return };
        // A reader that is slow to poll needs the newest news only. Looked for only if it is there: there may be thousands.
        if state.progress_is_last
            && let Some(at) = self.events.iter().rposition(|event| event.topic_partition() == key)
        {
            self.events.remove(at);
        }
        state.progress_is_last = true;
        self.events.push_back(FetchEvent::Progress {
            topic_partition: key.clone(),
            position: state.offset,
            high_watermark: state.high_watermark,
            last_stable_offset: state.last_stable_offset,
        });
    }

    /// True if the position has not moved since the request, so the answer is about it.
    fn is_current(&self, key: &TopicPartition, asked: Asked) -> bool {
        self.partitions.get(key).is_some_and(|state| {
            state.phase == Phase::Fetching
                && state.generation == asked.generation
                && state.offset == asked.offset
        })
    }

    fn refresh(&mut self, topic_partition: &TopicPartition, hint: Option<LeaderIdAndEpoch>) {
        let topic_partition = topic_partition.clone();
        self.stale.push_back(StaleMetadata::Leader { topic_partition, hint });
    }

    fn wait(&mut self, now: Timestamp, topic_partition: &TopicPartition) {
        if let Some(state) = self.partitions.get_mut(topic_partition) {
            state.back_off(now, &self.config.retry_backoff, &mut self.jitter);
        }
    }
}

fn is_session_error(violation: &SessionViolation) -> bool {
    match violation {
        SessionViolation::Refused(code) => {
            *code == ErrorCode::FETCH_SESSION_ID_NOT_FOUND
                || *code == ErrorCode::INVALID_FETCH_SESSION_EPOCH
                || *code == ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR
        }
        SessionViolation::Uninvited(_)
        | SessionViolation::UninvitedId(_)
        | SessionViolation::Repeated(_)
        | SessionViolation::Missing(_) => true,
    }
}

/// True if the same request would fail again, however often it is made.
pub(super) fn is_lasting(error: &RequestError) -> bool {
    matches!(
        error,
        RequestError::UnsupportedByBroker { .. }
            | RequestError::Encode(_)
            | RequestError::Security { .. }
    )
}
