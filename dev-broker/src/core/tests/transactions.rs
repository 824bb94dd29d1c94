//! Transactions over the wire: every answer of EndTxn and InitProducerId, verification, timeouts, visibility.

use std::time::Duration;

use millstream_protocol::messages::kp;
use millstream_protocol::{ErrorCode, IsolationLevel, ProducerIdAndEpoch, Response};

use super::TestCluster;
use super::scripted_client::{Write, str_bytes};
use crate::core::ClusterConfig;

const COMMITTED: IsolationLevel = IsolationLevel::ReadCommitted;
const ID: &str = "job/0";

const STATES: [&str; 6] =
    ["Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"];

/// A coordinator whose decisions stay visible, on a cluster of `transaction_version`.
fn cluster(transaction_version: i16) -> TestCluster {
    let config = ClusterConfig {
        transaction_version,
        transaction_marker_delay: Duration::from_secs(1),
        ..ClusterConfig::default()
    };
    TestCluster::with_topic(config, 2)
}

fn described(test: &mut TestCluster) -> (String, ProducerIdAndEpoch) {
    let request = kp::DescribeTransactionsRequest::default()
        .with_transactional_ids(vec![kp::TransactionalId(str_bytes(ID))]);
    let Response::DescribeTransactions(response) = test.call(0, request) else {
        panic!("wrong answer")
    };
    let state = &response.transaction_states[0];
    let identity = ProducerIdAndEpoch {
        producer_id: state.producer_id.0,
        producer_epoch: state.producer_epoch,
    };
    (state.transaction_state.to_string(), identity)
}

/// Brings the transactional id into `state` with requests of EndTxn `version`.
fn brought_to(
    transaction_version: i16,
    version: i16,
    state: &str,
) -> (TestCluster, ProducerIdAndEpoch) {
    let mut test = cluster(transaction_version);
    let identity = test.fence(ID);
    if state != "Empty" {
        assert_eq!(test.add_partition(3, ID, identity, "t", 0), ErrorCode::NONE);
    }
    let commit = state.ends_with("Commit");
    if state.starts_with("Prepare") || state.starts_with("Complete") {
        test.end(version, ID, identity, commit).expect("decided");
    }
    if state.starts_with("Complete") {
        test.settle();
    }
    let (reached, current) = described(&mut test);
    assert_eq!(reached, state);
    (test, current)
}

fn minus_one(identity: ProducerIdAndEpoch) -> ProducerIdAndEpoch {
    ProducerIdAndEpoch { producer_epoch: identity.producer_epoch - 1, ..identity }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    None,
    /// And the epoch is one higher.
    Bump,
    State,
    Concurrent,
    Fenced,
}

fn answer(outcome: Result<ProducerIdAndEpoch, ErrorCode>, before: ProducerIdAndEpoch) -> Answer {
    match outcome {
        Ok(ProducerIdAndEpoch::NONE) => Answer::None,
        Ok(identity) if identity == before => Answer::None,
        Ok(identity) if minus_one(identity) == before => Answer::Bump,
        Err(ErrorCode::INVALID_TXN_STATE) => Answer::State,
        Err(ErrorCode::CONCURRENT_TRANSACTIONS) => Answer::Concurrent,
        Err(ErrorCode::PRODUCER_FENCED) => Answer::Fenced,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_answer_of_end_txn_version_4() {
    use Answer::{Concurrent, Fenced, None, State};
    // Commit, abort, and an epoch below the current one.
    let expected = [
        ("Empty", [State, State, Fenced]),
        ("Ongoing", [None, None, Fenced]),
        ("PrepareCommit", [Concurrent, State, Fenced]),
        ("PrepareAbort", [State, Concurrent, Fenced]),
        ("CompleteCommit", [None, State, Fenced]),
        ("CompleteAbort", [State, None, Fenced]),
    ];
    for transaction_version in [0, 2] {
        let mut seen = Vec::new();
        for state in STATES {
            let mut answers = [None; 3];
            for (place, answered) in answers.iter_mut().enumerate() {
                let (mut test, current) = brought_to(transaction_version, 4, state);
                let identity = if place == 2 { minus_one(current) } else { current };
                let outcome = test.end(4, ID, identity, place != 1);
                *answered = answer(outcome, current);
            }
            seen.push((state, answers));
        }
        assert_eq!(seen, expected, "transaction.version {transaction_version}");
    }
}

#[test]
fn every_answer_of_end_txn_version_5() {
    use Answer::{Bump, Concurrent, Fenced, None, State};
    // Commit and commit again with the epoch before, abort and abort again with the epoch before.
    let expected = [
        ("Empty", [State, Fenced, Bump, Fenced]),
        ("Ongoing", [Bump, Fenced, Bump, Fenced]),
        ("PrepareCommit", [Fenced, Concurrent, Fenced, State]),
        ("PrepareAbort", [Fenced, State, Fenced, Concurrent]),
        ("CompleteCommit", [State, None, Bump, State]),
        ("CompleteAbort", [State, State, Bump, None]),
    ];
    let mut seen = Vec::new();
    for state in STATES {
        let mut answers = [None; 4];
        for (place, answered) in answers.iter_mut().enumerate() {
            let (mut test, current) = brought_to(2, 5, state);
            let retry = place % 2 == 1;
            let identity = if retry { minus_one(current) } else { current };
            let outcome = test.end(5, ID, identity, place < 2);
            *answered = answer(outcome, current);
        }
        seen.push((state, answers));
    }
    assert_eq!(seen, expected);
}

#[test]
fn a_replay_in_the_other_version_misleads_as_on_a_real_broker() {
    let (mut test, current) = brought_to(2, 4, "CompleteCommit");
    assert_eq!(test.end(5, ID, current, true), Err(ErrorCode::INVALID_TXN_STATE));
    let (mut test, current) = brought_to(2, 5, "CompleteCommit");
    assert_eq!(test.end(4, ID, minus_one(current), true), Err(ErrorCode::PRODUCER_FENCED));
    // Old clients know the same by another code.
    assert_eq!(test.end(1, ID, minus_one(current), true), Err(ErrorCode::INVALID_PRODUCER_EPOCH));
}

#[test]
fn unknown_ids_and_foreign_producers_are_told_apart() {
    let mut test = cluster(2);
    let identity = test.fence(ID);
    let foreign = ProducerIdAndEpoch { producer_id: identity.producer_id + 100, ..identity };
    assert_eq!(test.end(5, "other", identity, true), Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING));
    assert_eq!(test.end(5, ID, foreign, true), Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING));
    assert_eq!(test.end(4, ID, foreign, true), Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING));
    assert_eq!(test.add_partition(3, ID, foreign, "t", 0), ErrorCode::INVALID_PRODUCER_ID_MAPPING);
    assert_eq!(
        test.add_partition(3, ID, identity, "nowhere", 0),
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
    );
}

#[test]
fn init_producer_id_in_every_state() {
    let none = ProducerIdAndEpoch::NONE;
    for (transaction_version, version) in [(0, 4), (2, 5)] {
        for state in STATES {
            let (mut test, current) = brought_to(transaction_version, version, state);
            let outcome = test.init(5, Some(ID), none);
            match state {
                "Ongoing" | "PrepareCommit" | "PrepareAbort" => {
                    assert_eq!(outcome, Err(ErrorCode::CONCURRENT_TRANSACTIONS), "{state}");
                    test.settle();
                    let bumped = test.init(5, Some(ID), none).expect("settled");
                    assert!(bumped.producer_epoch > current.producer_epoch, "{state}");
                }
                _ => assert_eq!(minus_one(outcome.expect("ready")), current, "{state}"),
            }
        }
    }
}

#[test]
fn an_owner_goes_on_with_its_identity_and_a_retry_gets_the_same_answer() {
    let mut test = cluster(2);
    let first = test.fence(ID);
    let second = test.init(5, Some(ID), first).expect("the owner");
    assert_eq!(minus_one(second), first);
    // The answer was lost: the same request again.
    assert_eq!(test.init(5, Some(ID), first), Ok(second));
    let third = test.init(5, Some(ID), ProducerIdAndEpoch::NONE).expect("a new owner");
    assert_eq!(minus_one(third), second);
    // A new owner fences both, with the name of that in old versions too.
    assert_eq!(test.init(5, Some(ID), second), Err(ErrorCode::PRODUCER_FENCED));
    assert_eq!(test.init(3, Some(ID), second), Err(ErrorCode::INVALID_PRODUCER_EPOCH));
    let half = ProducerIdAndEpoch { producer_epoch: -1, ..third };
    assert_eq!(test.init(5, Some(ID), half), Err(ErrorCode::INVALID_REQUEST));
    assert_eq!(test.init(5, Some(""), ProducerIdAndEpoch::NONE), Err(ErrorCode::INVALID_REQUEST));
}

#[test]
fn timeouts_above_the_maximum_are_refused() {
    let config = ClusterConfig {
        transaction_max_timeout: Duration::from_secs(59),
        ..ClusterConfig::default()
    };
    let mut test = TestCluster::with_topic(config, 1);
    assert_eq!(
        test.init(5, Some(ID), ProducerIdAndEpoch::NONE),
        Err(ErrorCode::INVALID_TRANSACTION_TIMEOUT)
    );
}

#[test]
fn epochs_that_run_out_bring_a_new_producer_id() {
    // By InitProducerId.
    let mut test = cluster(0);
    let mut identity = test.fence(ID);
    while identity.producer_epoch < i16::MAX - 1 {
        identity = test.init(5, Some(ID), identity).expect("next epoch");
    }
    let rotated = test.init(5, Some(ID), identity).expect("rotated");
    assert!(rotated.producer_id != identity.producer_id && rotated.producer_epoch == 0);
    assert_eq!(test.init(5, Some(ID), identity), Ok(rotated));
    // By EndTxn; its retry is known by the old identity.
    let mut test = cluster(2);
    let mut identity = test.fence(ID);
    while identity.producer_epoch < i16::MAX - 1 {
        identity = test.init(5, Some(ID), identity).expect("next epoch");
    }
    let write = Write::plain(0, &["x"]).idempotent(identity, 0).transactional(ID);
    assert_eq!(test.produce(12, &write).error_code, ErrorCode::NONE);
    let rotated = test.end(5, ID, identity, true).expect("committed");
    assert!(rotated.producer_id != identity.producer_id && rotated.producer_epoch == 0);
    assert_eq!(test.end(5, ID, identity, true), Err(ErrorCode::CONCURRENT_TRANSACTIONS));
    test.settle();
    assert_eq!(test.end(5, ID, identity, true), Ok(rotated));
    assert_eq!(test.end(5, ID, identity, false), Err(ErrorCode::INVALID_TXN_STATE));
    let next = Write::plain(0, &["y"]).idempotent(rotated, 0).transactional(ID);
    assert_eq!(test.produce(12, &next).error_code, ErrorCode::NONE);
}

#[test]
fn writes_without_a_registered_partition_are_refused_below_version_12() {
    let mut test = cluster(2);
    let identity = test.fence(ID);
    let write = Write::plain(0, &["a"]).idempotent(identity, 0).transactional(ID);
    assert_eq!(test.produce(9, &write).error_code, ErrorCode::INVALID_TXN_STATE);
    assert_eq!(test.produce(11, &write).error_code, ErrorCode::TRANSACTION_ABORTABLE);
    assert_eq!(test.add_partition(3, ID, identity, "t", 0), ErrorCode::NONE);
    assert_eq!(test.produce(9, &write).error_code, ErrorCode::NONE);
    // Another partition is another matter; version 12 registers it by itself.
    let other = Write::plain(1, &["a"]).idempotent(identity, 0).transactional(ID);
    assert_eq!(test.produce(9, &other).error_code, ErrorCode::INVALID_TXN_STATE);
    assert_eq!(test.produce(12, &other).error_code, ErrorCode::NONE);
    // Plain writes of the same producer do not mix with its transaction.
    let plain = Write::plain(0, &["b"]).idempotent(identity, 1);
    assert_eq!(test.produce(9, &plain).error_code, ErrorCode::INVALID_TXN_STATE);
    // A transactional batch needs the id beside it.
    let mut anonymous = write.request();
    anonymous.transactional_id = None;
    let Response::Produce(response) = test.call(9, anonymous) else { panic!("wrong answer") };
    assert_eq!(
        response.topics[0].partitions[0].error_code,
        ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    );
}

#[test]
fn a_write_while_the_last_transaction_ends_is_told_to_wait() {
    let (mut test, current) = brought_to(2, 5, "PrepareCommit");
    let write = Write::plain(0, &["a"]).idempotent(current, 0).transactional(ID);
    assert_eq!(test.produce(12, &write).error_code, ErrorCode::CONCURRENT_TRANSACTIONS);
    assert_eq!(test.produce(11, &write).error_code, ErrorCode::NOT_ENOUGH_REPLICAS);
    assert_eq!(test.add_partition(3, ID, current, "t", 0), ErrorCode::CONCURRENT_TRANSACTIONS);
    // While the first batch waits, the second must not overtake it.
    test.settle();
    let second = Write::plain(0, &["b"]).idempotent(current, 1).transactional(ID);
    assert_eq!(test.produce(12, &second).error_code, ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
    assert_eq!(test.produce(12, &write).error_code, ErrorCode::NONE);
    assert_eq!(test.produce(12, &second).error_code, ErrorCode::NONE);
}

#[test]
fn the_last_stable_offset_stops_at_the_oldest_open_transaction() {
    let mut test = cluster(2);
    let one = test.fence("one");
    let two = test.fence("two");
    test.produce(9, &Write::plain(0, &["plain"]));
    test.produce(12, &Write::plain(0, &["1"]).idempotent(one, 0).transactional("one"));
    test.produce(12, &Write::plain(0, &["2"]).idempotent(two, 0).transactional("two"));
    test.produce(9, &Write::plain(0, &["plain"]));
    let mut stable = vec![test.fetch(0, 0, COMMITTED).last_stable_offset];
    test.end(5, "two", two, true).expect("committed");
    test.settle();
    stable.push(test.fetch(0, 0, COMMITTED).last_stable_offset);
    test.end(5, "one", one, false).expect("aborted");
    stable.push(test.fetch(0, 0, COMMITTED).last_stable_offset);
    test.settle();
    let read = test.fetch(0, 0, COMMITTED);
    stable.push(read.last_stable_offset);
    assert_eq!(stable, [1, 1, 1, 6]);
    let aborted = read.aborted_transactions.expect("a list");
    assert_eq!(
        aborted.iter().map(|entry| (entry.producer_id, entry.first_offset)).collect::<Vec<_>>(),
        [(one.producer_id, 1)]
    );
    // The list is only of what the answer touches.
    assert_eq!(test.fetch(0, 6, COMMITTED).aborted_transactions, Some(Vec::new()));
    assert_eq!(test.fetch(0, 0, IsolationLevel::ReadUncommitted).aborted_transactions, None);
}

#[test]
fn an_open_transaction_is_aborted_after_its_timeout() {
    for (transaction_version, late_commit) in
        [(0, ErrorCode::PRODUCER_FENCED), (2, ErrorCode::INVALID_TXN_STATE)]
    {
        let mut test = cluster(transaction_version);
        let identity = test.fence(ID);
        test.add_partition(3, ID, identity, "t", 0);
        test.produce(11, &Write::plain(0, &["a"]).idempotent(identity, 0).transactional(ID));
        test.advance(Duration::from_secs(59));
        assert_eq!(described(&mut test).0, "Ongoing");
        test.advance(Duration::from_secs(15));
        let (state, current) = described(&mut test);
        assert_eq!((state.as_str(), minus_one(current)), ("CompleteAbort", identity));
        let version = if transaction_version == 2 { 5 } else { 4 };
        assert_eq!(test.end(version, ID, identity, true), Err(late_commit));
        // What comes too late does not get into the log.
        let late = Write::plain(0, &["b"]).idempotent(identity, 1).transactional(ID);
        assert_eq!(test.produce(11, &late).error_code, ErrorCode::INVALID_PRODUCER_EPOCH);
        // Only the rules of version 2 let the owner go on with what it has.
        let resumed = test.init(5, Some(ID), identity);
        if transaction_version == 2 {
            assert_eq!(resumed, Ok(current));
        } else {
            assert_eq!(resumed, Err(ErrorCode::PRODUCER_FENCED));
        }
        let read = test.fetch(0, 0, COMMITTED);
        assert_eq!((read.last_stable_offset, read.high_watermark), (2, 2));
    }
}

#[test]
fn transactions_are_listed_by_state() {
    let (mut test, _) = brought_to(2, 5, "Ongoing");
    test.fence("idle");
    let listed = |test: &mut TestCluster, filters: &[&str], duration_filter| {
        let request = kp::ListTransactionsRequest::default()
            .with_state_filters(filters.iter().map(|filter| str_bytes(filter)).collect())
            .with_duration_filter(duration_filter);
        let Response::ListTransactions(response) = test.call(1, request) else {
            panic!("wrong answer")
        };
        let ids: Vec<String> = response
            .transaction_states
            .iter()
            .map(|state| state.transactional_id.to_string())
            .collect();
        (ids, response.unknown_state_filters.len())
    };
    assert_eq!(listed(&mut test, &[], -1), (vec!["idle".to_owned(), ID.to_owned()], 0));
    assert_eq!(listed(&mut test, &["Ongoing", "Nonsense"], -1), (vec![ID.to_owned()], 1));
    assert_eq!(listed(&mut test, &[], 5000), (vec![], 0));
    test.advance(Duration::from_secs(6));
    assert_eq!(listed(&mut test, &[], 5000), (vec![ID.to_owned()], 0));
}
