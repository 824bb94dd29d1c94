//! What consumers tell each other through a classic group (`ConsumerProtocolSubscription` and `…Assignment`, versions 0
//! to 3): only what a description shows. Newer versions add to the end.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use millstream_protocol::TopicPartition;
use millstream_protocol::wire::Reader;

/// The topics of a subscription; `None` if the bytes are none.
pub(super) fn subscribed_topics(bytes: Bytes) -> Option<BTreeSet<String>> {
    let mut reader = Reader::new(bytes);
    let _version = reader.i16().ok().filter(|version| *version >= 0)?;
    let topics = reader.elements(false, 2, |reader| reader.string(false).map(str::to_owned));
    Some(topics.ok()?.into_iter().collect())
}

/// The partitions of an assignment; `None` if the bytes are none.
pub(super) fn assigned_partitions(bytes: Bytes) -> Option<BTreeSet<TopicPartition>> {
    let mut reader = Reader::new(bytes);
    let _version = reader.i16().ok().filter(|version| *version >= 0)?;
    let topics = reader.elements(false, 6, |reader| {
        let topic: Arc<str> = Arc::from(reader.string(false)?);
        let partitions = reader.elements(false, 4, Reader::i32)?;
        Ok((topic, partitions))
    });
    let topics = topics.ok()?.into_iter();
    let partitions = topics.flat_map(|(topic, partitions)| {
        partitions.into_iter().map(move |p| TopicPartition::new(Arc::clone(&topic), p))
    });
    Some(partitions.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Version 1: topics `a` and `bc`, user data, owned partitions.
    const SUBSCRIPTION: &[u8] = b"\0\x01\0\0\0\x02\0\x01a\0\x02bc\0\0\0\x01!\0\0\0\0";
    /// Version 0: `a` 0 and 2, `bc` 1; no user data.
    const ASSIGNMENT: &[u8] =
        b"\0\0\0\0\0\x02\0\x01a\0\0\0\x02\0\0\0\0\0\0\0\x02\0\x02bc\0\0\0\x01\0\0\0\x01\xff\xff\xff\xff";

    #[test]
    fn topics_and_partitions_are_read() {
        let topics = subscribed_topics(Bytes::from_static(SUBSCRIPTION)).expect("a subscription");
        assert_eq!(topics, ["a", "bc"].map(str::to_owned).into());
        let partitions =
            assigned_partitions(Bytes::from_static(ASSIGNMENT)).expect("an assignment");
        let expected = [("a", 0), ("a", 2), ("bc", 1)].map(|(t, p)| TopicPartition::new(t, p));
        assert_eq!(partitions, expected.into());
    }

    #[test]
    fn other_bytes_are_none() {
        for bytes in [&[][..], &[0], &[0xff, 0xff, 0, 0, 0, 0], &[0, 0, 0x7f, 0xff, 0xff, 0xff]] {
            assert_eq!(subscribed_topics(Bytes::copy_from_slice(bytes)), None);
            assert_eq!(assigned_partitions(Bytes::copy_from_slice(bytes)), None);
        }
        for end in 2..ASSIGNMENT.len() - 4 {
            assert_eq!(assigned_partitions(Bytes::from_static(&ASSIGNMENT[..end])), None, "{end}");
        }
    }
}
