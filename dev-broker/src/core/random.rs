//! Numbers that look random and come from one seed (SplitMix64), so that one seed is one run.

use millstream_protocol::backoff::Jitter;
use uuid::Uuid;

#[derive(Clone, Debug)]
pub(crate) struct Random(Jitter);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Jitter::new(seed))
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A positive number, as fetch session ids are.
    pub(crate) fn positive_i32(&mut self) -> i32 {
        i32::try_from(self.next_u64() >> 33).unwrap_or(i32::MAX).max(1)
    }

    pub(crate) fn uuid(&mut self) -> Uuid {
        uuid::Builder::from_u128((u128::from(self.next_u64()) << 64) | u128::from(self.next_u64()))
            .with_version(uuid::Version::Random)
            .into_uuid()
    }

    /// Sixteen bytes in URL-safe base64 without padding, as Kafka writes cluster ids.
    pub(crate) fn base64_id(&mut self) -> String {
        const ALPHABET: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut bits = self.uuid().as_u128();
        let mut text = vec![0; 22];
        for (index, place) in text.iter_mut().enumerate().rev() {
            let take = if index == 21 { 2 } else { 6 };
            let value = (bits & ((1 << take) - 1)) << (6 - take);
            *place = ALPHABET[usize::try_from(value).unwrap_or(0)];
            bits >>= take;
        }
        String::from_utf8(text).unwrap_or_default()
    }
}
