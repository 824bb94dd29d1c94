//! LZ4 blocks (block format description of 2022): finding and writing what repeats.
//!
//! Records are compressed on the way of every byte that is produced, so this is where a producer's time goes. What it does
//! otherwise than the general encoder of `lz4_flex` (whose decoder serves us): it hurries through bytes that do not repeat.
//! Records mix what repeats (names, structure) with what never does (ids, hashes, numbers), and looking at every position
//! of the latter is most of the work. A repetition that was jumped into is followed back to where it began.

/// Where sequences were seen last, by hash. Kept between blocks for its memory.
#[derive(Debug)]
pub(super) struct MatchTable {
    slots: Box<[u16; SLOTS]>,
}

impl MatchTable {
    pub(super) fn new() -> Self {
        Self { slots: Box::new([0; SLOTS]) }
    }

    /// Notes that the sequence which `word` begins with is at `at`; gives where it may have been before.
    #[inline]
    fn replace(&mut self, word: u64, at: usize) -> usize {
        // Five bytes: four of them are found again by chance too often where text is hexadecimal.
        let hash = ((word << 24).wrapping_mul(PRIME) >> (64 - SLOT_BITS)) as usize;
        // A hash has just as many bits as there are slots.
        let slot = &mut self.slots[hash % SLOTS];
        usize::from(std::mem::replace(slot, at as u16))
    }
}

/// Appends `input`, at most [`BLOCK_BYTES`], to `output` as one block. It is a little larger than `input` if nothing repeats.
pub(super) fn compress(table: &mut MatchTable, input: &[u8], output: &mut Vec<u8>) {
    debug_assert!(input.len() <= BLOCK_BYTES, "positions are 16 bits");
    output.reserve(input.len() + input.len() / 255 + 16);
    table.slots.fill(0);
    // Everything before it is written.
    let mut anchor = 0;
    while let Some(found) = find(table, input, anchor) {
        let Match { at, earlier, length } = found;
        let literals = input.get(anchor..at).unwrap_or_default();
        write_sequence(output, literals, (at - earlier) as u16, length);
        anchor = at + length;
        // The next repetition may well begin where this one ends: remember the way there.
        if let Some(word) = word_at(input, anchor - 2) {
            table.replace(word, anchor - 2);
        }
    }
    let rest = input.get(anchor..).unwrap_or_default();
    write_literals(output, rest, 0);
}

/// Bytes that were there before.
#[derive(Clone, Copy, Debug)]
struct Match {
    at: usize,
    earlier: usize,
    length: usize,
}

/// The next repetition that begins at `anchor` or behind it.
#[inline]
fn find(table: &mut MatchTable, input: &[u8], anchor: usize) -> Option<Match> {
    // The format's rules: a match begins at least 12 bytes before the end, and the last 5 bytes are literals.
    let last_start = input.len().checked_sub(END_OF_MATCHES)?;
    let matchable = input.get(..input.len() - LAST_LITERALS)?;
    let mut at = anchor;
    let mut tried = 1 << PATIENCE_BITS;
    while at <= last_start {
        let word = word_at(input, at)?;
        let earlier = table.replace(word, at);
        // The first position's neighbour in the table is itself.
        if earlier < at && input.get(earlier..)?.first_chunk() == Some(&first_four(word)) {
            let rest = matchable.get(at + MIN_MATCH..)?;
            let length = MIN_MATCH + common(input.get(earlier + MIN_MATCH..)?, rest);
            let (seen, new) = (input.get(..earlier)?, input.get(anchor..at)?);
            let back = common_back(seen, new);
            return Some(Match { at: at - back, earlier: earlier - back, length: length + back });
        }
        at += tried >> PATIENCE_BITS;
        tried += 1;
    }
    None
}

#[inline]
fn word_at(input: &[u8], at: usize) -> Option<u64> {
    input.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

#[inline]
const fn first_four(word: u64) -> [u8; 4] {
    (word as u32).to_le_bytes()
}

/// How many bytes both begin with.
#[inline]
fn common(a: &[u8], b: &[u8]) -> usize {
    let mut same = 0;
    for (a, b) in a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0) {
        let differ = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differ != 0 {
            return same + (differ.trailing_zeros() / 8) as usize;
        }
        same += 8;
    }
    let rest = a.iter().zip(b).skip(same);
    same + rest.take_while(|(a, b)| a == b).count()
}

/// How many bytes both end with.
#[inline]
fn common_back(a: &[u8], b: &[u8]) -> usize {
    a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count()
}

/// A run of literals, then a repetition of `length` bytes, `offset` bytes back.
#[inline]
fn write_sequence(output: &mut Vec<u8>, literals: &[u8], offset: u16, length: usize) {
    let more = length - MIN_MATCH;
    write_literals(output, literals, more.min(15) as u8);
    output.extend_from_slice(&offset.to_le_bytes());
    if more >= 15 {
        write_length(output, more - 15);
    }
}

/// A token, whose lower half is `match_bits`, and literals.
#[inline]
fn write_literals(output: &mut Vec<u8>, literals: &[u8], match_bits: u8) {
    let count = literals.len();
    output.push((count.min(15) as u8) << 4 | match_bits);
    if count >= 15 {
        write_length(output, count - 15);
    }
    output.extend_from_slice(literals);
}

/// What a token's four bits do not hold of a length.
#[inline]
fn write_length(output: &mut Vec<u8>, mut length: usize) {
    while length >= 255 {
        output.push(255);
        length -= 255;
    }
    output.push(length as u8);
}

/// The largest block that this encoder writes.
pub(super) const BLOCK_BYTES: usize = 64 * 1024;

const SLOT_BITS: u32 = 12;
const SLOTS: usize = 1 << SLOT_BITS;
/// Spreads five bytes over the upper bits.
const PRIME: u64 = 889_523_592_379;
const MIN_MATCH: usize = 4;
const END_OF_MATCHES: usize = 12;
const LAST_LITERALS: usize = 5;
/// After `1 << PATIENCE_BITS` positions in vain, every second one is tried, after as many again every third, and so on.
const PATIENCE_BITS: u32 = 4;

#[cfg(test)]
mod tests {
    use lz4_flex::block::decompress_into;
    use proptest::prelude::*;

    use super::*;

    fn compressed(input: &[u8]) -> Vec<u8> {
        let mut output = b"before".to_vec();
        let mut table = MatchTable::new();
        // What is left in the table from another block does not matter.
        compress(&mut table, &[b'x'; 3000], &mut Vec::new());
        compress(&mut table, input, &mut output);
        assert!(output.starts_with(b"before"));
        output.split_off(6)
    }

    fn assert_comes_back(input: &[u8]) {
        let block = compressed(input);
        let mut output = vec![0; input.len()];
        assert_eq!(decompress_into(&block, &mut output).unwrap(), input.len());
        assert!(output == input, "{} bytes", input.len());
        assert!(block.len() <= input.len() + input.len() / 255 + 16);
    }

    #[test]
    fn every_length_comes_back_whether_it_repeats_or_not() {
        let mut random = 1_u64;
        let mut noise = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 56) as u8
        };
        for length in (0..600).chain([4096, 65_000, BLOCK_BYTES - 1, BLOCK_BYTES]) {
            assert_comes_back(&vec![b'a'; length]);
            let pattern = b"flight UA1545 landed; ".iter().copied().cycle();
            assert_comes_back(&pattern.take(length).collect::<Vec<u8>>());
            assert_comes_back(
                &std::iter::repeat_with(&mut noise).take(length).collect::<Vec<u8>>(),
            );
        }
    }

    #[test]
    fn a_repetition_behind_noise_is_found_from_its_beginning() {
        let text =
            b"a sentence that is long enough to be found again, though there is noise before it";
        let mut input = text.to_vec();
        input.extend((0..400_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()));
        input.extend_from_slice(text);
        input.extend_from_slice(b"the last bytes");
        assert_comes_back(&input);
        let expected = input.len() - text.len() + 20;
        assert!(compressed(&input).len() < expected, "{} bytes", compressed(&input).len());
    }

    proptest! {
        #[test]
        fn whatever_is_compressed_comes_back(
            words in prop::collection::vec(prop::collection::vec(0..4_u8, 1..40), 1..12),
            order in prop::collection::vec(any::<prop::sample::Index>(), 0..400),
        ) {
            let input: Vec<u8> =
                order.iter().flat_map(|index| index.get(&words).iter().copied()).collect();
            assert_comes_back(input.get(..BLOCK_BYTES).unwrap_or(&input));
        }
    }
}
