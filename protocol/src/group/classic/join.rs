//! JoinGroup: into the next generation.

use std::sync::Arc;
use std::time::Duration;

use super::reaction::{self, PATIENCE, Reaction};
use super::{ClassicMember, Leading, Phase, Sending, text};
use crate::group::GroupError;
use crate::group::assignor::Assignor;
use crate::messages::kp::join_group_request::JoinGroupRequestProtocol;
use crate::messages::kp::{JoinGroupRequest, JoinGroupResponse};
use crate::network::{OutgoingRequest, RequestError};
use crate::{ErrorCode, Request, Response, Timestamp};

impl ClassicMember {
    pub(super) fn join_request(&mut self, _now: Timestamp) -> Option<OutgoingRequest> {
        let mut protocols = Vec::with_capacity(self.config.assignors.len());
        for assignor in self.config.assignors.clone() {
            let last = (&self.last_assignment.0, self.last_assignment.1);
            let metadata =
                assignor.subscription(&self.subscription, &self.owned, self.generation, last);
            match metadata {
                Ok(metadata) => protocols.push(
                    JoinGroupRequestProtocol::default()
                        .with_name(text(assignor.name()))
                        .with_metadata(metadata),
                ),
                Err(error) => {
                    self.fail(error.into());
                    return None;
                }
            }
        }
        let request = JoinGroupRequest::default()
            .with_group_id(self.group_id())
            .with_session_timeout_ms(milliseconds(self.config.session_timeout))
            .with_rebalance_timeout_ms(milliseconds(self.config.max_poll_interval))
            .with_member_id(text(&self.member_id))
            .with_group_instance_id(self.instance_id())
            .with_protocol_type(text(PROTOCOL_TYPE))
            .with_protocols(protocols);
        self.joined_subscription.clone_from(&self.subscription);
        // The broker answers when every member has joined, or the slowest one's time is up.
        let timeout = self.config.max_poll_interval + REBALANCE_GRACE;
        let timeout = timeout.max(self.config.request_timeout);
        let outgoing = self.outgoing(Request::JoinGroup(request), timeout);
        self.phase = Phase::Joining(Sending::Sent(outgoing.token));
        self.clock.stop();
        Some(outgoing)
    }

    pub(super) fn handle_join(&mut self, now: Timestamp, result: Result<Response, RequestError>) {
        let response = match result {
            Ok(Response::JoinGroup(response)) => response,
            // An answer is decoded as what was asked for.
            Ok(_) => return self.join_at(now),
            Err(error) => return self.react_to_join(now, reaction::of_request(error), None),
        };
        let code = ErrorCode(response.error_code);
        if code.is_error() {
            let reaction = reaction::of_code(code, self.config.group_instance_id.as_ref());
            self.react_to_join(now, reaction, Some(&response.member_id));
            return;
        }
        self.failures = 0;
        self.member_id = Arc::from(response.member_id.as_str());
        self.generation = response.generation_id;
        self.clock.start(now, now);
        if let Err(error) = self.enter_generation(now, response) {
            self.fail(error);
        }
    }

    fn enter_generation(
        &mut self,
        now: Timestamp,
        response: JoinGroupResponse,
    ) -> Result<(), GroupError> {
        let inconsistent =
            GroupError::InconsistentProtocol { code: ErrorCode::INCONSISTENT_GROUP_PROTOCOL };
        // Null before version 7.
        if response.protocol_type.as_ref().is_some_and(|kind| kind.as_str() != PROTOCOL_TYPE) {
            return Err(inconsistent);
        }
        let name = response.protocol_name.as_ref().map(|name| name.as_str()).unwrap_or_default();
        let assignor = self.config.assignors.iter().find(|assignor| assignor.name() == name);
        let assignor: Assignor = *assignor.ok_or(inconsistent)?;
        self.assignor = Some(assignor);
        self.leading = None;
        if response.leader.as_str() != &*self.member_id {
            self.phase = Phase::Syncing { sending: Sending::At(now), assignments: Vec::new() };
            return Ok(());
        }
        let mut members = Vec::with_capacity(response.members.len());
        for member in response.members {
            let member_id: Arc<str> = Arc::from(member.member_id.as_str());
            let instance_id = member.group_instance_id.as_ref().map(|id| Arc::from(id.as_str()));
            let subscription = assignor
                .member(Arc::clone(&member_id), instance_id, member.metadata)
                .map_err(|source| GroupError::MalformedSubscription { member_id, source })?;
            members.push(subscription);
        }
        let topics = members.iter().flat_map(|member| &member.topics).cloned().collect();
        self.leading = Some(Leading { topics, counts: None });
        self.phase = if response.skip_assignment {
            // KIP-814: a static leader came back; everyone keeps what they have.
            Phase::Syncing { sending: Sending::At(now), assignments: Vec::new() }
        } else {
            Phase::Assigning(members)
        };
        Ok(())
    }

    fn react_to_join(
        &mut self,
        now: Timestamp,
        reaction: Reaction,
        member_id: Option<&crate::messages::StrBytes>,
    ) {
        match reaction {
            Reaction::Retry | Reaction::Rejoin => self.join_after_backoff(now),
            Reaction::RetryForAWhile(_) if self.failures < PATIENCE => self.join_after_backoff(now),
            Reaction::RetryForAWhile(error) | Reaction::Fail(error) => self.fail(error),
            Reaction::TakeMemberId => {
                if let Some(id) = member_id.filter(|id| !id.is_empty()) {
                    self.member_id = Arc::from(id.as_str());
                    self.join_at(now);
                } else {
                    self.join_after_backoff(now);
                }
            }
            Reaction::ResetGeneration => self.start_over(now, false),
            Reaction::ResetMember => self.start_over(now, true),
        }
    }

    /// The group went on without us: what we own is another's.
    pub(super) fn start_over(&mut self, now: Timestamp, as_new_member: bool) {
        self.generation = -1;
        if as_new_member {
            self.member_id = Arc::from("");
        }
        self.lose();
        self.join_at(now);
    }

    pub(super) fn join_after_backoff(&mut self, now: Timestamp) {
        self.failures = self.failures.saturating_add(1);
        let delay = self.config.retry_backoff.delay(self.failures, &mut self.jitter);
        self.join_at(now.after(delay));
    }
}

fn milliseconds(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}

/// Consumers among the kinds of group members.
pub(super) const PROTOCOL_TYPE: &str = "consumer";

/// What Java allows a JoinGroup beyond the rebalance timeout.
const REBALANCE_GRACE: Duration = Duration::from_secs(5);
