//! Heartbeat and LeaveGroup: the member lives, or goes.

use super::reaction::{self, PATIENCE, Reaction};
use super::{ClassicMember, Phase, text};
use crate::group::GroupEvent;
use crate::messages::kp::{HeartbeatRequest, LeaveGroupRequest};
use crate::network::{OutgoingRequest, RequestError};
use crate::{ErrorCode, Request, Response, Timestamp};

impl ClassicMember {
    pub(super) fn heartbeat_request(&mut self, now: Timestamp) -> OutgoingRequest {
        let request = HeartbeatRequest::default()
            .with_group_id(self.group_id())
            .with_generation_id(self.generation)
            .with_member_id(text(&self.member_id))
            .with_group_instance_id(self.instance_id());
        // A later answer would say nothing about this session any more.
        let timeout = self.config.request_timeout.min(self.config.session_timeout);
        let outgoing = self.outgoing(Request::Heartbeat(request), timeout);
        self.clock.sent(now, outgoing.token);
        outgoing
    }

    /// `sent_at`: when the request went out, from which the coordinator counts the session at the earliest.
    pub(super) fn handle_heartbeat(
        &mut self,
        now: Timestamp,
        sent_at: Timestamp,
        result: Result<Response, RequestError>,
    ) {
        let reaction = match result {
            Ok(Response::Heartbeat(response)) => match ErrorCode(response.error_code) {
                ErrorCode::NONE => return self.clock.succeeded(now, sent_at),
                code => reaction::of_code(code, self.config.group_instance_id.as_ref()),
            },
            Ok(_) => Reaction::Retry,
            Err(error) => reaction::of_request(error),
        };
        match reaction {
            Reaction::Rejoin => {
                // The coordinator counts it as a sign of life, and waits for us.
                self.clock.succeeded(now, sent_at);
                if matches!(self.phase, Phase::Stable) {
                    self.request_rejoin(now);
                }
            }
            Reaction::ResetGeneration => self.start_over(now, false),
            Reaction::ResetMember => self.start_over(now, true),
            Reaction::RetryForAWhile(error) if self.clock.failures() >= PATIENCE => {
                self.fail(error);
            }
            Reaction::Fail(error) => self.fail(error),
            Reaction::Retry | Reaction::RetryForAWhile(_) | Reaction::TakeMemberId => {
                self.clock.failed(now, self.config.retry_backoff, &mut self.jitter);
            }
        }
    }

    /// A coordinator that has moved or died has not heard it, and the others would wait for the session to end.
    pub(super) fn handle_leave(&mut self, now: Timestamp, result: Result<Response, RequestError>) {
        let Some(leave) = &mut self.leave else { return };
        let reaction = match result {
            Ok(Response::LeaveGroup(response)) => reaction::of_code(
                ErrorCode(response.error_code),
                self.config.group_instance_id.as_ref(),
            ),
            Ok(_) => Reaction::Retry,
            Err(error) => reaction::of_request(error),
        };
        let unheard = matches!(reaction, Reaction::Retry);
        if unheard && leave.until.is_some_and(|until| now < until) {
            leave.sent = None;
            leave.failures = leave.failures.saturating_add(1);
            let delay = self.config.retry_backoff.delay(leave.failures, &mut self.jitter);
            leave.at = now.after(delay);
            return;
        }
        if self.leave.take().is_some_and(|leave| leave.last) {
            self.events.push_back(GroupEvent::Left);
        }
    }

    pub(super) fn leave_request(&mut self, now: Timestamp) -> Option<OutgoingRequest> {
        let member_id = text(&self.leave.as_ref()?.member_id);
        let request =
            LeaveGroupRequest::default().with_group_id(self.group_id()).with_member_id(member_id);
        let timeout = self.config.request_timeout;
        let mut outgoing = self.outgoing(Request::LeaveGroup(request), timeout);
        // Later versions name members in a list, which only static ones need.
        outgoing.max_version = Some(2);
        if let Some(leave) = &mut self.leave {
            leave.sent = Some(outgoing.token);
            leave.until.get_or_insert(now.after(self.config.session_timeout));
        }
        Some(outgoing)
    }
}
