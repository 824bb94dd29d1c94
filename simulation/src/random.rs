//! More ways to draw numbers.

use std::ops::RangeInclusive;

use crate::runtime::Random;

impl Random {
    /// The numbers of one part of a seed's history, so that one more draw there changes nothing elsewhere.
    #[must_use]
    pub fn named(seed: u64, part: &str) -> Self {
        let mut random = Self::new(seed);
        for byte in part.bytes() {
            random = Self::new(random.next() ^ u64::from(byte));
        }
        random
    }

    /// A number of the range.
    pub fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        let width = range.end().saturating_sub(*range.start()).saturating_add(1);
        range.start() + self.below(width)
    }

    /// True once in `n` times; never for 0.
    pub fn chance(&mut self, n: u32) -> bool {
        n > 0 && self.one_in(n.into())
    }

    /// One of `items`.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        let count = u64::try_from(items.len()).unwrap_or(u64::MAX);
        items.get(usize::try_from(self.below(count)).unwrap_or(0))
    }
}
