use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnRequest;
use kafka_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResponse, AddPartitionsToTxnTopicResult,
};
use kafka_protocol::messages::describe_transactions_response::TransactionState;
use kafka_protocol::messages::{
    DescribeTransactionsResponse, EndTxnRequest, EndTxnResponse, InitProducerIdRequest,
    InitProducerIdResponse, TopicName,
};

use super::*;
use crate::network::DisconnectReason;
use crate::transaction::{AbortCause, FatalCause, PreparedTransaction};

mod coordinator_model;
mod markers;
mod offsets;

#[test]
fn init_asks_as_the_newest_producer_and_adopts_the_answer() {
    let mut manager = manager(2);
    manager.init(T0);
    let request = manager.poll_request(T0).unwrap();
    assert_eq!(
        request,
        OutgoingRequest {
            destination: Destination::TransactionCoordinator("job".into()),
            class: ConnectionClass::Control,
            request: Request::InitProducerId(
                InitProducerIdRequest::default()
                    .with_transactional_id(Some(wire_id("job")))
                    .with_transaction_timeout_ms(60_000)
                    .with_producer_id((-1).into())
                    .with_producer_epoch(-1),
            ),
            token: RequestToken(100),
            max_version: None,
            timeout: Duration::from_secs(30),
        }
    );
    assert_eq!(manager.poll_request(T0), None, "one request in flight");
    manager.handle_response(T0, request.token, 5, Ok(initialized(ErrorCode::NONE, 7, 3)));
    assert_eq!(events(&mut manager), vec![TransactionEvent::Initialized(Ok(identity(7, 3)))]);
    assert_eq!(manager.identity(), Some(identity(7, 3)));
}

/// B057: the previous instance left a transaction open. Each try ends, none is fatal, and the caller looks in between.
#[test]
fn open_transaction_ends_init_after_one_try_and_the_next_try_may_succeed() {
    let mut manager = manager(2);
    for _ in 0..50 {
        manager.init(T0);
        exchange(&mut manager, 5, initialized(ErrorCode::CONCURRENT_TRANSACTIONS, -1, -1));
        let transactional_id = "job".into();
        assert_eq!(
            events(&mut manager),
            vec![TransactionEvent::Initialized(Err(ProduceError::ConcurrentTransactions {
                transactional_id
            }))]
        );
        assert_eq!(manager.poll_request(T0), None);
    }
    manager.init(T0);
    exchange(&mut manager, 5, initialized(ErrorCode::NONE, 7, 3));
    assert_eq!(events(&mut manager), vec![TransactionEvent::Initialized(Ok(identity(7, 3)))]);
}

/// B071: another instance owns the id. Below version 4 the broker has another code for it.
#[test]
fn fenced_init_ends_at_once() {
    for code in [ErrorCode::PRODUCER_FENCED, ErrorCode::INVALID_PRODUCER_EPOCH] {
        let mut manager = manager(2);
        manager.init(T0);
        exchange(&mut manager, 4, initialized(code, -1, -1));
        let fenced = fenced(ApiKey::InitProducerId, code);
        assert_eq!(events(&mut manager), vec![TransactionEvent::Initialized(Err(fenced.clone()))]);
        assert_eq!(manager.poll_request(T0), None, "no retry loop");
        assert_eq!(manager.poll_timeout(), None);
        assert_eq!(manager.begin(), Err(fenced));
    }
}

#[test]
fn refused_timeout_is_named() {
    let mut manager = manager(2);
    manager.init(T0);
    exchange(&mut manager, 5, initialized(ErrorCode::INVALID_TRANSACTION_TIMEOUT, -1, -1));
    let timeout = Duration::from_secs(60);
    assert_eq!(
        events(&mut manager),
        vec![TransactionEvent::Initialized(Err(ProduceError::InvalidTransactionTimeout {
            timeout
        }))]
    );
}

/// B065: the coordinator is gone for good. Its successor is looked for, and the producer goes on without a restart.
#[test]
fn every_request_follows_the_coordinator() {
    let moved = || StaleMetadata::Coordinator(Destination::TransactionCoordinator("job".into()));
    let mut manager = manager(1);
    manager.init(T0);
    let mut now = T0;
    for trouble in [
        Err(lost()),
        Ok(initialized(ErrorCode::NOT_COORDINATOR, -1, -1)),
        Ok(initialized(ErrorCode::COORDINATOR_NOT_AVAILABLE, -1, -1)),
    ] {
        now = retried(&mut manager, now, trouble);
        assert_eq!(manager.poll_stale_metadata(), Some(moved()));
    }
    now = retried(
        &mut manager,
        now,
        Ok(initialized(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS, -1, -1)),
    );
    assert_eq!(manager.poll_stale_metadata(), None, "loading is no reason to look elsewhere");
    answer(&mut manager, now, 5, Ok(initialized(ErrorCode::NONE, 7, 3)));
    manager.begin().unwrap();
    assert!(!manager.may_write(T0, &key(0)));
    for trouble in [Err(lost()), Ok(added(&[(0, ErrorCode::NOT_COORDINATOR)]))] {
        now = retried(&mut manager, now, trouble);
        assert_eq!(manager.poll_stale_metadata(), Some(moved()));
    }
    answer(&mut manager, now, 3, Ok(added(&[(0, ErrorCode::NONE)])));
    assert!(manager.may_write(T0, &key(0)));
    manager.end(now, true, LIMIT).unwrap();
    for trouble in [Err(lost()), Ok(ended(ErrorCode::NOT_COORDINATOR, -1, -1))] {
        now = retried(&mut manager, now, trouble);
        assert_eq!(manager.poll_stale_metadata(), Some(moved()));
    }
    answer(&mut manager, now, 4, Ok(ended(ErrorCode::NONE, -1, -1)));
    assert_eq!(
        events(&mut manager).last(),
        Some(&TransactionEvent::Ended { committed: true, result: Ok(()) })
    );
}

#[test]
fn init_without_a_final_answer_ends_when_its_time_is_up() {
    let mut manager = manager(2);
    manager.init(T0);
    let token = manager.poll_request(T0).unwrap().token;
    assert_eq!(manager.poll_timeout(), Some(T0.after(Duration::from_secs(60))));
    let late = T0.after(Duration::from_secs(60));
    manager.handle_timeout(late);
    assert_eq!(
        events(&mut manager),
        vec![TransactionEvent::Initialized(Err(ProduceError::TimedOut {
            api: ApiKey::InitProducerId,
            after: Duration::from_secs(60),
            last: None,
        }))]
    );
    // The answer that comes after all is not taken: nobody knows of it.
    manager.handle_response(late, token, 5, Ok(initialized(ErrorCode::NONE, 7, 3)));
    assert_eq!((events(&mut manager), manager.identity()), (vec![], None));
}

#[test]
fn second_init_waits_for_the_answer_to_the_first_and_ignores_it() {
    let mut manager = manager(2);
    manager.init(T0);
    let first = manager.poll_request(T0).unwrap();
    manager.init(T0);
    assert_eq!(manager.poll_request(T0), None);
    manager.handle_response(T0, first.token, 5, Ok(initialized(ErrorCode::NONE, 7, 3)));
    exchange(&mut manager, 5, initialized(ErrorCode::NONE, 7, 4));
    assert_eq!(
        events(&mut manager).last(),
        Some(&TransactionEvent::Initialized(Ok(identity(7, 4))))
    );
}

#[test]
fn tv1_adds_partitions_together_before_they_are_written() {
    let mut manager = ready(1);
    manager.begin().unwrap();
    assert_eq!(manager.mode(), Some(TransactionMode::Tv1));
    assert!(!manager.may_write(T0, &key(0)) && !manager.may_write(T0, &key(1)));
    let request = manager.poll_request(T0).unwrap();
    assert_eq!(request.max_version, Some(3));
    assert_eq!(
        request.request,
        Request::AddPartitionsToTxn(
            AddPartitionsToTxnRequest::default()
                .with_v3_and_below_transactional_id(wire_id("job"))
                .with_v3_and_below_producer_id(7.into())
                .with_v3_and_below_producer_epoch(3)
                .with_v3_and_below_topics(vec![
                    kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic::default()
                        .with_name(topic())
                        .with_partitions(vec![0, 1])
                ]),
        )
    );
    let result = added(&[(0, ErrorCode::NONE), (1, ErrorCode::NONE)]);
    manager.handle_response(T0, request.token, 3, Ok(result));
    assert!(manager.may_write(T0, &key(0)) && manager.may_write(T0, &key(1)));
    assert_eq!(manager.poll_request(T0), None);
}

#[test]
fn partitions_wait_20_ms_for_the_transaction_before() {
    let mut manager = ready(1);
    manager.begin().unwrap();
    manager.may_write(T0, &key(0));
    manager.may_write(T0, &key(1));
    let result =
        added(&[(0, ErrorCode::CONCURRENT_TRANSACTIONS), (1, ErrorCode::OPERATION_NOT_ATTEMPTED)]);
    answer(&mut manager, T0, 3, Ok(result));
    let at = T0.after(Duration::from_millis(20));
    assert_eq!((manager.poll_request(T0), manager.poll_timeout()), (None, Some(at)));
    manager.handle_timeout(at);
    let result = added(&[(0, ErrorCode::NONE), (1, ErrorCode::NONE)]);
    answer(&mut manager, at, 3, Ok(result));
    assert!(manager.may_write(T0, &key(0)) && manager.may_write(T0, &key(1)));
}

#[test]
fn refused_partition_ends_the_transaction_by_its_code() {
    let api = ApiKey::AddPartitionsToTxn;
    let place = Some(key(0));
    let refused = |code| ProduceError::Fatal {
        cause: FatalCause::Refused { api, code, topic_partition: Some(key(0)), message: None },
    };
    let cases = [
        (ErrorCode::PRODUCER_FENCED, fenced(api, ErrorCode::PRODUCER_FENCED)),
        (ErrorCode::INVALID_PRODUCER_EPOCH, fenced(api, ErrorCode::INVALID_PRODUCER_EPOCH)),
        (ErrorCode::TOPIC_AUTHORIZATION_FAILED, refused(ErrorCode::TOPIC_AUTHORIZATION_FAILED)),
        (
            ErrorCode::INVALID_TXN_STATE,
            ProduceError::abortable(api, ErrorCode::INVALID_TXN_STATE, place.clone()),
        ),
        (
            ErrorCode::INVALID_PRODUCER_ID_MAPPING,
            ProduceError::abortable(api, ErrorCode::INVALID_PRODUCER_ID_MAPPING, place.clone()),
        ),
        (
            ErrorCode::TRANSACTION_ABORTABLE,
            ProduceError::abortable(api, ErrorCode::TRANSACTION_ABORTABLE, place),
        ),
    ];
    for (code, error) in cases {
        let mut manager = ready(1);
        manager.begin().unwrap();
        manager.may_write(T0, &key(0));
        manager.may_write(T0, &key(1));
        let result = added(&[(0, code), (1, ErrorCode::OPERATION_NOT_ATTEMPTED)]);
        answer(&mut manager, T0, 3, Ok(result));
        assert_eq!(events(&mut manager), vec![TransactionEvent::Failed(error.clone())]);
        assert_eq!(manager.end(T0, true, LIMIT), Err(error));
    }
}

/// B049, B069: nothing was sent, so no EndTxn is: brokers answer it with INVALID_TXN_STATE.
#[test]
fn empty_transaction_ends_without_a_request_and_leaves_the_identity_fresh() {
    for version in [1, 2] {
        for committed in [true, false] {
            let mut manager = ready(version);
            manager.begin().unwrap();
            manager.end(T0, committed, LIMIT).unwrap();
            assert_eq!(
                events(&mut manager),
                vec![TransactionEvent::Ended { committed, result: Ok(()) }]
            );
            assert_eq!(manager.poll_request(T0), None);
            assert_eq!(manager.begin(), Ok(()));
        }
    }
}

#[test]
fn tv2_commit_takes_the_next_identity_from_the_answer() {
    let mut manager = ready(2);
    manager.begin().unwrap();
    assert!(manager.may_write(T0, &key(0)));
    manager.handle_written();
    manager.end(T0, true, LIMIT).unwrap();
    let request = manager.poll_request(T0).unwrap();
    assert_eq!(request.max_version, Some(5));
    assert_eq!(request.request, end_txn(7, 3, true));
    manager.handle_response(T0, request.token, 5, Ok(ended(ErrorCode::NONE, 7, 4)));
    assert_eq!(
        events(&mut manager),
        vec![TransactionEvent::Ended { committed: true, result: Ok(()) }]
    );
    assert_eq!((manager.identity(), manager.needs_bump()), (Some(identity(7, 4)), false));
    assert_eq!(manager.begin(), Ok(()));
}

/// B043: a late copy of the EndTxn before must find another epoch, so TV1 bumps between transactions.
#[test]
fn tv1_identity_carries_one_transaction_only() {
    let mut manager = ready(1);
    committed_tv1(&mut manager);
    assert!(manager.needs_bump());
    assert_eq!(manager.begin(), Err(ProduceError::BumpRequired { identity: identity(7, 3) }));
    manager.bump(T0).unwrap();
    let request = manager.poll_request(T0).unwrap();
    let Request::InitProducerId(init) = &request.request else { panic!() };
    assert_eq!((init.producer_id.0, init.producer_epoch), (7, 3));
    manager.handle_response(T0, request.token, 5, Ok(initialized(ErrorCode::NONE, 7, 4)));
    assert_eq!(events(&mut manager), vec![TransactionEvent::EpochBumped(Ok(identity(7, 4)))]);
    assert_eq!(manager.begin(), Ok(()));
}

#[test]
fn bump_waits_for_markers_but_not_for_ever() {
    let mut manager = ready(1);
    committed_tv1(&mut manager);
    manager.bump(T0).unwrap();
    let now =
        retried(&mut manager, T0, Ok(initialized(ErrorCode::CONCURRENT_TRANSACTIONS, -1, -1)));
    assert!(now.since(T0) <= Duration::from_millis(24), "{now:?}");
    manager.handle_timeout(T0.after(Duration::from_secs(60)));
    assert!(matches!(
        events(&mut manager)[..],
        [TransactionEvent::EpochBumped(Err(ProduceError::TimedOut { .. }))]
    ));
    // Whether it took place is unknown, so the identity stays unusable and can be bumped again.
    assert!(manager.needs_bump());
    assert_eq!(manager.bump(now), Ok(()));
}

/// B059: epochs end. The producer id is renewed between transactions, and no epoch leaves its range.
#[test]
fn near_the_last_epoch_the_identity_is_asked_for_until_the_id_changes() {
    for bump in [true, false] {
        let mut manager = ready_at(2, 32_765);
        manager.begin().unwrap();
        manager.handle_written();
        manager.end(T0, true, LIMIT).unwrap();
        answer(&mut manager, T0, 5, Ok(ended(ErrorCode::NONE, 7, 32_766)));
        events(&mut manager);
        let exhausted = identity(7, 32_766);
        assert!(manager.needs_bump());
        assert_eq!(manager.begin(), Err(ProduceError::EpochExhausted { identity: exhausted }));
        if bump {
            manager.bump(T0).unwrap();
        } else {
            manager.init(T0);
        }
        let mut asked = Vec::new();
        for (id, epoch) in [(7, 32_766), (8, 0)] {
            let request = manager.poll_request(T0).unwrap();
            let Request::InitProducerId(init) = &request.request else { panic!() };
            asked.push((init.producer_id.0, init.producer_epoch));
            let result = Ok(initialized(ErrorCode::NONE, id, epoch));
            manager.handle_response(T0, request.token, 5, result);
        }
        let as_whom = if bump { (7, 32_766) } else { (-1, -1) };
        assert_eq!(asked, vec![as_whom, as_whom]);
        assert_eq!(manager.identity(), Some(identity(8, 0)));
        assert_eq!(manager.begin(), Ok(()));
    }
}

#[test]
fn switch_to_tv2_waits_for_a_bump_and_back_does_not() {
    let mut manager = ready(1);
    manager.set_transaction_version(2);
    assert!(manager.needs_bump());
    manager.begin().unwrap();
    assert_eq!(manager.mode(), Some(TransactionMode::Tv1), "the identity is still one of TV1");
    manager.end(T0, true, LIMIT).unwrap();
    manager.bump(T0).unwrap();
    exchange(&mut manager, 5, initialized(ErrorCode::NONE, 7, 4));
    manager.begin().unwrap();
    assert_eq!(manager.mode(), Some(TransactionMode::Tv2));
    manager.set_transaction_version(1);
    assert_eq!(manager.mode(), Some(TransactionMode::Tv2), "latched");
    manager.end(T0, true, LIMIT).unwrap();
    manager.begin().unwrap();
    assert_eq!(manager.mode(), Some(TransactionMode::Tv1));
}

#[test]
fn same_end_txn_is_repeated_until_a_definite_answer() {
    let mut manager = ready(2);
    manager.begin().unwrap();
    manager.handle_written();
    manager.end(T0, true, LIMIT).unwrap();
    let mut now = T0;
    for trouble in [
        Err(lost()),
        Ok(ended(ErrorCode::CONCURRENT_TRANSACTIONS, -1, -1)),
        Ok(ended(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS, -1, -1)),
        Ok(ended(ErrorCode::UNKNOWN_SERVER_ERROR, -1, -1)),
        Ok(ended(ErrorCode(12_345), -1, -1)),
    ] {
        // Metadata that change in between change nothing about it.
        manager.set_transaction_version(1);
        let request = manager.poll_request(now).unwrap();
        assert_eq!((request.request, request.max_version), (end_txn(7, 3, true), Some(5)));
        manager.handle_response(now, request.token, 5, trouble);
        assert_eq!(events(&mut manager), vec![]);
        now = manager.poll_timeout().unwrap();
        manager.handle_timeout(now);
    }
    answer(&mut manager, now, 5, Ok(ended(ErrorCode::NONE, 7, 4)));
    assert_eq!(
        events(&mut manager),
        vec![TransactionEvent::Ended { committed: true, result: Ok(()) }]
    );
}

/// B055: an id that expired while nobody used it ends the transaction, not the producer; the engine replays.
#[test]
fn commit_that_is_refused_ends_by_its_code() {
    let api = ApiKey::EndTxn;
    let cases = [
        (ErrorCode::PRODUCER_FENCED, fenced(api, ErrorCode::PRODUCER_FENCED)),
        (ErrorCode::INVALID_PRODUCER_EPOCH, fenced(api, ErrorCode::INVALID_PRODUCER_EPOCH)),
        (
            ErrorCode::INVALID_TXN_STATE,
            ProduceError::abortable(api, ErrorCode::INVALID_TXN_STATE, None),
        ),
        (
            ErrorCode::INVALID_PRODUCER_ID_MAPPING,
            ProduceError::abortable(api, ErrorCode::INVALID_PRODUCER_ID_MAPPING, None),
        ),
        (
            ErrorCode::TRANSACTION_ABORTABLE,
            ProduceError::abortable(api, ErrorCode::TRANSACTION_ABORTABLE, None),
        ),
        (
            ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            ProduceError::refused(api, ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ),
    ];
    for (code, error) in cases {
        let mut manager = ready(2);
        manager.begin().unwrap();
        manager.handle_written();
        manager.end(T0, true, LIMIT).unwrap();
        exchange(&mut manager, 5, ended(code, -1, -1));
        assert_eq!(
            events(&mut manager),
            vec![TransactionEvent::Ended { committed: true, result: Err(error.clone()) }]
        );
        assert_eq!(manager.begin(), Err(error));
        assert_eq!(manager.poll_request(T0), None);
        manager.init(T0);
        exchange(&mut manager, 5, initialized(ErrorCode::NONE, 7, 9));
        assert_eq!(manager.begin(), Ok(()), "init clears every error");
    }
}

/// Found by the model: a competitor took the last epoch after our commit was carried out, so the id is another one now.
#[test]
fn renewed_producer_id_says_nothing_about_a_commit_that_had_no_answer() {
    let mut manager = ready(2);
    manager.begin().unwrap();
    manager.handle_written();
    manager.end(T0, true, LIMIT).unwrap();
    let now = retried(&mut manager, T0, Err(lost()));
    answer(&mut manager, now, 5, Ok(ended(ErrorCode::INVALID_PRODUCER_ID_MAPPING, -1, -1)));
    let error = ProduceError::UnknownOutcome {
        transactional_id: "job".into(),
        after: now.since(T0),
        last: Some("INVALID_PRODUCER_ID_MAPPING (49)".into()),
    };
    assert_eq!(
        events(&mut manager),
        vec![TransactionEvent::Ended { committed: true, result: Err(error.clone()) }]
    );
    assert_eq!(manager.begin(), Err(error));
}

#[test]
fn unknown_outcome_poisons_the_producer_until_init() {
    let mut manager = ready(2);
    manager.begin().unwrap();
    manager.handle_written();
    manager.end(T0, true, LIMIT).unwrap();
    let token = manager.poll_request(T0).unwrap().token;
    assert_eq!(manager.poll_timeout(), Some(T0.after(LIMIT)));
    manager.handle_timeout(T0.after(LIMIT));
    let error =
        ProduceError::UnknownOutcome { transactional_id: "job".into(), after: LIMIT, last: None };
    assert_eq!(
        events(&mut manager),
        vec![TransactionEvent::Ended { committed: true, result: Err(error.clone()) }]
    );
    assert_eq!(manager.begin(), Err(error.clone()));
    assert_eq!(manager.bump(T0), Err(error.clone()));
    assert_eq!(manager.end(T0, false, LIMIT), Err(error.clone()));
    // Too late: the caller was told that it is unknown.
    manager.handle_response(T0, token, 5, Ok(ended(ErrorCode::NONE, 7, 4)));
    assert_eq!(manager.begin(), Err(error));
    manager.init(T0);
    exchange(&mut manager, 5, initialized(ErrorCode::NONE, 7, 5));
    assert_eq!(manager.begin(), Ok(()));
}

#[test]
fn failed_transaction_can_be_aborted_and_the_next_one_begins() {
    let mut manager = ready(2);
    manager.begin().unwrap();
    manager.handle_written();
    let error = ProduceError::Abortable { cause: AbortCause::Discarded };
    manager.fail(error.clone());
    assert_eq!(events(&mut manager), vec![TransactionEvent::Failed(error.clone())]);
    assert_eq!(manager.end(T0, true, LIMIT), Err(error));
    manager.end(T0, false, LIMIT).unwrap();
    let request = manager.poll_request(T0).unwrap();
    assert_eq!(request.request, end_txn(7, 3, false));
    manager.handle_response(T0, request.token, 5, Ok(ended(ErrorCode::NONE, 7, 4)));
    assert_eq!(
        events(&mut manager),
        vec![TransactionEvent::Ended { committed: false, result: Ok(()) }]
    );
    assert_eq!(manager.begin(), Ok(()));
}

#[test]
fn abort_that_can_only_be_aborted_does_not_loop() {
    let mut manager = ready(2);
    manager.begin().unwrap();
    manager.handle_written();
    manager.end(T0, false, LIMIT).unwrap();
    exchange(&mut manager, 5, ended(ErrorCode::TRANSACTION_ABORTABLE, -1, -1));
    assert_eq!(manager.poll_request(T0), None);
    assert_eq!(manager.poll_timeout(), None);
}

#[test]
fn idempotent_producer_asks_any_broker_and_bumps_by_itself() {
    let mut manager = TransactionManager::new(TransactionConfig::new(None), 100, 1);
    manager.init(T0);
    let request = manager.poll_request(T0).unwrap();
    assert_eq!(request.destination, Destination::AnyBroker);
    let Request::InitProducerId(init) = &request.request else { panic!() };
    assert_eq!(init.transactional_id, None);
    let result = Ok(initialized(ErrorCode::NONE, 7, i16::MAX - 1));
    manager.handle_response(T0, request.token, 5, result);
    manager.bump_locally(T0);
    assert_eq!(manager.identity(), Some(identity(7, i16::MAX)));
    manager.bump_locally(T0);
    assert_eq!(manager.identity(), None);
    exchange(&mut manager, 5, initialized(ErrorCode::NONE, 8, 0));
    assert_eq!(manager.identity(), Some(identity(8, 0)));
}

const T0: Timestamp = Timestamp::from_micros(1_000_000);
const LIMIT: Duration = Duration::from_secs(10);

#[test]
fn a_transaction_is_prepared_once_something_was_sent_and_until_it_fails_or_ends() {
    for (version, mode) in [(0, TransactionMode::Tv1), (2, TransactionMode::Tv2)] {
        let mut manager = ready(version);
        assert_eq!(manager.prepared(), None);
        manager.begin().unwrap();
        assert_eq!(manager.prepared(), None, "there is nothing to commit");
        manager.handle_written();
        let producer = manager.identity().unwrap();
        let prepared = PreparedTransaction { transactional_id: "job".into(), producer, mode };
        assert_eq!(manager.prepared(), Some(prepared));
        manager.fail(ProduceError::Abortable { cause: AbortCause::Discarded });
        assert_eq!(manager.prepared(), None);
    }
}

fn manager(transaction_version: i16) -> TransactionManager {
    let mut manager = TransactionManager::new(TransactionConfig::new(Some("job".into())), 100, 1);
    manager.set_transaction_version(transaction_version);
    manager
}

fn ready(transaction_version: i16) -> TransactionManager {
    ready_at(transaction_version, 3)
}

fn ready_at(transaction_version: i16, epoch: i16) -> TransactionManager {
    let mut manager = manager(transaction_version);
    manager.init(T0);
    exchange(&mut manager, 5, initialized(ErrorCode::NONE, 7, epoch));
    events(&mut manager);
    manager
}

fn committed_tv1(manager: &mut TransactionManager) {
    manager.begin().unwrap();
    manager.may_write(T0, &key(0));
    exchange(manager, 3, added(&[(0, ErrorCode::NONE)]));
    manager.end(T0, true, LIMIT).unwrap();
    let request = manager.poll_request(T0).unwrap();
    assert_eq!((&request.request, request.max_version), (&end_txn(7, 3, true), Some(4)));
    manager.handle_response(T0, request.token, 4, Ok(ended(ErrorCode::NONE, -1, -1)));
    events(manager);
}

fn described(state: &str) -> Response {
    let state = TransactionState::default().with_transaction_state(state.to_owned().into());
    Response::DescribeTransactions(
        DescribeTransactionsResponse::default().with_transaction_states(vec![state]),
    )
}

fn exchange(manager: &mut TransactionManager, version: i16, response: Response) {
    answer(manager, T0, version, Ok(response));
}

fn answer(
    manager: &mut TransactionManager,
    now: Timestamp,
    version: i16,
    result: Result<Response, RequestError>,
) {
    let request = manager.poll_request(now).unwrap();
    manager.handle_response(now, request.token, version, result);
}

/// Answers with trouble, and moves time to when the request is repeated.
fn retried(
    manager: &mut TransactionManager,
    now: Timestamp,
    trouble: Result<Response, RequestError>,
) -> Timestamp {
    answer(manager, now, 3, trouble);
    assert_eq!(manager.poll_request(now), None, "it waits before it asks again");
    let at = manager.poll_timeout().unwrap();
    manager.handle_timeout(at);
    at
}

fn events(manager: &mut TransactionManager) -> Vec<TransactionEvent> {
    std::iter::from_fn(|| manager.poll_event()).collect()
}

fn identity(producer_id: i64, producer_epoch: i16) -> ProducerIdAndEpoch {
    ProducerIdAndEpoch { producer_id, producer_epoch }
}

fn fenced(api: ApiKey, code: ErrorCode) -> ProduceError {
    ProduceError::Fenced { transactional_id: "job".into(), api, code }
}

fn key(partition: i32) -> TopicPartition {
    TopicPartition::new("t", partition)
}

fn topic() -> TopicName {
    TopicName(StrBytes::from_static_str("t"))
}

fn initialized(code: ErrorCode, id: i64, epoch: i16) -> Response {
    Response::InitProducerId(
        InitProducerIdResponse::default()
            .with_error_code(code.0)
            .with_producer_id(id.into())
            .with_producer_epoch(epoch),
    )
}

fn added(results: &[(i32, ErrorCode)]) -> Response {
    let results = results
        .iter()
        .map(|(partition, code)| {
            AddPartitionsToTxnPartitionResult::default()
                .with_partition_index(*partition)
                .with_partition_error_code(code.0)
        })
        .collect();
    let topic = AddPartitionsToTxnTopicResult::default()
        .with_name(topic())
        .with_results_by_partition(results);
    Response::AddPartitionsToTxn(
        AddPartitionsToTxnResponse::default().with_results_by_topic_v3_and_below(vec![topic]),
    )
}

fn end_txn(id: i64, epoch: i16, committed: bool) -> Request {
    Request::EndTxn(
        EndTxnRequest::default()
            .with_transactional_id(wire_id("job"))
            .with_producer_id(id.into())
            .with_producer_epoch(epoch)
            .with_committed(committed),
    )
}

fn ended(code: ErrorCode, id: i64, epoch: i16) -> Response {
    Response::EndTxn(
        EndTxnResponse::default()
            .with_error_code(code.0)
            .with_producer_id(id.into())
            .with_producer_epoch(epoch),
    )
}

fn lost() -> RequestError {
    RequestError::Disconnected {
        destination: Destination::TransactionCoordinator("job".into()),
        reason: DisconnectReason::Closed,
        sent: true,
    }
}
