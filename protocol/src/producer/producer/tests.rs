use super::*;
use crate::ErrorCode;
use crate::messages::{
    ApiKey, LeaderIdAndEpoch, ProducePartition, ProducePartitionResponse, ProduceRequest,
    ProduceResponse, ProduceTopic, ProduceTopicResponse, RecordError, Request, kp,
};
use crate::network::{ConnectionClass, Destination, DisconnectReason};
use crate::records::{BatchBuilder, BatchView, Compression};
use crate::test_metadata::metadata;

mod deliveries;
mod partition_model;

#[test]
fn batches_of_a_broker_go_in_one_request_one_per_partition() {
    let mut producer = ready(2);
    producer.begin_transaction(T0, 1).unwrap();
    for (partition, records) in [(0, 2), (1, 1), (2, 1), (0, 3)] {
        producer.send_batch(T0, key(partition), batch(records), 1);
    }
    let requests = requests(&mut producer, T0);
    let produce = |partitions: Vec<(i32, usize, i32)>| {
        let partitions = partitions
            .into_iter()
            .map(|(partition, records, sequence)| ProducePartition {
                partition,
                records: stamped(records, 3, sequence),
            })
            .collect();
        Request::Produce(ProduceRequest {
            transactional_id: Some("job".to_owned()),
            acks: -1,
            timeout_ms: 30_000,
            topics: vec![ProduceTopic { topic: "t".into(), partitions }],
        })
    };
    let expected = [(1, vec![(0, 2, 0), (1, 1, 0)]), (2, vec![(2, 1, 0)])].into_iter().enumerate();
    assert_eq!(
        requests,
        expected
            .map(|(token, (node, partitions))| OutgoingRequest {
                destination: Destination::Node(NodeId(node)),
                class: ConnectionClass::Produce,
                request: produce(partitions),
                token: RequestToken(token as u64),
                max_version: None,
                timeout: Duration::from_secs(30),
            })
            .collect::<Vec<_>>()
    );
    // KIP-890: until the first batch has registered the partition, others would be out of order.
    acknowledge(&mut producer, &requests[0], &[(0, 10), (1, 20)]);
    assert_eq!(sent(&self::requests(&mut producer, T0)), vec![(RequestToken(2), vec![(0, 3, 2)])]);
}

#[test]
fn window_opens_to_five_once_the_first_batch_of_a_partition_is_acknowledged() {
    for version in [2, 1] {
        let mut producer = ready(version);
        producer.begin_transaction(T0, 1).unwrap();
        for _ in 0..12 {
            producer.send_batch(T0, key(0), batch(1), 1);
        }
        let before = register(&mut producer, version);
        assert_eq!(before.len(), 1);
        acknowledge(&mut producer, &before[0], &[(0, 10)]);
        let after = requests(&mut producer, T0);
        assert_eq!(after.len(), 5);
        assert_eq!(
            after.iter().map(|request| request.max_version).collect::<Vec<_>>(),
            vec![(version == 1).then_some(11); 5]
        );
    }
}

/// The leader that wrote a transaction which was committed knows the producer: the next one's batches need not wait for the first.
#[test]
fn window_is_open_from_the_start_where_the_transaction_before_was_written() {
    for (committed, leader, expected) in [(true, 1, 5), (true, 2, 1), (false, 1, 1)] {
        let mut producer = registered();
        if committed {
            commit(&mut producer, T0, 4);
        } else {
            producer.abort_transaction(T0);
            let end = requests(&mut producer, T0);
            producer.handle_response(T0, end[0].token, 5, Ok(ended(4)));
            assert_eq!(events(&mut producer), vec![ProducerEvent::Aborted(Ok(()))]);
        }
        producer.begin_transaction(T0, 2).unwrap();
        for partition in [0, 1] {
            for _ in 0..6 {
                producer.send_batch(T0, key(partition), batch(1), 2);
            }
        }
        // The markers of the first are written meanwhile.
        let now = T0.after(Duration::from_millis(20));
        let metadata = metadata("t", &[(0, leader, 5), (1, 1, 5)]);
        let mut of_partition = [0; 2];
        while let Some(request) = producer.poll_request(now, &metadata) {
            for (_, partitions) in sent(&[request]) {
                partitions
                    .iter()
                    .for_each(|(partition, _, _)| of_partition[*partition as usize] += 1);
            }
        }
        // Nothing of partition 1 was acknowledged.
        assert_eq!(of_partition, [expected, 1], "committed {committed}, leader {leader}");
    }
}

#[test]
fn requests_stay_below_their_size_and_number() {
    let mut config = config();
    config.max_request_size = 2 * stamped(1, 3, 0).len();
    config.max_in_flight = 2;
    let mut producer = ready_with(config, 2);
    producer.begin_transaction(T0, 1).unwrap();
    for partition in [0, 1, 3, 4, 5, 6] {
        producer.send_batch(T0, key(partition), batch(1), 1);
    }
    let first = requests(&mut producer, T0);
    let partitions = |requests: &[OutgoingRequest]| {
        let of = |parts: Vec<(i32, i32, i32)>| parts.iter().map(|part| part.0).collect::<Vec<_>>();
        sent(requests).into_iter().map(|(_, parts)| of(parts)).collect::<Vec<_>>()
    };
    assert_eq!(partitions(&first), vec![vec![0, 1], vec![3, 4]]);
    acknowledge(&mut producer, &first[0], &[(0, 1), (1, 1)]);
    assert_eq!(partitions(&requests(&mut producer, T0)), vec![vec![5, 6]]);
}

#[test]
fn tv1_adds_every_partition_before_any_batch() {
    let mut producer = ready(1);
    producer.begin_transaction(T0, 1).unwrap();
    producer.send_batch(T0, key(0), batch(1), 1);
    producer.send_batch(T0, key(2), batch(1), 1);
    let add = requests(&mut producer, T0);
    assert_eq!(add.len(), 1);
    let Request::AddPartitionsToTxn(request) = &add[0].request else { panic!("{add:?}") };
    assert_eq!(request.v3_and_below_topics[0].partitions, vec![0, 2]);
    producer.handle_response(T0, add[0].token, 3, Ok(added(&[0, 2])));
    assert_eq!(requests(&mut producer, T0).len(), 2);
}

#[test]
fn batches_of_later_transactions_wait_for_theirs() {
    let mut producer = ready(2);
    producer.begin_transaction(T0, 1).unwrap();
    producer.send_batch(T0, key(0), batch(5), 2);
    producer.send_batch(T0, key(0), batch(1), 1);
    let first = requests(&mut producer, T0);
    assert_eq!(sent(&first), vec![(RequestToken(0), vec![(0, 1, 0)])]);
    producer.flush(T0, 1);
    assert_eq!(events(&mut producer), vec![]);
    acknowledge(&mut producer, &first[0], &[(0, 40)]);
    assert_eq!(
        events(&mut producer),
        vec![ProducerEvent::Flushed { tag: 1, result: Ok([(key(0), 40)].into()) }]
    );
    commit(&mut producer, T0, 4);
    assert_eq!(requests(&mut producer, T0), vec![]);
    producer.begin_transaction(T0, 2).unwrap();
    // The markers of the first are written meanwhile.
    let question = requests(&mut producer, T0);
    assert_eq!(question.len(), 1, "{question:?}");
    producer.handle_response(T0, question[0].token, 0, Ok(described("CompleteCommit")));
    let second = requests(&mut producer, T0);
    let Request::Produce(request) = &second[0].request else { panic!("{second:?}") };
    assert_eq!(
        request.topics[0].partitions[0].records,
        stamped(5, 4, 0),
        "sequences start anew with the epoch of the EndTxn answer"
    );
}

/// B061: whatever happens between, a retried batch is the same bytes.
#[test]
fn retry_sends_the_same_bytes_after_a_backoff() {
    let moved = ErrorCode::NOT_LEADER_OR_FOLLOWER;
    for trouble in [
        Err(lost()),
        Ok(ErrorCode::REQUEST_TIMED_OUT),
        Ok(ErrorCode::NOT_ENOUGH_REPLICAS),
        Ok(ErrorCode::CONCURRENT_TRANSACTIONS),
        Ok(ErrorCode::NETWORK_EXCEPTION),
        Ok(moved),
    ] {
        let mut producer = ready(2);
        producer.begin_transaction(T0, 1).unwrap();
        producer.send_batch(T0, key(0), batch(2), 1);
        producer.send_batch(T0, key(0), batch(3), 1);
        let first = requests(&mut producer, T0);
        match trouble.clone() {
            Err(error) => producer.handle_response(T0, first[0].token, 12, Err(error)),
            Ok(code) => fail(&mut producer, &first[0], 0, code),
        }
        assert_eq!(requests(&mut producer, T0), vec![], "{trouble:?}");
        let renewed = producer.poll_stale_metadata().is_some();
        assert_eq!(renewed, trouble.is_err() || trouble == Ok(moved), "{trouble:?}");
        let at = producer.poll_timeout().unwrap();
        producer.handle_timeout(at);
        let again = requests(&mut producer, at);
        assert_eq!(again.len(), 1);
        assert_eq!(again[0].request, first[0].request, "{trouble:?}");
    }
}

#[test]
fn leader_named_by_the_refusal_is_tried_at_once_but_only_once() {
    let mut producer = ready(2);
    producer.begin_transaction(T0, 1).unwrap();
    producer.send_batch(T0, key(0), batch(2), 1);
    let hint = LeaderIdAndEpoch { leader_id: 2, leader_epoch: 9 };
    for tried_at_once in [true, false] {
        let request = producer.poll_request(T0, &leaders()).unwrap();
        let answer = ProducePartitionResponse {
            error_code: ErrorCode::NOT_LEADER_OR_FOLLOWER,
            current_leader: Some(hint),
            ..ProducePartitionResponse::default()
        };
        respond(&mut producer, &request, vec![answer]);
        assert_eq!(
            producer.poll_stale_metadata(),
            Some(StaleMetadata::Leader { topic_partition: key(0), hint: Some(hint) })
        );
        assert_eq!(producer.poll_timeout().unwrap() == T0.after(DELIVERY), tried_at_once);
    }
    assert_eq!(requests(&mut producer, T0), vec![]);
}

/// B047: the first batch is lost with its connection, the second is out of order for that reason alone.
#[test]
fn out_of_order_behind_an_unresolved_batch_is_no_failure() {
    for outcome in [ErrorCode::NONE, ErrorCode::DUPLICATE_SEQUENCE_NUMBER] {
        let mut producer = registered();
        producer.send_batch(T0, key(0), batch(2), 1);
        producer.send_batch(T0, key(0), batch(3), 1);
        let both = requests(&mut producer, T0);
        assert_eq!(both.len(), 2);
        producer.handle_response(T0, both[0].token, 12, Err(lost()));
        fail(&mut producer, &both[1], 0, ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
        producer.flush(T0, 1);
        let at = producer.poll_timeout().unwrap();
        producer.handle_timeout(at);
        for original in &both {
            let again = requests(&mut producer, at);
            assert_eq!(again.len(), 1, "one at a time, oldest first");
            assert_eq!(again[0].request, original.request);
            assert_eq!(events(&mut producer), vec![]);
            fail(&mut producer, &again[0], 0, outcome);
        }
        // No answer named an offset; what is known from before stays.
        assert_eq!(
            events(&mut producer),
            vec![ProducerEvent::Flushed { tag: 1, result: Ok([(key(0), 10)].into()) }]
        );
    }
}

/// B045: the broker lost acknowledged records. The transaction must not go on without them.
#[test]
fn out_of_order_of_the_next_batch_makes_the_transaction_uncommittable() {
    let mut producer = registered();
    producer.send_batch(T0, key(0), batch(2), 1);
    let request = requests(&mut producer, T0).remove(0);
    fail(&mut producer, &request, 0, ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
    let error = ProduceError::abortable(
        ApiKey::Produce,
        ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER,
        Some(key(0)),
    );
    producer.commit_transaction(T0, LIMIT);
    assert_eq!(events(&mut producer), vec![ProducerEvent::Committed(Err(error))]);
    assert_eq!(requests(&mut producer, T0), vec![], "no EndTxn, no new identity");
}

#[test]
fn refused_batch_ends_its_transaction_by_its_code() {
    let fatal = |code| ProduceError::Fatal {
        cause: FatalCause::Refused {
            api: ApiKey::Produce,
            code,
            topic_partition: Some(key(0)),
            message: Some("no; record 1 of the batch: bad".into()),
        },
    };
    let abortable = |code| ProduceError::abortable(ApiKey::Produce, code, Some(key(0)));
    let cases = [
        (ErrorCode::INVALID_PRODUCER_EPOCH, abortable(ErrorCode::INVALID_PRODUCER_EPOCH)),
        (ErrorCode::INVALID_TXN_STATE, abortable(ErrorCode::INVALID_TXN_STATE)),
        (ErrorCode::TRANSACTION_ABORTABLE, abortable(ErrorCode::TRANSACTION_ABORTABLE)),
        (
            ErrorCode::PRODUCER_FENCED,
            ProduceError::Fenced {
                transactional_id: "job".into(),
                api: ApiKey::Produce,
                code: ErrorCode::PRODUCER_FENCED,
            },
        ),
        (ErrorCode::INVALID_TIMESTAMP, fatal(ErrorCode::INVALID_TIMESTAMP)),
        (ErrorCode::TOPIC_AUTHORIZATION_FAILED, fatal(ErrorCode::TOPIC_AUTHORIZATION_FAILED)),
    ];
    for (code, error) in cases {
        let mut producer = registered();
        producer.send_batch(T0, key(0), batch(2), 1);
        producer.send_batch(T0, key(1), batch(2), 1);
        producer.flush(T0, 1);
        let request = requests(&mut producer, T0).remove(0);
        let refused = ProducePartitionResponse {
            error_code: code,
            error_message: Some("no".to_owned()),
            record_errors: vec![RecordError { batch_index: 1, message: Some("bad".to_owned()) }],
            ..ProducePartitionResponse::default()
        };
        let fine = ProducePartitionResponse {
            partition: 1,
            base_offset: 5,
            ..ProducePartitionResponse::default()
        };
        respond(&mut producer, &request, vec![refused, fine]);
        let result = Err(error.clone());
        assert_eq!(events(&mut producer), vec![ProducerEvent::Flushed { tag: 1, result }]);
        producer.send_batch(T0, key(0), batch(1), 1);
        assert_eq!(
            requests(&mut producer, T0),
            vec![],
            "batches of a dead transaction are dropped"
        );
        producer.commit_transaction(T0, LIMIT);
        assert_eq!(events(&mut producer), vec![ProducerEvent::Committed(Err(error))]);
        producer.init_transactions(T0);
        initialize(&mut producer, 9);
        assert_eq!(producer.begin_transaction(T0, 1), Ok(()), "init clears every error");
    }
}

/// B067: one batch of many is not delivered in time.
#[test]
fn batch_that_is_not_delivered_in_time_makes_the_transaction_uncommittable() {
    let mut producer = registered();
    producer.send_batch(T0, key(0), batch(1), 1);
    producer.send_batch(T0, key(1), batch(1), 1);
    let request = requests(&mut producer, T0).remove(0);
    let late = ProducePartitionResponse {
        error_code: ErrorCode::NOT_ENOUGH_REPLICAS,
        ..ProducePartitionResponse::default()
    };
    let fine = ProducePartitionResponse {
        partition: 1,
        base_offset: 5,
        ..ProducePartitionResponse::default()
    };
    respond(&mut producer, &request, vec![late, fine]);
    let mut now = T0;
    while events(&mut producer).is_empty() {
        now = producer.poll_timeout().expect("time runs until the batch expires");
        producer.handle_timeout(now);
        for request in requests(&mut producer, now) {
            let late = ProducePartitionResponse {
                error_code: ErrorCode::NOT_ENOUGH_REPLICAS,
                ..ProducePartitionResponse::default()
            };
            respond_at(&mut producer, now, &request, vec![late]);
        }
        assert!(now.since(T0) < Duration::from_secs(122), "the batch never expired");
        producer.flush(now, 1);
    }
    producer.commit_transaction(now, LIMIT);
    let cause = AbortCause::DeliveryTimedOut {
        topic_partition: key(0),
        after: Duration::from_secs(120),
        last: Some("NOT_ENOUGH_REPLICAS (19)".into()),
    };
    assert_eq!(
        events(&mut producer).last(),
        Some(&ProducerEvent::Committed(Err(ProduceError::Abortable { cause })))
    );
}

#[test]
fn waiting_for_ones_transaction_does_not_count_as_delivery_time() {
    let mut producer = ready(2);
    producer.send_batch(T0, key(0), batch(1), 1);
    assert_eq!(producer.poll_timeout(), None);
    let late = T0.after(Duration::from_secs(600));
    producer.handle_timeout(late);
    producer.begin_transaction(late, 1).unwrap();
    producer.handle_timeout(late);
    assert_eq!(requests(&mut producer, late).len(), 1);
}

/// B180: the halves keep order and sequences.
#[test]
fn too_large_batch_is_halved_within_its_sequences() {
    let mut producer = registered();
    producer.send_batch(T0, key(0), batch(4), 1);
    let request = requests(&mut producer, T0).remove(0);
    fail(&mut producer, &request, 0, ErrorCode::MESSAGE_TOO_LARGE);
    producer.flush(T0, 1);
    let mut seen = Vec::new();
    for offset in [11, 13] {
        let half = requests(&mut producer, T0).remove(0);
        seen.extend(sent(std::slice::from_ref(&half)));
        acknowledge(&mut producer, &half, &[(0, offset)]);
    }
    assert_eq!(seen, vec![(RequestToken(2), vec![(0, 2, 1)]), (RequestToken(3), vec![(0, 2, 3)])]);
    assert_eq!(
        events(&mut producer),
        vec![ProducerEvent::Flushed { tag: 1, result: Ok([(key(0), 14)].into()) }]
    );
}

/// B180: where nothing can be split, the record is named.
#[test]
fn single_record_that_is_too_large_is_named() {
    let mut producer = registered();
    producer.send_batch(T0, key(0), batch(1), 1);
    let request = requests(&mut producer, T0).remove(0);
    fail(&mut producer, &request, 0, ErrorCode::MESSAGE_TOO_LARGE);
    producer.commit_transaction(T0, LIMIT);
    let bytes = stamped(1, 3, 0).len();
    let cause = FatalCause::RecordTooLarge { topic_partition: key(0), bytes };
    assert_eq!(
        events(&mut producer),
        vec![ProducerEvent::Committed(Err(ProduceError::Fatal { cause }))]
    );
}

#[test]
fn whoever_ends_a_transaction_twice_is_refused_and_the_first_goes_on() {
    let mut producer = registered();
    producer.send_batch(T0, key(0), batch(1), 1);
    producer.commit_transaction(T0, LIMIT);
    let produce = requests(&mut producer, T0);
    producer.abort_transaction(T0);
    let refused = events(&mut producer);
    assert!(
        matches!(refused[..], [ProducerEvent::Aborted(Err(ProduceError::InvalidState { .. }))]),
        "{refused:?}"
    );
    acknowledge(&mut producer, &produce[0], &[(0, 10)]);
    let end = requests(&mut producer, T0);
    assert!(matches!(end[0].request, Request::EndTxn(_)), "{end:?}");
}

#[test]
fn without_a_transactional_id_there_are_no_transactions() {
    let mut config = config();
    config.transaction.transactional_id = None;
    let mut producer = Producer::new(config, 1);
    let refused = |error: &ProduceError| matches!(error, ProduceError::InvalidState { .. });
    assert!(producer.begin_transaction(T0, 1).is_err_and(|error| refused(&error)));
    producer.init_transactions(T0);
    producer.bump_epoch(T0);
    producer.commit_transaction(T0, LIMIT);
    producer.abort_transaction(T0);
    let told = events(&mut producer);
    let [
        ProducerEvent::Initialized(Err(initialized)),
        ProducerEvent::EpochBumped(Err(bumped)),
        ProducerEvent::Committed(Err(committed)),
        ProducerEvent::Aborted(Err(aborted)),
    ] = &told[..]
    else {
        panic!("{told:?}")
    };
    assert!([initialized, bumped, committed, aborted].into_iter().all(refused));
    assert_eq!(requests(&mut producer, T0), vec![]);
}

/// B051: a record that was accepted counts, although nothing of it was sent yet: the commit waits, and is sent.
#[test]
fn commit_waits_for_acknowledgements_and_ends_in_time() {
    let mut producer = registered();
    producer.send_batch(T0, key(0), batch(1), 1);
    producer.commit_transaction(T0, LIMIT);
    let produce = requests(&mut producer, T0);
    assert_eq!(sent(&produce).len(), 1, "EndTxn is not sent yet");
    producer.handle_timeout(T0.after(LIMIT));
    let cause = AbortCause::FlushTimedOut { after: LIMIT };
    assert_eq!(
        events(&mut producer),
        vec![ProducerEvent::Committed(Err(ProduceError::Abortable { cause }))]
    );
    acknowledge(&mut producer, &produce[0], &[(0, 1)]);
    assert_eq!(requests(&mut producer, T0.after(LIMIT)), vec![]);
}

#[test]
fn empty_transaction_commits_without_a_request() {
    let mut producer = ready(2);
    producer.begin_transaction(T0, 1).unwrap();
    producer.flush(T0, 1);
    producer.commit_transaction(T0, LIMIT);
    assert_eq!(
        events(&mut producer),
        vec![
            ProducerEvent::Flushed { tag: 1, result: Ok(BTreeMap::new()) },
            ProducerEvent::Committed(Ok(())),
        ]
    );
    assert_eq!(requests(&mut producer, T0), vec![]);
    assert_eq!(producer.begin_transaction(T0, 2), Ok(()));
}

#[test]
fn abort_waits_for_what_is_in_flight_and_drops_the_rest() {
    let mut producer = registered();
    producer.send_batch(T0, key(0), batch(1), 1);
    let under_way = requests(&mut producer, T0);
    producer.send_batch(T0, key(1), batch(1), 1);
    producer.send_batch(T0, key(1), batch(2), 2);
    producer.abort_transaction(T0);
    assert_eq!(requests(&mut producer, T0), vec![]);
    producer.handle_response(T0, under_way[0].token, 12, Err(lost()));
    let end = requests(&mut producer, T0);
    assert!(matches!(&end[0].request, Request::EndTxn(request) if !request.committed));
    producer.handle_response(T0, end[0].token, 5, Ok(ended(4)));
    assert_eq!(events(&mut producer), vec![ProducerEvent::Aborted(Ok(()))]);
    producer.begin_transaction(T0, 2).unwrap();
    // Who waited for the brokers' markers would have waited by then.
    let later = T0.after(Duration::from_millis(20));
    assert!(matches!(requests(&mut producer, T0)[0].request, Request::DescribeTransactions(_)));
    producer.handle_timeout(later);
    assert_eq!(sent(&requests(&mut producer, later)).len(), 1, "the later transaction is kept");
}

#[test]
fn discard_waits_for_what_is_in_flight_and_init_forgets_everything() {
    let mut producer = registered();
    producer.send_batch(T0, key(0), batch(1), 1);
    let under_way = requests(&mut producer, T0);
    producer.send_batch(T0, key(1), batch(1), 2);
    producer.discard(T0);
    assert_eq!((events(&mut producer), requests(&mut producer, T0)), (vec![], vec![]));
    acknowledge(&mut producer, &under_way[0], &[(0, 1)]);
    assert_eq!(events(&mut producer), vec![ProducerEvent::Discarded]);
    producer.commit_transaction(T0, LIMIT);
    let discarded = ProduceError::Abortable { cause: AbortCause::Discarded };
    assert_eq!(events(&mut producer), vec![ProducerEvent::Committed(Err(discarded))]);
    producer.init_transactions(T0);
    initialize(&mut producer, 9);
    events(&mut producer);
    producer.begin_transaction(T0, 2).unwrap();
    assert_eq!(requests(&mut producer, T0), vec![], "nothing of before is left");
}

#[test]
fn init_ends_what_is_waited_for_and_ignores_answers_of_before() {
    let mut producer = registered();
    producer.send_batch(T0, key(0), batch(1), 1);
    let under_way = requests(&mut producer, T0);
    producer.flush(T0, 1);
    producer.commit_transaction(T0, LIMIT);
    producer.init_transactions(T0);
    let discarded = ProduceError::Abortable { cause: AbortCause::Discarded };
    assert_eq!(
        events(&mut producer),
        vec![
            ProducerEvent::Flushed { tag: 1, result: Err(discarded.clone()) },
            ProducerEvent::Committed(Err(discarded)),
        ]
    );
    initialize(&mut producer, 9);
    events(&mut producer);
    producer.begin_transaction(T0, 1).unwrap();
    producer.send_batch(T0, key(0), batch(1), 1);
    let new = requests(&mut producer, T0);
    fail(&mut producer, &under_way[0], 0, ErrorCode::PRODUCER_FENCED);
    producer.flush(T0, 1);
    acknowledge(&mut producer, &new[0], &[(0, 7)]);
    assert_eq!(
        events(&mut producer),
        vec![ProducerEvent::Flushed { tag: 1, result: Ok([(key(0), 7)].into()) }]
    );
}

#[test]
fn batch_for_a_closed_transaction_is_never_lost_silently() {
    let mut producer = registered();
    producer.send_batch(T0, key(0), batch(1), 0);
    let cause = FatalCause::LateBatch { topic_partition: key(0), tag: 0 };
    let late = ProduceError::Fatal { cause };
    producer.commit_transaction(T0, LIMIT);
    assert_eq!(events(&mut producer), vec![ProducerEvent::Committed(Err(late))]);
}

#[test]
fn memory_is_bounded_for_the_open_transaction_and_later_ones_apart() {
    let mut config = config();
    config.buffer_memory = 100;
    let mut producer = ready_with(config, 2);
    producer.begin_transaction(T0, 1).unwrap();
    for tag in [1, 2] {
        assert!(producer.has_capacity(tag));
        producer.send_batch(T0, key(0), batch(1), tag);
        producer.send_batch(T0, key(0), batch(1), tag);
        assert!(!producer.has_capacity(tag));
    }
    assert!(!producer.has_capacity(3));
    assert_eq!(events(&mut producer), vec![]);
    let first = requests(&mut producer, T0);
    acknowledge(&mut producer, &first[0], &[(0, 1)]);
    assert_eq!(events(&mut producer), vec![ProducerEvent::Capacity]);
    assert!(producer.has_capacity(1) && !producer.has_capacity(2));
    let second = requests(&mut producer, T0);
    acknowledge(&mut producer, &second[0], &[(0, 2)]);
    commit(&mut producer, T0, 4);
    producer.begin_transaction(T0, 2).unwrap();
    assert_eq!(events(&mut producer), vec![ProducerEvent::Capacity]);
    assert!(!producer.has_capacity(2) && producer.has_capacity(3));
}

#[test]
fn partition_without_a_leader_is_looked_up_until_its_batches_expire() {
    let mut producer = registered();
    producer.send_batch(T0, key(9), batch(1), 1);
    let mut now = T0;
    while now.since(T0) < Duration::from_secs(119) {
        assert_eq!(producer.poll_request(now, &leaders()), None);
        assert_eq!(
            producer.poll_stale_metadata(),
            Some(StaleMetadata::Leader { topic_partition: key(9), hint: None })
        );
        now = producer.poll_timeout().unwrap();
        producer.handle_timeout(now);
    }
    producer.flush(now, 1);
    producer.handle_timeout(T0.after(Duration::from_secs(120)));
    let cause = AbortCause::DeliveryTimedOut {
        topic_partition: key(9),
        after: Duration::from_secs(120),
        last: Some("its leader is not known".into()),
    };
    let result = Err(ProduceError::Abortable { cause });
    assert_eq!(events(&mut producer), vec![ProducerEvent::Flushed { tag: 1, result }]);
}

#[test]
fn idempotent_producer_gets_its_identity_with_the_first_batch() {
    let mut producer = Producer::new(ProducerConfig::new(None), 1);
    assert_eq!(requests(&mut producer, T0), vec![]);
    producer.send_batch(T0, key(0), batch(1), 0);
    initialize(&mut producer, 0);
    producer.send_batch(T0, key(0), batch(2), 1);
    let first = requests(&mut producer, T0);
    assert_eq!(sent(&first), vec![(RequestToken(0), vec![(0, 1, 0)])]);
    let Request::Produce(request) = &first[0].request else { panic!() };
    assert_eq!((&request.transactional_id, first[0].max_version), (&None, None));
    producer.flush(T0, 0);
    producer.flush(T0, 1);
    acknowledge(&mut producer, &first[0], &[(0, 3)]);
    let second = requests(&mut producer, T0);
    assert_eq!(sent(&second), vec![(RequestToken(1), vec![(0, 2, 1)])]);
    acknowledge(&mut producer, &second[0], &[(0, 4)]);
    assert_eq!(
        events(&mut producer),
        vec![
            ProducerEvent::Flushed { tag: 0, result: Ok([(key(0), 3)].into()) },
            ProducerEvent::Flushed { tag: 1, result: Ok([(key(0), 5)].into()) },
        ]
    );
}

#[test]
fn idempotent_producer_bumps_its_epoch_and_renumbers_once_nothing_is_in_flight() {
    let mut producer = Producer::new(ProducerConfig::new(None), 1);
    producer.send_batch(T0, key(0), batch(1), 0);
    initialize(&mut producer, 3);
    let first = requests(&mut producer, T0);
    acknowledge(&mut producer, &first[0], &[(0, 3)]);
    producer.send_batch(T0, key(0), batch(2), 0);
    producer.send_batch(T0, key(0), batch(3), 0);
    let both = requests(&mut producer, T0);
    fail(&mut producer, &both[0], 0, ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert_eq!(requests(&mut producer, T0), vec![], "the second is still in flight");
    fail(&mut producer, &both[1], 0, ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
    // The leader knows nothing of the new epoch: one batch until the first is acknowledged.
    for renumbered in [plain(2, 4, 0), plain(3, 4, 2)] {
        let again = requests(&mut producer, T0);
        let Request::Produce(request) = &again[0].request else { panic!() };
        assert_eq!((again.len(), &request.topics[0].partitions[0].records), (1, &renumbered));
        acknowledge(&mut producer, &again[0], &[(0, 4)]);
    }
}

#[test]
fn idempotent_batch_that_is_refused_fails_its_flush_and_the_next_goes_on() {
    let mut producer = Producer::new(ProducerConfig::new(None), 1);
    producer.send_batch(T0, key(0), batch(1), 0);
    initialize(&mut producer, 3);
    let first = requests(&mut producer, T0);
    producer.flush(T0, 0);
    fail(&mut producer, &first[0], 0, ErrorCode::INVALID_RECORD);
    assert!(matches!(
        events(&mut producer)[..],
        [ProducerEvent::Flushed { tag: 0, result: Err(ProduceError::Fatal { .. }) }]
    ));
    producer.send_batch(T0, key(0), batch(2), 0);
    let next = requests(&mut producer, T0);
    // The refused batch used no sequence, so this one is out of order; it starts anew.
    fail(&mut producer, &next[0], 0, ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
    let again = requests(&mut producer, T0);
    acknowledge(&mut producer, &again[0], &[(0, 8)]);
    producer.flush(T0, 0);
    assert_eq!(
        events(&mut producer),
        vec![ProducerEvent::Flushed { tag: 0, result: Ok([(key(0), 9)].into()) }]
    );
}

const T0: Timestamp = Timestamp::from_micros(1_000_000);
const LIMIT: Duration = Duration::from_secs(10);
const DELIVERY: Duration = Duration::from_secs(120);

fn key(partition: i32) -> TopicPartition {
    TopicPartition::new("t", partition)
}

fn config() -> ProducerConfig {
    ProducerConfig::new(Some("job".into()))
}

/// Partition 2 on broker 2, all others on broker 1.
fn leaders() -> Metadata {
    metadata("t", &[(0, 1, 5), (1, 1, 5), (2, 2, 5), (3, 1, 5), (4, 1, 5), (5, 1, 5), (6, 1, 5)])
}

fn ready(transaction_version: i16) -> Producer {
    ready_with(config(), transaction_version)
}

fn ready_with(config: ProducerConfig, transaction_version: i16) -> Producer {
    let mut producer = Producer::new(config, 1);
    producer.set_transaction_version(transaction_version);
    producer.init_transactions(T0);
    initialize(&mut producer, 3);
    events(&mut producer);
    producer
}

/// In transaction 1 under TV2, with a record of partition 0 acknowledged at offset 10 and one of partition 1.
fn registered() -> Producer {
    let mut producer = ready(2);
    producer.begin_transaction(T0, 1).unwrap();
    producer.send_batch(T0, key(0), batch(1), 1);
    let request = requests(&mut producer, T0);
    acknowledge(&mut producer, &request[0], &[(0, 10)]);
    producer
}

/// Requests up to and with the first produce requests.
fn register(producer: &mut Producer, version: i16) -> Vec<OutgoingRequest> {
    let mut requests = requests(producer, T0);
    if version == 1 {
        let add = requests.remove(0);
        producer.handle_response(T0, add.token, 3, Ok(added(&[0])));
        requests = self::requests(producer, T0);
    }
    requests
}

fn initialize(producer: &mut Producer, epoch: i16) {
    let request = producer.poll_request(T0, &leaders()).unwrap();
    let response =
        kp::InitProducerIdResponse::default().with_producer_id(7.into()).with_producer_epoch(epoch);
    producer.handle_response(T0, request.token, 5, Ok(Response::InitProducerId(response)));
}

fn commit(producer: &mut Producer, now: Timestamp, next_epoch: i16) {
    producer.commit_transaction(now, LIMIT);
    let end = requests(producer, now);
    assert_eq!(end.len(), 1, "{end:?}");
    producer.handle_response(now, end[0].token, 5, Ok(ended(next_epoch)));
    assert_eq!(events(producer), vec![ProducerEvent::Committed(Ok(()))]);
}

fn described(state: &str) -> Response {
    let state = kp::describe_transactions_response::TransactionState::default()
        .with_transaction_state(state.to_owned().into());
    Response::DescribeTransactions(
        kp::DescribeTransactionsResponse::default().with_transaction_states(vec![state]),
    )
}

fn ended(next_epoch: i16) -> Response {
    Response::EndTxn(
        kp::EndTxnResponse::default().with_producer_id(7.into()).with_producer_epoch(next_epoch),
    )
}

fn added(partitions: &[i32]) -> Response {
    use kp::add_partitions_to_txn_response::{
        AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult,
    };
    let results = partitions
        .iter()
        .map(|p| AddPartitionsToTxnPartitionResult::default().with_partition_index(*p))
        .collect();
    let topic = AddPartitionsToTxnTopicResult::default()
        .with_name(kp::TopicName(crate::messages::StrBytes::from_static_str("t")))
        .with_results_by_partition(results);
    Response::AddPartitionsToTxn(
        kp::AddPartitionsToTxnResponse::default().with_results_by_topic_v3_and_below(vec![topic]),
    )
}

fn lost() -> RequestError {
    RequestError::Disconnected {
        destination: Destination::Node(NodeId(1)),
        reason: DisconnectReason::Closed,
        sent: true,
    }
}

fn requests(producer: &mut Producer, now: Timestamp) -> Vec<OutgoingRequest> {
    std::iter::from_fn(|| producer.poll_request(now, &leaders())).collect()
}

fn events(producer: &mut Producer) -> Vec<ProducerEvent> {
    std::iter::from_fn(|| producer.poll_event()).collect()
}

fn respond(
    producer: &mut Producer,
    request: &OutgoingRequest,
    partitions: Vec<ProducePartitionResponse>,
) {
    respond_at(producer, T0, request, partitions);
}

fn respond_at(
    producer: &mut Producer,
    now: Timestamp,
    request: &OutgoingRequest,
    partitions: Vec<ProducePartitionResponse>,
) {
    let topics = vec![ProduceTopicResponse { topic: "t".into(), partitions }];
    let response = ProduceResponse { topics, ..ProduceResponse::default() };
    producer.handle_response(now, request.token, 12, Ok(Response::Produce(response)));
}

/// Acknowledges partitions at their base offsets.
fn acknowledge(producer: &mut Producer, request: &OutgoingRequest, offsets: &[(i32, i64)]) {
    let answers = offsets
        .iter()
        .map(|(partition, base_offset)| ProducePartitionResponse {
            partition: *partition,
            base_offset: *base_offset,
            ..ProducePartitionResponse::default()
        })
        .collect();
    respond(producer, request, answers);
}

fn fail(producer: &mut Producer, request: &OutgoingRequest, partition: i32, code: ErrorCode) {
    let answer = ProducePartitionResponse {
        partition,
        error_code: code,
        ..ProducePartitionResponse::default()
    };
    respond(producer, request, vec![answer]);
}

/// Partition, number of records and first sequence of each batch of a request.
type Batches = Vec<(i32, i32, i32)>;

fn sent(requests: &[OutgoingRequest]) -> Vec<(RequestToken, Batches)> {
    requests
        .iter()
        .map(|outgoing| {
            let Request::Produce(request) = &outgoing.request else { panic!("{outgoing:?}") };
            let batches = request.topics.iter().flat_map(|topic| &topic.partitions);
            let described = batches.map(|entry| {
                let view = BatchView::parse(entry.records.clone()).unwrap();
                (entry.partition, view.header().record_count, view.header().base_sequence)
            });
            (outgoing.token, described.collect())
        })
        .collect()
}

fn batch(records: usize) -> SealedBatch {
    let mut builder = BatchBuilder::new(Compression::None, 1 << 20);
    for _ in 0..records {
        builder.append(0, None, Some(b"x"), &[]).unwrap();
    }
    builder.build().unwrap().unwrap()
}

fn stamped(records: usize, producer_epoch: i16, sequence: i32) -> bytes::Bytes {
    let mut batch = batch(records);
    batch.stamp(ProducerIdAndEpoch { producer_id: 7, producer_epoch }, sequence, true);
    batch.bytes()
}

fn plain(records: usize, producer_epoch: i16, sequence: i32) -> bytes::Bytes {
    let mut batch = batch(records);
    batch.stamp(ProducerIdAndEpoch { producer_id: 7, producer_epoch }, sequence, false);
    batch.bytes()
}
