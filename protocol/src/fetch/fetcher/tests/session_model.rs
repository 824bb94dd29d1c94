//! A model of brokers with strict fetch sessions, and a fetcher that must read every batch once, in order, whatever gets
//! lost, moves or is set anew.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;

use super::{batch, data, key};
use crate::backoff::Jitter;
use crate::fetch::{FetchConfig, FetchEvent, FetchStart, Fetcher};
use crate::messages::{
    FetchPartition, FetchPartitionResponse, FetchRequest, FetchResponse, FetchTopicResponse,
    Request, Response,
};
use crate::network::{Destination, DisconnectReason, OutgoingRequest, RequestError};
use crate::test_metadata::metadata;
use crate::{ErrorCode, NodeId, Timestamp};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_batch_is_read_once_in_order_over_sessions_that_break(seed in any::<u64>()) {
        let read = run(seed, Mutant::None).map_err(TestCaseError::fail)?;
        prop_assert!(read > 0, "nothing was compared");
    }
}

/// Each wrong broker must be caught, or the model proves nothing.
#[test]
fn model_notices_brokers_that_skip_repeat_or_forget() {
    for mutant in [Mutant::SkipsBatches, Mutant::IgnoresChangedOffsets, Mutant::LosesPartitions] {
        let caught = (0..20).filter(|seed| run(*seed, mutant).is_err()).count();
        assert!(caught > 0, "{mutant:?} was never noticed");
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mutant {
    None,
    /// Data from behind the offset asked for.
    SkipsBatches,
    /// An incremental session keeps the offset of its first request (B090).
    IgnoresChangedOffsets,
    /// A partition added to a session is never served.
    LosesPartitions,
}

const PARTITIONS: i32 = 4;
const BATCHES: i64 = 12;

/// Reads four partitions to their ends. Returns how many batches were compared.
fn run(seed: u64, mutant: Mutant) -> Result<u64, String> {
    let mut random = Jitter::new(seed);
    let config = FetchConfig { partition_prefetch_bytes: 122, ..FetchConfig::default() };
    let mut fetcher = Fetcher::new(config, seed);
    let mut cluster = Cluster::new(mutant);
    let mut expected: BTreeMap<i32, i64> = BTreeMap::new();
    let mut unread: Vec<(i32, usize)> = Vec::new();
    for partition in 0..PARTITIONS {
        fetcher.assign(FetchStart { topic_partition: key(partition), offset: 0, leader_epoch: -1 });
        expected.insert(partition, 0);
    }
    let mut now = Timestamp::ZERO;
    let mut in_flight: Vec<OutgoingRequest> = Vec::new();
    let mut compared = 0;
    for step in 0..3_000 {
        let calm = step > 1_500;
        let leaders: Vec<(i32, i32, i32)> =
            cluster.leaders.iter().map(|(p, (node, epoch))| (*p, *node, *epoch)).collect();
        while let Some(request) = fetcher.poll_request(now, &metadata("t", &leaders)) {
            in_flight.push(request);
        }
        while fetcher.poll_stale_metadata().is_some() {}
        while let Some(event) = fetcher.poll_event() {
            match event {
                FetchEvent::Records(fetched) => {
                    let partition = fetched.topic_partition.partition;
                    let at = expected.entry(partition).or_default();
                    if fetched.fetch_offset != *at {
                        return Err(format!(
                            "{partition} delivered from {} instead of {at}",
                            fetched.fetch_offset
                        ));
                    }
                    for bytes in fetched.records.chunks(61) {
                        if bytes != &log_batch(partition, *at)[..] {
                            return Err(format!("{partition} delivered other bytes at {at}"));
                        }
                        *at += 2;
                        compared += 1;
                    }
                    if fetched.next_offset != *at {
                        return Err(format!("{partition} says it is at {}", fetched.next_offset));
                    }
                    unread.push((partition, fetched.records.len()));
                }
                FetchEvent::Progress { topic_partition, position, .. } => {
                    let at = expected.get(&topic_partition.partition).copied();
                    if Some(position) != at {
                        return Err(format!("{topic_partition} is said to be at {position}"));
                    }
                }
                FetchEvent::Failed { topic_partition, error } => {
                    return Err(format!("{topic_partition} failed: {error}"));
                }
            }
        }
        match random.below(if calm { 6 } else { 12 }) {
            0..3 => {
                if !in_flight.is_empty() {
                    let request = in_flight.swap_remove(random.below(in_flight.len()));
                    let answer = cluster.serve(&request);
                    fetcher.handle_response(now, request.token, Ok(answer));
                }
            }
            3 => {
                if !unread.is_empty() {
                    let (partition, bytes) = unread.swap_remove(random.below(unread.len()));
                    fetcher.release(&key(partition), bytes);
                }
            }
            4 => {
                for partition in 0..PARTITIONS {
                    fetcher.resume(&key(partition));
                }
            }
            5 => {
                now = now.after(std::time::Duration::from_millis(300));
                fetcher.handle_timeout(now);
            }
            6 => {
                // The connection breaks, before or after the broker took the request.
                if !in_flight.is_empty() {
                    let request = in_flight.swap_remove(random.below(in_flight.len()));
                    if random.below(2) == 0 {
                        cluster.serve(&request);
                    }
                    fetcher.handle_response(now, request.token, Err(lost(&request)));
                }
            }
            7 => cluster.sessions.clear(),
            8 => {
                let partition = random.below(PARTITIONS as usize) as i32;
                let leader = cluster.leaders.get_mut(&partition).ok_or("no leader")?;
                *leader = (random.below(2) as i32, leader.1 + 1);
            }
            9 => fetcher.pause(&key(random.below(PARTITIONS as usize) as i32)),
            10 => {
                let partition = random.below(PARTITIONS as usize) as i32;
                let offset = 2 * random.below(BATCHES as usize) as i64;
                fetcher.assign(FetchStart {
                    topic_partition: key(partition),
                    offset,
                    leader_epoch: -1,
                });
                expected.insert(partition, offset);
                unread.retain(|(of, _)| *of != partition);
            }
            _ => cluster.has_slots = !cluster.has_slots,
        }
    }
    match expected.iter().find(|(_, at)| **at != 2 * BATCHES) {
        Some((partition, at)) => Err(format!("{partition} got stuck at {at}")),
        None => Ok(compared),
    }
}

/// Batch at an even `offset`, two offsets long. The epoch tells partitions apart.
fn log_batch(partition: i32, offset: i64) -> Vec<u8> {
    batch(offset, 1, partition)
}

fn lost(request: &OutgoingRequest) -> RequestError {
    RequestError::Disconnected {
        destination: request.destination.clone(),
        reason: DisconnectReason::Closed,
        sent: true,
    }
}

struct Cluster {
    mutant: Mutant,
    /// Node and epoch by partition.
    leaders: BTreeMap<i32, (i32, i32)>,
    /// By node and session id.
    sessions: BTreeMap<(i32, i32), Session>,
    next_session: i32,
    has_slots: bool,
}

struct Session {
    epoch: i32,
    partitions: BTreeMap<i32, FetchPartition>,
}

impl Cluster {
    fn new(mutant: Mutant) -> Self {
        Self {
            mutant,
            leaders: (0..PARTITIONS).map(|partition| (partition, (partition % 2, 1))).collect(),
            sessions: BTreeMap::new(),
            next_session: 1,
            has_slots: true,
        }
    }

    fn serve(&mut self, outgoing: &OutgoingRequest) -> Response {
        let Destination::Node(NodeId(node)) = outgoing.destination else { panic!() };
        let Request::Fetch(request) = &outgoing.request else { panic!() };
        Response::Fetch(self.fetch(node, request))
    }

    fn fetch(&mut self, node: i32, request: &FetchRequest) -> FetchResponse {
        let listed: Vec<FetchPartition> =
            request.topics.iter().flat_map(|topic| topic.partitions.clone()).collect();
        let refuse = |error_code| FetchResponse { error_code, ..FetchResponse::default() };
        if request.session_epoch == 0 {
            self.sessions.remove(&(node, request.session_id));
            let session_id = if self.has_slots { self.next_session } else { 0 };
            self.next_session += 1;
            let partitions: BTreeMap<i32, FetchPartition> =
                listed.iter().map(|entry| (entry.partition, *entry)).collect();
            let answers = listed.iter().map(|entry| self.read(node, entry)).collect();
            if session_id != 0 {
                self.sessions.insert((node, session_id), Session { epoch: 1, partitions });
            }
            return answer(session_id, answers);
        }
        let mutant = self.mutant;
        let Some(session) = self.sessions.get_mut(&(node, request.session_id)) else {
            return refuse(ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
        };
        if session.epoch != request.session_epoch {
            return refuse(ErrorCode::INVALID_FETCH_SESSION_EPOCH);
        }
        session.epoch += 1;
        for topic in &request.forgotten_topics {
            for partition in &topic.partitions {
                let known = session.partitions.remove(partition).is_some();
                assert!(known || mutant == Mutant::LosesPartitions, "forgotten twice");
            }
        }
        for entry in listed {
            let known = session.partitions.contains_key(&entry.partition);
            if (known && mutant == Mutant::IgnoresChangedOffsets)
                || (!known && mutant == Mutant::LosesPartitions)
            {
                continue;
            }
            session.partitions.insert(entry.partition, entry);
        }
        let entries: Vec<FetchPartition> = session.partitions.values().copied().collect();
        let answers = entries
            .iter()
            .map(|entry| self.read(node, entry))
            .filter(|answer| answer.error_code != ErrorCode::NONE || !answer.records.is_empty())
            .collect();
        answer(request.session_id, answers)
    }

    fn read(&self, node: i32, entry: &FetchPartition) -> FetchPartitionResponse {
        let (leader, epoch) = self.leaders[&entry.partition];
        let fail =
            |error_code| FetchPartitionResponse { error_code, ..data(entry.partition, Vec::new()) };
        if leader != node {
            return fail(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        }
        if entry.current_leader_epoch < epoch {
            return fail(ErrorCode::FENCED_LEADER_EPOCH);
        }
        let mut from = entry.fetch_offset;
        if self.mutant == Mutant::SkipsBatches && from == 8 {
            from = 10;
        }
        let mut records = Vec::new();
        for offset in (from..2 * BATCHES).step_by(2).take(2) {
            records.extend(log_batch(entry.partition, offset));
        }
        FetchPartitionResponse {
            high_watermark: 2 * BATCHES,
            last_stable_offset: 2 * BATCHES,
            records: Bytes::from(records),
            ..data(entry.partition, Vec::new())
        }
    }
}

fn answer(session_id: i32, partitions: Vec<FetchPartitionResponse>) -> FetchResponse {
    let topics = vec![FetchTopicResponse::by_name("t", partitions)];
    FetchResponse { session_id, topics, ..FetchResponse::default() }
}
