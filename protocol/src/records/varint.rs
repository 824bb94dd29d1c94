//! Zigzag varints of the record format (KIP-98), read from slices and measured before writing.

/// Reads an unsigned varint of at most `max_bytes` bytes, without the bits that overflow `bits`.
#[inline]
fn read_unsigned(input: &mut &[u8], max_bytes: u32, bits: u32) -> Option<u64> {
    // Nearly every varint of a record is one byte: lengths and deltas below 64.
    let (&first, rest) = input.split_first()?;
    *input = rest;
    if first < 0x80 {
        return Some(u64::from(first));
    }
    let mut value = u64::from(first & 0x7f);
    for position in 1..max_bytes {
        let (&byte, rest) = input.split_first()?;
        *input = rest;
        let payload = u64::from(byte & 0x7f);
        let shift = position * 7;
        if payload >> (bits - shift).min(7) != 0 {
            return None;
        }
        value |= payload << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Reads a signed 32-bit varint. `None` if the input ends inside it or it does not fit.
#[inline]
pub(super) fn read_varint(input: &mut &[u8]) -> Option<i32> {
    let raw = u32::try_from(read_unsigned(input, 5, 32)?).ok()?;
    Some(((raw >> 1) as i32) ^ -((raw & 1) as i32))
}

/// Reads a signed 64-bit varint. `None` if the input ends inside it or it does not fit.
#[inline]
pub(super) fn read_varlong(input: &mut &[u8]) -> Option<i64> {
    let raw = read_unsigned(input, 10, 64)?;
    Some(((raw >> 1) as i64) ^ -((raw & 1) as i64))
}

/// Bytes that [`Prefix::varint`] writes for `value`.
#[inline]
pub(super) const fn varint_bytes(value: i32) -> usize {
    unsigned_bytes(((value << 1) ^ (value >> 31)) as u32 as u64)
}

/// Bytes that [`Prefix::varlong`] writes for `value`.
#[inline]
pub(super) const fn varlong_bytes(value: i64) -> usize {
    unsigned_bytes(((value << 1) ^ (value >> 63)) as u64)
}

/// Bytes of a varint that holds a length or count. Takes sizes of any width, so that they can be
/// compared with the format's 31 bits after the sum.
#[inline]
pub(super) const fn length_bytes(length: usize) -> usize {
    unsigned_bytes((length as u64).saturating_mul(2))
}

#[inline]
const fn unsigned_bytes(raw: u64) -> usize {
    let bits = 64 - (raw | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

/// A few small fields gathered on the stack, so that the growing buffer is touched once for all.
#[derive(Debug)]
pub(super) struct Prefix {
    bytes: [u8; Self::CAPACITY],
    len: usize,
}

impl Prefix {
    /// Room for the most that comes without bytes in between: a record's length, attributes and deltas, a key and a value
    /// that are null, the number of headers and the length of the first one's key.
    const CAPACITY: usize = 5 + 1 + 10 + 5 + 1 + 1 + 5 + 5;

    #[inline]
    pub(super) const fn new() -> Self {
        Self { bytes: [0; Self::CAPACITY], len: 0 }
    }

    /// Gathers anew.
    #[inline]
    pub(super) const fn clear(&mut self) {
        self.len = 0;
    }

    #[inline]
    pub(super) fn byte(&mut self, byte: u8) {
        debug_assert!(self.len < Self::CAPACITY, "a prefix holds one record's fixed fields");
        if let Some(slot) = self.bytes.get_mut(self.len) {
            *slot = byte;
            self.len += 1;
        }
    }

    #[inline]
    pub(super) fn varint(&mut self, value: i32) {
        self.unsigned(u64::from(((value << 1) ^ (value >> 31)) as u32));
    }

    #[inline]
    pub(super) fn varlong(&mut self, value: i64) {
        self.unsigned(((value << 1) ^ (value >> 63)) as u64);
    }

    #[inline]
    fn unsigned(&mut self, mut raw: u64) {
        while raw >= 0x80 {
            self.byte((raw as u8 & 0x7f) | 0x80);
            raw >>= 7;
        }
        self.byte(raw as u8);
    }

    #[inline]
    pub(super) fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn varints_come_back_and_take_the_announced_size(value: i32) {
            let mut prefix = Prefix::new();
            prefix.varint(value);
            prop_assert_eq!(prefix.as_slice().len(), varint_bytes(value));
            let mut input = prefix.as_slice();
            prop_assert_eq!(read_varint(&mut input), Some(value));
            prop_assert!(input.is_empty());
        }

        #[test]
        fn varlongs_come_back_and_take_the_announced_size(value: i64) {
            let mut prefix = Prefix::new();
            prefix.varlong(value);
            prop_assert_eq!(prefix.as_slice().len(), varlong_bytes(value));
            let mut input = prefix.as_slice();
            prop_assert_eq!(read_varlong(&mut input), Some(value));
            prop_assert!(input.is_empty());
        }
    }

    #[test]
    fn the_extremes_take_the_full_width() {
        assert_eq!((varint_bytes(i32::MIN), varint_bytes(i32::MAX)), (5, 5));
        assert_eq!((varlong_bytes(i64::MIN), varlong_bytes(i64::MAX)), (10, 10));
        assert_eq!((varint_bytes(-1), varint_bytes(63), varint_bytes(64)), (1, 1, 2));
    }

    #[test]
    fn varints_that_are_cut_or_too_wide_are_refused() {
        assert_eq!(read_varint(&mut [].as_slice()), None);
        assert_eq!(read_varint(&mut [0x80, 0x80].as_slice()), None);
        assert_eq!(read_varint(&mut [0xff, 0xff, 0xff, 0xff, 0x10].as_slice()), None);
        assert_eq!(read_varint(&mut [0x80, 0x80, 0x80, 0x80, 0x80, 0x00].as_slice()), None);
        let mut too_wide = [0xff; 10];
        too_wide[9] = 0x02;
        assert_eq!(read_varlong(&mut too_wide.as_slice()), None);
    }
}
