//! CRC-32C of two pieces from those of each, without reading the pieces again.

/// The checksum of `a` followed by `b`, which has `b_bytes` bytes, from their checksums.
///
/// A checksum is a polynomial modulo the generator, and to append bytes is to multiply it by a power of x. Powers are put
/// together from squares, so this takes a microsecond whatever the length; by matrices, as the `crc32c` crate does it,
/// it takes as long as reading a mebibyte.
pub(super) fn combine(a: u32, b: u32, b_bytes: usize) -> u32 {
    let mut shifted = a;
    let mut left = b_bytes;
    for square in SQUARES {
        if left == 0 {
            break;
        }
        if left & 1 == 1 {
            shifted = multiply(square, shifted);
        }
        left >>= 1;
    }
    shifted ^ b
}

/// x to the power of 8, 16, 32, 64 …: what 1, 2, 4, 8 … bytes behind it do to a checksum.
const SQUARES: [u32; 40] = {
    let mut squares = [0; 40];
    // The highest bit is the lowest power: x to the 8.
    let mut square = 1_u32 << (31 - 8);
    let mut index = 0;
    while index < squares.len() {
        squares[index] = square;
        square = multiply(square, square);
        index += 1;
    }
    squares
};

/// The product of two polynomials, modulo the generator. The highest bit is the lowest power.
const fn multiply(a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    let mut bit = 1_u32 << 31;
    while bit != 0 {
        if a & bit != 0 {
            product ^= b;
        }
        bit >>= 1;
        b = if b & 1 == 1 { (b >> 1) ^ GENERATOR } else { b >> 1 };
    }
    product
}

/// Castagnoli's polynomial, its bits reversed.
const GENERATOR: u32 = 0x82f6_3b78;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_checksum_of_two_pieces_is_that_of_the_whole(
            a in prop::collection::vec(any::<u8>(), 0..200),
            b in prop::collection::vec(any::<u8>(), 0..5000),
        ) {
            let whole = crc32c::crc32c(&[a.as_slice(), b.as_slice()].concat());
            prop_assert_eq!(combine(crc32c::crc32c(&a), crc32c::crc32c(&b), b.len()), whole);
        }

        #[test]
        fn lengths_of_any_size_are_appended(a: u32, b: u32, b_bytes in 0..usize::MAX >> 24) {
            prop_assert_eq!(combine(a, b, b_bytes), crc32c::crc32c_combine(a, b, b_bytes));
        }
    }
}
