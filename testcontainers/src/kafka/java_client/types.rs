//! What goes to and comes from the Java client.

use std::collections::BTreeMap;

/// A header as it stands in a record: names may repeat, a value may be null.
pub type JavaHeader = (String, Option<Vec<u8>>);

/// A record for the Java producer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JavaRecord {
    /// Partition; `None` lets the producer choose by the key.
    pub partition: Option<i32>,
    /// Milliseconds since 1970; `None` for now.
    pub timestamp: Option<i64>,
    /// Key, `None` for null.
    pub key: Option<Vec<u8>>,
    /// Value, `None` for null (a tombstone).
    pub value: Option<Vec<u8>>,
    /// Headers in order.
    pub headers: Vec<JavaHeader>,
}

/// A record as the Java consumer read it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProducedRecord {
    /// Partition it was read from.
    pub partition: i32,
    /// Its offset.
    pub offset: i64,
    /// Milliseconds since 1970.
    pub timestamp: i64,
    /// Key, `None` for null.
    pub key: Option<Vec<u8>>,
    /// Value, `None` for null.
    pub value: Option<Vec<u8>>,
    /// Headers in order.
    pub headers: Vec<JavaHeader>,
}

/// `compression.type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Codec {
    #[default]
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

impl Codec {
    /// Every codec of the protocol.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// Kafka's name for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

/// How a transactional produce ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionEnd {
    /// `commitTransaction`.
    Commit,
    /// `abortTransaction`.
    Abort,
    /// Left open; the next produce with the same id goes on in it.
    Open,
}

/// How to produce.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProduceOptions {
    /// Codec of the batches.
    pub codec: Codec,
    /// Transactional id and end; `None` for a plain idempotent producer.
    pub transaction: Option<(String, TransactionEnd)>,
    /// Further producer properties.
    pub properties: BTreeMap<String, String>,
}

impl TransactionEnd {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Abort => "abort",
            Self::Open => "open",
        }
    }
}

/// Which records a consumer sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Committed ones, up to the last stable offset.
    ReadCommitted,
    /// All.
    ReadUncommitted,
}

/// A transaction that the cluster knows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JavaTransaction {
    /// The transactional id.
    pub transactional_id: String,
    /// The producer id.
    pub producer_id: i64,
    /// `Ongoing`, `CompleteCommit` …
    pub state: String,
}

/// A member of a group, for one of Java's assignors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JavaGroupMember {
    /// Member id.
    pub member_id: String,
    /// `group.instance.id` of a static member.
    pub group_instance_id: Option<String>,
    /// Its subscription, as it stands in JoinGroup.
    pub subscription: Vec<u8>,
}

/// What one of Java's assignors makes of members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JavaAssignment {
    /// By member: the assignment, as it stands in SyncGroup.
    pub assignments: BTreeMap<String, Vec<u8>>,
    /// By member: the subscription that a Java member with this assignment would write into its next JoinGroup.
    pub subscriptions: BTreeMap<String, Vec<u8>>,
}
