//! SyncGroup: the leader's assignment to all, and ours back.

use std::collections::BTreeSet;

use super::join::PROTOCOL_TYPE;
use super::reaction::{self, PATIENCE, Reaction};
use super::{AfterRevocation, ClassicMember, Phase, Revoking, Sending, text};
use crate::group::consumer_protocol::Assignment;
use crate::group::{GroupError, GroupEvent};
use crate::messages::kp::SyncGroupRequest;
use crate::messages::kp::sync_group_request::SyncGroupRequestAssignment;
use crate::network::{OutgoingRequest, RequestError};
use crate::{ErrorCode, Request, Response, Timestamp, TopicPartition};

impl ClassicMember {
    /// As leader: computes everybody's partitions.
    pub(super) fn assign(&mut self, now: Timestamp) {
        let (Phase::Assigning(members), Some(assignor)) = (&self.phase, self.assignor) else {
            return;
        };
        let Some(counts) = self.leading.as_ref().and_then(|leading| leading.counts.as_ref()) else {
            return;
        };
        let mut assignments = Vec::with_capacity(members.len());
        for (member_id, partitions) in assignor.assign(counts, members) {
            let partitions = partitions.into_iter().collect();
            match (Assignment { partitions, user_data: None }).encode() {
                Ok(assignment) => assignments.push(
                    SyncGroupRequestAssignment::default()
                        .with_member_id(text(&member_id))
                        .with_assignment(assignment),
                ),
                Err(error) => return self.fail(error.into()),
            }
        }
        self.phase = Phase::Syncing { sending: Sending::At(now), assignments };
    }

    pub(super) fn sync_request(&mut self) -> Option<OutgoingRequest> {
        let Phase::Syncing { assignments, .. } = &mut self.phase else { return None };
        let assignments = std::mem::take(assignments);
        let request = SyncGroupRequest::default()
            .with_group_id(self.group_id())
            .with_generation_id(self.generation)
            .with_member_id(text(&self.member_id))
            .with_group_instance_id(self.instance_id())
            // From version 5 on a broker refuses a request without them (KIP-559).
            .with_protocol_type(Some(text(PROTOCOL_TYPE)))
            .with_protocol_name(self.assignor.map(|assignor| text(assignor.name())))
            .with_assignments(assignments);
        let timeout = self.config.request_timeout;
        let outgoing = self.outgoing(Request::SyncGroup(request), timeout);
        let sending = Sending::Sent(outgoing.token);
        self.phase = Phase::Syncing { sending, assignments: Vec::new() };
        self.clock.stop();
        Some(outgoing)
    }

    pub(super) fn handle_sync(&mut self, now: Timestamp, result: Result<Response, RequestError>) {
        let response = match result {
            Ok(Response::SyncGroup(response)) => response,
            // An answer is decoded as what was asked for.
            Ok(_) => return self.join_at(now),
            Err(error) => return self.react_to_sync(now, reaction::of_request(error)),
        };
        let code = ErrorCode(response.error_code);
        if code.is_error() {
            let instance_id = self.config.group_instance_id.as_ref();
            return self.react_to_sync(now, reaction::of_code(code, instance_id));
        }
        // Null before version 5.
        if response.protocol_type.as_ref().is_some_and(|kind| kind.as_str() != PROTOCOL_TYPE) {
            let code = ErrorCode::INCONSISTENT_GROUP_PROTOCOL;
            return self.fail(GroupError::InconsistentProtocol { code });
        }
        match Assignment::decode(response.assignment) {
            Ok(assignment) => self.take_assignment(now, assignment.partitions),
            Err(error) => self.fail(GroupError::MalformedAssignment(error)),
        }
    }

    fn react_to_sync(&mut self, now: Timestamp, reaction: Reaction) {
        match reaction {
            // The generation may have gone on meanwhile, so it is joined again rather than asked again.
            Reaction::Retry | Reaction::TakeMemberId => self.join_after_backoff(now),
            Reaction::Rejoin => self.join_at(now),
            Reaction::RetryForAWhile(_) if self.failures < PATIENCE => self.join_after_backoff(now),
            Reaction::RetryForAWhile(error) | Reaction::Fail(error) => self.fail(error),
            Reaction::ResetGeneration => self.start_over(now, false),
            Reaction::ResetMember => self.start_over(now, true),
        }
    }

    fn take_assignment(&mut self, now: Timestamp, partitions: Vec<TopicPartition>) {
        self.failures = 0;
        self.phase = Phase::Stable;
        self.clock.start(now, now);
        let assigned: BTreeSet<_> = partitions.into_iter().collect();
        self.last_assignment = (assigned.clone(), self.generation);
        // A subscription that changed meanwhile is joined with at once; what it does not name is not begun first.
        let added: BTreeSet<_> = assigned
            .iter()
            .filter(|tp| !self.owned.contains(tp) && self.subscription.contains(&tp.topic))
            .cloned()
            .collect();
        let revoked: BTreeSet<_> = self.owned.difference(&assigned).cloned().collect();
        if !revoked.is_empty() {
            self.events.push_back(GroupEvent::Revoked(revoked.clone()));
            self.revoking = Some(Revoking { partitions: revoked, next: AfterRevocation::Rejoin });
        }
        if !added.is_empty() {
            self.owned.extend(added.iter().cloned());
            self.events.push_back(GroupEvent::Assigned(added));
        }
        if self.rejoin || self.subscription != self.joined_subscription {
            self.request_rejoin(now);
        }
    }
}
