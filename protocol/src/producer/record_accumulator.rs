//! Batches that wait to be sent, by transaction and partition, with their bounds.

use std::collections::{BTreeMap, VecDeque};

use super::delivery::{Delivered, Delivery, Report};
use crate::records::SealedBatch;
use crate::transaction::ProduceError;
use crate::{Timestamp, TopicPartition};

/// A batch without sequence numbers.
#[derive(Debug)]
pub(super) struct QueuedBatch {
    pub(super) batch: SealedBatch,
    pub(super) tag: u64,
    /// When it could first have been sent: delivery is timed from here.
    pub(super) enqueued_at: Timestamp,
    pub(super) report: Option<Report>,
}

/// What is known of one tag.
#[derive(Debug, Default)]
pub(super) struct TagState {
    /// Bytes not acknowledged.
    pub(super) bytes: usize,
    /// Batches not acknowledged.
    pub(super) outstanding: usize,
    /// The last offset written per partition.
    pub(super) offsets: BTreeMap<TopicPartition, i64>,
    /// The first failure.
    pub(super) error: Option<ProduceError>,
    /// Somebody waits for the tag.
    pub(super) flushing: bool,
}

/// Batches that wait, and the account of all that are not acknowledged.
#[derive(Debug)]
pub(super) struct RecordAccumulator {
    transactional: bool,
    buffer_memory: usize,
    /// By lane: the tag, or one lane for all tags if there are no transactions.
    queues: BTreeMap<u64, BTreeMap<TopicPartition, VecDeque<QueuedBatch>>>,
    pub(super) tags: BTreeMap<u64, TagState>,
    /// Whether the bound is reached, for the open tag and for the others.
    full: [bool; 2],
    /// Fates that nobody has been told of yet.
    deliveries: VecDeque<Delivery>,
}

impl RecordAccumulator {
    pub(super) fn new(transactional: bool, buffer_memory: usize) -> Self {
        Self {
            transactional,
            buffer_memory,
            queues: BTreeMap::new(),
            tags: BTreeMap::new(),
            full: [false; 2],
            deliveries: VecDeque::new(),
        }
    }

    pub(super) fn push(
        &mut self,
        enqueued_at: Timestamp,
        key: TopicPartition,
        batch: SealedBatch,
        tag: u64,
        report: Option<Report>,
    ) {
        let state = self.tags.entry(tag).or_default();
        state.bytes += batch.size_bytes();
        state.outstanding += 1;
        let lane = self.lane(tag);
        self.queues.entry(lane).or_default().entry(key).or_default().push_back(QueuedBatch {
            batch,
            tag,
            enqueued_at,
            report,
        });
    }

    /// The queues that may be sent while `open` is open.
    pub(super) fn sendable(
        &mut self,
        open: u64,
    ) -> Option<&mut BTreeMap<TopicPartition, VecDeque<QueuedBatch>>> {
        let lane = self.lane(open);
        self.queues.get_mut(&lane)
    }

    /// When the oldest batch that may be sent was queued.
    pub(super) fn oldest(&self, open: Option<u64>) -> Option<Timestamp> {
        let queues = self.queues.get(&self.lane(open?))?;
        queues.values().filter_map(VecDeque::front).map(|batch| batch.enqueued_at).min()
    }

    /// Batches of `tag` may be sent from now on.
    pub(super) fn begin(&mut self, now: Timestamp, tag: u64) {
        for batch in self.sendable(tag).into_iter().flat_map(|q| q.values_mut()).flatten() {
            batch.enqueued_at = now;
        }
    }

    /// Puts batches back to the front of their queue, in order.
    pub(super) fn put_back(&mut self, key: &TopicPartition, batches: Vec<QueuedBatch>) {
        for batch in batches.into_iter().rev() {
            let lane = self.lane(batch.tag);
            let queues = self.queues.entry(lane).or_default();
            queues.entry(key.clone()).or_default().push_front(batch);
        }
    }

    /// A batch of `tag` is out of the account: acknowledged or failed.
    pub(super) fn settle(
        &mut self,
        tag: u64,
        batch: SealedBatch,
        report: Option<Report>,
        result: Result<Delivered, &ProduceError>,
    ) {
        if let Some(state) = self.tags.get_mut(&tag) {
            state.bytes = state.bytes.saturating_sub(batch.size_bytes());
            state.outstanding = state.outstanding.saturating_sub(1);
        }
        self.report(batch, report, result);
    }

    /// Tells the sender of a batch, if it wants to know.
    pub(super) fn report(
        &mut self,
        batch: SealedBatch,
        report: Option<Report>,
        result: Result<Delivered, &ProduceError>,
    ) {
        if let Some(Report { batch_id, first_record }) = report {
            let record_count = batch.record_count();
            let result = result.map_err(Clone::clone);
            let delivery = Delivery { batch_id, first_record, record_count, result, batch };
            self.deliveries.push_back(delivery);
        }
    }

    pub(super) fn poll_delivery(&mut self) -> Option<Delivery> {
        self.deliveries.pop_front()
    }

    /// Drops what waits for `tag`, because of `error`.
    pub(super) fn drop_queued(&mut self, tag: u64, error: &ProduceError) {
        let lane = self.lane(tag);
        let dropped: Vec<QueuedBatch> =
            self.queues.remove(&lane).into_iter().flatten().flat_map(|(_, queue)| queue).collect();
        for batch in dropped {
            self.settle(batch.tag, batch.batch, batch.report, Err(error));
        }
    }

    /// Drops everything that waits.
    pub(super) fn drop_all_queued(&mut self, error: &ProduceError) {
        for lane in self.queues.keys().copied().collect::<Vec<_>>() {
            self.drop_queued(lane, error);
        }
    }

    /// Forgets everything, because of `error`.
    pub(super) fn clear(&mut self, error: &ProduceError) {
        self.drop_all_queued(error);
        self.queues.clear();
        self.tags.clear();
    }

    /// True while another batch of `tag` fits.
    pub(super) fn has_capacity(&self, open: Option<u64>, tag: u64) -> bool {
        let class = usize::from(self.transactional && open != Some(tag));
        !self.is_full(open)[class]
    }

    /// True if a bound that was reached is no longer. To be asked after every change.
    pub(super) fn take_relief(&mut self, open: Option<u64>) -> bool {
        let full = self.is_full(open);
        let relieved = (self.full[0] && !full[0]) || (self.full[1] && !full[1]);
        self.full = full;
        relieved
    }

    fn is_full(&self, open: Option<u64>) -> [bool; 2] {
        let (mut of_open, mut of_later) = (0_usize, 0_usize);
        for (tag, state) in &self.tags {
            if !self.transactional || open == Some(*tag) {
                of_open += state.bytes;
            } else {
                of_later += state.bytes;
            }
        }
        [of_open >= self.buffer_memory, of_later >= self.buffer_memory]
    }

    const fn lane(&self, tag: u64) -> u64 {
        if self.transactional { tag } else { 0 }
    }
}
