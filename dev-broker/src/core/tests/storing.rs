//! What a shell keeps is enough: any prefix of the effects, the last one torn at any byte, starts a sound cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use millstream_protocol::{ErrorCode, IsolationLevel, Timestamp};
use uuid::Uuid;

use super::TestCluster;
use super::scripted_client::Write;
use crate::core::{Cluster, ClusterConfig, StorageEffect, Stored, whole_batches};

/// What a shell would find after it carried out `effects`, starting from a state log of `snapshot`.
pub(super) fn stored_from(snapshot: &[Bytes], effects: &[StorageEffect]) -> Stored {
    let mut stored = Stored { state: snapshot.to_vec(), ..Stored::default() };
    let mut logs: BTreeMap<(Uuid, i32), BytesMut> = BTreeMap::new();
    for effect in effects {
        match effect {
            StorageEffect::Append { topic_id, partition, batch } => {
                logs.entry((*topic_id, *partition)).or_default().extend_from_slice(batch);
            }
            StorageEffect::Rewrite { topic_id, partition, content } => {
                logs.insert((*topic_id, *partition), content.iter().flatten().copied().collect());
            }
            StorageEffect::State(record) => stored.state.push(record.clone()),
            StorageEffect::DeleteLogs { topic_id } => logs.retain(|(id, _), _| id != topic_id),
        }
    }
    stored.logs = logs.into_iter().map(|(key, log)| (key, log.freeze())).collect();
    stored
}

fn config() -> ClusterConfig {
    ClusterConfig { durable: true, ..ClusterConfig::default() }
}

fn restarted(stored: Stored) -> TestCluster {
    let mut test = TestCluster::of(Cluster::from_stored(config(), 3, stored, Timestamp::ZERO));
    test.settle();
    test
}

/// A committed transaction over two partitions, an aborted one, a topic deleted, offsets committed.
fn busy() -> TestCluster {
    let mut test = TestCluster::with_topic(config(), 2);
    test.create_topic("gone", 1, &[]);
    for (round, commit) in [(0, true), (1, false), (2, true)] {
        let id = format!("round-{round}");
        let identity = test.fence(&id);
        for partition in 0..2 {
            let write = Write::plain(partition, &["a", "b"]).idempotent(identity, 0);
            assert_eq!(test.produce(12, &write.transactional(&id)).error_code, ErrorCode::NONE);
        }
        test.end(5, &id, identity, commit).expect("ended");
        test.settle();
    }
    let request = millstream_protocol::messages::kp::DeleteTopicsRequest::default()
        .with_topic_names(vec![millstream_protocol::messages::kp::TopicName(
            super::scripted_client::str_bytes("gone"),
        )]);
    test.call(5, request);
    test
}

/// End offset, last stable offset, bytes and aborted list of each partition.
fn picture(test: &mut TestCluster) -> Vec<(i64, i64, Bytes, usize)> {
    (0..2)
        .map(|partition| {
            let read = test.fetch(partition, 0, IsolationLevel::ReadCommitted);
            let aborted = read.aborted_transactions.unwrap_or_default().len();
            (read.high_watermark, read.last_stable_offset, read.records, aborted)
        })
        .collect()
}

#[test]
fn everything_kept_gives_the_same_logs_again() {
    let mut test = busy();
    let before = picture(&mut test);
    let mut again = restarted(stored_from(&test.snapshot, &test.effects));
    assert_eq!(picture(&mut again), before);
    // A snapshot says the same as the records it replaces.
    let snapshot = again.cluster.state_snapshot();
    let logs = stored_from(&[], &test.effects).logs;
    let mut third = restarted(Stored { state: snapshot, logs });
    assert_eq!(picture(&mut third), before);
    assert_eq!(third.create_topic("gone", 1, &[]), ErrorCode::NONE);
    // Ids that were given out do not come again, and old owners are known.
    let known = third.fence("round-0");
    assert_eq!(known.producer_id, test.fence("round-0").producer_id);
    assert!(third.fence("new").producer_id > known.producer_id);
}

#[test]
fn leader_epochs_grow_with_each_start() {
    let test = busy();
    let mut again = restarted(stored_from(&test.snapshot, &test.effects));
    let mut request =
        super::scripted_client::fetch_request(&[(0, 0)], IsolationLevel::ReadUncommitted);
    request.topics[0].partitions[0].current_leader_epoch = 0;
    let millstream_protocol::Response::Fetch(response) = again.call(12, request) else {
        panic!("wrong answer")
    };
    assert_eq!(response.topics[0].partitions[0].error_code, ErrorCode::FENCED_LEADER_EPOCH);
}

#[test]
fn a_kill_at_any_effect_leaves_a_cluster_that_works() {
    let test = busy();
    for kept in 0..=test.effects.len() {
        let mut again = restarted(stored_from(&test.snapshot, &test.effects[..kept]));
        again.create_topic("t", 2, &[]);
        // Decided transactions are completed, open ones end by their timeout; then nothing is unstable.
        again.advance(Duration::from_secs(75));
        for partition in 0..2 {
            let read = again.fetch(partition, 0, IsolationLevel::ReadCommitted);
            assert_eq!(read.last_stable_offset, read.high_watermark, "after {kept} effects");
        }
        // Transactions are all or nothing: both partitions show the same visible records.
        let visible: Vec<usize> = (0..2)
            .map(|partition| super::read_committed_model::visible_count(&mut again, partition))
            .collect();
        assert_eq!(visible[0], visible[1], "after {kept} effects");
    }
}

#[test]
fn a_torn_or_damaged_end_of_a_log_is_cut_off() {
    let test = busy();
    let stored = stored_from(&test.snapshot, &test.effects);
    for (key, log) in &stored.logs {
        let mut boundaries = Vec::new();
        for cut in 0..=log.len() {
            let whole = whole_batches(&log[..cut]);
            assert!(whole <= cut);
            if boundaries.last() != Some(&whole) {
                boundaries.push(whole);
            }
        }
        // Three rounds of one batch and one marker, and the empty log.
        assert_eq!(boundaries.len(), 7, "{key:?}");
        let mut damaged = log.to_vec();
        let last = damaged.len() - 1;
        damaged[last] ^= 1;
        assert_eq!(whole_batches(&damaged), boundaries[5]);
        let mut logs = stored.logs.clone();
        logs.insert(*key, damaged.into());
        let mut again = restarted(Stored { logs, ..stored.clone() });
        assert_eq!(again.fetch(key.1, 0, IsolationLevel::ReadUncommitted).high_watermark, 8);
    }
}
