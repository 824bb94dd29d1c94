//! The values that every client writes, and the sum by which it is known that each has seen the same ones.
//!
//! The peers' programs make the same values in the same order (`bench/peers/`); change them together.

use serde::{Deserialize, Serialize};

/// Values that compress about as real records do: half random hexadecimal digits, half one of 64 texts.
#[derive(Debug)]
pub(crate) struct Values {
    bytes: Vec<u8>,
    size: usize,
}

impl Values {
    /// So many that none repeats within the window of LZ4, 64 KiB.
    const COUNT: u64 = 8192;
    const TEMPLATES: u64 = 64;

    /// Values of `size` bytes.
    pub(crate) fn new(size: usize) -> Self {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        let mut bytes = Vec::with_capacity(size * 8192);
        for _ in 0..Self::COUNT {
            let mut digits = 0;
            for at in 0..size / 2 {
                if at % 16 == 0 {
                    digits = next();
                }
                bytes.extend(char::from_digit((digits & 15) as u32, 16).map(|digit| digit as u8));
                digits >>= 4;
            }
            let template = next() % Self::TEMPLATES;
            let text = 0..(size - size / 2) as u64;
            bytes.extend(
                text.map(|at| b'a' + ((template * 31 + at * 17 + at * at % 13) % 26) as u8),
            );
        }
        Self { bytes, size }
    }

    /// The value of record `n`.
    pub(crate) fn at(&self, n: u64) -> &[u8] {
        let at = (n % Self::COUNT) as usize * self.size;
        self.bytes.get(at..at + self.size).unwrap_or_default()
    }
}

/// What was read or written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) records: u64,
    bytes: u64,
    checksum: u64,
}

impl Tally {
    /// Counts a value. Its first and last eight bytes are read, so that it was really there.
    #[inline]
    pub(crate) fn add(&mut self, value: &[u8]) {
        self.records += 1;
        self.bytes += value.len() as u64;
        let word = |bytes: Option<&[u8; 8]>| bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let (first, last) = (word(value.first_chunk()), word(value.last_chunk()));
        self.checksum = self.checksum.wrapping_add(first).wrapping_add(last.wrapping_mul(31));
    }

    /// What a client that did this prints.
    pub(crate) fn outcome(&self, seconds: f64) -> Outcome {
        Outcome {
            records: self.records,
            bytes: self.bytes,
            checksum: format!("{:016x}", self.checksum),
            seconds,
        }
    }

    /// Of the first `records` values.
    pub(crate) fn of(values: &Values, records: u64) -> Self {
        let mut tally = Self::default();
        (0..records).for_each(|n| tally.add(values.at(n)));
        tally
    }
}

/// What every client prints at its end, as one line of JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) records: u64,
    pub(crate) bytes: u64,
    pub(crate) checksum: String,
    /// From the first record (consumers) or the first call (producers) to the last record or its acknowledgement.
    pub(crate) seconds: f64,
}

impl Outcome {
    /// Whether both saw the same records.
    pub(crate) fn agrees_with(&self, other: &Self) -> bool {
        (self.records, self.bytes, &self.checksum) == (other.records, other.bytes, &other.checksum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_peers() {
        // What the peers' programs print for 10,000 records.
        for (size, checksum) in [(100, "6906b4c491ab3d68"), (1024, "7e18f445c9d3b2f4")] {
            let outcome = Tally::of(&Values::new(size), 10_000).outcome(0.0);
            assert_eq!(
                (outcome.bytes, outcome.checksum.as_str()),
                (size as u64 * 10_000, checksum)
            );
        }
    }
}
