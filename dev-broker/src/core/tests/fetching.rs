//! Fetch: waiting, bounds, sessions.

use std::time::Duration;

use millstream_protocol::messages::{FetchRequest, FetchResponse, kp};
use millstream_protocol::{ApiKey, ErrorCode, IsolationLevel, Response};

use super::TestCluster;
use super::scripted_client::{Write, fetch_request, str_bytes};
use crate::core::ClusterConfig;

const UNCOMMITTED: IsolationLevel = IsolationLevel::ReadUncommitted;

fn fetched(test: &mut TestCluster, request: FetchRequest) -> FetchResponse {
    let Response::Fetch(response) = test.call(12, request) else { panic!("wrong answer") };
    response
}

/// Partition indexes with the bytes each gave.
fn sizes(response: &FetchResponse) -> Vec<(i32, usize)> {
    response
        .topics
        .iter()
        .flat_map(|topic| &topic.partitions)
        .map(|partition| (partition.partition, partition.records.len()))
        .collect()
}

#[test]
fn a_fetch_waits_for_data_and_holds_back_what_comes_behind_it() {
    let mut test = TestCluster::with_topic(ClusterConfig::default(), 1);
    let waiting = FetchRequest { max_wait_ms: 500, ..fetch_request(&[(0, 0)], UNCOMMITTED) };
    test.send(2, 12, waiting.clone());
    test.send(2, 12, fetch_request(&[(0, 0)], UNCOMMITTED));
    assert_eq!(test.cluster.poll_outgoing(), None);
    let write = Write::plain(0, &["a"]);
    test.send(1, 9, write.request());
    let size = write.batch().len();
    assert_eq!(test.receive(ApiKey::Produce, 9).map(|(connection, _)| connection), Some(1));
    for _ in 0..2 {
        let Some((2, Response::Fetch(response))) = test.receive(ApiKey::Fetch, 12) else {
            panic!("no answer")
        };
        assert_eq!(sizes(&response), [(0, size)]);
    }
    // Nothing comes: the wait ends by itself.
    let at_end = FetchRequest { max_wait_ms: 500, ..fetch_request(&[(0, 1)], UNCOMMITTED) };
    test.send(2, 12, at_end);
    test.advance(Duration::from_millis(499));
    assert_eq!(test.cluster.poll_outgoing(), None);
    test.advance(Duration::from_millis(1));
    assert!(matches!(test.receive(ApiKey::Fetch, 12), Some((2, Response::Fetch(_)))));
    // A client that has gone is not answered.
    test.send(2, 12, FetchRequest { max_wait_ms: 500, ..fetch_request(&[(0, 1)], UNCOMMITTED) });
    test.cluster.handle_disconnect(2);
    test.advance(Duration::from_secs(1));
    assert_eq!(test.cluster.poll_outgoing(), None);
}

#[test]
fn offsets_and_leader_epochs_out_of_range_are_errors() {
    let mut test = TestCluster::with_topic(ClusterConfig::default(), 1);
    test.produce(9, &Write::plain(0, &["a"]));
    let code = |test: &mut TestCluster, partition, offset, epoch| {
        let mut request = fetch_request(&[(partition, offset)], UNCOMMITTED);
        request.topics[0].partitions[0].current_leader_epoch = epoch;
        fetched(test, request).topics[0].partitions[0].error_code
    };
    let codes = [
        code(&mut test, 0, 1, 0),
        code(&mut test, 0, 2, -1),
        code(&mut test, 0, -1, -1),
        code(&mut test, 0, 0, 1),
        code(&mut test, 1, 0, -1),
    ];
    assert_eq!(
        codes,
        [
            ErrorCode::NONE,
            ErrorCode::OFFSET_OUT_OF_RANGE,
            ErrorCode::OFFSET_OUT_OF_RANGE,
            ErrorCode::UNKNOWN_LEADER_EPOCH,
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
        ]
    );
}

#[test]
fn the_first_batch_comes_whole_and_later_ones_are_cut() {
    let mut test = TestCluster::with_topic(ClusterConfig::default(), 2);
    let write = |partition| Write::plain(partition, &["0123456789"]);
    let size = write(0).batch().len();
    for _ in 0..3 {
        test.produce(9, &write(0));
        test.produce(9, &write(1));
    }
    let with = |max_bytes: usize, partition_max_bytes: usize| {
        let mut request = fetch_request(&[(0, 0), (1, 0)], UNCOMMITTED);
        request.max_bytes = i32::try_from(max_bytes).expect("small");
        for partition in &mut request.topics[0].partitions {
            partition.partition_max_bytes = i32::try_from(partition_max_bytes).expect("small");
        }
        request
    };
    assert_eq!(sizes(&fetched(&mut test, with(1, 1))), [(0, size), (1, 0)]);
    assert_eq!(
        sizes(&fetched(&mut test, with(10 * size, 2 * size + 5))),
        [(0, 2 * size + 5), (1, 2 * size + 5)]
    );
    assert_eq!(sizes(&fetched(&mut test, with(4 * size, 10 * size))), [(0, 3 * size), (1, size)]);
}

#[test]
fn a_session_answers_only_what_is_news() {
    let mut test = TestCluster::with_topic(ClusterConfig::default(), 3);
    let full =
        FetchRequest { session_epoch: 0, ..fetch_request(&[(0, 0), (1, 0), (2, 0)], UNCOMMITTED) };
    let opened = fetched(&mut test, full.clone());
    let session_id = opened.session_id;
    assert!(session_id > 0);
    assert_eq!(sizes(&opened), [(0, 0), (1, 0), (2, 0)]);
    let next = |session_epoch, partitions: &[(i32, i64)]| FetchRequest {
        session_id,
        session_epoch,
        ..fetch_request(partitions, UNCOMMITTED)
    };
    assert_eq!(sizes(&fetched(&mut test, next(1, &[]))), []);
    test.produce(9, &Write::plain(1, &["a"]));
    let size = Write::plain(1, &["a"]).batch().len();
    assert_eq!(sizes(&fetched(&mut test, next(2, &[]))), [(1, size)]);
    // Position moved on, another partition forgotten; the one with data has gone to the end of the line.
    test.produce(9, &Write::plain(2, &["b"]));
    test.produce(9, &Write::plain(1, &["c"]));
    let mut moved = next(3, &[(1, 1)]);
    moved
        .forgotten_topics
        .push(millstream_protocol::messages::ForgottenTopic::by_name("t", vec![0]));
    assert_eq!(sizes(&fetched(&mut test, moved)), [(2, size), (1, size)]);
    // Wrong epoch, unknown session, a closed session.
    let errors = [
        fetched(&mut test, next(9, &[])).error_code,
        fetched(&mut test, FetchRequest { session_id: session_id ^ 1, ..next(1, &[]) }).error_code,
        fetched(&mut test, next(-1, &[])).error_code,
        fetched(&mut test, next(4, &[])).error_code,
    ];
    assert_eq!(
        errors,
        [
            ErrorCode::INVALID_FETCH_SESSION_EPOCH,
            ErrorCode::FETCH_SESSION_ID_NOT_FOUND,
            ErrorCode::NONE,
            ErrorCode::FETCH_SESSION_ID_NOT_FOUND,
        ]
    );
}

#[test]
fn a_session_by_id_knows_nothing_of_another_topic_of_the_name() {
    let mut test = TestCluster::with_topic(ClusterConfig::default(), 1);
    let by_id = |test: &mut TestCluster, session_id, session_epoch, topic_id: Option<[u8; 16]>| {
        let mut request =
            FetchRequest { session_id, session_epoch, ..fetch_request(&[(0, 0)], UNCOMMITTED) };
        match topic_id {
            Some(topic_id) => request.topics[0].topic_id = topic_id,
            None => request.topics.clear(),
        }
        let Response::Fetch(response) = test.call(13, request) else { panic!("wrong answer") };
        response
    };
    let id_of = |test: &TestCluster| *test.cluster.topic_ids().first().unwrap().as_bytes();
    let code = |response: &FetchResponse| response.topics[0].partitions[0].error_code;
    let old = id_of(&test);
    test.produce(9, &Write::plain(0, &["old"]));
    let opened = by_id(&mut test, 0, 0, Some(old));
    assert_eq!((opened.topics[0].topic_id, code(&opened)), (old, ErrorCode::NONE));
    let session_id = opened.session_id;
    assert_eq!(by_id(&mut test, session_id, 1, None).topics.len(), 1, "it was not read on");

    let names =
        kp::DeleteTopicsRequest::default().with_topic_names(vec![kp::TopicName(str_bytes("t"))]);
    test.call(5, names);
    assert_eq!(code(&by_id(&mut test, session_id, 2, None)), ErrorCode::UNKNOWN_TOPIC_ID);
    assert_eq!(test.create_topic("t", 1, &[]), ErrorCode::NONE);
    test.produce(9, &Write::plain(0, &["new"]));
    let answer = by_id(&mut test, session_id, 3, None);
    assert_eq!((answer.topics[0].topic_id, code(&answer)), (old, ErrorCode::UNKNOWN_TOPIC_ID));
    assert_eq!(code(&by_id(&mut test, 0, 0, Some(old))), ErrorCode::UNKNOWN_TOPIC_ID);
    let new = id_of(&test);
    assert_eq!(code(&by_id(&mut test, 0, 0, Some(new))), ErrorCode::NONE);
    // By names, in a session by ids.
    let by_name = FetchRequest {
        session_id,
        session_epoch: 4,
        topics: Vec::new(),
        ..fetch_request(&[], UNCOMMITTED)
    };
    assert_eq!(fetched(&mut test, by_name).error_code, ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR);
}

#[test]
fn sessions_are_bounded_and_a_stale_one_makes_room() {
    let config = ClusterConfig { fetch_session_slots: 1, ..ClusterConfig::default() };
    let mut test = TestCluster::with_topic(config, 1);
    let open = |test: &mut TestCluster| {
        let request = FetchRequest { session_epoch: 0, ..fetch_request(&[(0, 0)], UNCOMMITTED) };
        fetched(test, request).session_id
    };
    let first = open(&mut test);
    let refused = open(&mut test);
    test.advance(Duration::from_secs(121));
    let second = open(&mut test);
    assert!(first > 0 && refused == 0 && second > 0, "{first} {refused} {second}");
    let request =
        FetchRequest { session_id: first, session_epoch: 1, ..fetch_request(&[], UNCOMMITTED) };
    assert_eq!(fetched(&mut test, request).error_code, ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
}
