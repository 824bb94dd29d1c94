//! Which worker owns a key: key → key group → contiguous range of key groups per worker.

use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64;

/// The job's key groups and how they are spread over its workers. The number of key groups is fixed for the life of a
/// job's state; the number of workers may change with every start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyGroups {
    max_parallelism: u16,
    parallelism: usize,
}

impl KeyGroups {
    /// `max_parallelism` key groups over `parallelism` workers; both are raised to 1 if they are 0.
    #[must_use]
    pub fn new(max_parallelism: u16, parallelism: usize) -> Self {
        Self { max_parallelism: max_parallelism.max(1), parallelism: parallelism.max(1) }
    }

    /// An encoded key with its key group, hashed once for all that follows.
    pub(crate) fn of_key(self, encoded_key: &[u8]) -> EncodedKey<'_> {
        let hash = xxh3_64(encoded_key);
        let key_group = u16::try_from(hash % u64::from(self.max_parallelism)).unwrap_or(0);
        EncodedKey { bytes: encoded_key, hash, key_group }
    }

    /// The worker that owns `key_group`.
    #[must_use]
    pub fn worker_of(self, key_group: u16) -> usize {
        usize::from(key_group) * self.parallelism / usize::from(self.max_parallelism)
    }

    /// The key groups that `worker` owns.
    #[must_use]
    pub fn range_of(self, worker: usize) -> Range<u16> {
        let first = |worker: usize| {
            let groups = (worker * usize::from(self.max_parallelism)).div_ceil(self.parallelism);
            u16::try_from(groups).unwrap_or(self.max_parallelism).min(self.max_parallelism)
        };
        first(worker)..first(worker + 1)
    }
}

/// A key as state is addressed: its encoded bytes. Two keys are the same if these are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EncodedKey<'k> {
    pub(crate) bytes: &'k [u8],
    /// xxh3 of `bytes`.
    pub(crate) hash: u64,
    /// The key group, which is taken from the low bits of `hash`.
    pub(crate) key_group: u16,
}

impl EncodedKey<'_> {
    /// The hash for tables within one worker. The bits that chose the worker are alike for all keys there and must not
    /// choose the bucket as well.
    pub(crate) fn table_hash(&self) -> u64 {
        self.hash.rotate_right(16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_group_has_the_one_owner_that_its_range_says() {
        for max_parallelism in [1, 2, 7, 128, 256, 1000] {
            for parallelism in 1..=usize::from(max_parallelism).min(17) {
                let groups = KeyGroups::new(max_parallelism, parallelism);
                let ranges = (0..parallelism)
                    .flat_map(|worker| groups.range_of(worker).map(move |group| (group, worker)));
                let owners = (0..max_parallelism).map(|group| (group, groups.worker_of(group)));
                assert!(ranges.eq(owners), "{max_parallelism} over {parallelism}");
            }
        }
    }
}
