//! ConsumerGroupHeartbeat, and what its answers ask for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::{ModernMember, Phase, Target, Told};
use crate::group::GroupError;
use crate::messages::StrBytes;
use crate::messages::kp::consumer_group_heartbeat_request::TopicPartitions;
use crate::messages::kp::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, GroupId, TopicName,
};
use crate::network::{ConnectionClass, Destination, OutgoingRequest, RequestError, RequestToken};
use crate::{ErrorCode, Request, Response, Timestamp, TopicPartition};

/// Failures in a row before a code that should not come is believed.
const PATIENCE: u32 = 5;

impl ModernMember {
    pub(super) fn heartbeat_request(&mut self, now: Timestamp) -> OutgoingRequest {
        let telling = Told { subscription: self.subscription.clone(), owned: self.owned.clone() };
        let mut request = self.request(self.epoch);
        let before = if self.epoch == 0 { None } else { self.told.as_ref() };
        if before.is_none() {
            request.rebalance_timeout_ms =
                i32::try_from(self.config.max_poll_interval.as_millis()).unwrap_or(i32::MAX);
            request.server_assignor = self.config.remote_assignor.as_deref().map(text);
        }
        if before.is_none_or(|before| before.subscription != telling.subscription) {
            let names = telling.subscription.iter().map(|topic| TopicName(text(topic)));
            request.subscribed_topic_names = Some(names.collect());
        }
        if before.is_none_or(|before| before.owned != telling.owned) {
            request.topic_partitions = Some(self.by_topic_id(&telling.owned));
        }
        self.telling = Some(telling);
        let outgoing = self.outgoing(request);
        self.clock.sent(now, outgoing.token);
        outgoing
    }

    pub(super) fn leave_request(&mut self) -> OutgoingRequest {
        // -2: a static member that will come back, so its partitions are kept for the session timeout.
        let epoch = if self.config.group_instance_id.is_some() { -2 } else { -1 };
        let outgoing = self.outgoing(self.request(epoch));
        if let Some(leave) = &mut self.leave {
            leave.sent = Some(outgoing.token);
        }
        outgoing
    }

    fn request(&self, epoch: i32) -> ConsumerGroupHeartbeatRequest {
        ConsumerGroupHeartbeatRequest::default()
            .with_group_id(GroupId(text(&self.config.group_id)))
            .with_member_id(text(&self.member_id))
            .with_member_epoch(epoch)
            .with_instance_id(self.config.group_instance_id.as_deref().map(text))
            .with_rebalance_timeout_ms(-1)
            .with_subscribed_topic_names(None)
            .with_topic_partitions(None)
    }

    fn outgoing(&mut self, request: ConsumerGroupHeartbeatRequest) -> OutgoingRequest {
        let token = RequestToken(self.next_token);
        self.next_token += 1;
        OutgoingRequest {
            destination: Destination::GroupCoordinator(Arc::clone(&self.config.group_id)),
            class: ConnectionClass::Control,
            request: Request::ConsumerGroupHeartbeat(request),
            token,
            max_version: None,
            timeout: self.config.request_timeout,
        }
    }

    fn by_topic_id(&self, owned: &BTreeSet<TopicPartition>) -> Vec<TopicPartitions> {
        let mut topics: BTreeMap<&[u8; 16], Vec<i32>> = BTreeMap::new();
        for tp in owned {
            // What is owned was named by id.
            if let Some(id) = self.topic_ids.get(&tp.topic) {
                topics.entry(id).or_default().push(tp.partition);
            }
        }
        let entry = |(id, partitions): (&[u8; 16], Vec<i32>)| {
            TopicPartitions::default()
                .with_topic_id(uuid::Uuid::from_bytes(*id))
                .with_partitions(partitions)
        };
        topics.into_iter().map(entry).collect()
    }

    pub(super) fn handle_heartbeat(
        &mut self,
        now: Timestamp,
        sent_at: Timestamp,
        result: Result<Response, RequestError>,
    ) {
        let telling = self.telling.take();
        match result {
            Ok(Response::ConsumerGroupHeartbeat(response)) => {
                let code = ErrorCode(response.error_code);
                if code.is_error() {
                    let message = response.error_message.as_ref();
                    let message = message.map(|text| Arc::from(text.as_str()));
                    self.react(now, code, message);
                } else {
                    self.told = telling;
                    self.take_answer(now, sent_at, &response);
                }
            }
            // An answer is decoded as what was asked for.
            Ok(_) => self.retry(now),
            Err(RequestError::CoordinatorRefused { code, message, .. }) => {
                self.fail(GroupError::Broker { code, message });
            }
            Err(error) => {
                let passes =
                    error.is_retriable() || matches!(error, RequestError::BootstrapFailed { .. });
                let undecodable = matches!(error, RequestError::Decode(_));
                if passes || undecodable && self.clock.failures() < PATIENCE {
                    self.retry(now);
                } else {
                    self.fail(GroupError::Request(error));
                }
            }
        }
    }

    fn take_answer(
        &mut self,
        now: Timestamp,
        sent_at: Timestamp,
        response: &ConsumerGroupHeartbeatResponse,
    ) {
        self.kept_out_since = None;
        if let Some(id) = response.member_id.as_ref().filter(|id| !id.is_empty()) {
            self.member_id = Arc::from(id.as_str());
        }
        self.epoch = response.member_epoch;
        if let Ok(interval @ 1..) = u64::try_from(response.heartbeat_interval_ms) {
            self.clock.interval = Duration::from_millis(interval);
        }
        self.clock.succeeded(now, sent_at);
        if let Some(assignment) = &response.assignment {
            let mut target = Target::new();
            for topic in &assignment.topic_partitions {
                let partitions = target.entry(topic.topic_id.into_bytes()).or_default();
                partitions.extend(&topic.partitions);
            }
            self.target = Some(target);
        }
        // An answer to what was said before the subscription ended tells nothing new.
        if self.subscription.is_empty() {
            self.target = Some(Target::new());
        } else if self.told.as_ref().is_none_or(|told| told.subscription != self.subscription) {
            self.clock.hurry(now);
        }
        self.reconcile(now);
    }

    fn react(&mut self, now: Timestamp, code: ErrorCode, message: Option<Arc<str>>) {
        match code {
            ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::FENCED_MEMBER_EPOCH => self.start_over(now),
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
            | ErrorCode::COORDINATOR_NOT_AVAILABLE
            | ErrorCode::NOT_COORDINATOR
            | ErrorCode::REQUEST_TIMED_OUT
            | ErrorCode::NETWORK_EXCEPTION
            | ErrorCode::KAFKA_STORAGE_ERROR => self.retry(now),
            ErrorCode::FENCED_INSTANCE_ID => self.fail(self.fenced(false)),
            ErrorCode::UNRELEASED_INSTANCE_ID => {
                // Perhaps our own last life, which was killed: its session ends by itself.
                let since = *self.kept_out_since.get_or_insert(now);
                if now.since(since) < self.config.session_timeout {
                    self.retry(now);
                } else {
                    self.fail(self.fenced(true));
                }
            }
            ErrorCode::GROUP_AUTHORIZATION_FAILED
            | ErrorCode::TOPIC_AUTHORIZATION_FAILED
            | ErrorCode::CLUSTER_AUTHORIZATION_FAILED
            | ErrorCode::INVALID_GROUP_ID
            | ErrorCode::INVALID_REQUEST
            | ErrorCode::GROUP_ID_NOT_FOUND
            | ErrorCode::GROUP_MAX_SIZE_REACHED
            | ErrorCode::UNSUPPORTED_ASSIGNOR
            | ErrorCode::UNSUPPORTED_VERSION
            | ErrorCode::INVALID_REGULAR_EXPRESSION => {
                self.fail(GroupError::Broker { code, message });
            }
            ErrorCode::INCONSISTENT_GROUP_PROTOCOL => {
                self.fail(GroupError::InconsistentProtocol { code });
            }
            code if self.clock.failures() < PATIENCE => {
                tracing::warn!(%code, "the group coordinator answered with an unexpected code");
                self.retry(now);
            }
            code => self.fail(GroupError::Broker { code, message }),
        }
    }

    fn fenced(&self, still_active: bool) -> GroupError {
        let instance_id = self.config.group_instance_id.clone();
        GroupError::FencedInstanceId {
            instance_id: instance_id.unwrap_or_else(|| Arc::from("")),
            still_active,
        }
    }

    /// What the broker took of the last request is not known, so the next one says all.
    fn retry(&mut self, now: Timestamp) {
        self.told = None;
        if self.phase == Phase::Member {
            self.clock.failed(now, self.config.retry_backoff, &mut self.jitter);
        }
    }
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}
