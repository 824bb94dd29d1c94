//! Where reading begins or ends.

use millstream_protocol_client::OffsetSpec;

/// Offsets of a topic's partitions, resolved when the job starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetsInitializer(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Earliest,
    Latest,
}

impl OffsetsInitializer {
    /// The first record there is.
    #[must_use]
    pub const fn earliest() -> Self {
        Self(Kind::Earliest)
    }

    /// Behind the last committed record there is now (the last stable offset).
    #[must_use]
    pub const fn latest() -> Self {
        Self(Kind::Latest)
    }

    pub(crate) const fn spec(self) -> OffsetSpec {
        match self.0 {
            Kind::Earliest => OffsetSpec::Earliest,
            Kind::Latest => OffsetSpec::Latest,
        }
    }
}
