//! Several nodes: who leads, who coordinates, and what waits while nobody does.

use millstream_protocol::{
    ErrorCode, IsolationLevel, ProducerIdAndEpoch, Response, TopicPartition,
};

use super::scripted_client::{TestCluster, Write, str_bytes};
use crate::core::{ClusterConfig, CoordinatorKind, CoordinatorSeat, coordinator_slot};
use millstream_protocol::messages::kp;

const SECOND: i32 = 2;

fn of_two_nodes() -> TestCluster {
    let mut test = TestCluster::new(ClusterConfig::default());
    test.cluster.add_node(SECOND, "second", 9093);
    assert_eq!(test.create_topic("t", 1, &[]), ErrorCode::NONE);
    test.cluster.set_leader(&place(), Some(1), test.now);
    test
}

fn place() -> TopicPartition {
    TopicPartition::new("t", 0)
}

#[test]
fn only_the_leader_takes_records_and_a_new_leader_has_a_new_epoch() {
    let mut test = of_two_nodes();
    let epoch = |test: &mut TestCluster| {
        let request = kp::MetadataRequest::default().with_topics(None);
        let Response::Metadata(answer) = test.call(12, request) else { panic!("wrong answer") };
        assert_eq!(answer.brokers.len(), 2);
        let partition = &answer.topics[0].partitions[0];
        (partition.leader_id.0, partition.leader_epoch)
    };
    let (leader, first_epoch) = epoch(&mut test);
    assert_eq!(leader, 1);
    assert_eq!(test.produce(9, &Write::plain(0, &["a"])).error_code, ErrorCode::NONE);
    test.cluster.set_leader(&place(), Some(SECOND), test.now);
    let refused = test.produce(9, &Write::plain(0, &["b"])).error_code;
    assert_eq!(refused, ErrorCode::NOT_LEADER_OR_FOLLOWER);
    let fetched = test.fetch(0, 0, IsolationLevel::ReadUncommitted).error_code;
    assert_eq!(fetched, ErrorCode::NOT_LEADER_OR_FOLLOWER);
    assert_eq!(epoch(&mut test), (SECOND, first_epoch + 1));
}

#[test]
fn only_the_coordinator_knows_a_transactional_id() {
    let mut test = of_two_nodes();
    let slot = coordinator_slot("job");
    let seats = [
        (CoordinatorSeat::Taken(1), None),
        (CoordinatorSeat::Taken(SECOND), Some(ErrorCode::NOT_COORDINATOR)),
        (CoordinatorSeat::Vacant, Some(ErrorCode::NOT_COORDINATOR)),
        (CoordinatorSeat::Loading(1), Some(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS)),
    ];
    for (seat, refusal) in seats {
        test.cluster.set_coordinator(CoordinatorKind::Transaction, slot, seat, test.now);
        let answer = test.init(5, Some("job"), ProducerIdAndEpoch::NONE);
        assert_eq!(answer.err(), refusal, "{seat:?}");
        let request = kp::FindCoordinatorRequest::default()
            .with_key_type(1)
            .with_coordinator_keys(vec![str_bytes("job")]);
        let Response::FindCoordinator(found) = test.call(4, request) else {
            panic!("wrong answer")
        };
        let expected = match seat {
            CoordinatorSeat::Vacant => (-1, ErrorCode::COORDINATOR_NOT_AVAILABLE.0),
            CoordinatorSeat::Loading(node) | CoordinatorSeat::Taken(node) => (node, 0),
        };
        let found = &found.coordinators[0];
        assert_eq!((found.node_id.0, found.error_code), expected, "{seat:?}");
    }
}

#[test]
fn markers_wait_for_a_leader_and_are_written_by_the_next_coordinator() {
    let mut test = of_two_nodes();
    let slot = coordinator_slot("job");
    let kind = CoordinatorKind::Transaction;
    test.cluster.set_coordinator(kind, slot, CoordinatorSeat::Taken(1), test.now);
    let identity = test.fence("job");
    let write = Write::plain(0, &["a"]).idempotent(identity, 0).transactional("job");
    assert_eq!(test.produce(12, &write).error_code, ErrorCode::NONE);
    test.end(5, "job", identity, true).expect("prepared");
    // The coordinator dies before it has written a marker, then the leader does.
    test.cluster.set_coordinator(kind, slot, CoordinatorSeat::Vacant, test.now);
    test.settle();
    assert_eq!(test.cluster.unfinished_transactions().len(), 2);
    test.cluster.set_leader(&place(), None, test.now);
    test.cluster.set_coordinator(kind, slot, CoordinatorSeat::Taken(SECOND), test.now);
    test.settle();
    assert_eq!(test.cluster.unfinished_transactions().len(), 2);
    test.cluster.set_leader(&place(), Some(1), test.now);
    test.settle();
    assert_eq!(test.cluster.unfinished_transactions(), Vec::<String>::new());
    let committed = test.fetch(0, 0, IsolationLevel::ReadCommitted);
    assert_eq!((committed.error_code, committed.last_stable_offset), (ErrorCode::NONE, 2));
}

#[test]
fn what_is_lost_of_a_partition_takes_its_half_transactions_with_it() {
    let mut test = of_two_nodes();
    test.cluster.set_coordinator(
        CoordinatorKind::Transaction,
        coordinator_slot("job"),
        CoordinatorSeat::Taken(1),
        test.now,
    );
    assert_eq!(test.produce(9, &Write::plain(0, &["before"])).error_code, ErrorCode::NONE);
    let identity = test.fence("job");
    let write = Write::plain(0, &["a"]).idempotent(identity, 0).transactional("job");
    assert_eq!(test.produce(12, &write).error_code, ErrorCode::NONE);
    test.end(5, "job", identity, true).expect("prepared");
    test.settle();
    assert_eq!(test.cluster.log_end_offset(&place()), Some(3));
    test.cluster.lose_from(&place(), 2);
    assert_eq!(test.cluster.log_end_offset(&place()), Some(1));
    assert_eq!(test.cluster.unfinished_transactions(), Vec::<String>::new());
}
