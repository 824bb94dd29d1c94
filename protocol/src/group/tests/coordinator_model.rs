//! A group coordinator of the classic protocol, as small as it can be and still refuse what Kafka's refuses.

use super::super::assignor::Assignor;
use super::super::consumer_protocol::Assignment;
use super::*;
use crate::messages::StrBytes;
use crate::messages::kp::join_group_response::JoinGroupResponseMember;
use crate::messages::kp::{
    HeartbeatResponse, JoinGroupRequest, JoinGroupResponse, LeaveGroupResponse, SyncGroupRequest,
    SyncGroupResponse,
};

/// Who waits for an answer: the machine and its token.
pub(super) type Asker = (usize, RequestToken);

#[derive(Debug, PartialEq, Eq)]
enum State {
    Empty,
    /// Waits for members to join until then.
    Preparing(Timestamp),
    /// Waits for the leader's assignment.
    Completing,
    Stable,
}

#[derive(Debug)]
struct Member {
    join: JoinGroupRequest,
    joining: Option<Asker>,
    syncing: Option<Asker>,
    heard_at: Timestamp,
    assignment: bytes::Bytes,
}

/// The coordinator. With `double_assign` the leader's word is replaced by an assignment that does not wait until partitions
/// are free: the mutant that the model must notice.
#[derive(Debug)]
pub(super) struct Coordinator {
    state: State,
    generation: i32,
    members: BTreeMap<String, Member>,
    leader: String,
    next_id: u32,
    assignor: Assignor,
    double_assign: bool,
    session: Duration,
    rebalance: Duration,
    answers: Vec<(Asker, Response)>,
}

impl Coordinator {
    pub(super) fn new(assignor: Assignor, config: &GroupConfig, double_assign: bool) -> Self {
        Self {
            state: State::Empty,
            generation: 0,
            members: BTreeMap::new(),
            leader: String::new(),
            next_id: 0,
            assignor,
            double_assign,
            session: config.session_timeout,
            rebalance: config.max_poll_interval,
            answers: Vec::new(),
        }
    }

    pub(super) fn take_answers(&mut self) -> Vec<(Asker, Response)> {
        std::mem::take(&mut self.answers)
    }

    pub(super) fn request(&mut self, now: Timestamp, asker: Asker, request: Request) {
        match request {
            Request::JoinGroup(join) => self.join(now, asker, join),
            Request::SyncGroup(sync) => self.sync(now, asker, sync),
            Request::Heartbeat(beat) => {
                let code = self.check(beat.member_id.as_str(), beat.generation_id);
                if let Some(member) = self.members.get_mut(beat.member_id.as_str()) {
                    member.heard_at = now;
                }
                let preparing = matches!(self.state, State::Preparing(_));
                let code = match code {
                    ErrorCode::NONE if preparing => ErrorCode::REBALANCE_IN_PROGRESS,
                    code => code,
                };
                let response = HeartbeatResponse::default().with_error_code(code.0);
                self.answers.push((asker, response.into()));
            }
            Request::LeaveGroup(leave) => {
                self.remove(now, leave.member_id.as_str());
                self.answers.push((asker, LeaveGroupResponse::default().into()));
            }
            other => panic!("{other:?}"),
        }
    }

    /// Sessions and rebalances whose time is up.
    pub(super) fn pass(&mut self, now: Timestamp) {
        let silent: Vec<String> = self
            .members
            .iter()
            .filter(|(_, member)| member.joining.is_none() && member.syncing.is_none())
            .filter(|(_, member)| member.heard_at.after(self.session) <= now)
            .map(|(id, _)| id.clone())
            .collect();
        for id in silent {
            self.remove(now, &id);
        }
        if let State::Preparing(deadline) = self.state
            && deadline <= now
        {
            self.members.retain(|_, member| member.joining.is_some());
            self.complete_join(now);
        }
    }

    fn check(&self, member_id: &str, generation: i32) -> ErrorCode {
        if !self.members.contains_key(member_id) {
            ErrorCode::UNKNOWN_MEMBER_ID
        } else if generation != self.generation {
            ErrorCode::ILLEGAL_GENERATION
        } else {
            ErrorCode::NONE
        }
    }

    fn join(&mut self, now: Timestamp, asker: Asker, join: JoinGroupRequest) {
        let mut id = join.member_id.as_str().to_owned();
        let refuse = |code: ErrorCode, id: &str| {
            let id = StrBytes::from_string(id.to_owned());
            JoinGroupResponse::default().with_error_code(code.0).with_member_id(id)
        };
        if id.is_empty() {
            self.next_id += 1;
            id = format!("m{}", self.next_id);
            let response = refuse(ErrorCode::MEMBER_ID_REQUIRED, &id);
            self.answers.push((asker, response.into()));
            return;
        }
        let number: u32 = id.trim_start_matches('m').parse().unwrap();
        let pending =
            number <= self.next_id && !self.members.contains_key(&id) && join_is_first(&join);
        if !pending && !self.members.contains_key(&id) {
            self.answers.push((asker, refuse(ErrorCode::UNKNOWN_MEMBER_ID, "").into()));
            return;
        }
        let member = Member {
            join,
            joining: Some(asker),
            syncing: None,
            heard_at: now,
            assignment: bytes::Bytes::new(),
        };
        if let Some(before) = self.members.insert(id, member) {
            self.abandon(before);
        }
        if !matches!(self.state, State::Preparing(_)) {
            self.prepare(now);
        }
        self.complete_if_all_joined(now);
    }

    /// A member asks anew: whatever it asked before gets no useful answer.
    fn abandon(&mut self, before: Member) {
        let code = ErrorCode::REBALANCE_IN_PROGRESS.0;
        if let Some(asker) = before.syncing {
            self.answers.push((asker, SyncGroupResponse::default().with_error_code(code).into()));
        }
    }

    fn prepare(&mut self, now: Timestamp) {
        self.state = State::Preparing(now.after(self.rebalance));
        let code = ErrorCode::REBALANCE_IN_PROGRESS.0;
        for member in self.members.values_mut() {
            if let Some(asker) = member.syncing.take() {
                member.heard_at = now;
                self.answers
                    .push((asker, SyncGroupResponse::default().with_error_code(code).into()));
            }
        }
    }

    fn complete_if_all_joined(&mut self, now: Timestamp) {
        let preparing = matches!(self.state, State::Preparing(_));
        if preparing && self.members.values().all(|member| member.joining.is_some()) {
            self.complete_join(now);
        }
    }

    fn complete_join(&mut self, now: Timestamp) {
        self.generation += 1;
        if self.members.is_empty() {
            self.state = State::Empty;
            return;
        }
        self.state = State::Completing;
        if !self.members.contains_key(&self.leader) {
            self.leader = self.members.keys().next().cloned().unwrap_or_default();
        }
        let text = |text: &str| StrBytes::from_string(text.to_owned());
        let all: Vec<_> = self
            .members
            .iter()
            .map(|(id, member)| {
                JoinGroupResponseMember::default()
                    .with_member_id(text(id))
                    .with_metadata(member.join.protocols[0].metadata.clone())
            })
            .collect();
        for (id, member) in &mut self.members {
            member.heard_at = now;
            let Some(asker) = member.joining.take() else { continue };
            let response = JoinGroupResponse::default()
                .with_generation_id(self.generation)
                .with_protocol_type(Some(text("consumer")))
                .with_protocol_name(Some(text(self.assignor.name())))
                .with_leader(text(&self.leader))
                .with_member_id(text(id))
                .with_members(if *id == self.leader { all.clone() } else { Vec::new() });
            self.answers.push((asker, response.into()));
        }
    }

    fn sync(&mut self, now: Timestamp, asker: Asker, sync: SyncGroupRequest) {
        let id = sync.member_id.as_str().to_owned();
        let mut code = self.check(&id, sync.generation_id);
        if code == ErrorCode::NONE && matches!(self.state, State::Preparing(_)) {
            code = ErrorCode::REBALANCE_IN_PROGRESS;
        }
        if code.is_error() {
            let response = SyncGroupResponse::default().with_error_code(code.0);
            self.answers.push((asker, response.into()));
            return;
        }
        if let Some(member) = self.members.get_mut(&id) {
            member.heard_at = now;
            member.syncing = Some(asker);
        }
        if self.state == State::Completing && id == self.leader {
            for assignment in sync.assignments {
                if let Some(member) = self.members.get_mut(assignment.member_id.as_str()) {
                    member.assignment = assignment.assignment;
                }
            }
            if self.double_assign {
                self.assign_at_once();
            }
            self.state = State::Stable;
        }
        if self.state == State::Stable {
            for member in self.members.values_mut() {
                if let Some(asker) = member.syncing.take() {
                    member.heard_at = now;
                    let assignment = member.assignment.clone();
                    let response = SyncGroupResponse::default().with_assignment(assignment);
                    self.answers.push((asker, response.into()));
                }
            }
        }
    }

    fn assign_at_once(&mut self) {
        let subscriptions = self.members.iter().map(|(id, member)| {
            let metadata = member.join.protocols[0].metadata.clone();
            self.assignor.member(Arc::from(id.as_str()), None, metadata).unwrap()
        });
        let subscriptions: Vec<_> = subscriptions.collect();
        let counts = BTreeMap::from([(Arc::from("t"), PARTITIONS)]);
        for (id, partitions) in Assignor::Sticky.assign(&counts, &subscriptions) {
            let partitions = partitions.into_iter().collect();
            let assignment = Assignment { partitions, user_data: None }.encode().unwrap();
            if let Some(member) = self.members.get_mut(&*id) {
                member.assignment = assignment;
            }
        }
    }

    fn remove(&mut self, now: Timestamp, id: &str) {
        if self.members.remove(id).is_none() {
            return;
        }
        if !matches!(self.state, State::Preparing(_)) {
            self.prepare(now);
        }
        self.complete_if_all_joined(now);
    }
}

/// Kafka keeps the ids it has given out for a while; here a member that never was in a generation counts as such.
fn join_is_first(join: &JoinGroupRequest) -> bool {
    let subscription =
        super::super::consumer_protocol::Subscription::decode(join.protocols[0].metadata.clone());
    subscription.is_ok_and(|subscription| subscription.generation_id < 0)
}

pub(super) const PARTITIONS: i32 = 7;
