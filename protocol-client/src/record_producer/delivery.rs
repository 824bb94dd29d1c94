//! What became of a record: one shared fate per batch.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millstream_protocol::TopicPartition;
use millstream_protocol::producer::Delivered;
use millstream_protocol::transaction::ProduceError;
use tokio::sync::Notify;

use super::RecordMetadata;

/// The promise of an answer for one record. May be dropped: the record is written all the same. Costs a reference to its
/// batch's fate, no memory of the record.
#[derive(Debug)]
pub struct Delivery {
    pub(super) fate: Arc<BatchFate>,
    pub(super) batch_index: i32,
}

impl Delivery {
    /// The partition that the record was given to.
    #[must_use]
    pub fn topic_partition(&self) -> &TopicPartition {
        &self.fate.topic_partition
    }

    /// Waits until all in-sync replicas have acknowledged the record, or it failed. A batch waits up to `linger.ms` for
    /// others first, then up to `delivery.timeout.ms` for its acknowledgement; a record of a transaction is visible only
    /// once that is committed.
    ///
    /// # Errors
    ///
    /// Why it was not written, as far as known: after `delivery.timeout.ms` ([`ProduceError::Abortable`] with
    /// [`AbortCause::DeliveryTimedOut`](millstream_protocol::transaction::AbortCause::DeliveryTimedOut), also without a
    /// transaction) it may have been all the same.
    pub async fn wait(self) -> Result<RecordMetadata, ProduceError> {
        loop {
            let told = self.fate.told.notified();
            if let Some(result) = self.fate.of_record(self.batch_index) {
                return result;
            }
            told.await;
        }
    }
}

/// The fate of one batch, told in parts if the broker takes it only in parts.
#[derive(Debug)]
pub(super) struct BatchFate {
    topic_partition: TopicPartition,
    /// Batches of the partition that were handed over and are not settled.
    under_way: Arc<AtomicUsize>,
    parts: Mutex<Vec<Part>>,
    told: Notify,
}

#[derive(Debug)]
struct Part {
    first_record: i32,
    record_count: i32,
    result: Result<Delivered, ProduceError>,
}

impl BatchFate {
    pub(super) fn new(topic_partition: TopicPartition, under_way: Arc<AtomicUsize>) -> Self {
        Self { topic_partition, under_way, parts: Mutex::default(), told: Notify::new() }
    }

    /// The batch is about to be handed over.
    pub(super) fn begin(&self) {
        self.under_way.fetch_add(1, Ordering::Relaxed);
    }

    /// Everything was told.
    pub(super) fn end(&self) {
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }

    /// The fate of `record_count` records from `first_record` on.
    pub(super) fn tell(
        &self,
        first_record: i32,
        record_count: i32,
        result: Result<Delivered, ProduceError>,
    ) {
        self.parts().push(Part { first_record, record_count, result });
        self.told.notify_waiters();
    }

    fn of_record(&self, index: i32) -> Option<Result<RecordMetadata, ProduceError>> {
        let parts = self.parts();
        let part = parts.iter().find(|part| {
            index
                .checked_sub(part.first_record)
                .is_some_and(|at| (0..part.record_count).contains(&at))
        })?;
        Some(part.result.clone().map(|delivered| {
            RecordMetadata {
                topic_partition: self.topic_partition.clone(),
                offset: delivered
                    .base_offset
                    .map(|base| base.saturating_add(i64::from(index - part.first_record))),
                log_append_time_ms: delivered.log_append_time_ms,
            }
        }))
    }

    fn parts(&self) -> MutexGuard<'_, Vec<Part>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivered(base_offset: i64) -> Delivered {
        Delivered { base_offset: Some(base_offset), log_append_time_ms: None }
    }

    #[tokio::test]
    async fn every_record_finds_the_part_that_it_is_in() {
        let fate = Arc::new(BatchFate::new(TopicPartition::new("t", 3), Arc::default()));
        let delivery = |batch_index| Delivery { fate: Arc::clone(&fate), batch_index };
        fate.tell(2, 3, Ok(delivered(100)));
        fate.tell(0, 2, Ok(delivered(40)));
        let mut offsets = Vec::new();
        for index in 0..5 {
            offsets.push(delivery(index).wait().await.map(|at| at.offset));
        }
        assert_eq!(offsets, [40, 41, 100, 101, 102].map(|offset| Ok(Some(offset))));
        assert_eq!(fate.of_record(5), None);
    }

    #[tokio::test]
    async fn who_waits_is_told() {
        let fate = Arc::new(BatchFate::new(TopicPartition::new("t", 3), Arc::default()));
        let waiting = tokio::spawn(Delivery { fate: Arc::clone(&fate), batch_index: 0 }.wait());
        tokio::task::yield_now().await;
        fate.tell(0, 1, Ok(delivered(7)));
        assert_eq!(waiting.await.map(|told| told.map(|at| at.offset)).ok(), Some(Ok(Some(7))));
    }
}
