//! Where records without a key go: to one partition until a batch is full, then to another (KIP-480, KIP-794).

use crate::backoff::Jitter;

/// Chooses partitions for records without a key. Over time every partition gets the same number of bytes, and batches
/// are full: records that wait together go to one partition.
#[derive(Debug)]
pub struct StickyPartitioner {
    batch_bytes: usize,
    current: Option<i32>,
    /// Bytes that went to the current partition.
    produced_bytes: usize,
    random: Jitter,
}

impl StickyPartitioner {
    /// A partitioner that stays with a partition for about `batch_bytes` bytes (`batch.size`). `seed` decides where it
    /// begins: producers that start together must not all begin with the same partition.
    #[must_use]
    pub fn new(batch_bytes: usize, seed: u64) -> Self {
        Self { batch_bytes, current: None, produced_bytes: 0, random: Jitter::new(seed) }
    }

    /// The partition for the next record, one of `available` (those with a leader, ascending). `None` if that is empty.
    pub fn partition(&mut self, available: &[i32]) -> Option<i32> {
        if let Some(current) = self.current
            && is_among(available, current)
        {
            return Some(current);
        }
        self.next(available)
    }

    /// A record of `bytes` bytes went to the current partition. `batch_is_full`: no further record fits into the batch it
    /// went to. The partition changes with a full batch, and after two batches' bytes in any case.
    pub fn appended(&mut self, bytes: usize, batch_is_full: bool) {
        self.produced_bytes = self.produced_bytes.saturating_add(bytes);
        let enough = self.produced_bytes >= self.batch_bytes && batch_is_full;
        if enough || self.produced_bytes >= self.batch_bytes.saturating_mul(2) {
            self.current = None;
        }
    }

    /// The open batch of the current partition was closed: the next one begins elsewhere.
    pub fn batch_closed(&mut self, partition: i32) {
        if self.current == Some(partition) && self.produced_bytes >= self.batch_bytes {
            self.current = None;
        }
    }

    fn next(&mut self, available: &[i32]) -> Option<i32> {
        self.current = available.get(self.random.below(available.len())).copied();
        self.produced_bytes = 0;
        self.current
    }
}

/// Whether `partition` is one of `available`, which ascend. Where every partition has a leader, one look is enough.
fn is_among(available: &[i32], partition: i32) -> bool {
    let at = usize::try_from(partition).ok().and_then(|index| available.get(index));
    at == Some(&partition) || available.binary_search(&partition).is_ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const AVAILABLE: [i32; 4] = [0, 2, 3, 7];

    #[test]
    fn it_stays_until_a_batch_is_full_and_never_longer_than_two() {
        let mut partitioner = StickyPartitioner::new(1000, 1);
        let first = partitioner.partition(&AVAILABLE).unwrap();
        partitioner.appended(1500, false);
        assert_eq!(partitioner.partition(&AVAILABLE), Some(first), "its batch has room");
        partitioner.appended(1, true);
        assert_eq!(partitioner.current, None, "its batch is full");
        partitioner.partition(&AVAILABLE);
        partitioner.appended(2000, false);
        assert_eq!(partitioner.current, None, "two batches' bytes");
    }

    #[test]
    fn it_leaves_a_partition_that_lost_its_leader() {
        let mut partitioner = StickyPartitioner::new(1000, 1);
        let first = partitioner.partition(&AVAILABLE).unwrap();
        let others: Vec<i32> = AVAILABLE.into_iter().filter(|other| *other != first).collect();
        assert!(others.contains(&partitioner.partition(&others).unwrap()));
        assert_eq!(partitioner.partition(&[]), None);
    }

    #[test]
    fn over_time_every_partition_gets_its_share_of_bytes() {
        let mut partitioner = StickyPartitioner::new(1000, 7);
        let mut bytes: BTreeMap<i32, usize> = BTreeMap::new();
        for record in 0..400_000_usize {
            let size = 1 + record % 190;
            *bytes.entry(partitioner.partition(&AVAILABLE).unwrap()).or_default() += size;
            partitioner.appended(size, record % 11 == 0);
        }
        let total: usize = bytes.values().sum();
        for (partition, bytes) in bytes {
            let share = bytes * 1000 / total;
            assert!((235..=265).contains(&share), "{partition} got {share} of 1000");
        }
    }
}
