//! Which batches a read_committed reader sees (KIP-98).

use std::collections::BTreeSet;

use super::batch_header::BatchHeader;
use super::control_record::ControlRecordType;

/// One entry of a Fetch response's `aborted_transactions`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AbortedTransaction {
    /// The producer whose transaction was aborted.
    pub producer_id: i64,
    /// Offset of the transaction's first record in this partition, or of its marker if none.
    pub first_offset: i64,
}

/// What to do with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Visibility {
    /// Deliver its records.
    Visible,
    /// Deliver nothing; the position still moves past it.
    Skip,
}

/// Decides batch by batch, from headers and markers alone: nothing is decompressed for a batch
/// that is skipped.
///
/// Serves the batches of one response, in order. The broker sends the list of aborted transactions
/// that matter for these batches with each response, so nothing carries over to the next.
#[derive(Clone, Debug)]
pub struct ReadCommittedFilter {
    /// Not yet begun, the first of them last.
    upcoming: Vec<AbortedTransaction>,
    /// Producers inside an aborted transaction.
    aborting: BTreeSet<i64>,
}

impl ReadCommittedFilter {
    /// A filter for the batches that came with `aborted`, which may be in any order: Kafka sorts
    /// by offset, Redpanda does not.
    #[must_use]
    pub fn new(mut aborted: Vec<AbortedTransaction>) -> Self {
        aborted.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.first_offset));
        Self { upcoming: aborted, aborting: BTreeSet::new() }
    }

    /// What to do with the next batch. `marker` is what its control record says, `None` for data
    /// and for control batches that compaction has emptied.
    ///
    /// The epoch plays no part: with transaction version 2 (KIP-890) the marker's is one above
    /// that of the data.
    pub fn classify(
        &mut self,
        header: &BatchHeader,
        marker: Option<ControlRecordType>,
    ) -> Visibility {
        let last_offset = header.last_offset();
        while let Some(entry) = self.upcoming.pop_if(|entry| entry.first_offset <= last_offset) {
            self.aborting.insert(entry.producer_id);
        }
        // KIP-98: markers end transactions and are never delivered themselves.
        if header.is_control() {
            if marker == Some(ControlRecordType::Abort) {
                // Absent if the transaction began before the fetched offset: nothing to end then.
                self.aborting.remove(&header.producer_id);
            }
            return Visibility::Skip;
        }
        if header.is_transactional() && self.aborting.contains(&header.producer_id) {
            Visibility::Skip
        } else {
            Visibility::Visible
        }
    }
}
