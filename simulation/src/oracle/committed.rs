//! What a `read_committed` reader of the brokers' logs sees, and which transaction it belongs to.
//!
//! Reads batches one after the other and keeps them until their marker is there: slow, and nothing like the product's own reader.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use millstream_protocol::TopicPartition;
use millstream_protocol::records::{BatchView, DecodeLimits, Decompressor};

/// One committed record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedRecord {
    /// Where it lies.
    pub place: TopicPartition,
    /// Its offset.
    pub offset: i64,
    /// Key.
    pub key: Bytes,
    /// Value.
    pub value: Bytes,
    /// Producer id and epoch of the transaction.
    pub transaction: (i64, i16),
}

/// One transaction: each epoch of a producer id has at most one that is not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// Partitions where it was committed.
    pub committed: BTreeSet<TopicPartition>,
    /// Partitions where it was aborted.
    pub aborted: BTreeSet<TopicPartition>,
    /// Partitions without a marker.
    pub open: BTreeSet<TopicPartition>,
}

/// Everything in the logs.
#[derive(Clone, Debug, Default)]
pub struct CommittedLog {
    /// Committed records, in the order of their markers; those of a partition in order of offsets.
    pub records: Vec<CommittedRecord>,
    /// Transactions by producer id and epoch.
    pub transactions: BTreeMap<(i64, i16), Transaction>,
    read: BTreeMap<TopicPartition, usize>,
    pending: BTreeMap<(TopicPartition, i64), Vec<CommittedRecord>>,
}

const ATTRIBUTES: usize = 21;
const PRODUCER_ID: usize = 43;
const PRODUCER_EPOCH: usize = 51;
const CONTROL: i16 = 1 << 5;
const TRANSACTIONAL: i16 = 1 << 4;

impl CommittedLog {
    /// Reads the batches of a partition that were not read before.
    ///
    /// # Errors
    ///
    /// What is wrong with a batch.
    pub fn read(&mut self, place: &TopicPartition, batches: &[Bytes]) -> Result<(), String> {
        let from = self.read.insert(place.clone(), batches.len()).unwrap_or(0);
        for batch in batches.iter().skip(from) {
            self.batch(place, batch)
                .ok_or_else(|| format!("{place} holds a batch that is none"))?;
        }
        Ok(())
    }

    fn batch(&mut self, place: &TopicPartition, batch: &Bytes) -> Option<()> {
        if batch.is_empty() {
            // The topic was deleted: no marker comes any more for what was open.
            self.pending.retain(|(at, _), _| at != place);
            return Some(());
        }
        let attributes =
            i16::from_be_bytes(batch.get(ATTRIBUTES..ATTRIBUTES + 2)?.try_into().ok()?);
        let producer =
            i64::from_be_bytes(batch.get(PRODUCER_ID..PRODUCER_ID + 8)?.try_into().ok()?);
        let epoch =
            i16::from_be_bytes(batch.get(PRODUCER_EPOCH..PRODUCER_EPOCH + 2)?.try_into().ok()?);
        if attributes & TRANSACTIONAL == 0 {
            return Some(());
        }
        let view = BatchView::parse(batch.clone()).ok()?;
        let block = view.records(&DecodeLimits::default(), &mut Decompressor::new()).ok()?;
        if attributes & CONTROL != 0 {
            let record = block.iter().next()?.ok()?;
            let kind = i16::from_be_bytes(record.key?.get(2..4)?.try_into().ok()?);
            self.marker(place, producer, kind == 1);
            return Some(());
        }
        let transaction = (producer, epoch);
        self.transactions.entry(transaction).or_default().open.insert(place.clone());
        let pending = self.pending.entry((place.clone(), producer)).or_default();
        for record in block.iter() {
            let record = record.ok()?;
            pending.push(CommittedRecord {
                place: place.clone(),
                offset: record.offset,
                key: Bytes::copy_from_slice(record.key.unwrap_or_default()),
                value: Bytes::copy_from_slice(record.value.unwrap_or_default()),
                transaction,
            });
        }
        Some(())
    }

    /// A marker ends whatever the producer has open there.
    fn marker(&mut self, place: &TopicPartition, producer: i64, commit: bool) {
        let Some(records) = self.pending.remove(&(place.clone(), producer)) else { return };
        for record in &records {
            let transaction = self.transactions.entry(record.transaction).or_default();
            transaction.open.remove(place);
            let ended = if commit { &mut transaction.committed } else { &mut transaction.aborted };
            ended.insert(place.clone());
        }
        if commit {
            self.records.extend(records);
        }
    }

    /// Committed records of a topic.
    pub fn of_topic<'a>(&'a self, topic: &'a str) -> impl Iterator<Item = &'a CommittedRecord> {
        self.records.iter().filter(move |record| &*record.place.topic == topic)
    }
}
