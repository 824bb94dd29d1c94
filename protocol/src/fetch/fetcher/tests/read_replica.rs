//! Reading from a replica nearby (KIP-392).

use super::*;

const LEASE: Duration = Duration::from_secs(300);

fn near() -> Fetcher {
    let config = FetchConfig { rack_id: Arc::from("r2"), ..FetchConfig::default() };
    let mut fetcher = Fetcher::new(config, 1);
    fetcher.assign(start(0, 10));
    fetcher
}

fn names(node: i32) -> FetchPartitionResponse {
    FetchPartitionResponse { preferred_read_replica: node, high_watermark: -1, ..data(0, vec![]) }
}

/// Asks at `now`, answers with `answer`; gives the broker that was asked, if one was.
fn ask(
    fetcher: &mut Fetcher,
    now: Timestamp,
    partition: FetchPartitionResponse,
) -> Option<Destination> {
    let request = fetcher.poll_request(now, &leaders())?;
    let Request::Fetch(fetch) = &request.request else { panic!("{request:?}") };
    assert_eq!((fetch.rack_id.as_str(), fetch.topics[0].partitions[0].fetch_offset), ("r2", 10));
    answer_at(fetcher, now, request.token, 0, vec![partition]);
    Some(request.destination)
}

const LEADER: Option<Destination> = Some(Destination::Node(NodeId(1)));
const REPLICA: Option<Destination> = Some(Destination::Node(NodeId(4)));

#[test]
fn a_replica_that_the_leader_names_is_read_until_its_lease_ends() {
    let mut fetcher = near();
    assert_eq!(ask(&mut fetcher, T0, names(4)), LEADER);
    assert_eq!(events(&mut fetcher), vec![], "nothing is known of the partition yet");
    let late = T0.after(LEASE - Duration::from_millis(1));
    assert_eq!(ask(&mut fetcher, late, data(0, vec![])), REPLICA);
    assert!(matches!(events(&mut fetcher)[..], [FetchEvent::Progress { position: 10, .. }]));
    assert_eq!(ask(&mut fetcher, T0.after(LEASE), names(4)), LEADER);
    assert_eq!(ask(&mut fetcher, T0.after(LEASE), data(0, batch(10, 0, 5))), REPLICA);
    let FetchEvent::Records(fetched) = &events(&mut fetcher)[0] else { panic!() };
    assert_eq!(fetched.node, NodeId(4));
}

/// B082: the leader is asked for what comes behind the records that the replica gave, not for what the replica was asked for.
#[test]
fn the_end_of_a_lease_leaves_the_position_behind_what_was_handed_out() {
    let mut fetcher = near();
    assert_eq!(ask(&mut fetcher, T0, names(4)), LEADER);
    assert_eq!(ask(&mut fetcher, T0, data(0, batch(10, 4, 5))), REPLICA);
    let request = fetcher.poll_request(T0.after(LEASE), &leaders()).unwrap();
    let Request::Fetch(fetch) = &request.request else { panic!("{request:?}") };
    assert_eq!(Some(request.destination), LEADER);
    assert_eq!(fetch.topics[0].partitions[0].fetch_offset, 15);
    assert_eq!(fetcher.position(&key(0)), Some(15));
}

/// A replica lags behind its leader: what it refuses, the leader may have.
#[test]
fn whatever_a_replica_refuses_is_asked_of_the_leader_after_a_while() {
    let refusals = [
        failure(0, ErrorCode::OFFSET_OUT_OF_RANGE),
        failure(0, ErrorCode::OFFSET_NOT_AVAILABLE),
        failure(0, ErrorCode::NOT_LEADER_OR_FOLLOWER),
        failure(0, ErrorCode::UNKNOWN_LEADER_EPOCH),
        // It does not have the epoch yet that was read last, which is no truncation.
        FetchPartitionResponse {
            diverging_epoch: Some(EpochEndOffset { epoch: 3, end_offset: 6 }),
            ..data(0, vec![])
        },
    ];
    for refusal in refusals {
        let mut fetcher = near();
        assert_eq!(ask(&mut fetcher, T0, names(4)), LEADER);
        let mut now = T0;
        let mut pauses = Vec::new();
        for _ in 0..4 {
            assert_eq!(ask(&mut fetcher, now, refusal.clone()), REPLICA);
            assert!(fetcher.poll_stale_metadata().is_some());
            assert_eq!(ask(&mut fetcher, now, names(4)), None, "no tight loop");
            let at = fetcher.poll_timeout().unwrap();
            pauses.push(at.since(now));
            now = at;
            fetcher.handle_timeout(now);
            assert_eq!(ask(&mut fetcher, now, names(4)), LEADER);
        }
        assert!(pauses[3] > 3 * pauses[0], "pauses grow: {pauses:?}");
        assert_eq!(events(&mut fetcher), vec![], "no failure, no position lost");
        assert_eq!(ask(&mut fetcher, now, data(0, batch(10, 0, 5))), REPLICA);
    }
}

#[test]
fn a_replica_that_is_gone_is_replaced_by_the_leader() {
    let mut fetcher = near();
    assert_eq!(ask(&mut fetcher, T0, names(4)), LEADER);
    let request = fetcher.poll_request(T0, &leaders()).unwrap();
    fetcher.handle_response(T0, request.token, Err(lost()));
    assert_eq!(ask(&mut fetcher, T0, data(0, vec![])), LEADER);
    // A replica that the metadata do not have is not waited for.
    let mut fetcher = near();
    assert_eq!(ask(&mut fetcher, T0, names(77)), LEADER);
    assert_eq!(ask(&mut fetcher, T0, data(0, vec![])), LEADER);
}

#[test]
fn a_broker_that_names_itself_is_read() {
    let mut fetcher = near();
    assert_eq!(ask(&mut fetcher, T0, names(1)), LEADER);
    assert!(matches!(events(&mut fetcher)[..], [FetchEvent::Progress { .. }]));
    assert_eq!(ask(&mut fetcher, T0, data(0, vec![])), LEADER);
}
