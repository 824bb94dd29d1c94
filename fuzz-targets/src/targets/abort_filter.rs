//! What a read_committed reader sees of a log equals what became of the transactions in it.

use millstream_protocol::records::{
    AbortedTransaction, BatchBuilder, Compression, ControlRecordType, DecodeLimits, VisibleBatches,
    control_batch,
};
use millstream_protocol::{IsolationLevel, ProducerIdAndEpoch};

/// One batch of the log, and whether a reader is to see it once all is decided.
struct Batch {
    base_offset: i64,
    next_offset: i64,
    bytes: Vec<u8>,
    fate: Fate,
}

#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Visible,
    Hidden,
    /// In a transaction of this producer that is still open.
    Undecided(u8),
}

/// A transaction that was aborted: what the broker lists, and where its marker is.
struct Aborted {
    entry: AbortedTransaction,
    marker: i64,
}

/// The first two bytes choose where reading begins and the order of the list; each further byte is one step of one of four
/// producers.
pub(super) fn abort_filter(input: &[u8]) {
    let [begin, order, steps @ ..] = input else { return };
    let (log, aborted) = history(&steps[..steps.len().min(MAX_STEPS)]);
    // Readers get nothing behind the last stable offset.
    let undecided = log.iter().position(|batch| matches!(batch.fate, Fate::Undecided(_)));
    let log = &log[..undecided.unwrap_or(log.len())];
    let log = &log[usize::from(*begin) % (log.len() + 1)..];
    let Some(fetch_offset) = log.first().map(|batch| batch.base_offset) else { return };

    // Only transactions that reach into what is read are listed, in any order.
    let mut list: Vec<AbortedTransaction> = aborted
        .iter()
        .filter(|aborted| aborted.marker >= fetch_offset)
        .map(|aborted| aborted.entry)
        .collect();
    if !list.is_empty() {
        let turn = usize::from(*order) % list.len();
        list.rotate_left(turn);
    }
    if order & 0x80 != 0 {
        list.reverse();
    }
    let bytes: Vec<u8> = log.iter().flat_map(|batch| batch.bytes.iter().copied()).collect();
    let seen: Vec<(i64, bool)> = VisibleBatches::new(
        bytes.into(),
        fetch_offset,
        list,
        IsolationLevel::ReadCommitted,
        DecodeLimits::default(),
    )
    .map(|batch| batch.expect("an honest log"))
    .map(|batch| (batch.next_offset, batch.records.is_some()))
    .collect();
    let expected: Vec<(i64, bool)> =
        log.iter().map(|batch| (batch.next_offset, batch.fate == Fate::Visible)).collect();
    assert_eq!(seen, expected);
}

/// Plays the steps: who writes, in a transaction or not, and how it ends.
fn history(steps: &[u8]) -> (Vec<Batch>, Vec<Aborted>) {
    let mut log: Vec<Batch> = Vec::new();
    let mut aborted = Vec::new();
    let mut open: [Option<i64>; 4] = [None; 4];
    let mut offset = 0;
    for step in steps {
        let who = step & 3;
        let started = &mut open[usize::from(who)];
        let base_offset = offset;
        let (mut bytes, records, fate) = match (step >> 2) & 3 {
            0 if started.is_none() => (data(who, false, 1), 1, Fate::Visible),
            0 | 1 => {
                let records = i64::from(1 + (step >> 4 & 3));
                started.get_or_insert(base_offset);
                (data(who, true, records), records, Fate::Undecided(who))
            }
            2 => {
                *started = None;
                decide(&mut log, who, Fate::Visible);
                (marker(who, ControlRecordType::Commit), 1, Fate::Hidden)
            }
            _ => {
                // Without a record before it, an aborted transaction begins with its own marker.
                let first_offset = started.take().unwrap_or(base_offset);
                decide(&mut log, who, Fate::Hidden);
                let entry = AbortedTransaction { producer_id: i64::from(who), first_offset };
                aborted.push(Aborted { entry, marker: base_offset });
                (marker(who, ControlRecordType::Abort), 1, Fate::Hidden)
            }
        };
        bytes[..8].copy_from_slice(&base_offset.to_be_bytes());
        offset += records;
        log.push(Batch { base_offset, next_offset: offset, bytes, fate });
        // Compaction leaves gaps.
        offset += i64::from(step >> 6);
    }
    (log, aborted)
}

fn decide(log: &mut [Batch], who: u8, fate: Fate) {
    for batch in log.iter_mut().filter(|batch| batch.fate == Fate::Undecided(who)) {
        batch.fate = fate;
    }
}

fn identity(who: u8) -> ProducerIdAndEpoch {
    ProducerIdAndEpoch { producer_id: i64::from(who), producer_epoch: 0 }
}

fn data(who: u8, transactional: bool, records: i64) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Compression::None, 1 << 16);
    for _ in 0..records {
        builder.append(0, None, Some(b"v"), &[]).expect("a small record");
    }
    let mut batch = builder.build().expect("a batch").expect("with records");
    batch.stamp(identity(who), 0, transactional);
    batch.into_bytes().to_vec()
}

fn marker(who: u8, kind: ControlRecordType) -> Vec<u8> {
    control_batch(kind, identity(who), 0, 0).to_vec()
}

const MAX_STEPS: usize = 64;
