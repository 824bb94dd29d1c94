//! One state's part of the bytes that the workers have changed since the last barrier.

use millstream_checkpoint::DirtyBytes;

/// Bytes that are counted here before they are told: one atomic addition for many changes.
const TOLD_BYTES: usize = 16 << 10;

/// Counts changes of one state. What it has told is taken off again when it is dropped: a rolled back attempt leaves nothing.
#[derive(Debug)]
pub(crate) struct DirtyCount {
    shared: DirtyBytes,
    told: usize,
    untold: usize,
}

impl DirtyCount {
    pub(crate) fn new(shared: DirtyBytes) -> Self {
        Self { shared, told: 0, untold: 0 }
    }

    pub(crate) fn add(&mut self, bytes: usize) {
        self.untold += bytes;
        if self.untold >= TOLD_BYTES {
            self.shared.add(self.untold);
            self.told += std::mem::take(&mut self.untold);
        }
    }

    /// A barrier has passed: nothing is dirty any more.
    pub(crate) fn frozen(&mut self) {
        self.shared.remove(std::mem::take(&mut self.told));
        self.untold = 0;
    }
}

impl Drop for DirtyCount {
    fn drop(&mut self) {
        self.frozen();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_taken_off_at_the_barrier_and_when_it_is_dropped() {
        let shared = DirtyBytes::default();
        let (mut one, mut other) =
            (DirtyCount::new(shared.clone()), DirtyCount::new(shared.clone()));
        one.add(TOLD_BYTES);
        other.add(TOLD_BYTES + 5);
        one.add(7);
        assert_eq!(shared.bytes(), 2 * TOLD_BYTES + 5);
        one.frozen();
        assert_eq!(shared.bytes(), TOLD_BYTES + 5);
        drop(other);
        assert_eq!(shared.bytes(), 0);
    }
}
