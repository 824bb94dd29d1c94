//! What a member commits, and as what, when partitions and generations change under it.

use millstream_protocol::ErrorCode;
use millstream_protocol::messages::kp::OffsetCommitResponse;
use millstream_protocol::messages::kp::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};

use super::*;

fn key(partition: i32) -> TopicPartition {
    TopicPartition::new("t", partition)
}

fn set(partitions: &[i32]) -> BTreeSet<TopicPartition> {
    partitions.iter().map(|partition| key(*partition)).collect()
}

fn job(partitions: &[(i32, i64)]) -> CommitJob {
    let offsets = partitions
        .iter()
        .map(|(partition, offset)| (key(*partition), OffsetAndMetadata::new(*offset, -1)));
    CommitJob::new(offsets.collect(), Duration::from_secs(60), AfterCommit::Nothing)
}

fn commits() -> Commits {
    Commits::new(ExponentialBackoff::new(Duration::ZERO, Duration::ZERO), 1)
}

fn answer(code: ErrorCode) -> Result<Response, RequestError> {
    let partition = OffsetCommitResponsePartition::default().with_error_code(code.0);
    let topic = OffsetCommitResponseTopic::default().with_partitions(vec![partition]);
    Ok(OffsetCommitResponse::default().with_topics(vec![topic]).into())
}

fn sent(commits: &mut Commits, owned: &BTreeSet<TopicPartition>) -> Vec<(i32, i64)> {
    match commits.start(owned) {
        Some(Ok(offsets)) => {
            offsets.iter().map(|(tp, position)| (tp.partition, position.offset)).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// B106: after a rebalance that took a partition away, nothing is committed for it, and who asked is told.
#[test]
fn offsets_of_a_partition_that_is_not_ours_any_more_are_not_committed() {
    let mut commits = commits();
    commits.push(job(&[(0, 5), (1, 7)]));
    assert_eq!(sent(&mut commits, &set(&[0])), [(0, 5)]);
    let ended = commits.answered(answer(ErrorCode::NONE)).ended.expect("it has ended");
    assert_eq!(ended.1, Err(CommitError::NotOwned { partitions: set(&[1]) }));

    commits.push(job(&[(1, 8)]));
    let Some(Err((_, result))) = commits.start(&set(&[0])) else { panic!("nothing is left") };
    assert_eq!(result, Err(CommitError::NotOwned { partitions: set(&[1]) }));
}

/// B108: the same offsets, as the member of the generation that is then; for what is then still ours.
#[test]
fn a_commit_of_an_older_generation_is_repeated_for_what_is_still_ours() {
    for (code, suspect) in [
        (ErrorCode::ILLEGAL_GENERATION, true),
        (ErrorCode::UNKNOWN_MEMBER_ID, true),
        (ErrorCode::STALE_MEMBER_EPOCH, true),
        // The member itself takes part in the rebalance already.
        (ErrorCode::REBALANCE_IN_PROGRESS, false),
    ] {
        let mut commits = commits();
        commits.push(job(&[(0, 5), (1, 7)]));
        assert_eq!(sent(&mut commits, &set(&[0, 1])), [(0, 5), (1, 7)]);
        let outcome = commits.answered(answer(code));
        assert!(outcome.ended.is_none());
        assert_eq!(outcome.suspect, suspect, "{code}");
        assert_eq!(sent(&mut commits, &set(&[1])), [(1, 7)]);
        let ended = commits.answered(answer(ErrorCode::NONE)).ended.expect("it has ended");
        assert_eq!(ended.1, Err(CommitError::NotOwned { partitions: set(&[0]) }));
    }
}

/// B110: a later commit waits for the answer to the one before, also while that is repeated.
#[test]
fn one_commit_is_under_way_at_a_time_and_they_keep_their_order() {
    let mut commits = commits();
    commits.push(job(&[(0, 5)]));
    commits.push(job(&[(0, 6)]));
    let owned = set(&[0]);
    assert_eq!(sent(&mut commits, &owned), [(0, 5)]);
    assert!(commits.start(&owned).is_none());
    assert!(commits.answered(answer(ErrorCode::NOT_COORDINATOR)).ended.is_none());
    assert_eq!(sent(&mut commits, &owned), [(0, 5)], "the older one again, and first");
    assert!(commits.start(&owned).is_none());
    assert!(commits.answered(answer(ErrorCode::NONE)).ended.is_some());
    assert_eq!(sent(&mut commits, &owned), [(0, 6)]);
}
