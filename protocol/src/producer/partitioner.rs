//! Which partition a record with a key belongs to: the same as Java's default partitioner chooses.

/// The partition of `key` among `partitions` (below 1 counts as 1), bit for bit as Java's producer: murmur2, sign bit
/// cleared, modulo the number of all partitions, available or not.
#[must_use]
pub fn partition_for_key(key: &[u8], partitions: i32) -> i32 {
    i32::try_from((murmur2(key) & 0x7fff_ffff) % partitions.max(1).unsigned_abs()).unwrap_or(0)
}

/// MurmurHash2 (32 bits, little endian) with the seed that Kafka's clients use.
fn murmur2(data: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const MULTIPLIER: u32 = 0x5bd1_e995;
    const SHIFT: u32 = 24;
    // Java's lengths are 32 bits.
    let mut hash = SEED ^ u32::try_from(data.len()).unwrap_or(u32::MAX);
    let mut words = data.chunks_exact(4);
    for word in words.by_ref() {
        let word = word.iter().rev().fold(0_u32, |word, byte| word << 8 | u32::from(*byte));
        let mut mixed = word.wrapping_mul(MULTIPLIER);
        mixed ^= mixed >> SHIFT;
        mixed = mixed.wrapping_mul(MULTIPLIER);
        hash = hash.wrapping_mul(MULTIPLIER) ^ mixed;
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        hash ^= rest.iter().rev().fold(0_u32, |word, byte| word << 8 | u32::from(*byte));
        hash = hash.wrapping_mul(MULTIPLIER);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MULTIPLIER);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_equal_javas() {
        // The values that Kafka's own tests state for its Java implementation.
        for (text, expected) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(text.as_bytes()).cast_signed(), expected, "{text}");
        }
    }

    #[test]
    fn every_partition_is_in_range() {
        for partitions in 1..50 {
            for key in 0_u32..200 {
                let partition = partition_for_key(&key.to_be_bytes(), partitions);
                assert!((0..partitions).contains(&partition));
            }
        }
        assert_eq!(partition_for_key(b"", 1), 0);
    }
}
