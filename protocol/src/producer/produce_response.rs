//! What an answer to a produce request does to the batches it carried.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Delivered;
use super::delivery::Report;
use super::partition_window::{SentBatch, Status};
use super::produce_reaction::{Reaction, Retry, reaction};
use super::producer::{ProduceInFlight, Producer};
use super::record_accumulator::QueuedBatch;
use crate::backoff::ExponentialBackoff;
use crate::messages::{ApiKey, ProducePartitionResponse, Response};
use crate::network::{RequestError, RequestToken};
use crate::transaction::{AbortCause, FatalCause, ProduceError};
use crate::{ErrorCode, StaleMetadata, Timestamp, TopicPartition};

impl Producer {
    pub(super) fn handle_produce(
        &mut self,
        now: Timestamp,
        token: RequestToken,
        in_flight: ProduceInFlight,
        result: Result<Response, RequestError>,
    ) {
        let response = match result {
            Ok(Response::Produce(response)) => response,
            Ok(_) => {
                self.handle_unanswered(now, token, &in_flight, None);
                return;
            }
            Err(error) => {
                self.handle_unanswered(now, token, &in_flight, Some(error));
                return;
            }
        };
        let mut answers: BTreeMap<TopicPartition, ProducePartitionResponse> = BTreeMap::new();
        for topic in response.topics {
            for partition in topic.partitions {
                let key = TopicPartition::new(Arc::clone(&topic.topic), partition.partition);
                answers.insert(key, partition);
            }
        }
        for key in in_flight.partitions {
            match answers.remove(&key) {
                Some(answer) => self.handle_partition(now, token, &key, &answer),
                None => {
                    let retry = Retry { refresh: true, soon: false, maybe_written: true };
                    self.send_again(
                        now,
                        token,
                        &key,
                        retry,
                        "left out of the answer",
                        AtOnce::Never,
                    );
                }
            }
        }
    }

    /// The request has no answer, or another request's.
    fn handle_unanswered(
        &mut self,
        now: Timestamp,
        token: RequestToken,
        in_flight: &ProduceInFlight,
        error: Option<RequestError>,
    ) {
        let lasting = error.as_ref().is_some_and(|error| {
            matches!(
                error,
                RequestError::UnsupportedByBroker { .. }
                    | RequestError::Encode(_)
                    | RequestError::Security { .. }
                    | RequestError::Closed
            )
        });
        let maybe_written = error.as_ref().is_none_or(RequestError::outcome_unknown);
        let retry = Retry { refresh: true, soon: false, maybe_written };
        let text = error.as_ref().map(ToString::to_string).unwrap_or_default();
        for key in &in_flight.partitions {
            match &error {
                Some(error) if lasting => {
                    let cause = FatalCause::Request(error.clone());
                    self.give_up(now, token, key, ProduceError::Fatal { cause });
                }
                _ => self.send_again(now, token, key, retry, &text, AtOnce::Never),
            }
        }
    }

    fn handle_partition(
        &mut self,
        now: Timestamp,
        token: RequestToken,
        key: &TopicPartition,
        answer: &ProducePartitionResponse,
    ) {
        let Some((at, sent)) = self.sent(key, token) else { return };
        let code = answer.error_code;
        let mode = self.is_transactional().then(|| self.mode());
        match reaction(code, mode) {
            Reaction::Done => self.acknowledge(key, at, answer),
            Reaction::Retry(retry) => {
                // KIP-951: a named leader can be tried at once.
                let at_once = match answer.current_leader {
                    Some(_) => AtOnce::First,
                    None => AtOnce::Never,
                };
                if retry.refresh {
                    let topic_partition = key.clone();
                    let hint = answer.current_leader;
                    self.stale.push_back(StaleMetadata::Leader { topic_partition, hint });
                }
                let retry = Retry { refresh: false, ..retry };
                self.send_again(now, token, key, retry, &code.to_string(), at_once);
            }
            Reaction::RetryFewTimes if sent.attempts < FEW_TIMES => {
                let retry = Retry { refresh: false, soon: false, maybe_written: true };
                self.send_again(now, token, key, retry, &code.to_string(), AtOnce::Never);
            }
            // Not the next the broker expects: what comes before it is unresolved, and goes first.
            Reaction::OutOfOrder if at > 0 => {
                let retry = Retry { refresh: false, soon: true, maybe_written: false };
                self.send_again(now, token, key, retry, &code.to_string(), AtOnce::Always);
            }
            Reaction::OutOfOrder | Reaction::IdentityLost if !self.is_transactional() => {
                self.start_anew(now, token, key);
            }
            Reaction::TooLarge if !sent.maybe_written => self.split(now, token, key),
            Reaction::Fence if self.is_transactional() => {
                let transactional_id = self.transactional_id().unwrap_or_else(|| Arc::from(""));
                let error = ProduceError::Fenced { transactional_id, api: ApiKey::Produce, code };
                self.give_up(now, token, key, error);
            }
            Reaction::Fail => {
                let cause = FatalCause::Refused {
                    api: ApiKey::Produce,
                    code,
                    topic_partition: Some(key.clone()),
                    message: explanation(answer),
                };
                self.give_up(now, token, key, ProduceError::Fatal { cause });
            }
            Reaction::RetryFewTimes
            | Reaction::OutOfOrder
            | Reaction::IdentityLost
            | Reaction::TooLarge
            | Reaction::Abort
            | Reaction::Fence => {
                let error = ProduceError::abortable(ApiKey::Produce, code, Some(key.clone()));
                self.give_up(now, token, key, error);
            }
        }
        self.finish_reset(now, key);
    }

    fn sent(&self, key: &TopicPartition, token: RequestToken) -> Option<(usize, &SentBatch)> {
        let window = self.windows.get(key)?;
        let at = window.position(token)?;
        Some((at, window.batches.get(at)?))
    }

    fn acknowledge(&mut self, key: &TopicPartition, at: usize, answer: &ProducePartitionResponse) {
        let Some(window) = self.windows.get_mut(key) else { return };
        let Some(sent) = window.batches.remove(at) else { return };
        if let Status::InFlight(_, node) = sent.status {
            window.acked_by = Some(node);
        }
        window.gap = false;
        window.failures = 0;
        window.retry_at = None;
        if answer.base_offset >= 0
            && let Some(state) = self.accumulator.tags.get_mut(&sent.tag)
        {
            let last = answer.base_offset.saturating_add(i64::from(sent.batch.record_count()) - 1);
            let offset = state.offsets.entry(key.clone()).or_insert(last);
            *offset = last.max(*offset);
        }
        let told = |number: i64| (number >= 0).then_some(number);
        let delivered = Delivered {
            base_offset: told(answer.base_offset),
            log_append_time_ms: told(answer.log_append_time_ms),
        };
        self.accumulator.settle(sent.tag, sent.batch, sent.report, Ok(delivered));
    }

    /// The same bytes again, when their turn comes.
    fn send_again(
        &mut self,
        now: Timestamp,
        token: RequestToken,
        key: &TopicPartition,
        retry: Retry,
        why: &str,
        at_once: AtOnce,
    ) {
        let Some(window) = self.windows.get_mut(key) else { return };
        let Some(sent) = window.position(token).and_then(|at| window.batches.get_mut(at)) else {
            return;
        };
        sent.status = Status::Waiting;
        self.held.insert(key.clone());
        sent.maybe_written |= retry.maybe_written;
        sent.last_error = Some(Arc::from(why));
        // Even a retry that need not wait does so from the second time on, or a broker that is wrong makes a tight loop.
        let wait = match at_once {
            AtOnce::Always => false,
            AtOnce::First => window.failures > 0,
            AtOnce::Never => true,
        };
        window.failures = window.failures.saturating_add(u32::from(at_once != AtOnce::Always));
        if wait {
            let backoff = if retry.soon {
                ExponentialBackoff::new(SOON, std::time::Duration::from_secs(1))
            } else {
                self.config.retry_backoff
            };
            window.retry_at = Some(now.after(backoff.delay(window.failures, &mut self.jitter)));
        }
        if retry.refresh {
            let topic_partition = key.clone();
            self.stale.push_back(StaleMetadata::Leader { topic_partition, hint: None });
        }
        self.finish_reset(now, key);
    }

    /// The batch will never be written. A transaction dies of it; an idempotent producer goes on with the next batch.
    fn give_up(
        &mut self,
        now: Timestamp,
        token: RequestToken,
        key: &TopicPartition,
        error: ProduceError,
    ) {
        let Some(window) = self.windows.get_mut(key) else { return };
        let Some(sent) = window.position(token).and_then(|at| window.batches.remove(at)) else {
            return;
        };
        window.gap = true;
        self.accumulator.settle(sent.tag, sent.batch, sent.report, Err(&error));
        self.fail_tag(sent.tag, error);
        self.finish_reset(now, key);
    }

    /// Idempotent producers only: the broker expects another sequence than ours, so the partition's sequences start anew
    /// under the next epoch (KIP-360). What was written before the broker lost our state may be written twice.
    fn start_anew(&mut self, now: Timestamp, token: RequestToken, key: &TopicPartition) {
        let Some(window) = self.windows.get_mut(key) else { return };
        if window.gap {
            tracing::debug!(partition = %key, "sequences start anew behind a batch that was given up");
        } else {
            tracing::warn!(
                partition = %key,
                "sequences start anew: the broker lost what it knew of this producer, records may be duplicated"
            );
        }
        window.reset_pending = true;
        let retry = Retry { refresh: false, soon: false, maybe_written: false };
        self.send_again(now, token, key, retry, "sequences start anew", AtOnce::Always);
    }

    /// Once nothing is in flight, the batches of a partition that starts anew lose their sequences.
    fn finish_reset(&mut self, now: Timestamp, key: &TopicPartition) {
        let Some(window) = self.windows.get_mut(key) else { return };
        if !window.reset_pending || window.is_in_flight() {
            return;
        }
        let batches = window.batches.drain(..).map(|sent| QueuedBatch {
            batch: sent.batch,
            tag: sent.tag,
            enqueued_at: sent.enqueued_at,
            report: sent.report,
        });
        let batches: Vec<QueuedBatch> = batches.collect();
        window.reset_pending = false;
        window.gap = false;
        let current = self.transactions.identity();
        if current == Some(window.identity) {
            self.transactions.bump_locally(now);
        }
        self.accumulator.put_back(key, batches);
    }

    /// Halves a batch that the broker finds too large. The halves keep the sequence numbers of the whole.
    fn split(&mut self, now: Timestamp, token: RequestToken, key: &TopicPartition) {
        let Some((at, sent)) = self.sent(key, token) else { return };
        let bytes = sent.batch.size_bytes();
        let (first, second) = match sent.batch.split() {
            Ok(Some(halves)) => halves,
            Ok(None) => {
                let cause = FatalCause::RecordTooLarge { topic_partition: key.clone(), bytes };
                self.give_up(now, token, key, ProduceError::Fatal { cause });
                return;
            }
            Err(error) => {
                let detail = Arc::from(error.to_string());
                let cause = FatalCause::SplitFailed { topic_partition: key.clone(), detail };
                self.give_up(now, token, key, ProduceError::Fatal { cause });
                return;
            }
        };
        let Some(window) = self.windows.get_mut(key) else { return };
        let Some(whole) = window.batches.remove(at) else { return };
        if let Some(state) = self.accumulator.tags.get_mut(&whole.tag) {
            state.bytes =
                (state.bytes + first.size_bytes() + second.size_bytes()).saturating_sub(bytes);
            state.outstanding += 1;
        }
        // The second half is told apart by where it began in the whole.
        let behind = first.record_count();
        let of_second = whole.report.map(|report| Report {
            first_record: report.first_record.saturating_add(behind),
            ..report
        });
        self.held.insert(key.clone());
        for (place, half, report) in [(at, first, whole.report), (at + 1, second, of_second)] {
            window.batches.insert(
                place,
                SentBatch {
                    batch: half,
                    tag: whole.tag,
                    enqueued_at: whole.enqueued_at,
                    status: Status::Waiting,
                    maybe_written: false,
                    attempts: 0,
                    last_error: Some(Arc::from(ErrorCode::MESSAGE_TOO_LARGE.to_string())),
                    report,
                },
            );
        }
    }

    /// Batches that could not be delivered in time.
    pub(super) fn expire(&mut self, now: Timestamp) {
        let limit = self.config.delivery_timeout;
        let mut expired: Vec<(TopicPartition, QueuedBatch, Option<Arc<str>>)> = Vec::new();
        for (key, window) in &mut self.windows {
            while let Some(front) = window.batches.front()
                && front.status == Status::Waiting
                && now.since(front.enqueued_at) >= limit
                && let Some(sent) = window.batches.pop_front()
            {
                let SentBatch { batch, tag, enqueued_at, report, last_error, .. } = sent;
                let queued = QueuedBatch { batch, tag, enqueued_at, report };
                expired.push((key.clone(), queued, last_error));
            }
        }
        let open = self.open.unwrap_or_default();
        let may_expire = !self.is_transactional() || self.open.is_some();
        if may_expire && let Some(queues) = self.accumulator.sendable(open) {
            for (key, queue) in queues {
                while let Some(front) = queue.front()
                    && now.since(front.enqueued_at) >= limit
                    && let Some(queued) = queue.pop_front()
                {
                    let last = self.windows.get(key).filter(|window| window.failures > 0);
                    let last = last.map(|_| Arc::from("its leader is not known"));
                    expired.push((key.clone(), queued, last));
                }
            }
        }
        let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.to_string();
        for (topic_partition, QueuedBatch { batch, tag, report, .. }, last) in expired {
            let error = if last.as_deref() == Some(unknown.as_str()) {
                let cause = FatalCause::UnknownTopicOrPartition { topic_partition, after: limit };
                ProduceError::Fatal { cause }
            } else {
                let cause = AbortCause::DeliveryTimedOut { topic_partition, after: limit, last };
                ProduceError::Abortable { cause }
            };
            self.accumulator.settle(tag, batch, report, Err(&error));
            self.fail_tag(tag, error);
        }
    }
}

/// Whether a retry waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AtOnce {
    Never,
    /// Not the first time.
    First,
    Always,
}

/// The broker's words, and those for the first record it names (KIP-467).
fn explanation(answer: &ProducePartitionResponse) -> Option<Arc<str>> {
    let record = answer.record_errors.first().map(|error| {
        let text = error.message.as_deref().unwrap_or("refused");
        format!("record {} of the batch: {text}", error.batch_index)
    });
    let parts: Vec<String> = answer.error_message.clone().into_iter().chain(record).collect();
    (!parts.is_empty()).then(|| Arc::from(parts.join("; ")))
}

/// Tries for codes that say nothing about what happened.
const FEW_TIMES: u32 = 5;

/// While a leader registers a partition in the transaction.
const SOON: std::time::Duration = std::time::Duration::from_millis(20);
