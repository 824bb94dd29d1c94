use std::time::Duration;

use super::*;

/// In the transaction after one that was committed at `T0`, under TV2.
fn next_transaction() -> TransactionManager {
    let mut manager = ready(2);
    manager.begin().unwrap();
    manager.handle_written();
    manager.end(T0, true, LIMIT).unwrap();
    exchange(&mut manager, 5, ended(ErrorCode::NONE, 7, 4));
    events(&mut manager);
    manager.begin().unwrap();
    manager
}

fn asks(manager: &mut TransactionManager, now: Timestamp) -> bool {
    let Some(asked) = manager.poll_request(now) else { return false };
    assert!(matches!(asked.request, Request::DescribeTransactions(_)), "{asked:?}");
    assert_eq!(asked.destination, Destination::TransactionCoordinator("job".into()));
    manager.in_flight.as_ref().is_some_and(|in_flight| in_flight.token == asked.token)
}

fn told(manager: &mut TransactionManager, now: Timestamp, answer: Result<Response, RequestError>) {
    let token = manager.in_flight.as_ref().unwrap().token;
    manager.handle_response(now, token, 0, answer);
}

#[test]
fn first_batch_after_a_commit_waits_for_the_markers_and_no_longer() {
    let mut manager = next_transaction();
    assert_eq!((manager.poll_request(T0), manager.poll_timeout()), (None, None), "nothing to send");
    let mut now = T0;
    for _ in 0..3 {
        assert!(!manager.may_write(now, &key(0)));
        assert!(asks(&mut manager, now));
        assert_eq!(manager.poll_request(now), None, "one at a time");
        told(&mut manager, now, Ok(described("PrepareCommit")));
        let at = manager.poll_timeout().unwrap();
        assert_eq!(at, now.after(Duration::from_millis(1)));
        manager.handle_timeout(at);
        now = at;
    }
    assert!(asks(&mut manager, now));
    told(&mut manager, now, Ok(described("CompleteCommit")));
    assert!(manager.may_write(now, &key(0)));
    assert_eq!((manager.poll_request(now), manager.poll_timeout()), (None, None));
    // Asking is no use of the transaction: the coordinator knows nothing of it.
    manager.end(now, false, LIMIT).unwrap();
    assert_eq!(manager.poll_request(now), None);
}

/// A broker holds what comes too early, so in every doubt the batch goes out.
#[test]
fn whatever_goes_wrong_the_batch_goes_out() {
    let refused = ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED;
    let unsupported = RequestError::UnsupportedByBroker {
        api: ApiKey::DescribeTransactions,
        ours_min: 0,
        ours_max: 0,
        theirs_min: 0,
        theirs_max: -1,
    };
    let of_code = |code: ErrorCode| {
        let Response::DescribeTransactions(mut described) = described("") else { panic!() };
        described.transaction_states[0].error_code = code.0;
        Ok(Response::DescribeTransactions(described))
    };
    let nobody = Response::DescribeTransactions(DescribeTransactionsResponse::default());
    let cases = [
        (of_code(refused), false),
        (Err(unsupported), false),
        (of_code(ErrorCode::NOT_COORDINATOR), true),
        (Err(lost()), true),
        (Ok(nobody), true),
        (Ok(described("Ongoing")), true),
    ];
    for (answer, asks_again) in cases {
        let mut manager = next_transaction();
        assert!(!manager.may_write(T0, &key(0)));
        assert!(asks(&mut manager, T0));
        told(&mut manager, T0, answer.clone());
        assert!(manager.may_write(T0, &key(0)), "{answer:?}");
        assert_eq!(events(&mut manager), vec![], "{answer:?}");
        manager.handle_written();
        manager.end(T0, true, LIMIT).unwrap();
        exchange(&mut manager, 5, ended(ErrorCode::NONE, 7, 5));
        events(&mut manager);
        manager.begin().unwrap();
        assert_eq!(manager.may_write(T0, &key(0)), !asks_again, "{answer:?}");
    }
}

#[test]
fn nobody_waits_longer_than_the_broker_would() {
    let limit = T0.after(Duration::from_millis(20));
    // The coordinator does not answer.
    let mut manager = next_transaction();
    assert!(!manager.may_write(T0, &key(0)));
    assert!(asks(&mut manager, T0));
    assert_eq!(manager.poll_timeout(), Some(limit));
    manager.handle_timeout(limit);
    assert!(manager.may_write(limit, &key(0)));
    told(&mut manager, limit, Ok(described("PrepareCommit")));
    assert!(manager.may_write(limit, &key(0)));
    // The first batch comes later than that: nobody is asked.
    let mut late = next_transaction();
    assert!(late.may_write(limit, &key(0)));
    assert_eq!(late.poll_request(limit), None);
}

/// They are added to the transaction by their own request, which would be refused.
#[test]
fn offsets_of_a_group_wait_for_the_markers() {
    let mut manager = next_transaction();
    manager.send_offsets(T0, offsets::offsets()).unwrap();
    assert!(asks(&mut manager, T0));
    told(&mut manager, T0, Ok(described("CompleteCommit")));
    let sent = manager.poll_request(T0).unwrap();
    assert!(matches!(sent.request, Request::TxnOffsetCommit(_)), "{sent:?}");
}

/// Below `transaction.version` 2 the next epoch is asked for in between, and comes after the markers.
#[test]
fn tv1_asks_nobody() {
    let mut manager = ready(1);
    committed_tv1(&mut manager);
    manager.bump(T0).unwrap();
    exchange(&mut manager, 5, initialized(ErrorCode::NONE, 7, 4));
    manager.begin().unwrap();
    assert!(!manager.may_write(T0, &key(0)));
    let request = manager.poll_request(T0).unwrap();
    assert!(matches!(request.request, Request::AddPartitionsToTxn(_)), "{request:?}");
}
