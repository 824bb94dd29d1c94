//! Offsets of a group in a transaction.

use std::collections::BTreeMap;

use kafka_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use kafka_protocol::messages::{AddOffsetsToTxnResponse, TxnOffsetCommitResponse};

use super::*;
use crate::group::MemberIdentity;
use crate::group::offsets::OffsetAndMetadata;
use crate::transaction::GroupOffsets;

pub(super) fn offsets() -> GroupOffsets {
    GroupOffsets {
        group_id: "g".into(),
        member: MemberIdentity {
            member_id: "m".into(),
            generation_or_epoch: 4,
            group_instance_id: None,
        },
        offsets: BTreeMap::from([(key(0), OffsetAndMetadata::new(10, 2))]),
    }
}

fn add_answer(code: ErrorCode) -> Response {
    Response::AddOffsetsToTxn(AddOffsetsToTxnResponse::default().with_error_code(code.0))
}

fn commit_answer(code: ErrorCode) -> Response {
    let partition = TxnOffsetCommitResponsePartition::default().with_error_code(code.0);
    let topic =
        TxnOffsetCommitResponseTopic::default().with_name(topic()).with_partitions(vec![partition]);
    Response::TxnOffsetCommit(TxnOffsetCommitResponse::default().with_topics(vec![topic]))
}

/// A manager in a transaction of these rules, with the offsets on their way.
fn sending(transaction_version: i16) -> TransactionManager {
    let mut manager = manager(transaction_version);
    manager.init(T0);
    exchange(&mut manager, 5, initialized(ErrorCode::NONE, 7, 3));
    manager.begin().unwrap();
    manager.send_offsets(T0, offsets()).unwrap();
    events(&mut manager);
    manager
}

#[test]
fn under_tv1_the_transactions_coordinator_is_told_of_the_group_first() {
    let mut manager = sending(1);
    let request = manager.poll_request(T0).unwrap();
    assert_eq!(request.destination, Destination::TransactionCoordinator("job".into()));
    assert!(
        matches!(&request.request, Request::AddOffsetsToTxn(add) if add.group_id.0.as_str() == "g")
    );
    manager.handle_response(T0, request.token, 3, Ok(add_answer(ErrorCode::NONE)));
    let request = manager.poll_request(T0).unwrap();
    assert_eq!(request.destination, Destination::GroupCoordinator("g".into()));
    assert_eq!(request.max_version, Some(4));
    let Request::TxnOffsetCommit(commit) = &request.request else { panic!("{request:?}") };
    assert_eq!((commit.member_id.as_str(), commit.generation_id), ("m", 4));
    assert_eq!(commit.topics[0].partitions[0].committed_offset, 10);
    // Not before the offsets are in.
    assert!(matches!(manager.end(T0, true, LIMIT), Err(ProduceError::InvalidState { .. })));
    manager.handle_response(T0, request.token, 3, Ok(commit_answer(ErrorCode::NONE)));
    assert_eq!(events(&mut manager), [TransactionEvent::OffsetsSent(Ok(()))]);
    manager.end(T0, true, LIMIT).unwrap();
    assert_eq!(manager.poll_request(T0).unwrap().request, end_txn(7, 3, true));
}

#[test]
fn under_tv2_the_groups_coordinator_adds_the_group_itself() {
    let mut manager = sending(2);
    let request = manager.poll_request(T0).unwrap();
    assert!(matches!(request.request, Request::TxnOffsetCommit(_)));
    assert_eq!(request.max_version, Some(5));
    manager.handle_response(T0, request.token, 5, Ok(commit_answer(ErrorCode::NONE)));
    assert_eq!(events(&mut manager), [TransactionEvent::OffsetsSent(Ok(()))]);
}

#[test]
fn coordinators_that_move_or_load_are_asked_again() {
    for code in [
        ErrorCode::NOT_COORDINATOR,
        ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode::CONCURRENT_TRANSACTIONS,
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
    ] {
        let mut manager = sending(2);
        let mut now = T0;
        for _ in 0..3 {
            now = retried(&mut manager, now, Ok(commit_answer(code)));
        }
        answer(&mut manager, now, 5, Ok(commit_answer(ErrorCode::NONE)));
        assert_eq!(events(&mut manager), [TransactionEvent::OffsetsSent(Ok(()))]);
    }
}

/// KIP-447: the member that read the records is not in the generation any more.
#[test]
fn a_zombies_offsets_cost_it_the_transaction() {
    for code in [
        ErrorCode::ILLEGAL_GENERATION,
        ErrorCode::UNKNOWN_MEMBER_ID,
        ErrorCode::FENCED_INSTANCE_ID,
        ErrorCode::STALE_MEMBER_EPOCH,
        ErrorCode::GROUP_AUTHORIZATION_FAILED,
    ] {
        let mut manager = sending(2);
        exchange(&mut manager, 5, commit_answer(code));
        let error = ProduceError::abortable(ApiKey::TxnOffsetCommit, code, Some(key(0)));
        assert_eq!(
            events(&mut manager),
            [
                TransactionEvent::Failed(error.clone()),
                TransactionEvent::OffsetsSent(Err(error.clone())),
            ]
        );
        assert_eq!(manager.end(T0, true, LIMIT), Err(error));
        assert_eq!(manager.end(T0, false, LIMIT), Ok(()));
    }
}

#[test]
fn a_fenced_producer_is_told_so() {
    for code in [ErrorCode::PRODUCER_FENCED, ErrorCode::INVALID_PRODUCER_EPOCH] {
        let mut manager = sending(2);
        exchange(&mut manager, 5, commit_answer(code));
        let error = fenced(ApiKey::TxnOffsetCommit, code);
        assert_eq!(manager.error(), Some(&error));
    }
}

#[test]
fn offsets_that_find_no_coordinator_in_time_cost_the_transaction() {
    let mut manager = sending(2);
    let mut now = T0;
    while manager.error().is_none() {
        if let Some(request) = manager.poll_request(now) {
            let moved = commit_answer(ErrorCode::NOT_COORDINATOR);
            manager.handle_response(now, request.token, 5, Ok(moved));
        }
        now = manager.poll_timeout().unwrap();
        manager.handle_timeout(now);
    }
    assert!(matches!(manager.error(), Some(ProduceError::TimedOut { .. })));
    assert_eq!(manager.end(now, false, LIMIT), Ok(()));
}
