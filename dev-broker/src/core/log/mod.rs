//! One partition's log: segments of batches, producers, last stable offset, aborted transactions.
//!
//! What is in the log is on every replica, so the high watermark is always the log end offset.

pub(crate) mod batch;
mod compaction;
mod producer_state;
mod segment;
mod validate;

#[cfg(test)]
mod tests;

use bytes::Bytes;
use millstream_protocol::messages::AbortedTransaction;
use millstream_protocol::{IsolationLevel, ProducerIdAndEpoch};

use super::nodes::Leadership;
use super::storage::whole_batches;
use batch::{BatchInfo, Marker};
pub(crate) use compaction::{CompactionRules, for_each_record};
pub(crate) use producer_state::{ProducerStates, SequenceCheck};
use segment::{BatchEntry, Segment};
pub(crate) use validate::{AppendRules, Refusal, validate_batch};

/// An aborted transaction, as the `.txnindex` of a real broker keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AbortedEntry {
    producer_id: i64,
    first_offset: i64,
    /// Offset of the abort marker.
    last_offset: i64,
}

/// What a read found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogRead {
    /// Batches from the one that holds the offset; the last may be cut (KIP-74).
    pub(crate) records: Bytes,
    /// Aborted transactions that touch `records`; empty for `read_uncommitted`.
    pub(crate) aborted: Vec<AbortedTransaction>,
}

/// A partition's log.
#[derive(Debug)]
pub(crate) struct PartitionLog {
    /// Never empty; the last one grows.
    segments: Vec<Segment>,
    log_start_offset: i64,
    log_end_offset: i64,
    /// Bytes appended since the last compaction.
    dirty_bytes: usize,
    pub(crate) producers: ProducerStates,
    aborted: Vec<AbortedEntry>,
    horizons: compaction::DeleteHorizons,
    pub(crate) leadership: Leadership,
}

impl PartitionLog {
    /// An empty log that begins at offset 0, and that nobody leads yet.
    pub(crate) fn new() -> Self {
        Self {
            segments: vec![Segment::default()],
            log_start_offset: 0,
            log_end_offset: 0,
            dirty_bytes: 0,
            producers: ProducerStates::default(),
            aborted: Vec::new(),
            horizons: compaction::DeleteHorizons::new(),
            leadership: Leadership { node: None, epoch: 0 },
        }
    }

    /// A log of the batches in `data`, as they were stored. Ends before the first torn or damaged batch.
    pub(crate) fn replay(data: Bytes, segment_bytes: usize) -> Self {
        let mut log = Self::new();
        let mut rest = data.slice(..whole_batches(&data));
        while let Some(info) = BatchInfo::parse(&rest) {
            log.push(&rest.split_to(info.size), &info, segment_bytes);
        }
        log
    }

    pub(crate) fn log_start_offset(&self) -> i64 {
        self.log_start_offset
    }

    /// Offset of the next record; the high watermark too.
    pub(crate) fn log_end_offset(&self) -> i64 {
        self.log_end_offset
    }

    /// Offset below which no transaction is open.
    pub(crate) fn last_stable_offset(&self) -> i64 {
        self.producers.first_unstable_offset().unwrap_or(self.log_end_offset)
    }

    /// The offset up to which a reader of `isolation` may read.
    pub(crate) fn readable_end(&self, isolation: IsolationLevel) -> i64 {
        match isolation {
            IsolationLevel::ReadUncommitted => self.log_end_offset,
            IsolationLevel::ReadCommitted => self.last_stable_offset(),
        }
    }

    /// Adds a client's batch, already validated and checked; stamps it and returns its base offset.
    pub(crate) fn append(
        &mut self,
        mut bytes: Vec<u8>,
        leader_epoch: i32,
        segment_bytes: usize,
    ) -> Appended {
        let base_offset = self.log_end_offset;
        batch::stamp(&mut bytes, base_offset, leader_epoch);
        if let Some(info) = BatchInfo::parse(&bytes) {
            self.push(&bytes, &info, segment_bytes);
        }
        Appended { base_offset, bytes: Bytes::from(bytes) }
    }

    /// Ends a producer's transaction with a marker.
    pub(crate) fn append_marker(
        &mut self,
        marker: Marker,
        identity: ProducerIdAndEpoch,
        timestamp: i64,
        leader_epoch: i32,
        segment_bytes: usize,
    ) -> Appended {
        let bytes = batch::marker_batch(marker, identity, timestamp);
        self.append(bytes, leader_epoch, segment_bytes)
    }

    /// The log without what lies at `end` and behind it.
    pub(crate) fn truncated(&self, end: i64, segment_bytes: usize) -> Self {
        let mut log = Self::new();
        log.leadership = self.leadership;
        for (segment, entry) in self.batches().take_while(|(_, entry)| entry.base_offset < end) {
            let bytes = segment.batch(entry);
            if let Some(info) = BatchInfo::parse(bytes) {
                log.push(bytes, &info, segment_bytes);
            }
        }
        log
    }

    fn push(&mut self, bytes: &[u8], info: &BatchInfo, segment_bytes: usize) {
        if info.is_control() {
            let closed = self.producers.record_marker(info.producer_id, info.producer_epoch);
            if let (Some(closed), Some(Marker::Abort)) = (closed, batch::marker_of(bytes, info)) {
                self.aborted.push(AbortedEntry {
                    producer_id: closed.producer_id,
                    first_offset: closed.first_offset,
                    last_offset: info.base_offset,
                });
            }
        } else if info.has_producer() {
            self.producers.record_data(info);
        }
        self.log_end_offset = info.last_offset() + 1;
        self.dirty_bytes += info.size;
        let active_bytes = self.segments.last().map_or(0, Segment::bytes);
        if active_bytes > 0 && active_bytes + info.size > segment_bytes {
            self.roll();
        }
        if let Some(active) = self.segments.last_mut() {
            active.append(bytes, info);
        }
    }

    /// Seals the growing segment and begins another.
    fn roll(&mut self) {
        if let Some(active) = self.segments.last_mut()
            && !active.is_empty()
        {
            active.seal();
            self.segments.push(Segment::default());
        }
    }

    /// Bytes a reader at `offset` could get, counted no further than `limit`.
    pub(crate) fn readable_bytes(
        &self,
        offset: i64,
        isolation: IsolationLevel,
        limit: usize,
    ) -> usize {
        let end = self.readable_end(isolation);
        let mut bytes = 0;
        let first = self.segment_at(offset);
        for segment in self.segments.iter().skip(first) {
            let entries = segment.entries();
            let from = segment.entry_at(offset);
            let to = entries.partition_point(|entry| entry.base_offset < end);
            if let (Some(first), true) = (entries.get(from), from < to)
                && let Some(last) = entries.get(to - 1)
            {
                bytes += last.position + last.size - first.position;
            }
            if bytes >= limit || to < entries.len() {
                break;
            }
        }
        bytes.min(limit)
    }

    /// Reads from `offset` at most `max_bytes`, with `at_least_one` a whole first batch whatever its size (KIP-74).
    pub(crate) fn read(
        &self,
        offset: i64,
        isolation: IsolationLevel,
        max_bytes: usize,
        at_least_one: bool,
    ) -> LogRead {
        let end = self.readable_end(isolation);
        let Some((segment, index)) = self.locate(offset) else { return LogRead::default() };
        let entries = segment.entries();
        let readable = entries.partition_point(|entry| entry.base_offset < end);
        let (Some(first), Some(last)) =
            (entries.get(index), readable.checked_sub(1).and_then(|last| entries.get(last)))
        else {
            return LogRead::default();
        };
        if index >= readable || (max_bytes < first.size && !at_least_one) {
            return LogRead::default();
        }
        let available = last.position + last.size - first.position;
        let length = available.min(max_bytes.max(first.size));
        let records = segment.slice(first.position, length);
        if isolation == IsolationLevel::ReadUncommitted {
            return LogRead { records, aborted: Vec::new() };
        }
        // The next batch that is not wholly in the answer bounds the transactions that matter.
        let cut =
            entries.partition_point(|entry| entry.position + entry.size <= first.position + length);
        let upper = entries.get(cut).map_or(self.log_end_offset, |entry| entry.base_offset);
        LogRead { records, aborted: self.aborted_between(offset, upper.min(end)) }
    }

    fn aborted_between(&self, offset: i64, upper: i64) -> Vec<AbortedTransaction> {
        // Markers come in offset order, so those before the read are a prefix.
        let from = self.aborted.partition_point(|entry| entry.last_offset < offset);
        let mut aborted: Vec<AbortedTransaction> = self
            .aborted
            .iter()
            .skip(from)
            .filter(|entry| entry.first_offset < upper)
            .map(|entry| AbortedTransaction {
                producer_id: entry.producer_id,
                first_offset: entry.first_offset,
            })
            .collect();
        aborted.sort_by_key(|entry| entry.first_offset);
        aborted
    }

    fn segment_at(&self, offset: i64) -> usize {
        self.segments.partition_point(|segment| {
            segment.last_offset().is_some_and(|last_offset| last_offset < offset)
        })
    }

    /// The first batch that ends at or after `offset`.
    fn locate(&self, offset: i64) -> Option<(&Segment, usize)> {
        let segment = self.segments.get(self.segment_at(offset))?;
        let index = segment.entry_at(offset);
        (index < segment.entries().len()).then_some((segment, index))
    }

    /// Leader epoch of the oldest batch.
    pub(crate) fn first_leader_epoch(&self) -> Option<i32> {
        let (segment, entry) = self.batches().next()?;
        BatchInfo::parse(segment.batch(entry)).map(|info| info.leader_epoch)
    }

    fn batches(&self) -> impl Iterator<Item = (&Segment, &BatchEntry)> {
        self.segments.iter().flat_map(|segment| segment.entries().iter().map(move |e| (segment, e)))
    }

    /// Bytes of each batch whose largest timestamp is at least `timestamp`, in offset order.
    pub(crate) fn batches_reaching(&self, timestamp: i64) -> impl Iterator<Item = Bytes> + '_ {
        self.batches()
            .filter(move |(_, entry)| entry.max_timestamp >= timestamp)
            .map(|(segment, entry)| segment.slice(entry.position, entry.size))
    }

    /// The largest timestamp below `end`, if the log holds any record.
    pub(crate) fn max_timestamp(&self, end: i64) -> Option<i64> {
        self.batches()
            .filter(|(_, entry)| entry.last_offset < end)
            .map(|(_, entry)| entry.max_timestamp)
            .max()
    }
}

/// A batch as it now lies in the log.
#[derive(Clone, Debug)]
pub(crate) struct Appended {
    pub(crate) base_offset: i64,
    pub(crate) bytes: Bytes,
}
