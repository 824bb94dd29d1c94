use super::*;
use crate::messages::{FetchPartitionResponse, FetchTopicResponse};

#[test]
fn first_request_lists_everything_then_only_changes_and_forgotten() {
    let mut session = FetchSession::new();
    let first = session.next_request(vec![entry(0, 10), entry(1, 20)], by_name);
    assert_eq!(first, request(0, 0, &[entry(0, 10), entry(1, 20)], &[]));
    assert_eq!(session.handle_response(&mut answer(7, &[0, 1])), SessionOutcome::Accepted);

    assert_eq!(
        session.next_request(vec![entry(0, 11), entry(1, 20)], by_name),
        request(7, 1, &[entry(0, 11)], &[])
    );
    assert_eq!(session.handle_response(&mut answer(7, &[])), SessionOutcome::Accepted);
    // The last partition of the session is forgotten, too (B092).
    assert_eq!(
        session.next_request(vec![entry(2, 5)], by_name),
        request(7, 2, &[entry(2, 5)], &[0, 1])
    );
    assert_eq!(session.handle_response(&mut answer(7, &[2])), SessionOutcome::Accepted);
    assert_eq!(session.next_request(vec![], by_name), request(7, 3, &[], &[2]));
}

#[test]
fn every_field_of_an_entry_counts_as_a_change() {
    let base = entry(0, 10);
    let changes: [fn(&mut FetchPartition); 4] = [
        |entry| entry.fetch_offset += 1,
        |entry| entry.current_leader_epoch += 1,
        |entry| entry.last_fetched_epoch += 1,
        |entry| entry.partition_max_bytes += 1,
    ];
    for change in changes {
        let mut session = established(std::slice::from_ref(&base));
        let mut changed = base.clone();
        change(&mut changed.1);
        assert_eq!(
            session.next_request(vec![changed.clone()], by_name),
            request(7, 1, &[changed], &[])
        );
    }
}

#[test]
fn session_starts_anew_after_each_kind_of_trouble() {
    let lost = |session: &mut FetchSession| session.handle_failure();
    let refused = |code: ErrorCode| {
        move |session: &mut FetchSession| {
            let mut response = FetchResponse { error_code: code, ..answer(0, &[]) };
            assert_eq!(
                session.handle_response(&mut response),
                SessionOutcome::Discarded(SessionViolation::Refused(code))
            );
        }
    };
    assert_eq!(next_after(lost), (7, 0));
    assert_eq!(next_after(refused(ErrorCode::FETCH_SESSION_ID_NOT_FOUND)), (0, 0));
    assert_eq!(next_after(refused(ErrorCode::INVALID_FETCH_SESSION_EPOCH)), (7, 0));
    assert_eq!(next_after(refused(ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR)), (7, 0));
    assert_eq!(next_after(refused(ErrorCode::UNKNOWN_SERVER_ERROR)), (7, 0));
    // The broker dropped the session on its side.
    assert_eq!(
        next_after(|session| {
            assert_eq!(session.handle_response(&mut answer(0, &[])), SessionOutcome::Accepted);
        }),
        (0, 0)
    );
}

#[test]
fn broker_without_a_free_slot_gets_full_requests_for_ever() {
    let mut session = FetchSession::new();
    for _ in 0..3 {
        assert_eq!(
            session.next_request(vec![entry(0, 10)], by_name),
            request(0, 0, &[entry(0, 10)], &[])
        );
        assert_eq!(session.handle_response(&mut answer(0, &[0])), SessionOutcome::Accepted);
    }
}

/// B094: a partition that was moved away comes back with data from a frozen offset.
#[test]
fn answer_with_partitions_not_asked_for_is_discarded_and_the_session_replaced() {
    let mut session = established(&[entry(0, 10)]);
    session.next_request(vec![entry(0, 10)], by_name);
    assert_eq!(
        session.handle_response(&mut answer(7, &[0, 3])),
        SessionOutcome::Discarded(SessionViolation::Uninvited(key(3)))
    );
    assert_eq!(
        session.next_request(vec![entry(0, 10)], by_name),
        request(7, 0, &[entry(0, 10)], &[])
    );
    assert_eq!(
        session.handle_response(&mut answer(8, &[])),
        SessionOutcome::Discarded(SessionViolation::Missing(key(0)))
    );
    session.next_request(vec![entry(0, 10)], by_name);
    assert_eq!(
        session.handle_response(&mut answer(8, &[0, 0])),
        SessionOutcome::Discarded(SessionViolation::Repeated(key(0)))
    );
}

#[test]
fn throttled_full_answer_opens_no_session_and_answers_nothing() {
    let mut session = FetchSession::new();
    session.next_request(vec![entry(0, 10)], by_name);
    let mut throttled = FetchResponse { throttle_time_ms: 50, ..answer(9, &[]) };
    assert_eq!(session.handle_response(&mut throttled), SessionOutcome::Throttled);
    assert_eq!(
        session.next_request(vec![entry(0, 10)], by_name),
        request(0, 0, &[entry(0, 10)], &[])
    );
}

#[test]
fn epoch_after_the_largest_is_one() {
    assert_eq!(following(1), 2);
    assert_eq!(following(i32::MAX), 1);
}

#[test]
fn only_an_open_session_is_closed_and_only_once() {
    assert_eq!(FetchSession::new().close(), None);
    let mut session = established(&[entry(0, 10)]);
    assert_eq!(session.close(), Some(request(7, -1, &[], &[])));
    assert_eq!(session.close(), None);
}

/// B019: a broker that has told no id is asked by names.
#[test]
fn topics_go_by_ids_once_all_are_known_and_forgotten_ones_by_the_id_they_had() {
    let of_u = |partition| (TopicPartition::new("u", partition), entry(partition, 10).1);
    let id = |topic: &str| Some(if topic == "t" { [7; 16] } else { [8; 16] });
    let mut session = FetchSession::new();
    let first = session
        .next_request(vec![entry(0, 10), of_u(0)], |topic| id(topic).filter(|_| topic == "t"));
    assert!(!first.by_ids && first.topic_ids.is_empty(), "no id of u is known yet");
    let mut by_name = answer(3, &[0]);
    by_name.topics.push(FetchTopicResponse::by_name("u", vec![Default::default()]));
    assert_eq!(session.handle_response(&mut by_name), SessionOutcome::Accepted);

    let second = session.next_request(vec![entry(0, 10), of_u(0)], id);
    assert_eq!((second.session_id, second.session_epoch, second.by_ids), (3, 0, true));
    assert_eq!(second.topic_ids, [("t".into(), [7; 16]), ("u".into(), [8; 16])].into());
    let by_id = |topic_id| FetchTopicResponse {
        topic_id,
        ..FetchTopicResponse::by_name("", vec![Default::default()])
    };
    let mut response = FetchResponse { session_id: 4, ..FetchResponse::default() };
    response.topics = vec![by_id([8; 16]), by_id([7; 16])];
    assert_eq!(session.handle_response(&mut response), SessionOutcome::Accepted);
    let names: Vec<_> = response.topics.iter().map(|topic| &*topic.topic).collect();
    assert_eq!(names, ["u", "t"]);

    let third = session.next_request(vec![entry(0, 10)], id);
    assert_eq!((third.session_epoch, third.forgotten), (1, vec![of_u(0).0]));
    assert_eq!(third.topic_ids["u"], [8; 16]);
    let mut uninvited = FetchResponse { session_id: 4, ..FetchResponse::default() };
    uninvited.topics = vec![by_id([9; 16])];
    assert_eq!(
        session.handle_response(&mut uninvited),
        SessionOutcome::Discarded(SessionViolation::UninvitedId([9; 16]))
    );
}

/// KIP-516: what the broker has of a topic that was created anew is of the old one.
#[test]
fn another_id_of_a_topic_opens_another_session() {
    let mut session = FetchSession::new();
    session.next_request(vec![entry(0, 10)], |_| Some([7; 16]));
    assert_eq!(session.handle_response(&mut answer(3, &[0])), SessionOutcome::Accepted);
    let next = session.next_request(vec![entry(0, 0)], |_| Some([9; 16]));
    assert_eq!((next.session_id, next.session_epoch), (3, 0));
    assert_eq!(next.topic_ids, [("t".into(), [9; 16])].into());
    // Nothing wanted any more: ids or names as before.
    assert_eq!(session.handle_response(&mut answer(4, &[0])), SessionOutcome::Accepted);
    let last = session.next_request(vec![], |_| None);
    assert_eq!((last.session_epoch, last.by_ids, last.forgotten), (1, true, vec![key(0)]));
    assert_eq!(last.topic_ids, [("t".into(), [9; 16])].into());
}

fn next_after(trouble: impl Fn(&mut FetchSession)) -> (i32, i32) {
    let mut session = established(&[entry(0, 10)]);
    session.next_request(vec![entry(0, 10)], by_name);
    trouble(&mut session);
    let next = session.next_request(vec![entry(0, 10)], by_name);
    if next.session_epoch == 0 {
        assert_eq!(next.partitions, vec![entry(0, 10)], "a full request lists everything");
    }
    (next.session_id, next.session_epoch)
}

fn established(entries: &[(TopicPartition, FetchPartition)]) -> FetchSession {
    let mut session = FetchSession::new();
    session.next_request(entries.to_vec(), by_name);
    let partitions: Vec<i32> = entries.iter().map(|(key, _)| key.partition).collect();
    assert_eq!(session.handle_response(&mut answer(7, &partitions)), SessionOutcome::Accepted);
    session
}

fn key(partition: i32) -> TopicPartition {
    TopicPartition::new("t", partition)
}

fn entry(partition: i32, fetch_offset: i64) -> (TopicPartition, FetchPartition) {
    let entry = FetchPartition {
        partition,
        current_leader_epoch: 1,
        fetch_offset,
        last_fetched_epoch: 1,
        log_start_offset: -1,
        partition_max_bytes: 100,
    };
    (key(partition), entry)
}

fn request(
    session_id: i32,
    session_epoch: i32,
    entries: &[(TopicPartition, FetchPartition)],
    forgotten: &[i32],
) -> SessionRequest {
    SessionRequest {
        session_id,
        session_epoch,
        partitions: entries.to_vec(),
        forgotten: forgotten.iter().map(|partition| key(*partition)).collect(),
        by_ids: false,
        topic_ids: BTreeMap::new(),
    }
}

/// No topic's id is known.
fn by_name(_topic: &str) -> Option<[u8; 16]> {
    None
}

fn answer(session_id: i32, partitions: &[i32]) -> FetchResponse {
    let partitions: Vec<FetchPartitionResponse> = partitions
        .iter()
        .map(|partition| FetchPartitionResponse { partition: *partition, ..Default::default() })
        .collect();
    let topics = if partitions.is_empty() {
        vec![]
    } else {
        vec![FetchTopicResponse::by_name("t", partitions)]
    };
    FetchResponse { session_id, topics, ..FetchResponse::default() }
}
