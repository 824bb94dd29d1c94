use bytes::Bytes;
use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse,
};

use super::*;
use crate::fetch::FetchedPartition;
use crate::fetch::batch_walk::tests::batch;
use crate::messages::{
    AbortedTransaction, EpochEndOffset, FetchPartitionResponse, FetchResponse, FetchTopicResponse,
    LeaderIdAndEpoch,
};
use crate::network::DisconnectReason;
use crate::test_metadata::metadata;

mod read_replica;
mod session_model;
mod topic_ids;

#[test]
fn fetch_names_position_epochs_and_bounds() {
    let mut fetcher = fetcher(&[(0, 10)]);
    let request = fetcher.poll_request(T0, &leaders()).unwrap();
    assert_eq!(
        (request.destination, request.class, request.max_version, request.timeout),
        (
            Destination::Node(NodeId(1)),
            ConnectionClass::Fetch,
            Some(12),
            Duration::from_millis(30_500)
        )
    );
    assert_eq!(
        request.request,
        Request::Fetch(FetchRequest {
            max_wait_ms: 500,
            min_bytes: 1,
            max_bytes: 50 << 20,
            isolation_level: IsolationLevel::ReadCommitted,
            session_id: 0,
            session_epoch: 0,
            topics: vec![FetchTopic::by_name(
                "t",
                vec![FetchPartition {
                    partition: 0,
                    current_leader_epoch: 5,
                    fetch_offset: 10,
                    last_fetched_epoch: 4,
                    log_start_offset: -1,
                    partition_max_bytes: 1 << 20,
                }]
            )],
            forgotten_topics: vec![],
            rack_id: String::new(),
        })
    );
}

#[test]
fn until_a_reader_is_in_a_hurry_more_bytes_are_waited_for() {
    let mut fetcher = fetcher(&[(0, 10)]);
    let millis = Duration::from_millis;
    let until = T0.after(millis(90));
    fetcher.set_pace(FetchPace { until, min_bytes: 5000, max_wait: millis(50) });
    let mut asked = Vec::new();
    for at in [0, 50, 89, 90, 95] {
        let now = T0.after(millis(at));
        let request = fetcher.poll_request(now, &leaders()).unwrap();
        let Request::Fetch(fetch) = &request.request else { panic!() };
        asked.push((fetch.max_wait_ms, fetch.min_bytes));
        answer_at(&mut fetcher, now, request.token, 7, vec![data(0, Vec::new())]);
    }
    assert_eq!(asked, [(50, 5000), (40, 5000), (1, 5000), (500, 1), (500, 1)]);
}

#[test]
fn data_is_handed_out_whole_batches_only_and_the_position_is_their_end() {
    let mut fetcher = fetcher(&[(0, 10)]);
    let records = [batch(8, 4, 5), batch(13, 1, 6), batch(15, 0, 6)[..30].to_vec()].concat();
    let aborted = vec![AbortedTransaction { producer_id: 9, first_offset: 12 }];
    let answer = FetchPartitionResponse {
        aborted_transactions: Some(aborted.clone()),
        ..data(0, records.clone())
    };
    exchange(&mut fetcher, 7, vec![answer]);
    assert_eq!(
        events(&mut fetcher),
        vec![FetchEvent::Records(FetchedPartition {
            topic_partition: key(0),
            node: NodeId(1),
            fetch_offset: 10,
            next_offset: 15,
            leader_epoch: 6,
            high_watermark: 100,
            last_stable_offset: 90,
            log_start_offset: 0,
            records: Bytes::from(records[..122].to_vec()),
            aborted_transactions: aborted,
            isolation_level: IsolationLevel::ReadCommitted,
        })]
    );
    assert_eq!(fetcher.position(&key(0)), Some(15));
    let next = fetch_request(&mut fetcher, T0);
    assert_eq!(
        next.topics[0].partitions[0],
        FetchPartition {
            partition: 0,
            current_leader_epoch: 5,
            fetch_offset: 15,
            last_fetched_epoch: 6,
            log_start_offset: -1,
            partition_max_bytes: 1 << 20,
        }
    );
}

/// B035: answers that hold only aborted data move the position batch by batch. B039: so do empty batches.
#[test]
fn position_moves_over_batches_without_anything_visible() {
    let mut fetcher = fetcher(&[(0, 10)]);
    for offset in [10, 20, 30] {
        exchange(&mut fetcher, 7, vec![data(0, batch(offset, 9, 5))]);
        assert_eq!(fetcher.position(&key(0)), Some(offset + 10));
    }
}

/// B037: the last offset below the high watermark is a commit marker. B080: an event alone moves nothing.
#[test]
fn end_is_seen_by_the_position_behind_the_last_marker() {
    let mut fetcher = fetcher(&[(0, 10)]);
    exchange(&mut fetcher, 7, vec![data(0, batch(10, 89, 5))]);
    let FetchEvent::Records(fetched) = fetcher.poll_event().unwrap() else { panic!() };
    assert_eq!((fetched.next_offset, fetched.high_watermark), (100, 100));
    exchange(&mut fetcher, 7, vec![]);
    assert_eq!(
        events(&mut fetcher),
        vec![FetchEvent::Progress {
            topic_partition: key(0),
            position: 100,
            high_watermark: 100,
            last_stable_offset: 90,
        }]
    );
    assert_eq!(fetcher.position(&key(0)), Some(100));
}

#[test]
fn only_the_newest_of_unread_progress_news_is_kept() {
    let mut fetcher = fetcher(&[(0, 10)]);
    let idle = |hw| FetchPartitionResponse { high_watermark: hw, ..data(0, vec![]) };
    for hw in [100, 110, 120] {
        exchange(&mut fetcher, 7, vec![idle(hw)]);
    }
    assert_eq!(
        events(&mut fetcher),
        vec![FetchEvent::Progress {
            topic_partition: key(0),
            position: 10,
            high_watermark: 120,
            last_stable_offset: 90,
        }]
    );
}

/// B090: a position set anew is sent within the session, and the answer to the old one is dropped.
#[test]
fn answer_to_a_position_that_was_set_anew_is_dropped() {
    let mut fetcher = fetcher(&[(0, 10)]);
    exchange(&mut fetcher, 7, vec![data(0, vec![])]);
    events(&mut fetcher);
    let request = fetcher.poll_request(T0, &leaders()).unwrap();
    fetcher.assign(start(0, 500));
    answer(&mut fetcher, request.token, 7, vec![data(0, batch(10, 0, 5))]);
    assert_eq!(events(&mut fetcher), vec![]);
    let next = fetch_request(&mut fetcher, T0);
    assert_eq!((next.session_id, next.session_epoch), (7, 2));
    assert_eq!(next.topics[0].partitions[0].fetch_offset, 500);
    // Also if it is set back to where it was: what was handed out would come twice.
    let token = RequestToken(fetcher.next_token - 1);
    fetcher.assign(start(0, 500));
    answer(&mut fetcher, token, 7, vec![data(0, batch(500, 0, 5))]);
    assert_eq!(events(&mut fetcher), vec![]);
}

/// B092, B094: partitions that are not wanted any more are forgotten, the last one of a broker too.
#[test]
fn unassigned_and_paused_partitions_leave_the_session() {
    let mut fetcher = fetcher(&[(0, 10), (1, 20)]);
    exchange(&mut fetcher, 7, vec![data(0, vec![]), data(1, vec![])]);
    fetcher.unassign(&key(0));
    fetcher.pause(&key(1));
    assert_eq!(fetcher.poll_request(T0, &leaders()), None);
    fetcher.resume(&key(1));
    let next = fetch_request(&mut fetcher, T0);
    assert_eq!(next.topics, vec![]);
    assert_eq!(next.forgotten_topics, vec![ForgottenTopic::by_name("t", vec![0])]);
}

#[test]
fn partition_with_unread_data_is_left_out_until_it_is_released() {
    let mut fetcher =
        Fetcher::new(FetchConfig { partition_prefetch_bytes: 100, ..FetchConfig::default() }, 1);
    fetcher.assign(start(0, 10));
    fetcher.assign(start(1, 20));
    exchange(&mut fetcher, 7, vec![data(0, batch(10, 0, 5)), data(1, vec![])]);
    // One batch of 61 bytes is below the bound, two are not.
    exchange(&mut fetcher, 7, vec![data(0, batch(11, 0, 5))]);
    let next = fetch_request(&mut fetcher, T0);
    assert_eq!(next.forgotten_topics, vec![ForgottenTopic::by_name("t", vec![0])]);
    assert_eq!(next.max_wait_ms, 50, "the partition left out must not wait for a long poll");
    let token = RequestToken(fetcher.next_token - 1);
    answer(&mut fetcher, token, 7, vec![]);
    fetcher.release(&key(0), 61);
    let next = fetch_request(&mut fetcher, T0);
    assert_eq!(next.topics[0].partitions[0].fetch_offset, 12);
    assert_eq!(next.max_wait_ms, 500);
}

#[test]
fn partition_without_unread_data_is_asked_for_whatever_the_others_hold() {
    let config = FetchConfig { prefetch_bytes: 61, ..FetchConfig::default() };
    let mut fetcher = Fetcher::new(config, 1);
    fetcher.assign(start(0, 10));
    fetcher.assign(start(1, 20));
    exchange(&mut fetcher, 7, vec![data(0, batch(10, 0, 5)), data(1, vec![])]);
    let next = fetch_request(&mut fetcher, T0);
    assert_eq!(next.topics, vec![]);
    assert_eq!(next.forgotten_topics, vec![ForgottenTopic::by_name("t", vec![0])]);
}

#[test]
fn one_request_per_broker_is_in_flight() {
    let mut fetcher = fetcher(&[(0, 10), (2, 30)]);
    let first = fetcher.poll_request(T0, &leaders()).unwrap();
    let second = fetcher.poll_request(T0, &leaders()).unwrap();
    assert_eq!(
        (first.destination, second.destination),
        (Destination::Node(NodeId(1)), Destination::Node(NodeId(2)))
    );
    assert_eq!(fetcher.poll_request(T0, &leaders()), None);
}

#[test]
fn who_was_served_longest_ago_is_listed_first() {
    let mut fetcher = fetcher(&[(0, 10), (1, 20)]);
    exchange(&mut fetcher, 0, vec![data(0, batch(10, 0, 5)), data(1, vec![])]);
    let listed: Vec<i32> = fetch_request(&mut fetcher, T0).topics[0]
        .partitions
        .iter()
        .map(|entry| entry.partition)
        .collect();
    assert_eq!(listed, vec![1, 0]);
}

#[test]
fn moved_leader_is_looked_up_with_the_hint_and_the_position_stays() {
    for code in [
        ErrorCode::NOT_LEADER_OR_FOLLOWER,
        ErrorCode::FENCED_LEADER_EPOCH,
        ErrorCode::KAFKA_STORAGE_ERROR,
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
    ] {
        let mut fetcher = fetcher(&[(0, 10)]);
        let hint = LeaderIdAndEpoch { leader_id: 2, leader_epoch: 6 };
        let refused = FetchPartitionResponse {
            error_code: code,
            current_leader: Some(hint),
            ..data(0, vec![])
        };
        exchange(&mut fetcher, 7, vec![refused]);
        assert_eq!(
            fetcher.poll_stale_metadata(),
            Some(StaleMetadata::Leader { topic_partition: key(0), hint: Some(hint) })
        );
        assert_eq!(events(&mut fetcher), vec![]);
        assert_eq!(fetcher.poll_request(T0, &leaders()), None, "it waits before it asks again");
        let at = fetcher.poll_timeout().unwrap();
        fetcher.handle_timeout(at);
        assert_eq!(fetcher.poll_timeout(), None);
        let moved = metadata("t", &[(0, 2, 6)]);
        let next = fetcher.poll_request(at, &moved).unwrap();
        assert_eq!(next.destination, Destination::Node(NodeId(2)));
        assert_eq!(fetcher.position(&key(0)), Some(10));
    }
}

#[test]
fn broker_behind_our_metadata_is_asked_again_without_new_metadata() {
    let mut fetcher = fetcher(&[(0, 10)]);
    exchange(&mut fetcher, 7, vec![failure(0, ErrorCode::UNKNOWN_LEADER_EPOCH)]);
    assert_eq!(fetcher.poll_stale_metadata(), None);
    assert!(fetcher.poll_timeout().is_some());
}

/// B098: a topic that is gone ends its own partitions in time, and no others.
#[test]
fn unavailable_leader_is_borne_for_ever_unknown_topic_is_not() {
    let mut fetcher = fetcher(&[(0, 10), (1, 20)]);
    let mut now = T0;
    while now < T0.after(Duration::from_secs(59)) {
        let codes = vec![
            failure(0, ErrorCode::NOT_LEADER_OR_FOLLOWER),
            failure(1, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        ];
        now = exchange_at(&mut fetcher, now, 0, codes).after(Duration::from_secs(2));
        fetcher.handle_timeout(now);
        assert_eq!(events(&mut fetcher), vec![]);
    }
    now = now.after(Duration::from_secs(2));
    exchange_at(
        &mut fetcher,
        now,
        0,
        vec![
            failure(0, ErrorCode::NOT_LEADER_OR_FOLLOWER),
            failure(1, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        ],
    );
    assert_eq!(
        events(&mut fetcher),
        vec![FetchEvent::Failed {
            topic_partition: key(1),
            error: FetchError::UnknownTopicOrPartition { after: Duration::from_secs(60) },
        }]
    );
}

#[test]
fn partition_that_metadata_do_not_know_fails_after_a_while_an_election_does_not() {
    let mut fetcher = Fetcher::new(FetchConfig::default(), 1);
    fetcher.assign(start(0, 10));
    fetcher.assign(start(9, 10));
    let electing = metadata("t", &[(0, -1, 5)]);
    let mut now = T0;
    for _ in 0..40 {
        assert_eq!(fetcher.poll_request(now, &electing), None);
        assert!(fetcher.poll_stale_metadata().is_some());
        now = now.after(Duration::from_secs(2));
        fetcher.handle_timeout(now);
    }
    let failed: Vec<FetchEvent> = events(&mut fetcher);
    assert_eq!(failed.len(), 1);
    assert!(matches!(
        &failed[0],
        FetchEvent::Failed { topic_partition, error: FetchError::UnknownTopicOrPartition { .. } }
            if *topic_partition == key(9)
    ));
}

#[test]
fn offset_below_the_log_start_and_beyond_the_end_are_different_failures() {
    let below = FetchError::OffsetBelowLogStart { position: 10, log_start_offset: 50 };
    let beyond = FetchError::OffsetBeyondEnd { position: 10, end_offset: 4 };
    for (earliest, latest, error) in [(50, 90, below), (0, 4, beyond)] {
        let mut fetcher = fetcher(&[(0, 10)]);
        let refused = FetchPartitionResponse {
            log_start_offset: -1,
            ..failure(0, ErrorCode::OFFSET_OUT_OF_RANGE)
        };
        exchange(&mut fetcher, 7, vec![refused]);
        for (timestamp, offset) in [(EARLIEST, earliest), (LATEST, latest)] {
            let Some(request) = fetcher.poll_request(T0, &leaders()) else { break };
            let Request::ListOffsets(list) = &request.request else { panic!("{request:?}") };
            let asked = &list.topics[0].partitions[0];
            assert_eq!(
                (asked.timestamp, asked.current_leader_epoch, list.isolation_level),
                (timestamp, 5, 0)
            );
            assert_eq!(fetcher.poll_request(T0, &leaders()), None, "one question at a time");
            fetcher.handle_response(T0, request.token, Ok(listed(ErrorCode::NONE, offset)));
        }
        assert_eq!(
            events(&mut fetcher),
            vec![FetchEvent::Failed { topic_partition: key(0), error }]
        );
        assert_eq!(fetcher.position(&key(0)), Some(10), "never a silent reset");
        assert_eq!(fetcher.poll_request(T0, &leaders()), None);
        fetcher.assign(start(0, 60));
        assert_eq!(fetch_request(&mut fetcher, T0).topics[0].partitions[0].fetch_offset, 60);
    }
}

#[test]
fn refused_offset_that_is_in_range_is_tried_again_without_its_epoch_then_fails() {
    let mut fetcher = fetcher(&[(0, 10)]);
    let mut now = T0;
    let refused = || FetchPartitionResponse {
        log_start_offset: -1,
        ..failure(0, ErrorCode::OFFSET_OUT_OF_RANGE)
    };
    let round = |fetcher: &mut Fetcher, now: Timestamp| {
        exchange_at(fetcher, now, 0, vec![refused()]);
        for offset in [0, 90] {
            let request = fetcher.poll_request(now, &leaders()).unwrap();
            fetcher.handle_response(now, request.token, Ok(listed(ErrorCode::NONE, offset)));
        }
    };
    round(&mut fetcher, now);
    assert_eq!(events(&mut fetcher), vec![]);
    now = now.after(Duration::from_secs(1));
    fetcher.handle_timeout(now);
    let request = fetcher.poll_request(now, &leaders()).unwrap();
    let Request::Fetch(fetch) = &request.request else { panic!() };
    assert_eq!(fetch.topics[0].partitions[0].last_fetched_epoch, -1);
    fetcher.handle_response(now, request.token, Err(lost()));
    now = now.after(Duration::from_secs(61));
    fetcher.handle_timeout(now);
    round(&mut fetcher, now);
    assert_eq!(
        events(&mut fetcher),
        vec![FetchEvent::Failed {
            topic_partition: key(0),
            error: FetchError::OffsetOutOfRange {
                position: 10,
                log_start_offset: 0,
                end_offset: 90
            },
        }]
    );
}

/// B084: a leader that can not be reached, for its name does not resolve or otherwise, resets nothing.
#[test]
fn bounds_are_asked_for_again_when_the_answer_fails() {
    let mut fetcher = fetcher(&[(0, 10)]);
    let refused = FetchPartitionResponse {
        log_start_offset: -1,
        ..failure(0, ErrorCode::OFFSET_OUT_OF_RANGE)
    };
    exchange(&mut fetcher, 7, vec![refused]);
    let mut now = T0;
    for result in [
        Err(lost()),
        Ok(listed(ErrorCode::NOT_LEADER_OR_FOLLOWER, -1)),
        Ok(listed(ErrorCode::NONE, 50)),
    ] {
        let request = fetcher.poll_request(now, &leaders()).unwrap();
        assert!(matches!(request.request, Request::ListOffsets(_)));
        fetcher.handle_response(now, request.token, result);
        now = now.after(Duration::from_secs(2));
        fetcher.handle_timeout(now);
    }
    assert_eq!(
        events(&mut fetcher),
        vec![FetchEvent::Failed {
            topic_partition: key(0),
            error: FetchError::OffsetBelowLogStart { position: 10, log_start_offset: 50 },
        }]
    );
}

#[test]
fn log_start_told_with_the_refusal_spares_the_question() {
    let mut fetcher = fetcher(&[(0, 10)]);
    let refused = FetchPartitionResponse {
        log_start_offset: 11,
        ..failure(0, ErrorCode::OFFSET_OUT_OF_RANGE)
    };
    exchange(&mut fetcher, 7, vec![refused]);
    assert_eq!(
        events(&mut fetcher),
        vec![FetchEvent::Failed {
            topic_partition: key(0),
            error: FetchError::OffsetBelowLogStart { position: 10, log_start_offset: 11 },
        }]
    );
}

#[test]
fn failures_of_the_data_name_what_is_wrong_and_leave_the_position() {
    let corrupt = {
        let mut bytes = batch(10, 0, 5);
        bytes[11] = 3;
        bytes
    };
    let diverging = FetchPartitionResponse {
        diverging_epoch: Some(EpochEndOffset { epoch: 3, end_offset: 6 }),
        ..data(0, vec![])
    };
    let cases = [
        (
            data(0, corrupt),
            FetchError::CorruptBatch { offset: 10, detail: "impossible length".into() },
        ),
        (
            data(0, batch(10, 0, 5)[..40].to_vec()),
            FetchError::NoWholeBatch { position: 10, bytes: 40 },
        ),
        (data(0, batch(5, 0, 5)), FetchError::NoProgress { position: 10 }),
        (
            diverging,
            FetchError::Truncated {
                position: 10,
                leader_epoch: 4,
                diverging_epoch: 3,
                end_offset: 6,
            },
        ),
        (
            failure(0, ErrorCode::TOPIC_AUTHORIZATION_FAILED),
            FetchError::Broker { code: ErrorCode::TOPIC_AUTHORIZATION_FAILED },
        ),
    ];
    for (answer, error) in cases {
        let mut fetcher = fetcher(&[(0, 10)]);
        exchange(&mut fetcher, 7, vec![answer]);
        assert_eq!(
            events(&mut fetcher),
            vec![FetchEvent::Failed { topic_partition: key(0), error }]
        );
        assert_eq!(fetcher.position(&key(0)), Some(10));
    }
}

/// B088: a leader that knows no end of our epoch has not lost anything. Its log's bounds are asked for, and reading goes on.
#[test]
fn undefined_end_of_an_epoch_is_no_truncation() {
    for (epoch, end_offset) in [(-1, -1), (3, -1), (-1, 6)] {
        let mut fetcher = fetcher(&[(0, 10)]);
        let undefined = FetchPartitionResponse {
            diverging_epoch: Some(EpochEndOffset { epoch, end_offset }),
            ..data(0, vec![])
        };
        exchange(&mut fetcher, 7, vec![undefined]);
        for offset in [0, 90] {
            let request = fetcher.poll_request(T0, &leaders()).unwrap();
            fetcher.handle_response(T0, request.token, Ok(listed(ErrorCode::NONE, offset)));
        }
        assert_eq!(events(&mut fetcher), vec![]);
        let at = fetcher.poll_timeout().unwrap();
        fetcher.handle_timeout(at);
        let next = fetch_request(&mut fetcher, at).topics[0].partitions[0];
        assert_eq!((next.fetch_offset, next.last_fetched_epoch), (10, -1));
    }
}

#[test]
fn whole_batches_before_a_corrupt_one_are_delivered_first() {
    let mut fetcher = fetcher(&[(0, 10)]);
    let mut corrupt = batch(11, 0, 5);
    corrupt[11] = 3;
    exchange(&mut fetcher, 7, vec![data(0, [batch(10, 0, 5), corrupt.clone()].concat())]);
    exchange(&mut fetcher, 7, vec![data(0, corrupt)]);
    let events = events(&mut fetcher);
    assert!(matches!(&events[0], FetchEvent::Records(fetched) if fetched.next_offset == 11));
    assert_eq!(
        events[1..],
        [FetchEvent::Failed {
            topic_partition: key(0),
            error: FetchError::CorruptBatch { offset: 11, detail: "impossible length".into() },
        }]
    );
}

/// B096: both ids are named.
#[test]
fn recreated_topic_fails_its_partitions() {
    let mut fetcher = fetcher(&[(0, 10)]);
    fetcher.handle_topic_recreated("other", [0; 16], [1; 16]);
    fetcher.handle_topic_recreated("t", [0; 16], [1; 16]);
    assert_eq!(
        events(&mut fetcher),
        vec![FetchEvent::Failed {
            topic_partition: key(0),
            error: FetchError::TopicRecreated { old_id: [0; 16], new_id: [1; 16] },
        }]
    );
}

#[test]
fn lost_connection_asks_for_metadata_waits_and_lists_everything_again() {
    let mut fetcher = fetcher(&[(0, 10)]);
    exchange(&mut fetcher, 7, vec![data(0, vec![])]);
    let request = fetcher.poll_request(T0, &leaders()).unwrap();
    fetcher.handle_response(T0, request.token, Err(lost()));
    assert_eq!(
        fetcher.poll_stale_metadata(),
        Some(StaleMetadata::Leader { topic_partition: key(0), hint: None })
    );
    assert_eq!(fetcher.poll_request(T0, &leaders()), None);
    let at = fetcher.poll_timeout().unwrap();
    fetcher.handle_timeout(at);
    let next = fetch_request(&mut fetcher, at);
    assert_eq!((next.session_id, next.session_epoch), (7, 0));
    assert_eq!(next.topics[0].partitions[0].fetch_offset, 10);
    // An answer that comes after all is to a token that is not known any more.
    fetcher.handle_response(T0, request.token, Ok(Response::Fetch(FetchResponse::default())));
    assert_eq!(fetcher.poll_timeout(), None);
}

#[test]
fn evicted_session_is_replaced_at_once_but_not_in_a_tight_loop() {
    let mut fetcher = fetcher(&[(0, 10)]);
    exchange(&mut fetcher, 7, vec![data(0, vec![])]);
    let evicted = || {
        Ok(Response::Fetch(FetchResponse {
            error_code: ErrorCode::FETCH_SESSION_ID_NOT_FOUND,
            ..FetchResponse::default()
        }))
    };
    let request = fetcher.poll_request(T0, &leaders()).unwrap();
    fetcher.handle_response(T0, request.token, evicted());
    let request = fetcher.poll_request(T0, &leaders()).unwrap();
    fetcher.handle_response(T0, request.token, evicted());
    assert_eq!(fetcher.poll_request(T0, &leaders()), None);
    assert!(fetcher.poll_timeout().is_some());
}

#[test]
fn version_that_the_broker_lacks_fails_at_once() {
    let mut fetcher = fetcher(&[(0, 10)]);
    let request = fetcher.poll_request(T0, &leaders()).unwrap();
    let error = RequestError::UnsupportedByBroker {
        api: crate::ApiKey::Fetch,
        ours_min: 4,
        ours_max: 12,
        theirs_min: 0,
        theirs_max: 3,
    };
    fetcher.handle_response(T0, request.token, Err(error.clone()));
    assert_eq!(
        events(&mut fetcher),
        vec![FetchEvent::Failed { topic_partition: key(0), error: FetchError::Request(error) }]
    );
}

#[test]
fn closing_ends_every_open_session() {
    let mut fetcher = fetcher(&[(0, 10)]);
    exchange(&mut fetcher, 7, vec![data(0, vec![])]);
    let under_way = fetcher.poll_request(T0, &leaders()).unwrap();
    fetcher.close();
    assert_eq!(fetcher.poll_request(T0, &leaders()), None);
    answer(&mut fetcher, under_way.token, 7, vec![]);
    let last = fetch_request(&mut fetcher, T0);
    assert_eq!((last.session_id, last.session_epoch, last.topics), (7, -1, vec![]));
    assert_eq!(fetcher.poll_request(T0, &leaders()), None);
}

const T0: Timestamp = Timestamp::from_micros(1_000_000);
const EARLIEST: i64 = -2;
const LATEST: i64 = -1;

fn key(partition: i32) -> TopicPartition {
    TopicPartition::new("t", partition)
}

fn start(partition: i32, offset: i64) -> FetchStart {
    FetchStart { topic_partition: key(partition), offset, leader_epoch: 4 }
}

fn fetcher(starts: &[(i32, i64)]) -> Fetcher {
    let mut fetcher = Fetcher::new(FetchConfig::default(), 1);
    for (partition, offset) in starts {
        fetcher.assign(start(*partition, *offset));
    }
    fetcher
}

/// Partitions 0 and 1 on broker 1, 2 on broker 2.
fn leaders() -> Metadata {
    metadata("t", &[(0, 1, 5), (1, 1, 5), (2, 2, 5)])
}

fn data(partition: i32, records: Vec<u8>) -> FetchPartitionResponse {
    FetchPartitionResponse {
        partition,
        high_watermark: 100,
        last_stable_offset: 90,
        log_start_offset: 0,
        records: Bytes::from(records),
        ..FetchPartitionResponse::default()
    }
}

fn failure(partition: i32, error_code: ErrorCode) -> FetchPartitionResponse {
    FetchPartitionResponse { partition, error_code, ..FetchPartitionResponse::default() }
}

fn listed(code: ErrorCode, offset: i64) -> Response {
    let partition = ListOffsetsPartitionResponse::default()
        .with_partition_index(0)
        .with_error_code(code.0)
        .with_offset(offset);
    let topic = ListOffsetsTopicResponse::default()
        .with_name(kafka_protocol::messages::TopicName(crate::messages::StrBytes::from_static_str(
            "t",
        )))
        .with_partitions(vec![partition]);
    Response::ListOffsets(ListOffsetsResponse::default().with_topics(vec![topic]))
}

fn lost() -> RequestError {
    RequestError::Disconnected {
        destination: Destination::Node(NodeId(1)),
        reason: DisconnectReason::Closed,
        sent: true,
    }
}

fn fetch_request(fetcher: &mut Fetcher, now: Timestamp) -> FetchRequest {
    match fetcher.poll_request(now, &leaders()).unwrap().request {
        Request::Fetch(request) => request,
        other => panic!("{other:?}"),
    }
}

fn answer(
    fetcher: &mut Fetcher,
    token: RequestToken,
    session_id: i32,
    partitions: Vec<FetchPartitionResponse>,
) {
    answer_at(fetcher, T0, token, session_id, partitions);
}

fn answer_at(
    fetcher: &mut Fetcher,
    now: Timestamp,
    token: RequestToken,
    session_id: i32,
    partitions: Vec<FetchPartitionResponse>,
) {
    let topics = vec![FetchTopicResponse::by_name("t", partitions)];
    let response = FetchResponse { session_id, topics, ..FetchResponse::default() };
    fetcher.handle_response(now, token, Ok(Response::Fetch(response)));
}

fn exchange(fetcher: &mut Fetcher, session_id: i32, partitions: Vec<FetchPartitionResponse>) {
    exchange_at(fetcher, T0, session_id, partitions);
}

fn exchange_at(
    fetcher: &mut Fetcher,
    now: Timestamp,
    session_id: i32,
    partitions: Vec<FetchPartitionResponse>,
) -> Timestamp {
    let request = fetcher.poll_request(now, &leaders()).unwrap();
    answer_at(fetcher, now, request.token, session_id, partitions);
    now
}

fn events(fetcher: &mut Fetcher) -> Vec<FetchEvent> {
    std::iter::from_fn(|| fetcher.poll_event()).collect()
}
