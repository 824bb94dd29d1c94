//! What a reader sees of a log, against a log that knows.

use super::*;

/// One thing a partition leader appends.
#[derive(Clone, Debug)]
enum Step {
    Data { producer: i64, count: usize },
    Plain { producer: i64 },
    End { producer: i64, commit: bool },
    Emptied { gap: i32 },
}

fn any_step() -> impl Strategy<Value = Step> {
    let producer = || 1..4_i64;
    prop_oneof![
        4 => (producer(), 1..4_usize).prop_map(|(producer, count)| Step::Data { producer, count }),
        1 => producer().prop_map(|producer| Step::Plain { producer }),
        2 => (producer(), any::<bool>())
            .prop_map(|(producer, commit)| Step::End { producer, commit }),
        1 => (0..4_i32).prop_map(|gap| Step::Emptied { gap }),
    ]
}

/// A log in the making, with what the leader knows about it.
#[derive(Debug, Default)]
struct Log {
    batches: Vec<(i64, i64, Bytes)>,
    next_offset: i64,
    /// First offset of each open transaction, and the records written in it.
    open: std::collections::BTreeMap<i64, (i64, Vec<(i64, String)>)>,
    visible: Vec<(i64, String)>,
    /// Producer, first offset, offset of the marker.
    aborted: Vec<(i64, i64, i64)>,
}

impl Log {
    fn append(&mut self, len: i64, batch: Bytes) -> i64 {
        let base = self.next_offset;
        self.batches.push((base, base + len - 1, batch));
        self.next_offset += len;
        base
    }

    fn apply(&mut self, step: &Step, compression: Compression) {
        let base = self.next_offset;
        match *step {
            Step::Data { producer, count } => {
                let values: Vec<_> = (0..count).map(|n| format!("{producer}:{base}+{n}")).collect();
                let refs: Vec<_> = values.iter().map(String::as_str).collect();
                let batch = transactional_batch_at(base, producer, compression, &refs);
                self.append(count as i64, batch);
                let written = (base..).zip(values);
                self.open.entry(producer).or_insert((base, Vec::new())).1.extend(written);
            }
            Step::Plain { producer } => {
                // Not transactional, but of a producer that may have a transaction open.
                let value = format!("plain {base}");
                let mut batch = sealed(compression, &[OwnedRecord::with_value(&value)]);
                let producer = ProducerIdAndEpoch { producer_id: producer, producer_epoch: 0 };
                batch.stamp(producer, 0, false);
                self.append(1, assign_offsets(batch.into_bytes(), base, 0).unwrap());
                self.visible.push((base, value));
            }
            Step::End { producer, commit } => {
                let marker =
                    if commit { ControlRecordType::Commit } else { ControlRecordType::Abort };
                self.append(1, marker_at(base, producer, marker));
                match self.open.remove(&producer) {
                    Some((_, written)) if commit => self.visible.extend(written),
                    Some((first, _)) => self.aborted.push((producer, first, base)),
                    None => {}
                }
            }
            Step::Emptied { gap } => {
                self.append(i64::from(gap) + 1, emptied_batch(base, gap));
            }
        }
    }

    /// End of what read_committed may see.
    fn last_stable_offset(&self) -> i64 {
        self.open.values().map(|(first, _)| *first).min().unwrap_or(self.next_offset)
    }

    /// What a leader answers to a fetch: batches that end at or after `offset`, at most `count`,
    /// and the aborted transactions that overlap them.
    fn fetch(&self, offset: i64, count: usize) -> (Bytes, Vec<(i64, i64)>) {
        let stable = self.last_stable_offset();
        let sent: Vec<_> = self
            .batches
            .iter()
            .filter(|(base, last, _)| *last >= offset && *base < stable)
            .take(count)
            .collect();
        let end = sent.last().map_or(offset, |(_, last, _)| *last);
        let mut aborted: Vec<_> = self
            .aborted
            .iter()
            .filter(|(_, first, marker)| *marker >= offset && *first <= end)
            .map(|&(producer, first, _)| (producer, first))
            .collect();
        aborted.reverse();
        let batches: Vec<_> = sent.into_iter().map(|(_, _, batch)| batch.clone()).collect();
        (concat(&batches), aborted)
    }
}

proptest! {
    #[test]
    fn read_committed_sees_the_committed_records_in_order_and_once(
        steps in prop::collection::vec(any_step(), 1..40),
        compression in any_compression(),
        batches_per_fetch in 1..6_usize,
        start in 0..10_i64,
    ) {
        let mut log = Log::default();
        for step in &steps {
            log.apply(step, compression);
        }
        let stable = log.last_stable_offset();
        let mut position = start.min(stable);
        let first = position;
        let mut seen = Vec::new();
        loop {
            let (records, aborted) = log.fetch(position, batches_per_fetch);
            if records.is_empty() {
                break;
            }
            let before = position;
            let (values, after) =
                visible(records, position, &aborted, IsolationLevel::ReadCommitted);
            seen.extend(values);
            position = after;
            prop_assert!(position > before, "a fetch that returns batches moves the position");
        }
        prop_assert_eq!(position, stable);
        let mut expected: Vec<_> = log
            .visible
            .iter()
            .filter(|(offset, _)| (first..stable).contains(offset))
            .cloned()
            .collect();
        expected.sort();
        prop_assert_eq!(seen, expected);
    }
}

#[test]
fn batches_that_end_before_the_position_are_passed_over() {
    let records = concat(&[
        batch_at(5, Compression::None, &["5", "6"]),
        batch_at(0, Compression::None, &["0", "1"]),
        batch_at(5, Compression::None, &["5", "6"]),
        batch_at(6, Compression::None, &["6", "7"]),
    ]);
    let (seen, position) = visible(records, 5, &[], IsolationLevel::ReadCommitted);
    assert_eq!(seen, [(5, "5".into()), (6, "6".into()), (7, "7".into())]);
    assert_eq!(position, 8);
}

#[test]
fn a_null_record_field_is_no_batches() {
    let (seen, position) = visible(Bytes::new(), 9, &[], IsolationLevel::ReadCommitted);
    assert_eq!((seen, position), (Vec::new(), 9));
}

#[test]
fn the_list_of_aborted_transactions_does_not_count_when_reading_uncommitted() {
    let records = transactional_batch_at(0, 1, Compression::None, &["dirty"]);
    let (seen, _) = visible(records, 0, &[(1, 0)], IsolationLevel::ReadUncommitted);
    assert_eq!(seen, [(0, "dirty".into())]);
}

#[test]
fn the_gap_left_by_compaction_is_stepped_over() {
    let mut batch = batch_at(3, Compression::None, &["a"]).to_vec();
    batch[23..27].copy_from_slice(&9_i32.to_be_bytes());
    let (seen, position) = visible(recomputed(batch), 3, &[], IsolationLevel::ReadCommitted);
    assert_eq!(seen, [(3, "a".into())]);
    assert_eq!(position, 13);
}

#[test]
fn the_decompressor_serves_one_response_after_another() {
    let limits = DecodeLimits::default();
    let isolation = IsolationLevel::ReadCommitted;
    let mut decompressor = Decompressor::new();
    let mut addresses = std::collections::BTreeSet::new();
    for round in 0..20 {
        let batch = batch_at(round, Compression::Zstd, &["value"]);
        let mut batches = VisibleBatches::new(batch, round, Vec::new(), isolation, limits)
            .with_decompressor(decompressor);
        let block = batches.next().unwrap().unwrap().records.unwrap();
        addresses.insert(block.bytes().as_ptr().addr() / 8192);
        assert_eq!(block.iter().next().unwrap().unwrap().value, Some(b"value".as_slice()));
        decompressor = batches.into_decompressor();
    }
    assert!(addresses.len() <= 2, "blocks that were dropped lend their memory to the next");
}
