//! What one worker sends another over a keyed exchange: elements and their encoded keys.

use crate::coordinator::fault::{Mutant, mutant};
use crate::state::EncodedKey;

/// Elements with their keys. The keys lie encoded in one buffer: the receiver finds its state by them and decodes a key
/// only where it needs the key itself, so that no key is allocated on one thread and freed on another.
#[derive(Debug)]
pub(crate) struct KeyedBatch<T> {
    elements: Vec<Sent<T>>,
    keys: Vec<u8>,
}

#[derive(Debug)]
struct Sent<T> {
    element: T,
    timestamp: i64,
    key_hash: u64,
    key_group: u16,
    /// The key ends here in `keys`; it begins where that of the element before ends.
    key_end: u32,
}

/// One element at the worker that owns its key.
#[derive(Debug)]
pub(crate) struct KeyedElement<'k, T> {
    pub(crate) key: EncodedKey<'k>,
    pub(crate) element: T,
    pub(crate) timestamp: i64,
}

impl<T> Default for KeyedBatch<T> {
    fn default() -> Self {
        Self { elements: Vec::new(), keys: Vec::new() }
    }
}

impl<T> KeyedBatch<T> {
    pub(crate) fn push(&mut self, key: EncodedKey<'_>, element: T, timestamp: i64) {
        self.keys.extend_from_slice(key.bytes);
        // A batch is flushed long before its keys have 4 GiB; see `is_full`.
        let key_end = u32::try_from(self.keys.len()).unwrap_or(u32::MAX);
        let (key_hash, key_group) = (key.hash, key.key_group);
        self.elements.push(Sent { element, timestamp, key_hash, key_group, key_end });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// Whether it should be sent now.
    pub(crate) fn is_full(&self) -> bool {
        self.elements.len() >= ELEMENTS_MAX || self.keys.len() >= KEY_BYTES_MAX
    }

    /// Inline size of the elements, their keys, and a guess for what an element owns on the heap. The bound of a channel
    /// is about latency and memory of the order of magnitude; measuring every element would cost more than moving it.
    pub(crate) fn estimated_bytes(&self) -> usize {
        self.keys.len() + self.elements.len() * (size_of::<Sent<T>>() + HEAP_BYTES_GUESS)
    }

    /// Gives out the elements in the order in which they were pushed.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = KeyedElement<'_, T>> {
        if mutant(Mutant::ExchangeOutOfOrder) {
            self.swap_neighbours();
        }
        let keys = self.keys.as_slice();
        let mut key_start = 0;
        self.elements.drain(..).map(move |sent| {
            let key_end = sent.key_end as usize;
            let bytes = keys.get(key_start..key_end).unwrap_or_default();
            key_start = key_end;
            let key = EncodedKey { bytes, hash: sent.key_hash, key_group: sent.key_group };
            KeyedElement { key, element: sent.element, timestamp: sent.timestamp }
        })
    }

    /// The mutant: elements of one key that lie side by side change places.
    fn swap_neighbours(&mut self) {
        for pair in self.elements.chunks_exact_mut(2) {
            if let [first, second] = pair
                && first.key_hash == second.key_hash
            {
                std::mem::swap(&mut first.element, &mut second.element);
            }
        }
    }

    /// Empties it; the memory stays for the next use.
    pub(crate) fn clear(&mut self) {
        self.elements.clear();
        self.keys.clear();
    }
}

/// Largest number of elements in one batch.
const ELEMENTS_MAX: usize = 512;

/// Keys of so many bytes fill a batch. One key may overshoot.
const KEY_BYTES_MAX: usize = 64 << 10;

const HEAP_BYTES_GUESS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::KeyGroups;

    #[test]
    fn elements_come_out_with_their_own_keys_and_memory_is_used_again() {
        let groups = KeyGroups::new(256, 2);
        let mut batch = KeyedBatch::default();
        for round in 0..3 {
            for (index, key) in ["a", "", "long key", "a"].into_iter().enumerate() {
                batch.push(groups.of_key(key.as_bytes()), (round, index), 7);
            }
            let keys: Vec<_> =
                batch.drain().map(|sent| (sent.key.bytes.to_vec(), sent.element)).collect();
            let expected = ["a", "", "long key", "a"].map(|key| key.as_bytes().to_vec());
            let expected: Vec<_> = expected
                .into_iter()
                .enumerate()
                .map(|(index, key)| (key, (round, index)))
                .collect();
            assert_eq!(keys, expected);
            batch.clear();
            assert!(batch.is_empty() && batch.elements.capacity() > 0);
        }
    }

    #[test]
    fn a_batch_is_full_by_elements_or_by_bytes_of_keys() {
        let groups = KeyGroups::new(256, 2);
        let mut batch = KeyedBatch::default();
        batch.push(groups.of_key(&vec![0; KEY_BYTES_MAX]), (), 0);
        assert!(batch.is_full());
        batch.clear();
        for _ in 0..ELEMENTS_MAX {
            assert!(!batch.is_full());
            batch.push(groups.of_key(b"a"), (), 0);
        }
        assert!(batch.is_full());
    }
}
