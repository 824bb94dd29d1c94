//! What answers about offsets ask for.

use super::super::MemberIdentity;
use super::super::offsets::{
    OffsetAndMetadata, Verdict, commit_request, commit_verdict, fetch_request, fetched,
};
use super::*;
use crate::messages::StrBytes;
use crate::messages::kp::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use crate::messages::kp::offset_fetch_response::{
    OffsetFetchResponsePartition, OffsetFetchResponseTopic,
};
use crate::messages::kp::{OffsetCommitResponse, OffsetFetchResponse, TopicName};

fn answer(codes: &[ErrorCode]) -> OffsetCommitResponse {
    let partitions =
        codes.iter().map(|code| OffsetCommitResponsePartition::default().with_error_code(code.0));
    let topic = OffsetCommitResponseTopic::default().with_partitions(partitions.collect());
    OffsetCommitResponse::default().with_topics(vec![topic])
}

#[test]
fn the_worst_code_of_a_commit_decides() {
    let none = ErrorCode::NONE;
    let moved = ErrorCode::NOT_COORDINATOR;
    let stale = ErrorCode::STALE_MEMBER_EPOCH;
    let denied = ErrorCode::TOPIC_AUTHORIZATION_FAILED;
    for (codes, verdict) in [
        (&[][..], Verdict::Done),
        (&[none, none], Verdict::Done),
        (&[none, moved], Verdict::Retry(moved)),
        (&[moved, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION], Verdict::Retry(moved)),
        (&[stale, moved], Verdict::NotInGeneration(stale)),
        (&[denied, stale, none], Verdict::Failed(denied)),
    ] {
        assert_eq!(commit_verdict(&answer(codes)), verdict);
    }
    for code in [
        ErrorCode::ILLEGAL_GENERATION,
        ErrorCode::UNKNOWN_MEMBER_ID,
        ErrorCode::REBALANCE_IN_PROGRESS,
    ] {
        assert_eq!(Verdict::of(code), Verdict::NotInGeneration(code));
    }
    for code in [
        ErrorCode::FENCED_INSTANCE_ID,
        ErrorCode::OFFSET_METADATA_TOO_LARGE,
        ErrorCode::GROUP_AUTHORIZATION_FAILED,
    ] {
        assert_eq!(Verdict::of(code), Verdict::Failed(code));
    }
}

/// Case B074: what is committed is the next offset to read, as given.
#[test]
fn a_commit_carries_member_generation_and_the_next_offset() {
    let identity = MemberIdentity {
        member_id: Arc::from("m"),
        generation_or_epoch: 4,
        group_instance_id: Some(Arc::from("i")),
    };
    let offsets = BTreeMap::from([(TopicPartition::new("t", 1), OffsetAndMetadata::new(10, 3))]);
    let request = commit_request("g", &identity, &offsets);
    assert_eq!((request.member_id.as_str(), request.generation_id_or_member_epoch), ("m", 4));
    assert_eq!(request.group_instance_id.as_ref().map(|id| id.as_str()), Some("i"));
    let partition = &request.topics[0].partitions[0];
    assert_eq!((partition.committed_offset, partition.committed_leader_epoch), (10, 3));
}

/// Case B063: only stable offsets are asked for, and a partition that the answer leaves out is not one without an offset.
#[test]
fn committed_offsets_are_read_and_missing_ones_are_absent() {
    let partition = |index: i32, offset: i64, code: ErrorCode| {
        OffsetFetchResponsePartition::default()
            .with_partition_index(index)
            .with_committed_offset(offset)
            .with_committed_leader_epoch(2)
            .with_metadata(Some(StrBytes::from_static_str("")))
            .with_error_code(code.0)
    };
    let response = |partitions| {
        let topic = OffsetFetchResponseTopic::default()
            .with_name(TopicName(StrBytes::from_static_str("t")))
            .with_partitions(partitions);
        OffsetFetchResponse::default().with_topics(vec![topic])
    };
    let whole = response(vec![partition(0, 5, ErrorCode::NONE), partition(1, -1, ErrorCode::NONE)]);
    let found = BTreeMap::from([(TopicPartition::new("t", 0), OffsetAndMetadata::new(5, 2))]);
    let asked = set(&[0, 1]);
    assert_eq!(fetched(&whole, &asked), (Verdict::Done, found));
    let left_out = fetched(&whole, &set(&[0, 1, 2])).0;
    assert_eq!(left_out, Verdict::Retry(ErrorCode::UNKNOWN_SERVER_ERROR));
    let unstable = ErrorCode::UNSTABLE_OFFSET_COMMIT;
    let waits = response(vec![partition(0, -1, unstable)]);
    assert_eq!(fetched(&waits, &set(&[0])).0, Verdict::Retry(unstable));
    let request = fetch_request("g", &set(&[1, 0]), true);
    let asked = request.topics.as_ref().map(|topics| topics[0].partition_indexes.clone());
    assert_eq!((asked, request.require_stable), (Some(vec![0, 1]), true));
}
