//! The member of KIP-848: one request, ConsumerGroupHeartbeat, carries everything; the broker assigns.
//!
//! The broker tells a target. The member lets go of what the target does not have, says so, and takes what is new: the
//! broker names only partitions that nobody else owns, so no partition has two owners.

mod heartbeat;
mod reconcile;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::heartbeat_clock::HeartbeatClock;
use super::poll_clock::PollClock;
use super::{GroupConfig, GroupError, GroupEvent, MemberIdentity, TopicInfo};
use crate::backoff::Jitter;
use crate::network::{OutgoingRequest, RequestError, RequestToken};
use crate::{Response, Timestamp, TopicPartition};

#[derive(Debug)]
pub(super) struct ModernMember {
    config: GroupConfig,
    jitter: Jitter,
    member_id: Arc<str>,
    /// 0 while joining.
    epoch: i32,
    subscription: BTreeSet<Arc<str>>,
    phase: Phase,
    owned: BTreeSet<TopicPartition>,
    /// What the broker wants us to own, by topic id. `None` before it said.
    target: Option<Target>,
    topic_names: BTreeMap<TopicId, Arc<str>>,
    topic_ids: BTreeMap<Arc<str>, TopicId>,
    /// The target names a topic whose name we do not know.
    awaits_topics: bool,
    revoking: Option<BTreeSet<TopicPartition>>,
    /// What the broker knows of us. `None` if an answer is missing: then all is said again.
    told: Option<Told>,
    /// What the request under way says.
    telling: Option<Told>,
    /// Since when another holder of our instance id keeps us out.
    kept_out_since: Option<Timestamp>,
    clock: HeartbeatClock,
    poll: PollClock,
    next_token: u64,
    leave: Option<Leave>,
    events: VecDeque<GroupEvent>,
}

type TopicId = [u8; 16];
type Target = BTreeMap<TopicId, BTreeSet<i32>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    /// Joining, if the epoch is 0; else a member.
    Member,
    Failed,
    Left,
}

/// What a heartbeat told.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    subscription: BTreeSet<Arc<str>>,
    owned: BTreeSet<TopicPartition>,
}

/// A last heartbeat, to be sent or on its way.
#[derive(Debug)]
struct Leave {
    sent: Option<RequestToken>,
    /// The member ends with it.
    last: bool,
}

impl ModernMember {
    pub(super) fn new(config: GroupConfig, member_id: Arc<str>, seed: u64) -> Self {
        Self {
            jitter: Jitter::new(seed),
            member_id,
            epoch: 0,
            subscription: BTreeSet::new(),
            phase: Phase::Idle,
            owned: BTreeSet::new(),
            target: None,
            topic_names: BTreeMap::new(),
            topic_ids: BTreeMap::new(),
            awaits_topics: false,
            revoking: None,
            told: None,
            telling: None,
            kept_out_since: None,
            clock: HeartbeatClock::new(config.heartbeat_interval),
            poll: PollClock::new(config.max_poll_interval),
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
        if self.phase == Phase::Idle {
            if !self.poll.is_expired() {
                self.join(now);
            }
        } else if self.subscription.is_empty() {
            self.target = Some(Target::new());
            self.reconcile(now);
        } else {
            self.clock.hurry(now);
        }
    }

    pub(super) fn handle_poll(&mut self, now: Timestamp) {
        if self.poll.poll() && self.phase == Phase::Idle {
            self.join(now);
        }
    }

    pub(super) fn handle_busy(&mut self, now: Timestamp) {
        self.poll.busy(now);
    }

    pub(super) fn awaits_poll(&self) -> bool {
        self.poll.is_expired()
    }

    pub(super) fn acknowledge_revoked(&mut self, now: Timestamp) {
        let Some(revoked) = self.revoking.take() else { return };
        self.owned.retain(|tp| !revoked.contains(tp));
        self.reconcile(now);
    }

    pub(super) fn awaits_acknowledgement(&self) -> bool {
        self.revoking.is_some()
    }

    pub(super) fn leave(&mut self, _now: Timestamp) {
        if self.phase == Phase::Left {
            return;
        }
        self.owned.clear();
        self.revoking = None;
        self.clock.stop();
        let member = self.phase == Phase::Member;
        self.phase = Phase::Left;
        if member {
            self.leave = Some(Leave { sent: None, last: true });
        } else {
            self.events.push_back(GroupEvent::Left);
        }
    }

    pub(super) fn topics(&self) -> BTreeSet<Arc<str>> {
        self.subscription.clone()
    }

    pub(super) fn awaits_topics(&self) -> bool {
        self.awaits_topics && self.phase == Phase::Member
    }

    pub(super) fn handle_topics(&mut self, now: Timestamp, topics: BTreeMap<Arc<str>, TopicInfo>) {
        self.awaits_topics = false;
        for (name, info) in topics {
            self.topic_names.insert(info.topic_id, Arc::clone(&name));
            self.topic_ids.insert(name, info.topic_id);
        }
        if self.phase == Phase::Member {
            self.reconcile(now);
        }
    }

    pub(super) fn handle_response(
        &mut self,
        now: Timestamp,
        token: RequestToken,
        result: Result<Response, RequestError>,
    ) {
        if self.leave.as_ref().is_some_and(|leave| leave.sent == Some(token)) {
            // Whatever the answer: the coordinator forgets a silent member by itself.
            if self.leave.take().is_some_and(|leave| leave.last) {
                self.events.push_back(GroupEvent::Left);
            }
        } else if let Some(sent_at) = self.clock.answered(token) {
            self.handle_heartbeat(now, sent_at, result);
        }
    }

    pub(super) fn poll_request(&mut self, now: Timestamp) -> Option<OutgoingRequest> {
        if self.leave.as_ref().is_some_and(|leave| leave.sent.is_none()) {
            return Some(self.leave_request());
        }
        let due = self.phase == Phase::Member && self.clock.is_due(now);
        due.then(|| self.heartbeat_request(now))
    }

    pub(super) fn poll_event(&mut self) -> Option<GroupEvent> {
        self.events.pop_front()
    }

    pub(super) fn poll_timeout(&self) -> Option<Timestamp> {
        let leave = self.leave.as_ref().filter(|leave| leave.sent.is_none());
        let leave = leave.map(|_| Timestamp::ZERO);
        if self.phase != Phase::Member {
            return leave;
        }
        [leave, self.clock.due_at(), self.poll.deadline()].into_iter().flatten().min()
    }

    pub(super) fn handle_timeout(&mut self, now: Timestamp) {
        if self.phase == Phase::Member && self.poll.expire(now) {
            self.lose();
            self.leave = Some(Leave { sent: None, last: false });
            self.become_idle();
        }
    }

    pub(super) fn identity(&self) -> MemberIdentity {
        let member = self.phase == Phase::Member && self.epoch > 0;
        MemberIdentity {
            member_id: if member { Arc::clone(&self.member_id) } else { Arc::from("") },
            generation_or_epoch: if member { self.epoch } else { -1 },
            group_instance_id: self.config.group_instance_id.clone(),
        }
    }

    pub(super) fn owned(&self) -> &BTreeSet<TopicPartition> {
        &self.owned
    }

    pub(super) fn suspect(&mut self, now: Timestamp) {
        if self.phase == Phase::Member {
            self.clock.hurry(now);
        }
    }

    fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Failed | Phase::Left)
    }

    fn join(&mut self, now: Timestamp) {
        if self.subscription.is_empty() {
            return;
        }
        self.phase = Phase::Member;
        self.start_over(now);
    }

    /// As a member that the group does not know: everything anew.
    fn start_over(&mut self, now: Timestamp) {
        self.lose();
        self.epoch = 0;
        self.target = None;
        self.told = None;
        self.awaits_topics = false;
        self.clock.hurry(now);
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
        self.epoch = 0;
        self.target = None;
        self.told = None;
    }

    fn fail(&mut self, error: GroupError) {
        self.lose();
        self.clock.stop();
        self.phase = Phase::Failed;
        self.events.push_back(GroupEvent::Failed(error));
    }
}
