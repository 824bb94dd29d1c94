//! Requests and responses.
//!
//! Produce, Fetch and ApiVersions are our own structs: the first two are the hot path and carry record bytes without
//! copying them, the third is read before a peer has proved who it is. Everything else uses the structs of the crate
//! `kafka_protocol`, re-exported as [`kp`], and passes the structural guard ([`crate::guard`]) before its decoder,
//! because that decoder allocates what a length field claims.

mod api_key;
mod api_versions;
mod control;
mod conversions;
mod fetch;
mod produce;
mod request;
mod response;
mod shape;

pub use api_key::ApiKey;
pub use api_versions::{
    ApiVersion, ApiVersionsRequest, ApiVersionsResponse, FinalizedFeature, SupportedFeature,
};
pub use fetch::{
    AbortedTransaction, EpochEndOffset, FIRST_FETCH_BY_ID, FetchPartition, FetchPartitionResponse,
    FetchRequest, FetchResponse, FetchTopic, FetchTopicResponse, ForgottenTopic,
};
pub use kafka_protocol::messages as kp;
pub use kafka_protocol::protocol::StrBytes;
pub use produce::{
    ProducePartition, ProducePartitionResponse, ProduceRequest, ProduceResponse, ProduceTopic,
    ProduceTopicResponse, RecordError,
};
pub use request::Request;
pub use response::Response;

use crate::wire::{ReadError, Reader, Writer};

/// A partition's leader, as a hint inside a Produce or Fetch response (KIP-951).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaderIdAndEpoch {
    /// Broker id of the leader; -1 if unknown.
    pub leader_id: i32,
    /// Its epoch; -1 if unknown.
    pub leader_epoch: i32,
}

impl Default for LeaderIdAndEpoch {
    fn default() -> Self {
        Self { leader_id: -1, leader_epoch: -1 }
    }
}

impl LeaderIdAndEpoch {
    fn write(self, writer: &mut Writer) {
        writer.i32(self.leader_id);
        writer.i32(self.leader_epoch);
        writer.no_tags(true);
    }

    fn read(reader: &mut Reader) -> Result<Self, ReadError> {
        let leader = Self { leader_id: reader.i32()?, leader_epoch: reader.i32()? };
        reader.skip_tags(true)?;
        Ok(leader)
    }
}

/// A broker's address, as a hint inside a Produce response (KIP-951).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeEndpoint {
    /// Broker id.
    pub node_id: i32,
    /// Host name or address.
    pub host: String,
    /// Port.
    pub port: i32,
    /// Rack, if set.
    pub rack: Option<String>,
}

/// A string of a `kafka_protocol` message.
#[must_use]
pub fn str_bytes(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

#[cfg(test)]
mod tests;
