//! A model of partition leaders with strict sequence checks, over connections that lose requests and answers and deliver
//! some requests late. Every record must be in the log once, in order.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use super::{T0, config, key};
use crate::backoff::Jitter;
use crate::messages::{
    ProducePartitionResponse, ProduceRequest, ProduceResponse, ProduceTopicResponse, Request,
    Response, kp,
};
use crate::network::{Destination, DisconnectReason, OutgoingRequest, RequestError};
use crate::producer::{Producer, ProducerConfig, ProducerEvent};
use crate::records::{
    BatchBuilder, BatchView, Compression, DecodeLimits, Decompressor, SealedBatch,
};
use crate::test_metadata::metadata;
use crate::{ErrorCode, NodeId, Timestamp};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_record_is_written_once_in_order_whatever_the_network_does(seed in any::<u64>()) {
        for kind in [Kind::Tv1, Kind::Tv2, Kind::Idempotent] {
            let compared = run(seed, kind, Mutant::None).map_err(TestCaseError::fail)?;
            prop_assert!(compared > 0, "nothing was compared");
        }
    }
}

#[test]
fn model_notices_leaders_that_duplicate_lose_or_reorder() {
    for mutant in [Mutant::Duplicates, Mutant::Loses, Mutant::AcceptsGaps] {
        for kind in [Kind::Tv1, Kind::Tv2, Kind::Idempotent] {
            let caught = (0..30).filter(|seed| run(*seed, kind, mutant).is_err()).count();
            assert!(caught > 0, "{mutant:?} was never noticed by {kind:?}");
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Tv1,
    Tv2,
    Idempotent,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mutant {
    None,
    /// A batch that is there already is written again.
    Duplicates,
    /// Some batches are acknowledged and not written.
    Loses,
    /// A batch is written although one before it is missing.
    AcceptsGaps,
}

const PARTITIONS: i32 = 3;

struct World {
    random: Jitter,
    kind: Kind,
    mutant: Mutant,
    now: Timestamp,
    /// In order, by broker: one connection each. Broker -1 is the coordinator.
    connections: BTreeMap<i32, VecDeque<OutgoingRequest>>,
    /// Requests whose connection broke before the broker read them, and that it reads after all.
    late: VecDeque<(i32, OutgoingRequest)>,
    leaders: BTreeMap<i32, (i32, i32)>,
    logs: BTreeMap<i32, Log>,
    /// Identity's epoch, as the coordinator knows it.
    epoch: i16,
}

/// One partition.
#[derive(Default)]
struct Log {
    records: Vec<u32>,
    epoch: i16,
    next_sequence: i32,
    /// First sequence, last sequence, offset.
    recent: VecDeque<(i32, i32, i64)>,
    registered: bool,
}

/// Returns how many records were compared.
fn run(seed: u64, kind: Kind, mutant: Mutant) -> Result<u64, String> {
    let mut world = World::new(seed, kind, mutant);
    let mut config = match kind {
        Kind::Idempotent => ProducerConfig::new(None),
        Kind::Tv1 | Kind::Tv2 => config(),
    };
    config.delivery_timeout = std::time::Duration::from_secs(36_000);
    config.max_request_size = 400;
    let mut producer = Producer::new(config, seed);
    producer.set_transaction_version(if kind == Kind::Tv2 { 2 } else { 1 });
    let mut expected: BTreeMap<i32, Vec<u32>> = BTreeMap::new();
    let mut next_record = 0;
    if kind != Kind::Idempotent {
        producer.init_transactions(world.now);
        world.until(&mut producer, |event| matches!(event, ProducerEvent::Initialized(Ok(_))))?;
    }
    for tag in 0..6 {
        if kind != Kind::Idempotent {
            if producer.needs_bump() {
                producer.bump_epoch(world.now);
                world.until(&mut producer, |event| {
                    matches!(event, ProducerEvent::EpochBumped(Ok(_)))
                })?;
            }
            producer.begin_transaction(world.now, tag).map_err(|error| error.to_string())?;
        }
        for _ in 0..world.random.below(30) {
            let partition = world.random.below(PARTITIONS as usize) as i32;
            let count = 1 + world.random.below(3) as u32;
            let records: Vec<u32> = (next_record..next_record + count).collect();
            next_record += count;
            let batch = batch(&records);
            expected.entry(partition).or_default().extend(records);
            producer.send_batch(world.now, key(partition), batch, tag);
            for _ in 0..world.random.below(6) {
                world.step(&mut producer, true);
            }
            if let Some(event) = producer.poll_event() {
                return Err(format!("nobody asked for {event:?}"));
            }
        }
        producer.flush(world.now, tag);
        world.until(&mut producer, |event| {
            matches!(event, ProducerEvent::Flushed { result: Ok(_), .. })
        })?;
        if kind != Kind::Idempotent {
            producer.commit_transaction(world.now, std::time::Duration::from_secs(36_000));
            world
                .until(&mut producer, |event| matches!(event, ProducerEvent::Committed(Ok(()))))?;
        }
        for (partition, expected) in &expected {
            if world.logs[partition].records != *expected {
                return Err(format!(
                    "partition {partition} has {:?}, not {expected:?}",
                    world.logs[partition].records
                ));
            }
        }
    }
    // What arrives late must change nothing any more.
    while world.serve_late() {}
    for (partition, expected) in &expected {
        if world.logs[partition].records != *expected {
            return Err(format!("a late request changed partition {partition}"));
        }
    }
    Ok(u64::from(next_record))
}

impl World {
    fn new(seed: u64, kind: Kind, mutant: Mutant) -> Self {
        Self {
            random: Jitter::new(seed),
            kind,
            mutant,
            now: T0,
            connections: BTreeMap::new(),
            late: VecDeque::new(),
            leaders: (0..PARTITIONS).map(|partition| (partition, (partition % 2, 1))).collect(),
            logs: (0..PARTITIONS).map(|partition| (partition, Log::default())).collect(),
            epoch: 0,
        }
    }

    /// Lets things happen until an event that `wanted` accepts; another event is an error.
    fn until(
        &mut self,
        producer: &mut Producer,
        wanted: impl Fn(&ProducerEvent) -> bool,
    ) -> Result<(), String> {
        for step in 0..5_000 {
            if let Some(event) = producer.poll_event() {
                return if wanted(&event) { Ok(()) } else { Err(format!("{event:?}")) };
            }
            self.step(producer, step < 500);
        }
        Err("nothing happens any more".to_owned())
    }

    fn step(&mut self, producer: &mut Producer, faults: bool) {
        let leaders: Vec<(i32, i32, i32)> =
            self.leaders.iter().map(|(p, (node, epoch))| (*p, *node, *epoch)).collect();
        let metadata = metadata("t", &leaders);
        while let Some(request) = producer.poll_request(self.now, &metadata) {
            let node = match request.destination {
                Destination::Node(NodeId(node)) => node,
                _ => -1,
            };
            self.connections.entry(node).or_default().push_back(request);
        }
        while producer.poll_stale_metadata().is_some() {}
        match self.random.below(if faults { 14 } else { 8 }) {
            0..6 => self.serve_next(producer),
            6 | 7 => {
                if let Some(at) = producer.poll_timeout() {
                    self.now =
                        self.now.max(at.min(self.now.after(std::time::Duration::from_secs(2))));
                    producer.handle_timeout(self.now);
                }
            }
            8 | 9 => self.break_connection(producer),
            10 => {
                let partition = self.random.below(PARTITIONS as usize) as i32;
                let node = self.random.below(2) as i32;
                if let Some(leader) = self.leaders.get_mut(&partition) {
                    *leader = (node, leader.1 + 1);
                }
            }
            _ => {
                self.serve_late();
            }
        }
    }

    fn any_connection(&mut self) -> Option<i32> {
        let busy: Vec<i32> = self
            .connections
            .iter()
            .filter(|(_, requests)| !requests.is_empty())
            .map(|(node, _)| *node)
            .collect();
        if busy.is_empty() { None } else { Some(busy[self.random.below(busy.len())]) }
    }

    fn serve_next(&mut self, producer: &mut Producer) {
        let Some(node) = self.any_connection() else { return };
        let Some(request) = self.connections.get_mut(&node).and_then(VecDeque::pop_front) else {
            return;
        };
        let response = self.serve(node, &request);
        producer.handle_response(self.now, request.token, 12, Ok(response));
    }

    /// The broker has read some of the requests under way, and reads others after all; no answer arrives.
    fn break_connection(&mut self, producer: &mut Producer) {
        let Some(node) = self.any_connection() else { return };
        let Some(requests) = self.connections.remove(&node) else { return };
        let served = self.random.below(requests.len() + 1);
        let read = served + self.random.below(requests.len() - served + 1);
        for (at, request) in requests.into_iter().enumerate() {
            if at < served {
                self.serve(node, &request);
            }
            let error = RequestError::Disconnected {
                destination: request.destination.clone(),
                reason: DisconnectReason::Closed,
                sent: at < read,
            };
            producer.handle_response(self.now, request.token, 12, Err(error));
            // The coordinator's late requests are another model's subject.
            if (served..read).contains(&at) && node >= 0 {
                self.late.push_back((node, request));
            }
        }
    }

    fn serve_late(&mut self) -> bool {
        let Some((node, request)) = self.late.pop_front() else { return false };
        self.serve(node, &request);
        true
    }

    fn serve(&mut self, node: i32, request: &OutgoingRequest) -> Response {
        match &request.request {
            Request::Produce(produce) => Response::Produce(self.produce(node, produce)),
            Request::InitProducerId(init) => {
                // KIP-360: the epoch before is answered with the current one.
                if init.producer_epoch < 0 || init.producer_epoch == self.epoch {
                    self.epoch += 1;
                }
                Response::InitProducerId(
                    kp::InitProducerIdResponse::default()
                        .with_producer_id(7.into())
                        .with_producer_epoch(self.epoch),
                )
            }
            Request::AddPartitionsToTxn(add) => {
                let partitions = &add.v3_and_below_topics[0].partitions;
                for partition in partitions {
                    self.logs.entry(*partition).or_default().registered = true;
                }
                super::added(partitions)
            }
            Request::EndTxn(end) => {
                if self.kind == Kind::Tv2 && end.producer_epoch == self.epoch {
                    self.epoch += 1;
                }
                for log in self.logs.values_mut() {
                    log.registered = false;
                    // KIP-890: the markers carry the next epoch.
                    if self.kind == Kind::Tv2 && log.epoch < self.epoch {
                        (log.epoch, log.next_sequence) = (self.epoch, 0);
                        log.recent.clear();
                    }
                }
                let (id, epoch) = if self.kind == Kind::Tv2 { (7, self.epoch) } else { (-1, -1) };
                Response::EndTxn(
                    kp::EndTxnResponse::default()
                        .with_producer_id(id.into())
                        .with_producer_epoch(epoch),
                )
            }
            Request::DescribeTransactions(_) => super::described("CompleteCommit"),
            other => panic!("{other:?}"),
        }
    }

    fn produce(&mut self, node: i32, request: &ProduceRequest) -> ProduceResponse {
        let mut partitions = Vec::new();
        for entry in request.topics.iter().flat_map(|topic| &topic.partitions) {
            let (error_code, base_offset) = if self.leaders[&entry.partition].0 != node {
                (ErrorCode::NOT_LEADER_OR_FOLLOWER, -1)
            } else {
                self.append(entry.partition, &BatchView::parse(entry.records.clone()).unwrap())
            };
            partitions.push(ProducePartitionResponse {
                partition: entry.partition,
                error_code,
                base_offset,
                ..ProducePartitionResponse::default()
            });
        }
        ProduceResponse {
            topics: vec![ProduceTopicResponse { topic: "t".into(), partitions }],
            ..ProduceResponse::default()
        }
    }

    fn append(&mut self, partition: i32, view: &BatchView) -> (ErrorCode, i64) {
        let chance = self.random.below(20);
        let mutant = self.mutant;
        let kind = self.kind;
        let Some(log) = self.logs.get_mut(&partition) else { panic!() };
        let header = view.header();
        let (first, last) = (header.base_sequence, header.last_sequence());
        if header.producer_epoch < log.epoch {
            return (ErrorCode::INVALID_PRODUCER_EPOCH, -1);
        }
        if header.producer_epoch > log.epoch {
            if first != 0 && mutant != Mutant::AcceptsGaps {
                return (ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, -1);
            }
            (log.epoch, log.next_sequence) = (header.producer_epoch, 0);
            log.recent.clear();
        }
        if let Some((.., offset)) =
            log.recent.iter().find(|known| (known.0, known.1) == (first, last))
            && mutant != Mutant::Duplicates
        {
            return (ErrorCode::NONE, *offset);
        }
        if last < log.next_sequence && mutant != Mutant::Duplicates {
            return (ErrorCode::DUPLICATE_SEQUENCE_NUMBER, -1);
        }
        if first > log.next_sequence && mutant != Mutant::AcceptsGaps {
            return (ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, -1);
        }
        if kind == Kind::Tv1 && !log.registered {
            return (ErrorCode::INVALID_TXN_STATE, -1);
        }
        match chance {
            0 => return (ErrorCode::NOT_ENOUGH_REPLICAS, -1),
            1 if kind == Kind::Tv2 => return (ErrorCode::CONCURRENT_TRANSACTIONS, -1),
            2 => return (ErrorCode::KAFKA_STORAGE_ERROR, -1),
            _ => {}
        }
        log.next_sequence = log.next_sequence.max(last + 1);
        let offset = log.records.len() as i64;
        log.recent.push_back((first, last, offset));
        if log.recent.len() > 5 {
            log.recent.pop_front();
        }
        if mutant != Mutant::Loses || chance != 3 {
            log.records.extend(records_of(view));
        }
        match chance {
            4 => (ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND, -1),
            5 => (ErrorCode::REQUEST_TIMED_OUT, -1),
            _ => (ErrorCode::NONE, offset),
        }
    }
}

fn batch(records: &[u32]) -> SealedBatch {
    let mut builder = BatchBuilder::new(Compression::None, 1 << 20);
    for record in records {
        builder.append(0, None, Some(&record.to_be_bytes()), &[]).unwrap();
    }
    builder.build().unwrap().unwrap()
}

fn records_of(view: &BatchView) -> Vec<u32> {
    let limits = DecodeLimits { max_decompressed_batch_bytes: 1 << 20 };
    let block = view.records(&limits, &mut Decompressor::new()).unwrap();
    block
        .iter()
        .map(|record| u32::from_be_bytes(record.unwrap().value.unwrap().try_into().unwrap()))
        .collect()
}
