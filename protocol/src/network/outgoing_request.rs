//! A request on its way to a connection.

use std::time::Duration;

use super::{ConnectionClass, Destination, RequestToken};
use crate::messages::Request;

/// A request that a machine wants sent.
#[derive(Clone, Debug)]
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
    /// How long it may wait to be sent; `request.timeout.ms` if not given. Its answer has that time again.
    pub timeout: Option<Duration>,
}

impl OutgoingRequest {
    /// A request in the highest common version, with the default timeout.
    #[must_use]
    pub fn new(
        destination: Destination,
        class: ConnectionClass,
        request: Request,
        token: RequestToken,
    ) -> Self {
        Self { destination, class, request, token, max_version: None, timeout: None }
    }

    /// Sends it in `version` at most.
    #[must_use]
    pub fn with_max_version(mut self, version: i16) -> Self {
        self.max_version = Some(version);
        self
    }

    /// Gives up if it could not be sent within `timeout`.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}
