//! Whom a request is for, and over which of a broker's connections it goes.

use std::fmt;
use std::sync::Arc;

use crate::NodeId;

/// The receiver of a request, as far as the sender can name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Destination {
    /// This broker.
    Node(NodeId),
    /// Whichever broker answers; the least loaded connected one is taken.
    AnyBroker,
    /// The controller, as the metadata name it. KRaft brokers forward, so any broker stands in while it is unknown.
    Controller,
    /// The transaction coordinator of this transactional id.
    TransactionCoordinator(Arc<str>),
    /// The coordinator of this consumer group.
    GroupCoordinator(Arc<str>),
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(node) => write!(f, "broker {node}"),
            Self::AnyBroker => f.write_str("any broker"),
            Self::Controller => f.write_str("the controller"),
            Self::TransactionCoordinator(id) => {
                write!(f, "the coordinator of transactional id '{id}'")
            }
            Self::GroupCoordinator(group) => write!(f, "the coordinator of group '{group}'"),
        }
    }
}

/// A broker serves one connection one request at a time, in order. So long polls and large produce requests have
/// connections of their own, where they can not hold up an EndTxn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConnectionClass {
    /// Metadata, coordinators, transactions, administration.
    Control,
    /// Produce requests.
    Produce,
    /// Fetch requests, which a broker may hold for `fetch.max.wait.ms`.
    Fetch,
}

/// A number with which the sender of a request recognises its answer. Never sent to a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestToken(pub u64);

/// One connection attempt and what became of it. Never used twice, so late news of a closed connection is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);
