//! The key and namespace that state is read and written under.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::ttl::{put_varint, take_varint};
use super::{EncodedKey, KeyGroups};

/// Key and namespace as state keys hold them behind the key group: length and bytes of the key, length and bytes of the
/// namespace. With the lengths no key is the beginning of another one.
#[derive(Debug, Default)]
pub(crate) struct CurrentKey {
    bytes: Vec<u8>,
    /// The user's key in `bytes`.
    key: std::ops::Range<usize>,
    key_hash: u64,
    /// Of key and namespace.
    hash: u64,
    key_group: u16,
}

impl CurrentKey {
    /// Sets the key, with the empty namespace.
    pub(crate) fn set(&mut self, key: EncodedKey<'_>) {
        self.bytes.clear();
        put_varint(key.bytes.len() as u64, &mut self.bytes);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key.bytes);
        self.key = start..self.bytes.len();
        self.key_hash = key.hash;
        self.key_group = key.key_group;
        self.set_namespace(&[]);
    }

    /// Sets the namespace; the key stays.
    pub(crate) fn set_namespace(&mut self, namespace: &[u8]) {
        self.bytes.truncate(self.key.end);
        put_varint(namespace.len() as u64, &mut self.bytes);
        self.bytes.extend_from_slice(namespace);
        self.hash = self.key_hash;
        if !namespace.is_empty() {
            self.hash = xxh3_64_with_seed(namespace, self.key_hash);
        }
    }

    /// Sets key and namespace to those that a state key begins with (behind its key group); gives what is left of it.
    pub(crate) fn set_stored<'b>(
        &mut self,
        key_groups: KeyGroups,
        key_group: u16,
        bytes: &'b [u8],
    ) -> Option<&'b [u8]> {
        let (key, rest) = take_bytes(bytes)?;
        let (namespace, rest) = take_bytes(rest)?;
        self.set(EncodedKey { key_group, ..key_groups.of_key(key) });
        self.set_namespace(namespace);
        Some(rest)
    }

    /// The user's key, encoded.
    pub(crate) fn key(&self) -> &[u8] {
        self.bytes.get(self.key.clone()).unwrap_or_default()
    }

    /// Key and namespace, for tables of state.
    pub(crate) fn encoded(&self) -> EncodedKey<'_> {
        EncodedKey { bytes: &self.bytes, hash: self.hash, key_group: self.key_group }
    }
}

fn take_bytes(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = take_varint(bytes)?;
    rest.split_at_checked(usize::try_from(length).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_and_namespace_are_found_again_in_a_state_key() {
        let groups = KeyGroups::new(256, 1);
        for (key, namespace) in
            [("", ""), ("a", "w"), ("key", ""), (&"k".repeat(300), &"n".repeat(200))]
        {
            let mut current = CurrentKey::default();
            current.set(groups.of_key(key.as_bytes()));
            current.set_namespace(namespace.as_bytes());
            let mut bytes = current.encoded().bytes.to_vec();
            bytes.extend_from_slice(b"rest");
            let mut again = CurrentKey::default();
            let group = current.encoded().key_group;
            assert_eq!(again.set_stored(groups, group, &bytes), Some(&b"rest"[..]));
            assert_eq!(again.key(), key.as_bytes());
            assert_eq!(again.encoded().bytes, current.encoded().bytes);
            assert_eq!(again.encoded().hash, current.encoded().hash);
        }
        let cut = CurrentKey::default().set_stored(groups, 0, &[3, b'a']);
        assert_eq!(cut, None);
    }
}
