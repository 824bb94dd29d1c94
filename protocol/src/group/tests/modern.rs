//! The member of KIP-848 by scripted answers.

use super::super::GroupError;
use super::*;
use crate::messages::StrBytes;
use crate::messages::kp::consumer_group_heartbeat_response::{Assignment, TopicPartitions};
use crate::messages::kp::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};

const TOPIC_ID: [u8; 16] = [7; 16];

fn modern(config: GroupConfig) -> Script {
    Script::new(GroupMember::modern(config, Arc::from("m"), 7))
}

fn told(epoch: i32, partitions: Option<&[i32]>) -> ConsumerGroupHeartbeatResponse {
    let topic = |partitions: &[i32]| {
        TopicPartitions::default()
            .with_topic_id(uuid::Uuid::from_bytes(TOPIC_ID))
            .with_partitions(partitions.to_vec())
    };
    let assignment =
        partitions.map(|p| Assignment::default().with_topic_partitions(vec![topic(p)]));
    ConsumerGroupHeartbeatResponse::default()
        .with_member_id(Some(StrBytes::from_static_str("m")))
        .with_member_epoch(epoch)
        .with_heartbeat_interval_ms(5_000)
        .with_assignment(assignment)
}

fn refused(code: ErrorCode) -> ConsumerGroupHeartbeatResponse {
    ConsumerGroupHeartbeatResponse::default().with_error_code(code.0)
}

impl Script {
    fn modern_heartbeat(&mut self) -> (RequestToken, ConsumerGroupHeartbeatRequest) {
        match self.sent() {
            (token, Request::ConsumerGroupHeartbeat(request)) => (token, request),
            (_, other) => panic!("not a heartbeat: {other:?}"),
        }
    }

    fn modern_owning(config: GroupConfig, partitions: &[i32]) -> Self {
        let mut script = modern(config);
        script.subscribe();
        script.member.handle_topics(script.now, known(6));
        let (token, _) = script.modern_heartbeat();
        script.answer(token, told(1, Some(partitions)));
        assert_eq!(script.events(), [GroupEvent::Assigned(set(partitions))]);
        let (token, request) = script.modern_heartbeat();
        assert_eq!(owned(&request), Some(partitions.to_vec()));
        script.answer(token, told(1, None));
        script.nothing_to_send();
        script
    }
}

fn owned(request: &ConsumerGroupHeartbeatRequest) -> Option<Vec<i32>> {
    let topics = request.topic_partitions.as_ref()?;
    assert!(topics.iter().all(|topic| topic.topic_id.into_bytes() == TOPIC_ID));
    Some(topics.iter().flat_map(|topic| topic.partitions.clone()).collect())
}

#[test]
fn joining_says_everything_and_later_heartbeats_only_what_is_new() {
    let config = GroupConfig { remote_assignor: Some(Arc::from("uniform")), ..config() };
    let mut script = modern(config);
    script.subscribe();
    let (token, request) = script.modern_heartbeat();
    assert_eq!((request.member_epoch, request.rebalance_timeout_ms), (0, 300_000));
    assert_eq!(request.server_assignor.as_ref().map(|name| name.as_str()), Some("uniform"));
    assert_eq!(request.subscribed_topic_names.as_ref().map(Vec::len), Some(1));
    assert_eq!(owned(&request), Some(vec![]));
    script.answer(token, told(1, Some(&[])));
    script.nothing_to_send();
    script.pass(5 * SECOND);
    let (token, request) = script.modern_heartbeat();
    assert_eq!((request.member_epoch, request.rebalance_timeout_ms), (1, -1));
    assert_eq!((request.subscribed_topic_names, request.server_assignor), (None, None));
    assert_eq!(request.topic_partitions, None);
    script.answer(token, told(1, None));
    script.member.subscribe(script.now, topics(&["t", "u"]));
    assert_eq!(
        script.modern_heartbeat().1.subscribed_topic_names.map(|names| names.len()),
        Some(2)
    );
}

#[test]
fn partitions_are_taken_once_their_topics_name_is_known() {
    let mut script = modern(config());
    script.subscribe();
    let (token, _) = script.modern_heartbeat();
    script.answer(token, told(1, Some(&[0, 1])));
    assert_eq!(script.events(), []);
    assert!(script.member.awaits_topics());
    script.member.handle_topics(script.now, known(2));
    assert_eq!(script.events(), [GroupEvent::Assigned(set(&[0, 1]))]);
    assert_eq!(owned(&script.modern_heartbeat().1), Some(vec![0, 1]));
}

#[test]
fn what_moves_is_let_go_of_first_then_acknowledged_then_the_rest_taken() {
    let mut script = Script::modern_owning(config(), &[0, 1, 2]);
    script.pass(5 * SECOND);
    let (token, _) = script.modern_heartbeat();
    script.answer(token, told(1, Some(&[0, 5])));
    assert_eq!(script.events(), [GroupEvent::Revoked(set(&[1, 2]))]);
    // It lives meanwhile, and says nothing of what it still holds.
    script.pass(5 * SECOND);
    let (token, request) = script.modern_heartbeat();
    assert_eq!(owned(&request), None);
    script.answer(token, told(1, None));
    assert_eq!(*script.member.owned(), set(&[0, 1, 2]));
    script.member.acknowledge_revoked(script.now);
    assert_eq!(script.events(), [GroupEvent::Assigned(set(&[5]))]);
    let (token, request) = script.modern_heartbeat();
    assert_eq!(owned(&request), Some(vec![0, 5]));
    script.answer(token, told(2, None));
    assert_eq!(script.member.identity().generation_or_epoch, 2);
}

#[test]
fn a_fenced_member_loses_its_partitions_and_joins_anew() {
    for code in [ErrorCode::FENCED_MEMBER_EPOCH, ErrorCode::UNKNOWN_MEMBER_ID] {
        let mut script = Script::modern_owning(config(), &[0]);
        script.pass(5 * SECOND);
        let (token, _) = script.modern_heartbeat();
        script.answer(token, refused(code));
        assert_eq!(script.events(), [GroupEvent::Lost(set(&[0]))]);
        let (_, request) = script.modern_heartbeat();
        assert_eq!((request.member_epoch, owned(&request)), (0, Some(vec![])));
    }
}

#[test]
fn after_a_lost_answer_everything_is_said_again() {
    let mut script = Script::modern_owning(config(), &[0]);
    script.pass(5 * SECOND);
    let (token, _) = script.modern_heartbeat();
    script.member.handle_response(script.now, token, Err(lost_answer()));
    script.nothing_to_send();
    script.pass(SECOND);
    let (_, request) = script.modern_heartbeat();
    assert_eq!((request.member_epoch, owned(&request)), (1, Some(vec![0])));
    assert!(request.subscribed_topic_names.is_some());
    assert_eq!(script.events(), []);
}

#[test]
fn an_instance_id_that_is_still_held_is_waited_for_until_the_session_timeout() {
    let config = GroupConfig { group_instance_id: Some(Arc::from("i")), ..config() };
    let mut script = modern(config);
    script.subscribe();
    let mut events = Vec::new();
    while events.is_empty() {
        let (token, request) = script.modern_heartbeat();
        assert_eq!(request.instance_id.as_ref().map(|id| id.as_str()), Some("i"));
        script.answer(token, refused(ErrorCode::UNRELEASED_INSTANCE_ID));
        script.pass(2 * SECOND);
        events = script.events();
    }
    let fenced = GroupError::FencedInstanceId { instance_id: Arc::from("i"), still_active: true };
    assert_eq!(events, [GroupEvent::Failed(fenced)]);
    assert!(script.now >= Timestamp::ZERO.after(45 * SECOND));
}

#[test]
fn refusals_end_the_member_with_the_brokers_words() {
    for code in [
        ErrorCode::GROUP_AUTHORIZATION_FAILED,
        ErrorCode::UNSUPPORTED_ASSIGNOR,
        ErrorCode::UNSUPPORTED_VERSION,
        ErrorCode::GROUP_MAX_SIZE_REACHED,
        ErrorCode::INVALID_REQUEST,
    ] {
        let mut script = modern(config());
        script.subscribe();
        let (token, _) = script.modern_heartbeat();
        script.answer(token, refused(code));
        assert_eq!(script.events(), [broker_error(code)]);
        script.nothing_to_send();
    }
    let config = GroupConfig { group_instance_id: Some(Arc::from("i")), ..config() };
    let mut script = Script::modern_owning(config, &[0]);
    script.pass(5 * SECOND);
    let (token, _) = script.modern_heartbeat();
    script.answer(token, refused(ErrorCode::FENCED_INSTANCE_ID));
    let fenced = GroupError::FencedInstanceId { instance_id: Arc::from("i"), still_active: false };
    assert_eq!(script.events(), [GroupEvent::Lost(set(&[0])), GroupEvent::Failed(fenced)]);
}

#[test]
fn leaving_is_a_heartbeat_with_epoch_minus_one_or_two() {
    for (instance_id, epoch) in [(None, -1), (Some(Arc::from("i")), -2)] {
        let config = GroupConfig { group_instance_id: instance_id, ..config() };
        let mut script = Script::modern_owning(config, &[0]);
        script.member.leave(script.now);
        let (token, request) = script.modern_heartbeat();
        assert_eq!(request.member_epoch, epoch);
        script.answer(token, told(epoch, None));
        assert_eq!(script.events(), [GroupEvent::Left]);
        assert_eq!(script.member.poll_timeout(), None);
    }
}

#[test]
fn a_user_who_does_not_come_back_in_time_leaves_and_comes_back_with_its_next_poll() {
    let mut script = Script::modern_owning(config(), &[0]);
    script.member.handle_busy(script.now);
    script.pass(300 * SECOND);
    assert_eq!(script.events(), [GroupEvent::Lost(set(&[0]))]);
    assert_eq!(script.modern_heartbeat().1.member_epoch, -1);
    script.pass(100 * SECOND);
    script.nothing_to_send();
    script.member.handle_poll(script.now);
    assert_eq!(script.modern_heartbeat().1.member_epoch, 0);
}

#[test]
fn unsubscribing_gives_up_and_leaves() {
    let mut script = Script::modern_owning(config(), &[0]);
    script.member.subscribe(script.now, BTreeSet::new());
    assert_eq!(script.events(), [GroupEvent::Revoked(set(&[0]))]);
    script.member.acknowledge_revoked(script.now);
    assert_eq!(script.modern_heartbeat().1.member_epoch, -1);
}
