//! From a valid message to one that no honest peer sends.

use millstream_protocol::backoff::Jitter;

/// The same seed gives the same damage on every machine.
#[derive(Clone, Debug)]
pub struct Random(Jitter);

impl Random {
    /// A sequence of its own for each seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(Jitter::new(seed))
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`; 0 if there is none.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound)
    }

    /// True once in `times`.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Any bytes.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.number().to_le_bytes()[0]).collect()
    }
}

/// A way to spoil a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Damage {
    /// Nothing of the message is left.
    Random,
    /// The end is missing.
    Truncated,
    /// Some bits are others.
    BitFlipped,
    /// What may be a length claims far more, or less than nothing.
    LengthBombed,
    /// A piece comes twice, is missing, or has another after it.
    Spliced,
}

impl Damage {
    /// Every way.
    pub const ALL: [Self; 5] =
        [Self::Random, Self::Truncated, Self::BitFlipped, Self::LengthBombed, Self::Spliced];
}

/// Spoils `message`, leaving its first `spared` bytes as they are.
#[must_use]
pub fn damage(random: &mut Random, message: &[u8], spared: usize, how: Damage) -> Vec<u8> {
    let spared = spared.min(message.len());
    let mut spoiled = message.to_vec();
    let length = message.len() - spared;
    let place = |random: &mut Random| spared + random.below(length);
    match how {
        Damage::Random => {
            spoiled.truncate(spared);
            let length = random.below(2 * length + 32);
            spoiled.extend(random.bytes(length));
        }
        Damage::Truncated => spoiled.truncate(place(random)),
        Damage::BitFlipped if length > 0 => {
            for _ in 0..=random.below(3) {
                let bit = random.below(8);
                spoiled[place(random)] ^= 1 << bit;
            }
        }
        Damage::LengthBombed if length > 0 => {
            for _ in 0..=random.below(2) {
                let bomb = bomb(random);
                let at = place(random).min(spoiled.len());
                // A varint grows, a number of fixed width does not.
                let replaced = if random.one_in(2) { 1 } else { bomb.len() };
                let end = (at + replaced).min(spoiled.len());
                spoiled.splice(at..end, bomb);
            }
        }
        Damage::BitFlipped | Damage::LengthBombed => {}
        Damage::Spliced => {
            let (from, to) = (place(random), place(random));
            let piece = spoiled[from.min(to)..from.max(to)].to_vec();
            let at = place(random);
            match random.below(3) {
                0 => drop(spoiled.drain(from.min(to)..from.max(to))),
                1 => drop(spoiled.splice(at..at, piece)),
                _ => spoiled.extend(piece),
            }
        }
    }
    spoiled
}

/// The bytes of a length that is too large, negative, or written longer than allowed.
fn bomb(random: &mut Random) -> Vec<u8> {
    const NUMBERS: [i32; 8] =
        [i32::MAX, i32::MIN, -1, -2, 54_265_856, 100 << 20, 64 << 20, 2_000_000_000];
    const VARINTS: [&[u8]; 7] = [
        &[0xff, 0xff, 0xff, 0xff, 0x0f],
        &[0xff, 0xff, 0xff, 0xff, 0x07],
        &[0x81, 0xd0, 0xac, 0xf3, 0x0e],
        &[0x80, 0x80, 0x80, 0x20],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01],
        &[0xff, 0x7f],
    ];
    const SHORTS: [i16; 4] = [i16::MAX, i16::MIN, -1, -2];
    match random.below(4) {
        0 | 1 => NUMBERS[random.below(NUMBERS.len())].to_be_bytes().to_vec(),
        2 => VARINTS[random.below(VARINTS.len())].to_vec(),
        _ => SHORTS[random.below(SHORTS.len())].to_be_bytes().to_vec(),
    }
}

/// Sets length, magic and checksum of a record batch (format 2), which damage would never find.
pub fn seal_as_one_batch(batch: &mut [u8]) {
    if batch.len() < 61 {
        return;
    }
    let length = u32::try_from(batch.len() - 12).expect("inputs are small");
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    batch[16] = 2;
    let checksum = crc32c::crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&checksum.to_be_bytes());
}

/// Sets length and checksum of a message of the formats before (0 and 1).
pub(crate) fn seal_as_one_message(message: &mut [u8]) {
    if message.len() < 26 {
        return;
    }
    let length = u32::try_from(message.len() - 12).expect("inputs are small");
    message[8..12].copy_from_slice(&length.to_be_bytes());
    message[16] &= 1;
    // CRC-32 (IEEE) by its definition.
    let mut checksum = u32::MAX;
    for byte in &message[16..] {
        checksum ^= u32::from(*byte);
        for _ in 0..8 {
            checksum = (checksum >> 1) ^ (0xedb8_8320 & (checksum & 1).wrapping_neg());
        }
    }
    message[12..16].copy_from_slice(&(!checksum).to_be_bytes());
}
