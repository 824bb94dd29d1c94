//! The member of the classic protocol: joins, is given partitions by whichever member leads, and says that it lives.
//!
//! ```text
//! Idle ─subscribe→ (Revoking) → Joining → [leader: Assigning] → Syncing → Stable ─rebalance→ (Revoking) → Joining …
//! ```
//!
//! With eager assignors everything owned is revoked before joining; with cooperative ones (KIP-429) only what the new
//! assignment does not have, and then the member joins once more. Beside Java's rules there is one of our own: a member
//! that has not been heard for `session.timeout.ms` declares its partitions lost by itself, because from then on the
//! coordinator may give them to another.

mod heartbeat;
mod join;
mod reaction;
mod sync;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::assignor::{Assignor, MemberSubscription, PartitionCounts, RebalanceProtocol};
use super::heartbeat_clock::HeartbeatClock;
use super::poll_clock::PollClock;
use super::{GroupConfig, GroupError, GroupEvent, MemberIdentity, TopicInfo};
use crate::backoff::Jitter;
use crate::messages::StrBytes;
use crate::messages::kp::GroupId;
use crate::messages::kp::sync_group_request::SyncGroupRequestAssignment;
use crate::network::{ConnectionClass, Destination, OutgoingRequest, RequestError, RequestToken};
use crate::{Request, Response, Timestamp, TopicPartition};

#[derive(Debug)]
pub(super) struct ClassicMember {
    config: GroupConfig,
    protocol: RebalanceProtocol,
    jitter: Jitter,
    subscription: BTreeSet<Arc<str>>,
    /// What the last JoinGroup named.
    joined_subscription: BTreeSet<Arc<str>>,
    /// Empty before the coordinator gave one.
    member_id: Arc<str>,
    /// -1 outside a generation.
    generation: i32,
    /// What the generation's members have agreed on.
    assignor: Option<Assignor>,
    phase: Phase,
    owned: BTreeSet<TopicPartition>,
    /// The last assignment and its generation, for the sticky assignors.
    last_assignment: (BTreeSet<TopicPartition>, i32),
    revoking: Option<Revoking>,
    /// Join again as soon as nothing is being revoked.
    rejoin: bool,
    leading: Option<Leading>,
    clock: HeartbeatClock,
    poll: PollClock,
    /// Failures in a row of JoinGroup and SyncGroup.
    failures: u32,
    next_token: u64,
    leave: Option<Leave>,
    events: VecDeque<GroupEvent>,
}

#[derive(Debug)]
enum Phase {
    /// No member, and not about to be one.
    Idle,
    /// Waits for the acknowledgement of a revocation, then joins.
    Revoking,
    Joining(Sending),
    /// The leader waits for the partition counts of the group's topics.
    Assigning(Vec<MemberSubscription>),
    Syncing {
        sending: Sending,
        assignments: Vec<SyncGroupRequestAssignment>,
    },
    Stable,
    Failed,
    Left,
}

/// A request that is to be sent, or has been.
#[derive(Clone, Copy, Debug)]
enum Sending {
    At(Timestamp),
    Sent(RequestToken),
}

/// What is revoked, and what follows its acknowledgement.
#[derive(Debug)]
struct Revoking {
    partitions: BTreeSet<TopicPartition>,
    next: AfterRevocation,
}

#[derive(Debug)]
enum AfterRevocation {
    Join,
    /// Cooperative: tell the leader that they are free.
    Rejoin,
    Leave,
}

/// What the leader watches.
#[derive(Debug)]
struct Leading {
    topics: BTreeSet<Arc<str>>,
    /// What the assignment was computed from; `None` if the broker kept the one before (KIP-814).
    counts: Option<PartitionCounts>,
}

/// A LeaveGroup to be sent, or on its way.
#[derive(Debug)]
struct Leave {
    member_id: Arc<str>,
    sent: Option<RequestToken>,
    /// The member ends with it.
    last: bool,
    /// When to send it: at once, and again where no coordinator has heard it.
    at: Timestamp,
    failures: u32,
    /// From here on the group has forgotten the member by itself.
    until: Option<Timestamp>,
}

impl ClassicMember {
    pub(super) fn new(config: GroupConfig, seed: u64) -> Self {
        let cooperative = config
            .assignors
            .iter()
            .all(|assignor| assignor.rebalance_protocol() == RebalanceProtocol::Cooperative);
        Self {
            protocol: if cooperative {
                RebalanceProtocol::Cooperative
            } else {
                RebalanceProtocol::Eager
            },
            jitter: Jitter::new(seed),
            subscription: BTreeSet::new(),
            joined_subscription: BTreeSet::new(),
            member_id: Arc::from(""),
            generation: -1,
            assignor: None,
            phase: Phase::Idle,
            owned: BTreeSet::new(),
            last_assignment: (BTreeSet::new(), -1),
            revoking: None,
            rejoin: false,
            leading: None,
            clock: HeartbeatClock::new(config.heartbeat_interval),
            poll: PollClock::new(config.max_poll_interval),
            failures: 0,
            next_token: 0,
            leave: None,
            events: VecDeque::new(),
            config,
        }
    }

    pub(super) fn subscribe(&mut self, now: Timestamp, topics: BTreeSet<Arc<str>>) {
        if self.has_ended() || topics == self.subscription {
            return;
        }
        self.subscription = topics;
        match self.phase {
            Phase::Idle if !self.poll.is_expired() => self.prepare_join(now),
            // Elsewhere the difference to what was joined with is seen when the rebalance under way ends.
            Phase::Stable => self.request_rejoin(now),
            _ => {}
        }
    }

    pub(super) fn handle_poll(&mut self, now: Timestamp) {
        if self.poll.poll() && matches!(self.phase, Phase::Idle) {
            self.prepare_join(now);
        }
    }

    pub(super) fn handle_busy(&mut self, now: Timestamp) {
        self.poll.busy(now);
    }

    pub(super) fn awaits_poll(&self) -> bool {
        self.poll.is_expired()
    }

    pub(super) fn acknowledge_revoked(&mut self, now: Timestamp) {
        let Some(revoking) = self.revoking.take() else { return };
        self.owned.retain(|tp| !revoking.partitions.contains(tp));
        match revoking.next {
            AfterRevocation::Join => self.join_at(now),
            AfterRevocation::Rejoin => self.request_rejoin(now),
            AfterRevocation::Leave => {
                self.leave_group(false);
                self.become_idle();
            }
        }
    }

    pub(super) fn awaits_acknowledgement(&self) -> bool {
        self.revoking.is_some()
    }

    pub(super) fn leave(&mut self, _now: Timestamp) {
        if matches!(self.phase, Phase::Left) {
            return;
        }
        self.owned.clear();
        self.revoking = None;
        self.clock.stop();
        self.phase = Phase::Left;
        if !self.leave_group(true) {
            self.events.push_back(GroupEvent::Left);
        }
    }

    pub(super) fn topics(&self) -> BTreeSet<Arc<str>> {
        let led = self.leading.iter().flat_map(|leading| &leading.topics);
        self.subscription.iter().chain(led).cloned().collect()
    }

    pub(super) fn awaits_topics(&self) -> bool {
        matches!(self.phase, Phase::Assigning(_))
    }

    pub(super) fn handle_topics(&mut self, now: Timestamp, topics: BTreeMap<Arc<str>, TopicInfo>) {
        let Some(leading) = &mut self.leading else { return };
        let counts: PartitionCounts = topics
            .into_iter()
            .filter(|(topic, _)| leading.topics.contains(topic))
            .map(|(topic, info)| (topic, info.partitions))
            .collect();
        let before = leading.counts.replace(counts);
        let changed = before.is_some() && before != leading.counts;
        match self.phase {
            Phase::Assigning(_) => self.assign(now),
            Phase::Stable if changed => self.request_rejoin(now),
            // Seen too late for the assignment that is on its way: it is done again.
            Phase::Syncing { .. } if changed => self.rejoin = true,
            _ => {}
        }
    }

    pub(super) fn handle_response(
        &mut self,
        now: Timestamp,
        token: RequestToken,
        result: Result<Response, RequestError>,
    ) {
        if self.leave.as_ref().is_some_and(|leave| leave.sent == Some(token)) {
            self.handle_leave(now, result);
            return;
        }
        if let Some(sent_at) = self.clock.answered(token) {
            self.handle_heartbeat(now, sent_at, result);
            return;
        }
        match &self.phase {
            Phase::Joining(Sending::Sent(sent)) if *sent == token => self.handle_join(now, result),
            Phase::Syncing { sending: Sending::Sent(sent), .. } if *sent == token => {
                self.handle_sync(now, result);
            }
            // An answer that nobody waits for any more.
            _ => {}
        }
    }

    pub(super) fn poll_request(&mut self, now: Timestamp) -> Option<OutgoingRequest> {
        if self.leave.as_ref().is_some_and(|leave| leave.sent.is_none() && leave.at <= now) {
            return self.leave_request(now);
        }
        match &self.phase {
            Phase::Joining(Sending::At(at)) if *at <= now => self.join_request(now),
            Phase::Syncing { sending: Sending::At(at), .. } if *at <= now => self.sync_request(),
            Phase::Revoking | Phase::Assigning(_) | Phase::Stable if self.clock.is_due(now) => {
                Some(self.heartbeat_request(now))
            }
            _ => None,
        }
    }

    pub(super) fn poll_event(&mut self) -> Option<GroupEvent> {
        self.events.pop_front()
    }

    pub(super) fn poll_timeout(&self) -> Option<Timestamp> {
        let leave = self.leave.as_ref().filter(|leave| leave.sent.is_none());
        let leave = leave.map(|leave| leave.at);
        if self.has_ended() {
            return leave;
        }
        let phase = match &self.phase {
            Phase::Joining(Sending::At(at)) | Phase::Syncing { sending: Sending::At(at), .. } => {
                Some(*at)
            }
            Phase::Revoking | Phase::Assigning(_) | Phase::Stable => self.clock.due_at(),
            _ => None,
        };
        let poll = if matches!(self.phase, Phase::Idle) { None } else { self.poll.deadline() };
        [leave, phase, poll, self.session_deadline()].into_iter().flatten().min()
    }

    pub(super) fn handle_timeout(&mut self, now: Timestamp) {
        if self.has_ended() {
            return;
        }
        if !matches!(self.phase, Phase::Idle) && self.poll.expire(now) {
            self.lose();
            self.leave_group(false);
            self.become_idle();
        } else if self.session_deadline().is_some_and(|deadline| deadline <= now) {
            self.lose();
            let asked = matches!(
                self.phase,
                Phase::Joining(Sending::Sent(_)) | Phase::Syncing { sending: Sending::Sent(_), .. }
            );
            if !asked {
                // The id stays: a coordinator that was away itself still knows it.
                self.start_over(now, false);
            }
        }
    }

    pub(super) fn identity(&self) -> MemberIdentity {
        MemberIdentity {
            member_id: Arc::clone(&self.member_id),
            generation_or_epoch: self.generation,
            group_instance_id: self.config.group_instance_id.clone(),
        }
    }

    pub(super) fn owned(&self) -> &BTreeSet<TopicPartition> {
        &self.owned
    }

    pub(super) fn suspect(&mut self, now: Timestamp) {
        if matches!(self.phase, Phase::Stable | Phase::Revoking) {
            self.clock.hurry(now);
        }
    }

    fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Failed | Phase::Left)
    }

    /// When what is owned is lost unless the coordinator answers. While it works on a JoinGroup or SyncGroup it does not
    /// count the session's time; whether the request has reached it we do not know, so that time is bounded too.
    fn session_deadline(&self) -> Option<Timestamp> {
        let more = match &self.phase {
            Phase::Joining(Sending::Sent(_)) | Phase::Syncing { sending: Sending::Sent(_), .. } => {
                self.config.max_poll_interval
            }
            Phase::Idle | Phase::Failed | Phase::Left => return None,
            _ => Duration::ZERO,
        };
        let deadline = self.clock.heard_at().after(self.config.session_timeout + more);
        (!self.owned.is_empty()).then_some(deadline)
    }

    fn request_rejoin(&mut self, now: Timestamp) {
        self.rejoin = true;
        if matches!(self.phase, Phase::Stable) && self.revoking.is_none() {
            self.prepare_join(now);
        }
    }

    /// Takes back what may not be kept over the rebalance, and joins.
    fn prepare_join(&mut self, now: Timestamp) {
        self.rejoin = false;
        if self.subscription.is_empty() && matches!(self.phase, Phase::Idle) {
            return;
        }
        let leaves = self.subscription.is_empty();
        let keeps = |tp: &TopicPartition| {
            self.protocol == RebalanceProtocol::Cooperative && self.subscription.contains(&tp.topic)
        };
        let partitions: BTreeSet<_> = self.owned.iter().filter(|tp| !keeps(tp)).cloned().collect();
        let next = if leaves { AfterRevocation::Leave } else { AfterRevocation::Join };
        self.phase = Phase::Revoking;
        let asks = !partitions.is_empty();
        if asks {
            self.events.push_back(GroupEvent::Revoked(partitions.clone()));
        }
        self.revoking = Some(Revoking { partitions, next });
        if !asks {
            self.acknowledge_revoked(now);
        }
    }

    fn join_at(&mut self, at: Timestamp) {
        self.rejoin = false;
        self.phase = Phase::Joining(Sending::At(at));
    }

    /// The partitions are not ours any more, whatever the user does.
    fn lose(&mut self) {
        self.revoking = None;
        if !self.owned.is_empty() {
            self.events.push_back(GroupEvent::Lost(std::mem::take(&mut self.owned)));
        }
    }

    fn become_idle(&mut self) {
        self.phase = Phase::Idle;
        self.clock.stop();
        self.leading = None;
        self.rejoin = false;
        self.failures = 0;
        self.generation = -1;
        if self.config.group_instance_id.is_none() {
            self.member_id = Arc::from("");
        }
    }

    /// Queues a LeaveGroup, if there is something to leave. A static member keeps its place until its session ends.
    fn leave_group(&mut self, last: bool) -> bool {
        let leaves = !self.member_id.is_empty() && self.config.group_instance_id.is_none();
        if leaves {
            let member_id = Arc::clone(&self.member_id);
            let (at, failures, until) = (Timestamp::ZERO, 0, None);
            self.leave = Some(Leave { member_id, sent: None, last, at, failures, until });
        }
        leaves
    }

    fn fail(&mut self, error: GroupError) {
        self.lose();
        self.clock.stop();
        self.phase = Phase::Failed;
        self.events.push_back(GroupEvent::Failed(error));
    }

    fn outgoing(&mut self, request: Request, timeout: Duration) -> OutgoingRequest {
        let token = RequestToken(self.next_token);
        self.next_token += 1;
        OutgoingRequest {
            destination: Destination::GroupCoordinator(Arc::clone(&self.config.group_id)),
            class: ConnectionClass::Control,
            request,
            token,
            max_version: None,
            timeout,
        }
    }

    fn group_id(&self) -> GroupId {
        GroupId(text(&self.config.group_id))
    }

    fn instance_id(&self) -> Option<StrBytes> {
        self.config.group_instance_id.as_deref().map(text)
    }
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}
