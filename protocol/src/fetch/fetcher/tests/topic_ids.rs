//! Topics by id (KIP-516).

use super::*;
use crate::messages::FetchTopicResponse;
use crate::test_metadata::metadata_with_id;

const OLD: [u8; 16] = [1; 16];
const NEW: [u8; 16] = [2; 16];

fn known_as(id: [u8; 16]) -> Metadata {
    metadata_with_id("t", id, &[(0, 1, 5)])
}

fn ask(fetcher: &mut Fetcher, metadata: &Metadata) -> (RequestToken, Option<i16>, FetchRequest) {
    let outgoing = fetcher.poll_request(T0, metadata).unwrap();
    let Request::Fetch(request) = outgoing.request else { panic!("{:?}", outgoing.request) };
    (outgoing.token, outgoing.max_version, request)
}

/// As version 13 has it: without a name.
fn answer_by_id(
    fetcher: &mut Fetcher,
    token: RequestToken,
    topic_id: [u8; 16],
    partition: FetchPartitionResponse,
) {
    let topic = FetchTopicResponse { topic_id, ..FetchTopicResponse::by_name("", vec![partition]) };
    let response = FetchResponse { session_id: 7, topics: vec![topic], ..FetchResponse::default() };
    fetcher.handle_response(T0, token, Ok(Response::Fetch(response)));
}

#[test]
fn a_topic_whose_id_is_known_is_asked_for_and_answered_by_it() {
    let mut fetcher = fetcher(&[(0, 10)]);
    let (token, max_version, request) = ask(&mut fetcher, &known_as(OLD));
    assert_eq!((max_version, request.topics[0].topic_id), (None, OLD));
    answer_by_id(&mut fetcher, token, OLD, data(0, batch(10, 4, 5)));
    assert_eq!(fetcher.position(&key(0)), Some(15));
    fetcher.unassign(&key(0));
    fetcher.assign(start(0, 15));
    let (token, _, request) = ask(&mut fetcher, &known_as(OLD));
    assert_eq!((request.session_epoch, request.topics.len()), (1, 1));
    answer_by_id(&mut fetcher, token, OLD, data(0, vec![]));
    fetcher.close();
    let (_, max_version, last) = ask(&mut fetcher, &known_as(OLD));
    assert_eq!((max_version, last.session_epoch), (None, -1));
}

/// The broker has no topic of the id any more, whatever it has under the name: nothing of that is read.
#[test]
fn a_topic_created_anew_is_noticed_by_the_broker_before_any_record_of_it_is_read() {
    let mut fetcher = fetcher(&[(0, 10)]);
    let (token, ..) = ask(&mut fetcher, &known_as(OLD));
    answer_by_id(&mut fetcher, token, OLD, failure(0, ErrorCode::UNKNOWN_TOPIC_ID));
    assert_eq!(events(&mut fetcher), []);
    let stale = StaleMetadata::Leader { topic_partition: key(0), hint: None };
    assert_eq!(fetcher.poll_stale_metadata(), Some(stale));
    fetcher.handle_topic_recreated("t", OLD, NEW);
    let recreated = FetchError::TopicRecreated { old_id: OLD, new_id: NEW };
    assert_eq!(
        events(&mut fetcher),
        [FetchEvent::Failed { topic_partition: key(0), error: recreated }]
    );
    // Whoever wants the new topic starts anew, in a session of its own.
    fetcher.unassign(&key(0));
    fetcher.assign(start(0, 0));
    let (_, _, request) = ask(&mut fetcher, &known_as(NEW));
    assert_eq!((request.session_epoch, request.topics[0].topic_id), (0, NEW));
}

/// While a topic is gone the metadata may be looked at, and forget it: the position still is of the topic before.
#[test]
fn a_topic_created_anew_is_noticed_although_the_metadata_have_forgotten_the_one_before() {
    let mut fetcher = fetcher(&[(0, 10)]);
    let (token, ..) = ask(&mut fetcher, &known_as(OLD));
    answer_by_id(&mut fetcher, token, OLD, data(0, vec![]));
    events(&mut fetcher);
    assert_eq!(fetcher.poll_request(T0, &known_as(NEW)), None);
    let recreated = FetchError::TopicRecreated { old_id: OLD, new_id: NEW };
    assert_eq!(
        events(&mut fetcher),
        [FetchEvent::Failed { topic_partition: key(0), error: recreated }]
    );
}
