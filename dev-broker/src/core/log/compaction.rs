//! Log compaction: the newest record of each key stays, offsets never change (`Cleaner`, KIP-98, KIP-534).
//!
//! Data of aborted transactions goes at once. A marker goes when no batch of its transaction was left by an earlier
//! pass and the delete retention has passed since, so that no reader meets data whose end it cannot see. The newest
//! batch of each producer stays, emptied if need be: a replay learns sequences and epochs from it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use bytes::Bytes;
use millstream_protocol::records::{BatchView, DecodeLimits, Decompressor, RecordView};

use super::batch::{self, BatchInfo, Marker};
use super::segment::Segment;
use super::{AbortedEntry, PartitionLog};

/// When and how far to compact.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompactionRules {
    pub(crate) wall_clock_ms: i64,
    /// How long tombstones and unneeded markers stay (`delete.retention.ms`).
    pub(crate) delete_retention: Duration,
    /// Share of uncompacted bytes that makes a pass worth it (`min.cleanable.dirty.ratio`), in percent.
    pub(crate) min_dirty_percent: u8,
    /// Whatever the share.
    pub(crate) forced: bool,
    pub(crate) segment_bytes: usize,
}

/// The log after a pass: what a durable copy must be replaced with.
#[derive(Debug)]
pub(crate) struct Compaction {
    pub(crate) content: Vec<Bytes>,
}

/// When a tombstone or marker that nobody needs may go, by base offset of its batch.
pub(super) type DeleteHorizons = BTreeMap<i64, i64>;

impl PartitionLog {
    /// Compacts everything that is stable, except the last batch. `None` if there was nothing to gain.
    pub(crate) fn compact(&mut self, rules: &CompactionRules) -> Option<Compaction> {
        let total: usize = self.segments.iter().map(Segment::bytes).sum();
        let dirty_enough = self.dirty_bytes.saturating_mul(100)
            >= total.saturating_mul(usize::from(rules.min_dirty_percent));
        let horizon_passed = self.horizons.values().any(|horizon| *horizon <= rules.wall_clock_ms);
        let worth_it = (dirty_enough && self.dirty_bytes > 0) || horizon_passed || rules.forced;
        if total == 0 || !worth_it {
            return None;
        }
        let last_batch = self.batches().last().map(|(_, entry)| entry.base_offset)?;
        let end = self.last_stable_offset().min(last_batch);
        let pass = Pass::prepare(self, end);
        let kept = pass.run(self, rules);
        self.dirty_bytes = 0;
        self.aborted.retain(|entry| !kept.emptied.contains(&entry.last_offset));
        self.horizons = kept.horizons;
        self.segments = kept.segments;
        self.segments.push(Segment::default());
        Some(Compaction { content: kept.content })
    }
}

/// What the first walk over the log learns.
struct Pass {
    /// Batches that end below this offset may be cleaned.
    end: i64,
    newest_of_key: HashMap<Vec<u8>, i64>,
    newest_batches: BTreeSet<i64>,
}

/// What the second walk leaves.
struct Kept {
    segments: Vec<Segment>,
    content: Vec<Bytes>,
    horizons: DeleteHorizons,
    /// Markers of aborted transactions none of whose records are left.
    emptied: BTreeSet<i64>,
}

impl Pass {
    fn prepare(log: &PartitionLog, end: i64) -> Self {
        let mut newest_of_key = HashMap::new();
        let mut newest_any: BTreeMap<i64, i64> = BTreeMap::new();
        for (segment, entry) in log.batches() {
            let bytes = segment.slice(entry.position, entry.size);
            let Some(info) = BatchInfo::parse(&bytes) else { continue };
            if info.has_producer() {
                newest_any.insert(info.producer_id, info.base_offset);
            }
            if info.is_control() || info.last_offset() >= end || aborted_by(log, &info).is_some() {
                continue;
            }
            for_each_record(&bytes, |record| {
                if let Some(key) = record.key {
                    newest_of_key.insert(key.to_vec(), record.offset);
                }
            });
        }
        let mut newest_batches: BTreeSet<i64> = newest_any.into_values().collect();
        newest_batches.extend(log.producers.newest_batches());
        Self { end, newest_of_key, newest_batches }
    }

    fn run(&self, log: &PartitionLog, rules: &CompactionRules) -> Kept {
        let mut output = Output::new(rules.segment_bytes);
        let mut horizons = DeleteHorizons::new();
        let mut emptied = BTreeSet::new();
        // Producers whose current transaction has shown a batch to this pass.
        let mut seen: BTreeSet<i64> = BTreeSet::new();
        let retention = i64::try_from(rules.delete_retention.as_millis()).unwrap_or(i64::MAX);
        for (segment, entry) in log.batches() {
            let bytes = segment.batch(entry);
            let Some(info) = BatchInfo::parse(bytes) else { continue };
            if info.last_offset() >= self.end {
                output.push(bytes);
                continue;
            }
            let due = log
                .horizons
                .get(&info.base_offset)
                .copied()
                .unwrap_or_else(|| rules.wall_clock_ms.saturating_add(retention));
            let expired =
                log.horizons.contains_key(&info.base_offset) && due <= rules.wall_clock_ms;
            if info.is_control() {
                if batch::marker_of(bytes, &info) == Some(Marker::Abort) {
                    emptied.insert(info.base_offset);
                }
                let needed = seen.remove(&info.producer_id)
                    || self.newest_batches.contains(&info.base_offset);
                if needed {
                    output.push(bytes);
                } else if !expired {
                    horizons.insert(info.base_offset, due);
                    output.push(bytes);
                }
                continue;
            }
            if info.is_transactional() {
                seen.insert(info.producer_id);
            }
            self.clean_data(log, bytes, &info, expired, &mut output, |offset| {
                horizons.insert(offset, due);
            });
        }
        let (segments, content) = output.finish();
        Kept { segments, content, horizons, emptied }
    }

    fn clean_data(
        &self,
        log: &PartitionLog,
        bytes: &[u8],
        info: &BatchInfo,
        tombstones_expired: bool,
        output: &mut Output,
        mut wait_for_tombstones: impl FnMut(i64),
    ) {
        let mut records = Vec::new();
        let mut kept = 0;
        let mut dropped = 0;
        let mut tombstones = false;
        let mut max_timestamp = -1;
        if aborted_by(log, info).is_none() {
            for_each_record(&Bytes::copy_from_slice(bytes), |record| {
                let newest = record
                    .key
                    .is_some_and(|key| self.newest_of_key.get(key) == Some(&record.offset));
                let tombstone = record.value.is_none();
                if !newest || (tombstone && tombstones_expired) {
                    dropped += 1;
                    return;
                }
                tombstones |= tombstone;
                kept += 1;
                max_timestamp = max_timestamp.max(record.timestamp);
                encode_record(&mut records, record, info);
            });
        } else {
            dropped = info.record_count.max(1);
        }
        if tombstones {
            wait_for_tombstones(info.base_offset);
        }
        if dropped == 0 && (kept > 0 || self.newest_batches.contains(&info.base_offset)) {
            output.push(bytes);
        } else if kept > 0 {
            output.push(&batch::rewritten(&BatchInfo { max_timestamp, ..*info }, &records, kept));
        } else if self.newest_batches.contains(&info.base_offset) {
            output.push(&batch::rewritten(info, &[], 0));
        }
    }
}

/// Segments under construction.
struct Output {
    segment_bytes: usize,
    current: Vec<u8>,
    segments: Vec<Segment>,
    content: Vec<Bytes>,
}

impl Output {
    fn new(segment_bytes: usize) -> Self {
        Self { segment_bytes, current: Vec::new(), segments: Vec::new(), content: Vec::new() }
    }

    fn push(&mut self, batch: &[u8]) {
        if !self.current.is_empty() && self.current.len() + batch.len() > self.segment_bytes {
            self.close();
        }
        self.current.extend_from_slice(batch);
    }

    fn close(&mut self) {
        let bytes = Bytes::from(std::mem::take(&mut self.current));
        if !bytes.is_empty() {
            self.segments.push(Segment::sealed(bytes.clone()));
            self.content.push(bytes);
        }
    }

    fn finish(mut self) -> (Vec<Segment>, Vec<Bytes>) {
        self.close();
        (self.segments, self.content)
    }
}

/// The aborted transaction that a data batch belongs to.
fn aborted_by<'a>(log: &'a PartitionLog, info: &BatchInfo) -> Option<&'a AbortedEntry> {
    if !info.is_transactional() {
        return None;
    }
    let from = log.aborted.partition_point(|entry| entry.last_offset < info.base_offset);
    log.aborted.iter().skip(from).find(|entry| {
        entry.producer_id == info.producer_id && entry.first_offset <= info.base_offset
    })
}

/// Calls `visit` for each record of a stored batch. The log holds only batches that were walked before.
pub(crate) fn for_each_record(batch: &Bytes, mut visit: impl FnMut(&RecordView<'_>)) {
    let Ok(view) = BatchView::parse(batch.clone()) else { return };
    let Ok(block) = view.records(&DecodeLimits::default(), &mut Decompressor::new()) else {
        return;
    };
    for record in block.iter().flatten() {
        visit(&record);
    }
}

fn encode_record(output: &mut Vec<u8>, record: &RecordView<'_>, info: &BatchInfo) {
    let mut body = vec![0];
    put_varint(&mut body, record.timestamp.wrapping_sub(info.base_timestamp));
    put_varint(&mut body, record.offset - info.base_offset);
    put_bytes(&mut body, record.key);
    put_bytes(&mut body, record.value);
    put_varint(&mut body, length(record.headers.len()));
    for header in record.headers {
        put_bytes(&mut body, Some(header.key));
        put_bytes(&mut body, header.value);
    }
    put_varint(output, length(body.len()));
    output.extend_from_slice(&body);
}

fn put_bytes(output: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => put_varint(output, -1),
        Some(bytes) => {
            put_varint(output, length(bytes.len()));
            output.extend_from_slice(bytes);
        }
    }
}

fn length(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Zig-zag variable length integer, as records use them.
fn put_varint(output: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while rest >= 0x80 {
        output.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    output.push((rest & 0x7f) as u8);
}
