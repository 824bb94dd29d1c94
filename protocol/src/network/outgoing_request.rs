//! A request on its way to a connection.

use std::time::Duration;

use super::{ConnectionClass, Destination, RequestToken};
use crate::messages::Request;

/// A request that a machine wants sent.
#[derive(Clone, Debug, PartialEq)]
pub struct OutgoingRequest {
    /// For whom.
    pub destination: Destination,
    /// Over which of the broker's connections.
    pub class: ConnectionClass,
    /// What to send.
    pub request: Request,
    /// Comes back with the answer.
    pub token: RequestToken,
    /// The highest version the sender can use, if lower than what both sides speak: TV1 transactions need
    /// Produce 11 and EndTxn 4 at most (KIP-890).
    pub max_version: Option<i16>,
    /// How long it may wait to be sent, and then how long the broker may take to answer; the second is
    /// [`NetworkConfig::request_timeout`](super::NetworkConfig::request_timeout) at most, but for a JoinGroup.
    pub timeout: Duration,
}
