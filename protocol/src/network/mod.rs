//! Kafka's NetworkClient as a machine: which bytes go to which broker, and which answer belongs to which request.
//!
//! [`NetworkClient`] knows no sockets. A driver carries out what [`NetworkClient::poll_output`] asks (connect, transmit,
//! close), reports what happened, and moves time. Inside are one connection per (broker, class), each negotiating versions
//! on its own (KIP-35, KIP-511) and authenticating before its first request and again before its session ends (KIP-368); the metadata cache whose leader epochs never go backwards (KIP-320); the coordinators found
//! so far; backoff (KIP-580) and throttling (KIP-219).

mod answers;
mod authentication;
mod broker_versions;
mod config;
mod coordinators;
mod destination;
mod disconnect;
mod link;
mod metadata;
mod metadata_refresh;
mod network_client;
mod outgoing_request;
mod request_error;
mod routing;
mod throttle;
mod tls_problem;
mod upkeep;

pub use config::NetworkConfig;
pub use destination::{ConnectionClass, ConnectionId, Destination, RequestToken};
pub use disconnect::{AddressFailure, DisconnectReason};
pub use metadata::{
    BrokerEndpoint, Leader, Metadata, MetadataNews, PartitionMetadata, TopicMetadata,
    metadata_request,
};
pub use network_client::{NetworkClient, NetworkEvent, NetworkOutput};
pub use outgoing_request::OutgoingRequest;
pub use request_error::{RequestError, offered_versions};
pub use tls_problem::TlsProblem;

#[cfg(test)]
mod tests;
