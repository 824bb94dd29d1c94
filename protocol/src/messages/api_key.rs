//! The APIs we speak, and in which versions.

use std::fmt;
use std::ops::RangeInclusive;

/// An API of Kafka's protocol that Millstream speaks. The discriminant is the key on the wire.
///
/// Key on the wire, versions that our client uses ([`client_versions`](Self::client_versions)), versions that this crate
/// reads and writes ([`codec_versions`](Self::codec_versions)):
///
/// ```
/// # use millstream_protocol::ApiKey;
/// for (api, key, client, codec) in [
///     (ApiKey::Produce, 0, 3..=12, 3..=12),
///     (ApiKey::Fetch, 1, 4..=13, 4..=13),
///     (ApiKey::ListOffsets, 2, 1..=10, 1..=10),
///     (ApiKey::Metadata, 3, 4..=12, 0..=13),
///     (ApiKey::OffsetCommit, 8, 2..=9, 2..=9),
///     (ApiKey::OffsetFetch, 9, 1..=9, 1..=9),
///     (ApiKey::FindCoordinator, 10, 0..=4, 0..=6),
///     (ApiKey::JoinGroup, 11, 2..=9, 0..=9),
///     (ApiKey::Heartbeat, 12, 1..=4, 0..=4),
///     (ApiKey::LeaveGroup, 13, 1..=5, 0..=5),
///     (ApiKey::SyncGroup, 14, 1..=5, 0..=5),
///     (ApiKey::DescribeGroups, 15, 1..=6, 0..=6),
///     (ApiKey::ListGroups, 16, 1..=5, 0..=5),
///     (ApiKey::SaslHandshake, 17, 0..=1, 0..=1),
///     (ApiKey::ApiVersions, 18, 0..=4, 0..=4),
///     (ApiKey::CreateTopics, 19, 2..=7, 2..=7),
///     (ApiKey::DeleteTopics, 20, 1..=6, 1..=6),
///     (ApiKey::DeleteRecords, 21, 0..=2, 0..=2),
///     (ApiKey::InitProducerId, 22, 0..=5, 0..=5),
///     (ApiKey::OffsetForLeaderEpoch, 23, 2..=4, 2..=4),
///     (ApiKey::AddPartitionsToTxn, 24, 0..=3, 0..=5),
///     (ApiKey::AddOffsetsToTxn, 25, 0..=4, 0..=4),
///     (ApiKey::EndTxn, 26, 0..=5, 0..=5),
///     (ApiKey::WriteTxnMarkers, 27, 1..=1, 1..=1),
///     (ApiKey::TxnOffsetCommit, 28, 0..=5, 0..=5),
///     (ApiKey::DescribeAcls, 29, 1..=3, 1..=3),
///     (ApiKey::DescribeConfigs, 32, 1..=4, 1..=4),
///     (ApiKey::SaslAuthenticate, 36, 0..=2, 0..=2),
///     (ApiKey::CreatePartitions, 37, 0..=3, 0..=3),
///     (ApiKey::DeleteGroups, 42, 0..=2, 0..=2),
///     (ApiKey::IncrementalAlterConfigs, 44, 0..=1, 0..=1),
///     (ApiKey::OffsetDelete, 47, 0..=0, 0..=0),
///     (ApiKey::DescribeCluster, 60, 0..=2, 0..=2),
///     (ApiKey::DescribeProducers, 61, 0..=0, 0..=0),
///     (ApiKey::DescribeTransactions, 65, 0..=0, 0..=0),
///     (ApiKey::ListTransactions, 66, 0..=2, 0..=2),
///     (ApiKey::ConsumerGroupHeartbeat, 68, 0..=1, 0..=1),
///     (ApiKey::ConsumerGroupDescribe, 69, 0..=1, 0..=1),
/// ] {
///     assert_eq!((api.code(), api.client_versions(), api.codec_versions()), (key, client, codec));
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i16)]
#[non_exhaustive]
pub enum ApiKey {
    /// Append record batches (format 2: KIP-98).
    Produce = 0,
    /// Read record batches (KIP-74, KIP-227, KIP-320, KIP-392).
    Fetch = 1,
    /// Offsets by timestamp, earliest, latest (KIP-79).
    ListOffsets = 2,
    /// Brokers, topics, leaders.
    Metadata = 3,
    /// Commit a group's offsets.
    OffsetCommit = 8,
    /// Read a group's offsets (stable ones: KIP-447).
    OffsetFetch = 9,
    /// Find a group's or a transactional id's coordinator (several at once: KIP-699).
    FindCoordinator = 10,
    /// Join a group, and wait until all have joined (KIP-345, KIP-394).
    JoinGroup = 11,
    /// Stay in a group.
    Heartbeat = 12,
    /// Leave a group, or remove members from it (KIP-345).
    LeaveGroup = 13,
    /// Hand out or get the assignment of a group.
    SyncGroup = 14,
    /// State and members of groups of the classic protocol.
    DescribeGroups = 15,
    /// Groups a coordinator knows (KIP-518, KIP-848).
    ListGroups = 16,
    /// Choose the mechanism of authentication (KIP-43, KIP-152).
    SaslHandshake = 17,
    /// What the broker speaks, and the cluster's finalized features (KIP-35, KIP-511, KIP-584).
    ApiVersions = 18,
    /// Create topics (KIP-4).
    CreateTopics = 19,
    /// Delete topics (KIP-4).
    DeleteTopics = 20,
    /// Move the start of partitions forward (KIP-107).
    DeleteRecords = 21,
    /// Get or bump a producer identity; fences older owners (KIP-98, KIP-360).
    InitProducerId = 22,
    /// Where leader epochs end, to find truncation (KIP-320).
    OffsetForLeaderEpoch = 23,
    /// Register partitions with a transaction (KIP-98; not under KIP-890's part 2).
    AddPartitionsToTxn = 24,
    /// Register a group's offsets with a transaction (KIP-98; not under KIP-890's part 2).
    AddOffsetsToTxn = 25,
    /// Commit or abort a transaction (KIP-98, KIP-890).
    EndTxn = 26,
    /// Write markers that end a transaction; also ends hanging ones (KIP-98, KIP-664).
    WriteTxnMarkers = 27,
    /// Commit a group's offsets within a transaction (KIP-98, KIP-447).
    TxnOffsetCommit = 28,
    /// Permissions that match a filter (KIP-140).
    DescribeAcls = 29,
    /// Read configuration of topics and brokers (KIP-133).
    DescribeConfigs = 32,
    /// Carry the bytes of the mechanism (KIP-152, KIP-368).
    SaslAuthenticate = 36,
    /// Add partitions to topics (KIP-195).
    CreatePartitions = 37,
    /// Delete empty groups with their offsets (KIP-229).
    DeleteGroups = 42,
    /// Change single properties of topics and brokers (KIP-339).
    IncrementalAlterConfigs = 44,
    /// Delete a group's offsets of partitions it does not read (KIP-496).
    OffsetDelete = 47,
    /// Brokers, fenced ones too, and the controller (KIP-700, KIP-1073).
    DescribeCluster = 60,
    /// Producers that write to partitions (KIP-664).
    DescribeProducers = 61,
    /// State of transactions by id (KIP-664).
    DescribeTransactions = 65,
    /// Transactions a coordinator knows (KIP-664, KIP-994).
    ListTransactions = 66,
    /// Join, stay in and leave a group of the consumer protocol (KIP-848).
    ConsumerGroupHeartbeat = 68,
    /// State and members of groups of the consumer protocol (KIP-848).
    ConsumerGroupDescribe = 69,
}

impl ApiKey {
    /// Every API, ascending by key.
    pub const ALL: [Self; 38] = [
        Self::Produce,
        Self::Fetch,
        Self::ListOffsets,
        Self::Metadata,
        Self::OffsetCommit,
        Self::OffsetFetch,
        Self::FindCoordinator,
        Self::JoinGroup,
        Self::Heartbeat,
        Self::LeaveGroup,
        Self::SyncGroup,
        Self::DescribeGroups,
        Self::ListGroups,
        Self::SaslHandshake,
        Self::ApiVersions,
        Self::CreateTopics,
        Self::DeleteTopics,
        Self::DeleteRecords,
        Self::InitProducerId,
        Self::OffsetForLeaderEpoch,
        Self::AddPartitionsToTxn,
        Self::AddOffsetsToTxn,
        Self::EndTxn,
        Self::WriteTxnMarkers,
        Self::TxnOffsetCommit,
        Self::DescribeAcls,
        Self::DescribeConfigs,
        Self::SaslAuthenticate,
        Self::CreatePartitions,
        Self::DeleteGroups,
        Self::IncrementalAlterConfigs,
        Self::OffsetDelete,
        Self::DescribeCluster,
        Self::DescribeProducers,
        Self::DescribeTransactions,
        Self::ListTransactions,
        Self::ConsumerGroupHeartbeat,
        Self::ConsumerGroupDescribe,
    ];

    /// The key on the wire.
    #[must_use]
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// The API with key `code`; `None` for one that we do not speak.
    #[must_use]
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|api| api.code() == code)
    }

    /// Versions our client may use, for brokers 2.5 to 4.4.
    ///
    /// The upper ends are deliberate: names instead of topic ids in Produce (a broker may offer ids without a Metadata version
    /// that tells them; Fetch goes by ids only where they are known), no AddPartitionsToTxn above 3 (later ones are broker to broker and need
    /// cluster permissions), OffsetFetch below the multi-group form. The lower ends are what the transaction protocol
    /// and record format 2 need.
    #[must_use]
    pub const fn client_versions(self) -> RangeInclusive<i16> {
        match self {
            Self::Produce => 3..=12,
            Self::Fetch => 4..=13,
            Self::Metadata => 4..=12,
            Self::ListOffsets => 1..=10,
            Self::OffsetCommit => 2..=9,
            Self::OffsetFetch => 1..=9,
            Self::FindCoordinator => 0..=4,
            Self::ApiVersions => 0..=4,
            Self::CreateTopics => 2..=7,
            Self::DeleteTopics => 1..=6,
            Self::InitProducerId => 0..=5,
            Self::AddPartitionsToTxn => 0..=3,
            Self::EndTxn => 0..=5,
            Self::DescribeConfigs => 1..=4,
            Self::DescribeTransactions => 0..=0,
            Self::ListTransactions => 0..=2,
            Self::JoinGroup => 2..=9,
            Self::Heartbeat => 1..=4,
            Self::LeaveGroup | Self::SyncGroup | Self::ListGroups => 1..=5,
            Self::DescribeGroups => 1..=6,
            Self::SaslHandshake
            | Self::IncrementalAlterConfigs
            | Self::ConsumerGroupHeartbeat
            | Self::ConsumerGroupDescribe => 0..=1,
            Self::DeleteRecords
            | Self::SaslAuthenticate
            | Self::DeleteGroups
            | Self::DescribeCluster => 0..=2,
            Self::OffsetForLeaderEpoch => 2..=4,
            Self::AddOffsetsToTxn => 0..=4,
            Self::WriteTxnMarkers => 1..=1,
            Self::TxnOffsetCommit => 0..=5,
            Self::DescribeAcls => 1..=3,
            Self::CreatePartitions => 0..=3,
            Self::OffsetDelete | Self::DescribeProducers => 0..=0,
        }
    }

    /// Versions this crate can read and write, in both directions: what a broker built on it may advertise.
    #[must_use]
    pub const fn codec_versions(self) -> RangeInclusive<i16> {
        match self {
            Self::Produce => 3..=12,
            Self::Fetch => 4..=13,
            Self::ListOffsets => 1..=10,
            Self::Metadata => 0..=13,
            Self::OffsetCommit => 2..=9,
            Self::OffsetFetch => 1..=9,
            Self::FindCoordinator => 0..=6,
            Self::ApiVersions => 0..=4,
            Self::CreateTopics => 2..=7,
            Self::DeleteTopics => 1..=6,
            Self::InitProducerId => 0..=5,
            Self::AddPartitionsToTxn => 0..=5,
            Self::EndTxn => 0..=5,
            Self::DescribeConfigs => 1..=4,
            Self::DescribeTransactions => 0..=0,
            Self::ListTransactions => 0..=2,
            Self::JoinGroup => 0..=9,
            Self::Heartbeat | Self::AddOffsetsToTxn => 0..=4,
            Self::LeaveGroup | Self::SyncGroup | Self::ListGroups | Self::TxnOffsetCommit => 0..=5,
            Self::DescribeGroups => 0..=6,
            Self::SaslHandshake
            | Self::IncrementalAlterConfigs
            | Self::ConsumerGroupHeartbeat
            | Self::ConsumerGroupDescribe => 0..=1,
            Self::DeleteRecords
            | Self::SaslAuthenticate
            | Self::DeleteGroups
            | Self::DescribeCluster => 0..=2,
            Self::OffsetForLeaderEpoch => 2..=4,
            Self::WriteTxnMarkers => 1..=1,
            Self::DescribeAcls => 1..=3,
            Self::CreatePartitions => 0..=3,
            Self::OffsetDelete | Self::DescribeProducers => 0..=0,
        }
    }

    /// First version with compact lengths and tagged fields (KIP-482).
    const fn first_flexible_version(self) -> i16 {
        match self {
            Self::Produce | Self::Metadata => 9,
            Self::Fetch => 12,
            Self::ListOffsets | Self::OffsetFetch => 6,
            Self::OffsetCommit => 8,
            Self::FindCoordinator | Self::ApiVersions | Self::AddPartitionsToTxn | Self::EndTxn => {
                3
            }
            Self::CreateTopics => 5,
            Self::DeleteTopics | Self::DescribeConfigs => 4,
            Self::InitProducerId => 2,
            Self::DescribeTransactions | Self::ListTransactions => 0,
            Self::JoinGroup => 6,
            Self::Heartbeat | Self::LeaveGroup | Self::SyncGroup | Self::OffsetForLeaderEpoch => 4,
            Self::DescribeGroups => 5,
            Self::ListGroups | Self::AddOffsetsToTxn | Self::TxnOffsetCommit => 3,
            Self::SaslHandshake | Self::OffsetDelete => i16::MAX,
            Self::DeleteRecords
            | Self::DescribeAcls
            | Self::SaslAuthenticate
            | Self::CreatePartitions
            | Self::DeleteGroups => 2,
            Self::WriteTxnMarkers | Self::IncrementalAlterConfigs => 1,
            Self::DescribeCluster
            | Self::DescribeProducers
            | Self::ConsumerGroupHeartbeat
            | Self::ConsumerGroupDescribe => 0,
        }
    }

    /// Whether `version` uses compact lengths and tagged fields (KIP-482).
    #[must_use]
    pub const fn is_flexible(self, version: i16) -> bool {
        version >= self.first_flexible_version()
    }

    /// Version of the request header: 2 with tagged fields, else 1.
    #[must_use]
    pub const fn request_header_version(self, version: i16) -> i16 {
        if self.is_flexible(version) { 2 } else { 1 }
    }

    /// Version of the response header: 1 with tagged fields, else 0. ApiVersions answers always carry version 0, for
    /// a client must read them before it knows what the broker speaks (KIP-511).
    #[must_use]
    pub const fn response_header_version(self, version: i16) -> i16 {
        if matches!(self, Self::ApiVersions) || !self.is_flexible(version) { 0 } else { 1 }
    }

    /// Kafka's name of the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Produce => "Produce",
            Self::Fetch => "Fetch",
            Self::ListOffsets => "ListOffsets",
            Self::Metadata => "Metadata",
            Self::OffsetCommit => "OffsetCommit",
            Self::OffsetFetch => "OffsetFetch",
            Self::FindCoordinator => "FindCoordinator",
            Self::ApiVersions => "ApiVersions",
            Self::CreateTopics => "CreateTopics",
            Self::DeleteTopics => "DeleteTopics",
            Self::InitProducerId => "InitProducerId",
            Self::AddPartitionsToTxn => "AddPartitionsToTxn",
            Self::EndTxn => "EndTxn",
            Self::DescribeConfigs => "DescribeConfigs",
            Self::DescribeTransactions => "DescribeTransactions",
            Self::ListTransactions => "ListTransactions",
            Self::JoinGroup => "JoinGroup",
            Self::Heartbeat => "Heartbeat",
            Self::LeaveGroup => "LeaveGroup",
            Self::SyncGroup => "SyncGroup",
            Self::DescribeGroups => "DescribeGroups",
            Self::ListGroups => "ListGroups",
            Self::SaslHandshake => "SaslHandshake",
            Self::DeleteRecords => "DeleteRecords",
            Self::OffsetForLeaderEpoch => "OffsetForLeaderEpoch",
            Self::AddOffsetsToTxn => "AddOffsetsToTxn",
            Self::WriteTxnMarkers => "WriteTxnMarkers",
            Self::TxnOffsetCommit => "TxnOffsetCommit",
            Self::DescribeAcls => "DescribeAcls",
            Self::SaslAuthenticate => "SaslAuthenticate",
            Self::CreatePartitions => "CreatePartitions",
            Self::DeleteGroups => "DeleteGroups",
            Self::IncrementalAlterConfigs => "IncrementalAlterConfigs",
            Self::OffsetDelete => "OffsetDelete",
            Self::DescribeCluster => "DescribeCluster",
            Self::DescribeProducers => "DescribeProducers",
            Self::ConsumerGroupHeartbeat => "ConsumerGroupHeartbeat",
            Self::ConsumerGroupDescribe => "ConsumerGroupDescribe",
        }
    }
}

impl fmt::Display for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::ApiKey;

    #[test]
    fn keys_headers_and_versions_agree_with_kafka_protocol() {
        for api in ApiKey::ALL {
            let theirs = kafka_protocol::messages::ApiKey::try_from(api.code()).expect("known key");
            assert_eq!(format!("{theirs:?}"), api.name());
            assert_eq!(ApiKey::from_code(api.code()), Some(api));
            let valid = theirs.valid_versions();
            for version in api.codec_versions() {
                assert!(version >= valid.min && version <= valid.max, "{api} {version}");
                assert_eq!(
                    api.request_header_version(version),
                    theirs.request_header_version(version)
                );
                assert_eq!(
                    api.response_header_version(version),
                    theirs.response_header_version(version)
                );
            }
            let (client, codec) = (api.client_versions(), api.codec_versions());
            assert!(client.start() >= codec.start() && client.end() <= codec.end(), "{api}");
        }
        assert_eq!(ApiKey::from_code(75), None);
    }

    /// Case B019: a broker that offers topic-id versions of Produce but no Metadata version that tells ids.
    #[test]
    fn no_client_version_of_produce_or_offset_fetch_carries_topic_ids() {
        assert!(*ApiKey::Produce.client_versions().end() < 13);
        assert!(*ApiKey::OffsetFetch.client_versions().end() < 10);
        assert!(*ApiKey::OffsetCommit.client_versions().end() < 10);
    }
}
