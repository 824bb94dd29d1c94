//! What a partition remembers of each producer: epoch, last sequences, open transaction (KIP-98, KIP-360, KIP-890).

use std::collections::{BTreeMap, VecDeque};

use millstream_protocol::ErrorCode;

use super::batch::BatchInfo;

/// Batches per producer whose repetition is recognised (`ProducerStateEntry`).
const BATCHES_KEPT: usize = 5;

const NO_EPOCH: i16 = -1;
const NO_SEQUENCE: i32 = -1;

/// One appended batch of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AppendedBatch {
    first_sequence: i32,
    last_sequence: i32,
    base_offset: i64,
    timestamp: i64,
}

/// One producer's state in one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProducerEntry {
    epoch: i16,
    batches: VecDeque<AppendedBatch>,
    transaction_first_offset: Option<i64>,
}

impl ProducerEntry {
    fn new() -> Self {
        Self { epoch: NO_EPOCH, batches: VecDeque::new(), transaction_first_offset: None }
    }

    fn last_sequence(&self) -> i32 {
        self.batches.back().map_or(NO_SEQUENCE, |batch| batch.last_sequence)
    }

    /// A new epoch starts its sequences at 0, so the old ones mean nothing any more.
    fn update_epoch(&mut self, epoch: i16) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.batches.clear();
        }
    }
}

/// The lowest sequence seen while a transaction's first batch waits to be verified (KIP-890).
#[derive(Clone, Copy, Debug)]
struct Verification {
    lowest_sequence: i32,
    epoch: i16,
}

/// What to do with a batch of an idempotent producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SequenceCheck {
    Append,
    /// The same batch was appended before, there.
    Duplicate {
        base_offset: i64,
        timestamp: i64,
    },
    Refuse(ErrorCode),
}

/// A transaction that a marker has just closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClosedTransaction {
    pub(crate) producer_id: i64,
    pub(crate) first_offset: i64,
}

/// All producers of one partition.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProducerStates {
    producers: BTreeMap<i64, ProducerEntry>,
    verifications: BTreeMap<i64, Verification>,
    /// Open transactions by first offset; the first one holds the last stable offset back.
    open: BTreeMap<i64, i64>,
}

impl ProducerStates {
    /// First offset of the oldest open transaction.
    pub(crate) fn first_unstable_offset(&self) -> Option<i64> {
        self.open.keys().next().copied()
    }

    /// Whether `producer_id` has an open transaction here under this very epoch.
    pub(crate) fn has_open_transaction(&self, producer_id: i64, epoch: i16) -> bool {
        self.producers.get(&producer_id).is_some_and(|producer| {
            producer.transaction_first_offset.is_some() && producer.epoch == epoch
        })
    }

    /// Whether `producer_id` has an open transaction here, whatever its epoch.
    pub(crate) fn has_any_open_transaction(&self, producer_id: i64) -> bool {
        self.producers
            .get(&producer_id)
            .is_some_and(|producer| producer.transaction_first_offset.is_some())
    }

    /// Base offsets of the newest batch of each producer; compaction keeps their headers.
    pub(crate) fn newest_batches(&self) -> impl Iterator<Item = i64> + '_ {
        self.producers
            .values()
            .filter_map(|producer| producer.batches.back())
            .map(|b| b.base_offset)
    }

    /// Notes that a transactional batch asks to be verified.
    pub(crate) fn begin_verification(&mut self, batch: &BatchInfo, supports_epoch_bump: bool) {
        let fresh =
            Verification { lowest_sequence: batch.base_sequence, epoch: batch.producer_epoch };
        let known = self.verifications.entry(batch.producer_id).or_insert(fresh);
        if supports_epoch_bump && batch.producer_epoch > known.epoch {
            *known = fresh;
        } else if batch.producer_epoch == known.epoch {
            known.lowest_sequence = known.lowest_sequence.min(batch.base_sequence);
        }
    }

    /// Checks epoch and sequence of a client's data batch, changing nothing.
    ///
    /// `strict_first_sequence` is the rule of Produce v12 and later: an unknown producer starts at sequence 0.
    pub(crate) fn check(&self, batch: &BatchInfo, strict_first_sequence: bool) -> SequenceCheck {
        let unknown = ProducerEntry::new();
        let producer = self.producers.get(&batch.producer_id).unwrap_or(&unknown);
        if batch.producer_epoch == producer.epoch
            && let Some(earlier) = producer.batches.iter().find(|earlier| {
                earlier.first_sequence == batch.base_sequence
                    && earlier.last_sequence == batch.last_sequence()
            })
        {
            return SequenceCheck::Duplicate {
                base_offset: earlier.base_offset,
                timestamp: earlier.timestamp,
            };
        }
        if batch.producer_epoch < producer.epoch {
            return SequenceCheck::Refuse(ErrorCode::INVALID_PRODUCER_EPOCH);
        }
        let first_seen_higher = self
            .verifications
            .get(&batch.producer_id)
            .is_some_and(|verification| batch.base_sequence > verification.lowest_sequence);
        let in_sequence = if batch.producer_epoch != producer.epoch {
            batch.base_sequence == 0 || (producer.epoch == NO_EPOCH && !strict_first_sequence)
        } else {
            let last = producer.last_sequence();
            i64::from(batch.base_sequence) == i64::from(last) + 1
                || (batch.base_sequence == 0 && last == i32::MAX)
        };
        if first_seen_higher || !in_sequence {
            return SequenceCheck::Refuse(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER);
        }
        if producer.transaction_first_offset.is_some() && !batch.is_transactional() {
            return SequenceCheck::Refuse(ErrorCode::INVALID_TXN_STATE);
        }
        SequenceCheck::Append
    }

    /// Records a data batch that now lies in the log at its base offset.
    pub(crate) fn record_data(&mut self, batch: &BatchInfo) {
        let producer = self.producers.entry(batch.producer_id).or_insert_with(ProducerEntry::new);
        producer.update_epoch(batch.producer_epoch);
        if producer.batches.len() == BATCHES_KEPT {
            producer.batches.pop_front();
        }
        producer.batches.push_back(AppendedBatch {
            first_sequence: batch.base_sequence,
            last_sequence: batch.last_sequence(),
            base_offset: batch.base_offset,
            timestamp: batch.max_timestamp,
        });
        self.verifications.remove(&batch.producer_id);
        if batch.is_transactional() && producer.transaction_first_offset.is_none() {
            producer.transaction_first_offset = Some(batch.base_offset);
            self.open.insert(batch.base_offset, batch.producer_id);
        }
    }

    /// Records an end marker that now lies in the log. `None` if no transaction was open.
    pub(crate) fn record_marker(
        &mut self,
        producer_id: i64,
        epoch: i16,
    ) -> Option<ClosedTransaction> {
        let producer = self.producers.entry(producer_id).or_insert_with(ProducerEntry::new);
        producer.update_epoch(epoch);
        let first_offset = producer.transaction_first_offset.take()?;
        self.open.remove(&first_offset);
        Some(ClosedTransaction { producer_id, first_offset })
    }
}
