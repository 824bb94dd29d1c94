use super::*;
use crate::messages::{FetchPartitionResponse, FetchTopicResponse};

#[test]
fn first_request_lists_everything_then_only_changes_and_forgotten() {
    let mut session = FetchSession::new();
    let first = session.next_request(vec![entry(0, 10), entry(1, 20)]);
    assert_eq!(first, request(0, 0, &[entry(0, 10), entry(1, 20)], &[]));
    assert_eq!(session.handle_response(&answer(7, &[0, 1])), SessionOutcome::Accepted);

    assert_eq!(
        session.next_request(vec![entry(0, 11), entry(1, 20)]),
        request(7, 1, &[entry(0, 11)], &[])
    );
    assert_eq!(session.handle_response(&answer(7, &[])), SessionOutcome::Accepted);
    // The last partition of the session is forgotten, too (B092).
    assert_eq!(session.next_request(vec![entry(2, 5)]), request(7, 2, &[entry(2, 5)], &[0, 1]));
    assert_eq!(session.handle_response(&answer(7, &[2])), SessionOutcome::Accepted);
    assert_eq!(session.next_request(vec![]), request(7, 3, &[], &[2]));
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
        assert_eq!(session.next_request(vec![changed.clone()]), request(7, 1, &[changed], &[]));
    }
}

#[test]
fn session_starts_anew_after_each_kind_of_trouble() {
    let lost = |session: &mut FetchSession| session.handle_failure();
    let refused = |code: ErrorCode| {
        move |session: &mut FetchSession| {
            let response = FetchResponse { error_code: code, ..answer(0, &[]) };
            assert_eq!(
                session.handle_response(&response),
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
            assert_eq!(session.handle_response(&answer(0, &[])), SessionOutcome::Accepted);
        }),
        (0, 0)
    );
}

#[test]
fn broker_without_a_free_slot_gets_full_requests_for_ever() {
    let mut session = FetchSession::new();
    for _ in 0..3 {
        assert_eq!(session.next_request(vec![entry(0, 10)]), request(0, 0, &[entry(0, 10)], &[]));
        assert_eq!(session.handle_response(&answer(0, &[0])), SessionOutcome::Accepted);
    }
}

/// B094: a partition that was moved away comes back with data from a frozen offset.
#[test]
fn answer_with_partitions_not_asked_for_is_discarded_and_the_session_replaced() {
    let mut session = established(&[entry(0, 10)]);
    session.next_request(vec![entry(0, 10)]);
    assert_eq!(
        session.handle_response(&answer(7, &[0, 3])),
        SessionOutcome::Discarded(SessionViolation::Uninvited(key(3)))
    );
    assert_eq!(session.next_request(vec![entry(0, 10)]), request(7, 0, &[entry(0, 10)], &[]));
    assert_eq!(
        session.handle_response(&answer(8, &[])),
        SessionOutcome::Discarded(SessionViolation::Missing(key(0)))
    );
    session.next_request(vec![entry(0, 10)]);
    assert_eq!(
        session.handle_response(&answer(8, &[0, 0])),
        SessionOutcome::Discarded(SessionViolation::Repeated(key(0)))
    );
}

#[test]
fn throttled_full_answer_opens_no_session_and_answers_nothing() {
    let mut session = FetchSession::new();
    session.next_request(vec![entry(0, 10)]);
    let throttled = FetchResponse { throttle_time_ms: 50, ..answer(9, &[]) };
    assert_eq!(session.handle_response(&throttled), SessionOutcome::Throttled);
    assert_eq!(session.next_request(vec![entry(0, 10)]), request(0, 0, &[entry(0, 10)], &[]));
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

fn next_after(trouble: impl Fn(&mut FetchSession)) -> (i32, i32) {
    let mut session = established(&[entry(0, 10)]);
    session.next_request(vec![entry(0, 10)]);
    trouble(&mut session);
    let next = session.next_request(vec![entry(0, 10)]);
    if next.session_epoch == 0 {
        assert_eq!(next.partitions, vec![entry(0, 10)], "a full request lists everything");
    }
    (next.session_id, next.session_epoch)
}

fn established(entries: &[(TopicPartition, FetchPartition)]) -> FetchSession {
    let mut session = FetchSession::new();
    session.next_request(entries.to_vec());
    let partitions: Vec<i32> = entries.iter().map(|(key, _)| key.partition).collect();
    assert_eq!(session.handle_response(&answer(7, &partitions)), SessionOutcome::Accepted);
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
    }
}

fn answer(session_id: i32, partitions: &[i32]) -> FetchResponse {
    let partitions: Vec<FetchPartitionResponse> = partitions
        .iter()
        .map(|partition| FetchPartitionResponse { partition: *partition, ..Default::default() })
        .collect();
    let topics = if partitions.is_empty() {
        vec![]
    } else {
        vec![FetchTopicResponse { topic: "t".into(), partitions }]
    };
    FetchResponse { session_id, topics, ..FetchResponse::default() }
}
