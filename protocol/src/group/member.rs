//! The face of both protocols.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::classic::ClassicMember;
use super::modern::ModernMember;
use super::{GroupConfig, GroupEvent, MemberIdentity, TopicInfo};
use crate::network::{OutgoingRequest, RequestError, RequestToken};
use crate::{Response, Timestamp, TopicPartition};

/// A member of a consumer group. See the [module](super).
#[derive(Debug)]
pub struct GroupMember {
    protocol: Protocol,
}

#[derive(Debug)]
enum Protocol {
    Classic(Box<ClassicMember>),
    Modern(Box<ModernMember>),
}

macro_rules! either {
    ($self:ident, $member:ident => $call:expr) => {
        match &$self.protocol {
            Protocol::Classic($member) => $call,
            Protocol::Modern($member) => $call,
        }
    };
    (mut $self:ident, $member:ident => $call:expr) => {
        match &mut $self.protocol {
            Protocol::Classic($member) => $call,
            Protocol::Modern($member) => $call,
        }
    };
}

impl GroupMember {
    /// A member by the classic protocol (`group.protocol=classic`): members assign. Same `seed`, same calls, same requests.
    #[must_use]
    pub fn classic(config: GroupConfig, seed: u64) -> Self {
        Self { protocol: Protocol::Classic(Box::new(ClassicMember::new(config, seed))) }
    }

    /// A member by KIP-848 (`group.protocol=consumer`): the broker assigns. `member_id` is a random UUID in text form.
    #[must_use]
    pub fn modern(config: GroupConfig, member_id: Arc<str>, seed: u64) -> Self {
        Self { protocol: Protocol::Modern(Box::new(ModernMember::new(config, member_id, seed))) }
    }

    /// Sets the topics to be assigned from. The first call joins the group; none at all leaves it.
    pub fn subscribe(&mut self, now: Timestamp, topics: BTreeSet<Arc<str>>) {
        either!(mut self, member => member.subscribe(now, topics));
    }

    /// The user asks for more and waits: it is alive. After an expiry of `max.poll.interval.ms` it joins again.
    pub fn handle_poll(&mut self, now: Timestamp) {
        either!(mut self, member => member.handle_poll(now));
    }

    /// The user was given something: `max.poll.interval.ms` runs until the next [`handle_poll`](Self::handle_poll).
    pub fn handle_busy(&mut self, now: Timestamp) {
        either!(mut self, member => member.handle_busy(now));
    }

    /// True after `max.poll.interval.ms` has passed, until [`handle_poll`](Self::handle_poll): the member has left.
    #[must_use]
    pub fn awaits_poll(&self) -> bool {
        either!(self, member => member.awaits_poll())
    }

    /// The user has let go of what the last [`GroupEvent::Revoked`] named. Without one it does nothing.
    pub fn acknowledge_revoked(&mut self, now: Timestamp) {
        either!(mut self, member => member.acknowledge_revoked(now));
    }

    /// Whether a revocation awaits its acknowledgement.
    #[must_use]
    pub fn awaits_acknowledgement(&self) -> bool {
        either!(self, member => member.awaits_acknowledgement())
    }

    /// Leaves the group; a static member only stops. [`GroupEvent::Left`] follows. What was owned is lost without an event.
    pub fn leave(&mut self, now: Timestamp) {
        either!(mut self, member => member.leave(now));
    }

    /// Topics whose partitions the member must know: its own, and as leader those of all members.
    #[must_use]
    pub fn topics(&self) -> BTreeSet<Arc<str>> {
        either!(self, member => member.topics())
    }

    /// True while the member can not go on without fresh [`handle_topics`](Self::handle_topics).
    #[must_use]
    pub fn awaits_topics(&self) -> bool {
        either!(self, member => member.awaits_topics())
    }

    /// Tells of all [`topics`](Self::topics) as they are now; those that do not exist are absent.
    pub fn handle_topics(&mut self, now: Timestamp, topics: BTreeMap<Arc<str>, TopicInfo>) {
        either!(mut self, member => member.handle_topics(now, topics));
    }

    /// Takes the answer to the request of `token`, or why there is none. Unknown tokens are ignored.
    pub fn handle_response(
        &mut self,
        now: Timestamp,
        token: RequestToken,
        result: Result<Response, RequestError>,
    ) {
        either!(mut self, member => member.handle_response(now, token, result));
    }

    /// The next request to send at `now`, if any. Each is for the group's coordinator. While a JoinGroup or SyncGroup is
    /// unanswered the broker reads nothing else from its connection, so commits belong on another.
    pub fn poll_request(&mut self, now: Timestamp) -> Option<OutgoingRequest> {
        either!(mut self, member => member.poll_request(now))
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<GroupEvent> {
        either!(mut self, member => member.poll_event())
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) and [`poll_request`](Self::poll_request) again.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        either!(self, member => member.poll_timeout())
    }

    /// Lets time pass.
    pub fn handle_timeout(&mut self, now: Timestamp) {
        either!(mut self, member => member.handle_timeout(now));
    }

    /// As whom to commit.
    #[must_use]
    pub fn identity(&self) -> MemberIdentity {
        either!(self, member => member.identity())
    }

    /// What the member owns, revocations that are not acknowledged included.
    #[must_use]
    pub fn owned(&self) -> &BTreeSet<TopicPartition> {
        either!(self, member => member.owned())
    }

    /// A commit was refused because the coordinator does not know the member as it is: a heartbeat tells what happened.
    pub fn suspect(&mut self, now: Timestamp) {
        either!(mut self, member => member.suspect(now));
    }
}
