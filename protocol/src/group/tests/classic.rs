//! The classic member by scripted answers: every code of the error table, and the order of things.

use super::super::assignor::Assignor;
use super::super::consumer_protocol::{Assignment, Subscription};
use super::super::{GroupError, MemberIdentity};
use super::*;
use crate::messages::StrBytes;
use crate::messages::kp::join_group_response::JoinGroupResponseMember;
use crate::messages::kp::{
    HeartbeatResponse, JoinGroupRequest, JoinGroupResponse, LeaveGroupResponse, SyncGroupRequest,
    SyncGroupResponse,
};

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn classic(assignor: Assignor) -> Script {
    let config = GroupConfig { assignors: vec![assignor], ..config() };
    Script::new(GroupMember::classic(config, 7))
}

fn joined(generation: i32, assignor: Assignor) -> JoinGroupResponse {
    JoinGroupResponse::default()
        .with_generation_id(generation)
        .with_protocol_type(Some(text("consumer")))
        .with_protocol_name(Some(text(assignor.name())))
        .with_leader(text("another"))
        .with_member_id(text("m"))
}

fn synced(partitions: &[i32]) -> SyncGroupResponse {
    let assignment =
        Assignment { partitions: set(partitions).into_iter().collect(), user_data: None };
    SyncGroupResponse::default().with_assignment(assignment.encode().unwrap())
}

fn join_error(code: ErrorCode) -> JoinGroupResponse {
    JoinGroupResponse::default().with_error_code(code.0).with_member_id(text("given"))
}

impl Script {
    fn join_sent(&mut self) -> (RequestToken, JoinGroupRequest) {
        match self.sent() {
            (token, Request::JoinGroup(request)) => (token, request),
            (_, other) => panic!("not a JoinGroup: {other:?}"),
        }
    }

    fn sync_sent(&mut self) -> (RequestToken, SyncGroupRequest) {
        match self.sent() {
            (token, Request::SyncGroup(request)) => (token, request),
            (_, other) => panic!("not a SyncGroup: {other:?}"),
        }
    }

    /// Through JoinGroup and SyncGroup as a follower.
    fn rebalance(&mut self, generation: i32, assignor: Assignor, partitions: &[i32]) {
        let (token, _) = self.join_sent();
        self.answer(token, joined(generation, assignor));
        let (token, _) = self.sync_sent();
        self.answer(token, synced(partitions));
    }

    fn heartbeat(&mut self, code: ErrorCode) {
        self.pass(3 * SECOND);
        let (token, request) = self.sent();
        assert!(matches!(request, Request::Heartbeat(_)), "{request:?}");
        self.answer(token, HeartbeatResponse::default().with_error_code(code.0));
    }

    fn owning(assignor: Assignor, partitions: &[i32]) -> Self {
        let mut script = classic(assignor);
        script.subscribe();
        script.rebalance(1, assignor, partitions);
        assert_eq!(script.events(), [GroupEvent::Assigned(set(partitions))]);
        script
    }
}

#[test]
fn a_new_member_takes_the_id_it_is_given_and_joins_with_it() {
    let mut script = classic(Assignor::Range);
    script.subscribe();
    let (token, request) = script.join_sent();
    assert_eq!(request.member_id.as_str(), "");
    assert_eq!((request.session_timeout_ms, request.rebalance_timeout_ms), (45_000, 300_000));
    script.answer(token, join_error(ErrorCode::MEMBER_ID_REQUIRED));
    let (_, request) = script.join_sent();
    assert_eq!(request.member_id.as_str(), "given");
}

#[test]
fn the_leader_waits_for_partition_counts_and_assigns_to_all() {
    let mut script = classic(Assignor::Range);
    script.subscribe();
    let (token, _) = script.join_sent();
    let member = |id: &str, topic: &str| {
        let subscription = Subscription { topics: topics(&[topic]), ..Subscription::default() };
        JoinGroupResponseMember::default()
            .with_member_id(text(id))
            .with_metadata(subscription.encode().unwrap())
    };
    let response = joined(1, Assignor::Range).with_leader(text("m")).with_members(vec![
        member("m", "t"),
        member("n", "t"),
        member("o", "u"),
    ]);
    script.answer(token, response);
    script.nothing_to_send();
    assert!(script.member.awaits_topics());
    assert_eq!(script.member.topics(), topics(&["t", "u"]));
    script.member.handle_topics(script.now, known(3));
    let (token, request) = script.sync_sent();
    assert_eq!(request.protocol_name.as_ref().map(|name| name.as_str()), Some("range"));
    let given: Vec<_> = request
        .assignments
        .iter()
        .map(|a| {
            let partitions = Assignment::decode(a.assignment.clone()).unwrap().partitions;
            (a.member_id.as_str(), partitions.into_iter().collect())
        })
        .collect();
    assert_eq!(given, [("m", set(&[0, 1])), ("n", set(&[2])), ("o", set(&[]))]);
    script.answer(token, synced(&[0, 1]));
    assert_eq!(script.events(), [GroupEvent::Assigned(set(&[0, 1]))]);
    // The topic grows: the leader calls for a rebalance.
    script.member.handle_topics(script.now, known(3));
    script.nothing_to_send();
    script.member.handle_topics(script.now, known(4));
    assert_eq!(script.events(), [GroupEvent::Revoked(set(&[0, 1]))]);
}

#[test]
fn an_eager_member_gives_up_everything_before_it_joins_again() {
    let mut script = Script::owning(Assignor::Range, &[0, 1]);
    script.heartbeat(ErrorCode::REBALANCE_IN_PROGRESS);
    assert_eq!(script.events(), [GroupEvent::Revoked(set(&[0, 1]))]);
    // It lives while the user lets go.
    script.heartbeat(ErrorCode::REBALANCE_IN_PROGRESS);
    script.nothing_to_send();
    script.member.acknowledge_revoked(script.now);
    assert!(script.member.owned().is_empty());
    script.rebalance(2, Assignor::Range, &[1]);
    assert_eq!(script.events(), [GroupEvent::Assigned(set(&[1]))]);
}

#[test]
fn a_cooperative_member_keeps_what_it_keeps_and_joins_once_more() {
    let mut script = Script::owning(Assignor::CooperativeSticky, &[0, 1, 2]);
    script.heartbeat(ErrorCode::REBALANCE_IN_PROGRESS);
    assert_eq!(script.events(), []);
    let (token, request) = script.join_sent();
    let told = Subscription::decode(request.protocols[0].metadata.clone()).unwrap();
    assert_eq!(told.owned_partitions, set(&[0, 1, 2]).into_iter().collect::<Vec<_>>());
    assert_eq!(told.generation_id, 1);
    script.answer(token, joined(2, Assignor::CooperativeSticky));
    let (token, _) = script.sync_sent();
    script.answer(token, synced(&[0, 3]));
    let (revoked, added) = (GroupEvent::Revoked(set(&[1, 2])), GroupEvent::Assigned(set(&[3])));
    assert_eq!(script.events(), [revoked, added]);
    assert_eq!(*script.member.owned(), set(&[0, 1, 2, 3]));
    script.nothing_to_send();
    script.member.acknowledge_revoked(script.now);
    let (_, request) = script.join_sent();
    let told = Subscription::decode(request.protocols[0].metadata.clone()).unwrap();
    assert_eq!(told.owned_partitions, set(&[0, 3]).into_iter().collect::<Vec<_>>());
}

#[test]
fn a_member_that_the_coordinator_forgot_loses_its_partitions_and_joins_as_a_new_one() {
    for (code, member_id) in
        [(ErrorCode::UNKNOWN_MEMBER_ID, ""), (ErrorCode::ILLEGAL_GENERATION, "m")]
    {
        let mut script = Script::owning(Assignor::CooperativeSticky, &[0]);
        script.heartbeat(code);
        assert_eq!(script.events(), [GroupEvent::Lost(set(&[0]))]);
        let (token, request) = script.join_sent();
        assert_eq!(request.member_id.as_str(), member_id);
        // The same from SyncGroup.
        script.answer(token, joined(5, Assignor::CooperativeSticky));
        let (token, _) = script.sync_sent();
        script.answer(token, SyncGroupResponse::default().with_error_code(code.0));
        assert_eq!(script.join_sent().1.member_id.as_str(), member_id);
    }
}

#[test]
fn retriable_codes_are_repeated_and_fatal_ones_end_the_member() {
    for code in [
        ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode::COORDINATOR_NOT_AVAILABLE,
        ErrorCode::NOT_COORDINATOR,
        ErrorCode::REBALANCE_IN_PROGRESS,
        ErrorCode::REQUEST_TIMED_OUT,
    ] {
        let mut script = classic(Assignor::Range);
        script.subscribe();
        for _ in 0..20 {
            let (token, _) = script.join_sent();
            script.answer(token, join_error(code));
            script.nothing_to_send();
            script.pass(2 * SECOND);
        }
        assert_eq!(script.events(), [], "{code}");
    }
    for code in [
        ErrorCode::GROUP_AUTHORIZATION_FAILED,
        ErrorCode::INVALID_GROUP_ID,
        ErrorCode::INVALID_SESSION_TIMEOUT,
        ErrorCode::GROUP_MAX_SIZE_REACHED,
        ErrorCode::UNSUPPORTED_VERSION,
    ] {
        let mut script = classic(Assignor::Range);
        script.subscribe();
        let (token, _) = script.join_sent();
        script.answer(token, join_error(code));
        assert_eq!(script.events(), [broker_error(code)]);
        script.nothing_to_send();
        assert_eq!(script.member.poll_timeout(), None);
    }
    // One that should not come, a few times.
    let mut script = classic(Assignor::Range);
    script.subscribe();
    for _ in 0..6 {
        let (token, _) = script.join_sent();
        script.answer(token, join_error(ErrorCode::UNKNOWN_SERVER_ERROR));
        script.pass(2 * SECOND);
    }
    assert_eq!(script.events(), [broker_error(ErrorCode::UNKNOWN_SERVER_ERROR)]);
}

#[test]
fn members_that_do_not_fit_together_are_told_so() {
    let mut script = classic(Assignor::Range);
    script.subscribe();
    let (token, _) = script.join_sent();
    script.answer(token, join_error(ErrorCode::INCONSISTENT_GROUP_PROTOCOL));
    let code = ErrorCode::INCONSISTENT_GROUP_PROTOCOL;
    assert_eq!(script.events(), [GroupEvent::Failed(GroupError::InconsistentProtocol { code })]);
    // An assignor that we did not offer.
    let mut script = classic(Assignor::Range);
    script.subscribe();
    let (token, _) = script.join_sent();
    script.answer(token, joined(1, Assignor::RoundRobin));
    assert_eq!(script.events(), [GroupEvent::Failed(GroupError::InconsistentProtocol { code })]);
}

#[test]
fn a_static_member_names_itself_and_is_fenced_by_its_double() {
    let config = GroupConfig { group_instance_id: Some(Arc::from("i")), ..config() };
    let mut script = Script::new(GroupMember::classic(config, 7));
    script.subscribe();
    let (token, request) = script.join_sent();
    assert_eq!(request.group_instance_id.as_ref().map(|id| id.as_str()), Some("i"));
    script.answer(token, joined(1, Assignor::Range));
    let (token, _) = script.sync_sent();
    script.answer(token, synced(&[0]));
    script.events();
    script.heartbeat(ErrorCode::FENCED_INSTANCE_ID);
    let fenced = GroupError::FencedInstanceId { instance_id: Arc::from("i"), still_active: false };
    assert_eq!(script.events(), [GroupEvent::Lost(set(&[0])), GroupEvent::Failed(fenced)]);
}

#[test]
fn a_static_member_goes_without_leaving_and_another_leaves() {
    let config = GroupConfig { group_instance_id: Some(Arc::from("i")), ..config() };
    let mut script = Script::new(GroupMember::classic(config, 7));
    script.subscribe();
    script.rebalance(1, Assignor::Range, &[0]);
    script.events();
    script.member.leave(script.now);
    script.nothing_to_send();
    assert_eq!(script.events(), [GroupEvent::Left]);

    let mut script = Script::owning(Assignor::Range, &[0]);
    script.member.leave(script.now);
    let (token, request) = script.sent();
    assert!(matches!(request, Request::LeaveGroup(leave) if leave.member_id.as_str() == "m"));
    assert_eq!(script.events(), []);
    script.answer(token, LeaveGroupResponse::default());
    assert_eq!(script.events(), [GroupEvent::Left]);
    assert_eq!(script.member.poll_timeout(), None);
}

/// The coordinator dies at that moment: its successor is told, or the others would wait for the session's end.
#[test]
fn a_member_leaves_until_a_coordinator_hears_it() {
    for seconds in [1, 45] {
        let mut script = Script::owning(Assignor::Range, &[0]);
        script.member.leave(script.now);
        let (token, _) = script.sent();
        let moved = ErrorCode::NOT_COORDINATOR.0;
        script.answer(token, LeaveGroupResponse::default().with_error_code(moved));
        assert_eq!(script.events(), [], "nobody has heard it");
        let again = script.member.poll_timeout().unwrap();
        assert!(again > script.now);
        script.pass(SECOND * seconds);
        let (token, request) = script.sent();
        assert!(matches!(request, Request::LeaveGroup(leave) if leave.member_id.as_str() == "m"));
        let heard = if seconds == 1 { ErrorCode::NONE.0 } else { moved };
        script.answer(token, LeaveGroupResponse::default().with_error_code(heard));
        assert_eq!(script.events(), [GroupEvent::Left], "heard, or forgotten by now");
        assert_eq!(script.member.poll_timeout(), None);
    }
}

#[test]
fn a_user_who_does_not_come_back_in_time_is_out_until_it_does() {
    let mut script = Script::owning(Assignor::Range, &[0]);
    script.member.handle_busy(script.now);
    while script.events().is_empty() {
        script.pass(SECOND);
        if let Some(sent) = script.member.poll_request(script.now)
            && matches!(sent.request, Request::Heartbeat(_))
        {
            script.answer(sent.token, HeartbeatResponse::default());
        } else if script.now > Timestamp::ZERO.after(301 * SECOND) {
            panic!("no event");
        }
        if script.member.owned().is_empty() {
            break;
        }
    }
    assert!(script.member.awaits_poll());
    assert!(script.now >= Timestamp::ZERO.after(300 * SECOND));
    script.pass(100 * SECOND);
    script.nothing_to_send();
    script.member.handle_poll(script.now);
    assert_eq!(script.join_sent().1.member_id.as_str(), "");
}

#[test]
fn a_member_that_is_not_heard_for_the_session_timeout_counts_its_partitions_as_lost() {
    let mut script = Script::owning(Assignor::CooperativeSticky, &[0]);
    let mut events = Vec::new();
    while events.is_empty() {
        script.pass(SECOND / 2);
        if let Some(sent) = script.member.poll_request(script.now) {
            script.member.handle_response(script.now, sent.token, Err(lost_answer()));
        }
        events = script.events();
    }
    assert_eq!(events, [GroupEvent::Lost(set(&[0]))]);
    assert!(script.now <= Timestamp::ZERO.after(46 * SECOND), "{:?}", script.now);
}

#[test]
fn an_answer_that_comes_too_late_changes_nothing() {
    let mut script = classic(Assignor::Range);
    script.subscribe();
    let (token, _) = script.join_sent();
    script.member.leave(script.now);
    script.answer(token, joined(1, Assignor::Range));
    script.nothing_to_send();
    assert_eq!(script.events(), [GroupEvent::Left]);
}

#[test]
fn unsubscribing_gives_up_and_leaves() {
    let mut script = Script::owning(Assignor::CooperativeSticky, &[0]);
    script.member.subscribe(script.now, BTreeSet::new());
    assert_eq!(script.events(), [GroupEvent::Revoked(set(&[0]))]);
    script.member.acknowledge_revoked(script.now);
    assert!(matches!(script.sent().1, Request::LeaveGroup(_)));
    let outside = MemberIdentity {
        member_id: Arc::from(""),
        generation_or_epoch: -1,
        group_instance_id: None,
    };
    assert_eq!(script.member.identity(), outside);
}

#[test]
fn an_unreadable_assignment_ends_the_member() {
    let mut script = classic(Assignor::Range);
    script.subscribe();
    let (token, _) = script.join_sent();
    script.answer(token, joined(1, Assignor::Range));
    let (token, _) = script.sync_sent();
    let whole = synced(&[0, 1]).assignment;
    let cut = SyncGroupResponse::default().with_assignment(whole.slice(..whole.len() - 6));
    script.answer(token, cut);
    let events = script.events();
    assert!(
        matches!(events[..], [GroupEvent::Failed(GroupError::MalformedAssignment(_))]),
        "{events:?}"
    );
}
