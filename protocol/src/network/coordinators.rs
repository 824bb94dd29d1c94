//! Where groups and transactional ids have their coordinators.

use std::collections::BTreeMap;
use std::sync::Arc;

use kafka_protocol::messages::FindCoordinatorResponse;

use super::{BrokerEndpoint, Destination};
use crate::backoff::{ExponentialBackoff, Jitter};
use crate::{ErrorCode, NodeId, Timestamp};

/// Whose coordinator.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct CoordinatorKey {
    pub(super) kind: CoordinatorKind,
    pub(super) key: Arc<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum CoordinatorKind {
    Group,
    Transaction,
}

impl CoordinatorKind {
    pub(super) fn code(self) -> i8 {
        match self {
            Self::Group => 0,
            Self::Transaction => 1,
        }
    }
}

impl CoordinatorKey {
    /// The coordinator that `destination` means, if it means one.
    pub(super) fn of(destination: &Destination) -> Option<Self> {
        let (kind, key) = match destination {
            Destination::GroupCoordinator(group) => (CoordinatorKind::Group, group),
            Destination::TransactionCoordinator(id) => (CoordinatorKind::Transaction, id),
            Destination::Node(_) | Destination::AnyBroker | Destination::Controller => return None,
        };
        Some(Self { kind, key: Arc::clone(key) })
    }

    pub(super) fn destination(&self) -> Destination {
        match self.kind {
            CoordinatorKind::Group => Destination::GroupCoordinator(Arc::clone(&self.key)),
            CoordinatorKind::Transaction => {
                Destination::TransactionCoordinator(Arc::clone(&self.key))
            }
        }
    }
}

/// The coordinators found so far, and the searches under way.
#[derive(Debug, Default)]
pub(super) struct Coordinators {
    entries: BTreeMap<CoordinatorKey, Entry>,
}

#[derive(Debug)]
enum Entry {
    Known(NodeId),
    Searching { failures: u32 },
    Unknown { failures: u32, retry_at: Timestamp },
}

/// What an answer to a search means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SearchResult {
    Found { node: NodeId, endpoint: BrokerEndpoint },
    Retry,
    Refused { code: ErrorCode, message: Option<Arc<str>> },
}

impl Coordinators {
    pub(super) fn node(&self, key: &CoordinatorKey) -> Option<NodeId> {
        match self.entries.get(key) {
            Some(Entry::Known(node)) => Some(*node),
            _ => None,
        }
    }

    /// True, once, if a search should start now.
    pub(super) fn start_search(&mut self, now: Timestamp, key: &CoordinatorKey) -> bool {
        let failures = match self.entries.get(key) {
            None => 0,
            Some(Entry::Unknown { failures, retry_at }) if *retry_at <= now => *failures,
            Some(_) => return false,
        };
        self.entries.insert(key.clone(), Entry::Searching { failures });
        true
    }

    pub(super) fn found(&mut self, key: &CoordinatorKey, node: NodeId) {
        self.entries.insert(key.clone(), Entry::Known(node));
    }

    /// A search ended without a coordinator; the next one waits for the backoff.
    pub(super) fn search_failed(
        &mut self,
        now: Timestamp,
        key: &CoordinatorKey,
        backoff: ExponentialBackoff,
        jitter: &mut Jitter,
    ) {
        let failures = match self.entries.get(key) {
            Some(Entry::Searching { failures }) => failures.saturating_add(1),
            _ => 1,
        };
        let retry_at = now.after(backoff.delay(failures, jitter));
        self.entries.insert(key.clone(), Entry::Unknown { failures, retry_at });
    }

    /// Forgets the coordinator of `key`, so that the next request searches again after `backoff`'s first delay.
    pub(super) fn invalidate(
        &mut self,
        now: Timestamp,
        key: &CoordinatorKey,
        backoff: ExponentialBackoff,
        jitter: &mut Jitter,
    ) {
        if matches!(self.entries.get(key), Some(Entry::Known(_))) {
            let retry_at = now.after(backoff.delay(1, jitter));
            self.entries.insert(key.clone(), Entry::Unknown { failures: 1, retry_at });
        }
    }

    /// Forgets `key` altogether: a later request searches at once.
    pub(super) fn forget(&mut self, key: &CoordinatorKey) {
        self.entries.remove(key);
    }

    /// When the search of `key` may be repeated, if it waits for that.
    pub(super) fn retry_at(&self, key: &CoordinatorKey) -> Option<Timestamp> {
        match self.entries.get(key) {
            Some(Entry::Unknown { retry_at, .. }) => Some(*retry_at),
            _ => None,
        }
    }
}

/// Reads the answer for `key`, in either of the two shapes (KIP-699).
pub(super) fn search_result(
    response: &FindCoordinatorResponse,
    version: i16,
    key: &CoordinatorKey,
) -> SearchResult {
    let (code, message, node, host, port) = if version >= 4 {
        let Some(found) = response.coordinators.iter().find(|c| c.key.as_str() == &*key.key) else {
            return SearchResult::Retry;
        };
        (found.error_code, &found.error_message, found.node_id, &found.host, found.port)
    } else {
        let r = response;
        (r.error_code, &r.error_message, r.node_id, &r.host, r.port)
    };
    let code = ErrorCode(code);
    if code.is_error() {
        if code.is_retriable() || code.is_coordinator_moved() {
            return SearchResult::Retry;
        }
        let message = message.as_ref().map(|text| Arc::from(text.as_str()));
        return SearchResult::Refused { code, message };
    }
    match u16::try_from(port) {
        Ok(port) if node.0 >= 0 => SearchResult::Found {
            node: NodeId(node.0),
            endpoint: BrokerEndpoint { host: Arc::from(host.as_str()), port, rack: None },
        },
        _ => SearchResult::Retry,
    }
}
