//! Random interleavings of producers, transactions, aborts, timeouts, fences, compaction and restarts: what a
//! `read_committed` reader sees equals what a list in memory says.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use millstream_protocol::messages::FetchPartitionResponse;
use millstream_protocol::records::{
    BatchView, ControlRecordType, DecodeLimits, Decompressor, RecordSet,
};
use millstream_protocol::{ErrorCode, IsolationLevel, ProducerIdAndEpoch};
use proptest::prelude::*;

use super::TestCluster;
use super::scripted_client::Write;
use super::storing::stored_from;
use crate::core::{Cluster, ClusterConfig};

const PRODUCERS: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Producer, partition, key, records.
    Write(usize, i32, u8, u8),
    WritePlain(i32, u8),
    End(usize, bool),
    Fence(usize),
    /// Longer than the transaction timeout and the scan.
    WaitForTimeouts,
    Settle,
    Compact,
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..PRODUCERS, 0..2_i32, 0..4_u8, 1..4_u8)
            .prop_map(|(producer, partition, key, records)| Step::Write(producer, partition, key, records)),
        2 => (0..2_i32, 0..4_u8).prop_map(|(partition, key)| Step::WritePlain(partition, key)),
        4 => (0..PRODUCERS, any::<bool>()).prop_map(|(producer, commit)| Step::End(producer, commit)),
        1 => (0..PRODUCERS).prop_map(Step::Fence),
        1 => Just(Step::WaitForTimeouts),
        2 => Just(Step::Settle),
        1 => Just(Step::Compact),
        1 => Just(Step::Restart),
    ]
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ModelRecord {
    offset: i64,
    key: Vec<u8>,
    value: Vec<u8>,
    /// Whose open transaction it belongs to.
    open: Option<usize>,
}

/// What the topic must look like.
#[derive(Debug, Default)]
struct Model {
    partitions: BTreeMap<i32, Vec<ModelRecord>>,
    /// What the mutant forgets: that aborted records disappear.
    keeps_aborted: bool,
}

impl Model {
    fn write(&mut self, partition: i32, offset: i64, write: &Write, open: Option<usize>) {
        let records = self.partitions.entry(partition).or_default();
        for (offset, (key, value)) in (offset..).zip(&write.records) {
            let value = value.clone().expect("values only");
            records.push(ModelRecord { offset, key: key.clone(), value, open });
        }
    }

    fn end(&mut self, producer: usize, commit: bool) {
        for records in self.partitions.values_mut() {
            if commit || self.keeps_aborted {
                for record in records.iter_mut().filter(|record| record.open == Some(producer)) {
                    record.open = None;
                }
            } else {
                records.retain(|record| record.open != Some(producer));
            }
        }
    }

    /// What a reader sees: everything before the oldest open record.
    fn visible(&self, partition: i32) -> Vec<(i64, Vec<u8>, Vec<u8>)> {
        self.partitions
            .get(&partition)
            .into_iter()
            .flatten()
            .take_while(|record| record.open.is_none())
            .map(|record| (record.offset, record.key.clone(), record.value.clone()))
            .collect()
    }
}

#[derive(Clone, Copy, Debug)]
struct Writer {
    identity: ProducerIdAndEpoch,
    /// Next sequence per partition.
    sequences: [i32; 2],
    open: bool,
}

struct Run {
    /// Transaction version of cluster and clients, 0 or 2.
    transaction_version: i16,
    test: TestCluster,
    model: Model,
    writers: Vec<Writer>,
    compacted: bool,
    next_value: u32,
}

fn config(transaction_version: i16) -> ClusterConfig {
    ClusterConfig {
        transaction_version,
        durable: true,
        segment_bytes: 400,
        // Only when a step says so.
        compaction_interval: Duration::from_secs(1_000_000),
        transaction_marker_delay: Duration::from_millis(10),
        ..ClusterConfig::default()
    }
}

fn id(producer: usize) -> String {
    format!("producer-{producer}")
}

impl Run {
    fn new(transaction_version: i16, keeps_aborted: bool) -> Self {
        let mut test = TestCluster::new(config(transaction_version));
        let code = test.create_topic(
            "t",
            2,
            &[("cleanup.policy", "compact"), ("delete.retention.ms", "1000")],
        );
        assert_eq!(code, ErrorCode::NONE);
        let writers = (0..PRODUCERS)
            .map(|producer| Writer {
                identity: test.fence(&id(producer)),
                sequences: [0; 2],
                open: false,
            })
            .collect();
        let model = Model { keeps_aborted, ..Model::default() };
        Self { transaction_version, test, model, writers, compacted: false, next_value: 0 }
    }

    fn value(&mut self) -> String {
        self.next_value += 1;
        format!("value {}", self.next_value)
    }

    fn batch(&mut self, partition: i32, key: u8, records: u8) -> Write {
        let records = (0..records)
            .map(|index| (vec![(key + index) % 4], Some(self.value().into_bytes())))
            .collect();
        Write { records, ..Write::plain(partition, &[]) }
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Write(producer, partition, key, records) => {
                // Decided transactions must be completed first; a client would retry.
                self.test.settle();
                let writer = self.writers[producer];
                let index = usize::try_from(partition).expect("small");
                let write = self
                    .batch(partition, key, records)
                    .idempotent(writer.identity, writer.sequences[index])
                    .transactional(&id(producer));
                let version = if self.transaction_version == 2 {
                    12
                } else {
                    let added =
                        self.test.add_partition(3, &id(producer), writer.identity, "t", partition);
                    assert_eq!(added, ErrorCode::NONE);
                    11
                };
                let answer = self.test.produce(version, &write);
                assert_eq!(answer.error_code, ErrorCode::NONE);
                self.model.write(partition, answer.base_offset, &write, Some(producer));
                self.writers[producer].sequences[index] += i32::from(records);
                self.writers[producer].open = true;
            }
            Step::WritePlain(partition, key) => {
                let write = self.batch(partition, key, 1);
                let answer = self.test.produce(9, &write);
                assert_eq!(answer.error_code, ErrorCode::NONE);
                self.model.write(partition, answer.base_offset, &write, None);
            }
            Step::End(producer, commit) => {
                self.test.settle();
                let writer = self.writers[producer];
                let version = if self.transaction_version == 2 { 5 } else { 4 };
                let outcome = self.test.end(version, &id(producer), writer.identity, commit);
                if !writer.open && version == 4 {
                    // Depends on how the transaction before ended; every answer has its own test.
                    return;
                }
                if !writer.open && commit {
                    assert_eq!(outcome, Err(ErrorCode::INVALID_TXN_STATE));
                    return;
                }
                match outcome.expect("ended") {
                    // Below version 2 the epoch stays and the sequences go on.
                    ProducerIdAndEpoch::NONE => self.writers[producer].open = false,
                    identity => self.reset(producer, identity),
                }
                self.test.settle();
                self.model.end(producer, commit);
            }
            Step::Fence(producer) => {
                let identity = self.test.fence(&id(producer));
                self.reset(producer, identity);
                self.model.end(producer, false);
            }
            Step::WaitForTimeouts => {
                self.test.advance(Duration::from_secs(71));
                for producer in 0..PRODUCERS {
                    if self.writers[producer].open {
                        let identity = self.test.fence(&id(producer));
                        self.reset(producer, identity);
                        self.model.end(producer, false);
                    }
                }
            }
            Step::Settle => self.test.settle(),
            Step::Compact => {
                let wall_clock_ms = self.test.wall_clock_ms();
                self.test.cluster.compact_now(wall_clock_ms);
                self.test.drain_effects();
                self.compacted = true;
            }
            Step::Restart => {
                let now = self.test.now;
                let stored = stored_from(&self.test.snapshot, &self.test.effects);
                let mut next = TestCluster::of(Cluster::from_stored(
                    config(self.transaction_version),
                    9,
                    stored.clone(),
                    now,
                ));
                next.snapshot = next.cluster.state_snapshot();
                next.effects = self.test.log_effects(&stored);
                next.now = now;
                self.test = next;
                self.test.settle();
            }
        }
    }

    fn reset(&mut self, producer: usize, identity: ProducerIdAndEpoch) {
        self.writers[producer] = Writer { identity, sequences: [0; 2], open: false };
    }

    /// Compares both partitions with the model; the number of records compared, or the difference.
    fn check(&mut self) -> Result<usize, String> {
        let mut compared = 0;
        for partition in 0..2 {
            let read = read_all(&mut self.test, partition);
            let expected = self.model.visible(partition);
            let equal = if self.compacted {
                // Every record read is a true one, and the newest of each key is there.
                let known: BTreeSet<_> = expected.iter().cloned().collect();
                read.iter().all(|record| known.contains(record))
                    && newest(&read) == newest(&expected)
            } else {
                read == expected
            };
            if !equal {
                return Err(format!("partition {partition}: read {read:?}, expected {expected:?}"));
            }
            compared += expected.len();
        }
        Ok(compared)
    }
}

fn newest(records: &[(i64, Vec<u8>, Vec<u8>)]) -> BTreeMap<Vec<u8>, i64> {
    records.iter().map(|(offset, key, _)| (key.clone(), *offset)).collect()
}

/// Reads a partition read_committed to its last stable offset, a few bytes at a time, with a filter of its own.
fn read_all(test: &mut TestCluster, partition: i32) -> Vec<(i64, Vec<u8>, Vec<u8>)> {
    let mut records = Vec::new();
    let mut position = 0;
    loop {
        let answer = test.fetch(partition, position, IsolationLevel::ReadCommitted);
        assert_eq!(answer.error_code, ErrorCode::NONE);
        let next = take(&answer, position, &mut records);
        if next == position {
            return records;
        }
        position = next;
    }
}

/// How many records of a partition a reader sees.
pub(super) fn visible_count(test: &mut TestCluster, partition: i32) -> usize {
    read_all(test, partition).len()
}

fn take(
    answer: &FetchPartitionResponse,
    from: i64,
    records: &mut Vec<(i64, Vec<u8>, Vec<u8>)>,
) -> i64 {
    let mut position = from;
    let mut aborted: BTreeSet<i64> = BTreeSet::new();
    let mut pending = answer.aborted_transactions.clone().unwrap_or_default();
    pending.sort_by_key(|entry| entry.first_offset);
    for batch in RecordSet::new(answer.records.clone()) {
        let batch: BatchView = batch.expect("whole batches");
        let header = *batch.header();
        pending.retain(|entry| {
            let begun = entry.first_offset <= header.last_offset();
            if begun {
                aborted.insert(entry.producer_id);
            }
            !begun
        });
        assert!(header.last_offset() < answer.last_stable_offset, "beyond the last stable offset");
        position = batch.next_offset();
        if let Some(control) = batch.control_record().expect("a marker") {
            if control.record_type == ControlRecordType::Abort {
                aborted.remove(&header.producer_id);
            }
            continue;
        }
        if batch.is_transactional() && aborted.contains(&header.producer_id) {
            continue;
        }
        let block = batch
            .records(&DecodeLimits::default(), &mut Decompressor::new())
            .expect("readable records");
        for record in &block {
            let record = record.expect("a record");
            if record.offset >= from {
                let (key, value) = (record.key.expect("a key"), record.value.expect("a value"));
                records.push((record.offset, key.to_vec(), value.to_vec()));
            }
        }
    }
    position
}

fn run(version: i16, steps: &[Step], keeps_aborted: bool) -> Result<usize, String> {
    let mut run = Run::new(version, keeps_aborted);
    let mut compared = 0;
    for step in steps {
        run.apply(*step);
        compared += run.check().map_err(|difference| format!("after {step:?}: {difference}"))?;
    }
    Ok(compared)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn read_committed_sees_what_the_model_says(
        version in prop::sample::select(vec![0_i16, 2]),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let outcome = run(version, &steps, false);
        prop_assert!(outcome.is_ok(), "{outcome:?}");
    }
}

#[test]
fn the_comparison_notices_a_model_that_keeps_aborted_records() {
    let steps = [Step::Write(0, 0, 0, 2), Step::End(0, false), Step::WritePlain(0, 1)];
    assert!(run(2, &steps, false).is_ok_and(|compared| compared > 0));
    assert!(run(2, &steps, true).is_err());
}

#[test]
fn a_marker_outlives_the_data_it_ends_and_then_goes() {
    let mut run = Run::new(2, false);
    for step in [
        Step::Write(0, 0, 0, 1),
        Step::End(0, false),
        Step::Write(0, 0, 0, 1),
        Step::End(0, true),
        Step::WritePlain(0, 0),
        Step::WritePlain(0, 1),
    ] {
        run.apply(step);
    }
    let mut offsets = Vec::new();
    for _ in 0..3 {
        run.apply(Step::Compact);
        run.check().expect("equal");
        let read = run.test.fetch(0, 0, IsolationLevel::ReadUncommitted);
        let kept: Vec<i64> = RecordSet::new(read.records)
            .map(|batch| batch.expect("whole").header().base_offset)
            .collect();
        offsets.push(kept);
        run.test.advance(Duration::from_secs(2));
    }
    // 0 aborted data, 1 its marker, 2 superseded data, 3 its marker and the producer's newest batch, 4 and 5 plain.
    assert_eq!(offsets, [vec![1, 3, 4, 5], vec![1, 3, 4, 5], vec![3, 4, 5]]);
}

#[test]
fn compaction_keeps_the_bytes_of_a_batch_that_loses_nothing() {
    let mut run = Run::new(2, false);
    for key in [0, 1, 0, 1] {
        run.apply(Step::WritePlain(0, key));
    }
    let before = run.test.fetch(0, 1, IsolationLevel::ReadUncommitted).records;
    run.apply(Step::Compact);
    let after: Bytes = run.test.fetch(0, 0, IsolationLevel::ReadUncommitted).records;
    assert_eq!(after, before);
}
