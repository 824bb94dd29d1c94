//! What a member is told once.

use std::sync::Arc;
use std::time::Duration;

use super::assignor::Assignor;
use crate::backoff::ExponentialBackoff;

/// Settings of a [`GroupMember`](super::GroupMember). The defaults are Kafka's.
#[derive(Clone, Debug)]
pub struct GroupConfig {
    /// `group.id`, not empty.
    pub group_id: Arc<str>,
    /// `group.instance.id`: makes the member static (KIP-345). It keeps its partitions over a restart within the session
    /// timeout, and does not leave when it ends.
    pub group_instance_id: Option<Arc<str>>,
    /// `session.timeout.ms`: without a heartbeat for so long the broker gives the partitions away, and the member itself
    /// declares them lost. Classic protocol; with KIP-848 it is the broker's setting. Default 45 s.
    pub session_timeout: Duration,
    /// `heartbeat.interval.ms`, below the session timeout. Classic protocol; with KIP-848 the broker tells. Default 3 s.
    pub heartbeat_interval: Duration,
    /// `max.poll.interval.ms`: how long the user may take between two polls; also how long a rebalance waits for a member.
    /// Default 5 min.
    pub max_poll_interval: Duration,
    /// `partition.assignment.strategy`, the preferred first. Never empty. Classic protocol only. Default range and
    /// cooperative-sticky, as Java's: members use range, and can be moved to the other one by one.
    pub assignors: Vec<Assignor>,
    /// `group.remote.assignor`: `uniform`, `range` or a broker's own; `None` takes the broker's default. KIP-848 only.
    pub remote_assignor: Option<Arc<str>>,
    /// How long a broker may take to answer (`request.timeout.ms`); a JoinGroup may take the rebalance timeout longer.
    /// Default 30 s.
    pub request_timeout: Duration,
    /// Delay between repeated requests (`retry.backoff.ms`, `retry.backoff.max.ms`). Default 100 ms to 1 s.
    pub retry_backoff: ExponentialBackoff,
}

impl GroupConfig {
    /// Kafka's defaults for a group.
    #[must_use]
    pub fn new(group_id: Arc<str>) -> Self {
        Self {
            group_id,
            group_instance_id: None,
            session_timeout: Duration::from_secs(45),
            heartbeat_interval: Duration::from_secs(3),
            max_poll_interval: Duration::from_secs(300),
            assignors: vec![Assignor::Range, Assignor::CooperativeSticky],
            remote_assignor: None,
            request_timeout: Duration::from_secs(30),
            retry_backoff: ExponentialBackoff::new(
                Duration::from_millis(100),
                Duration::from_secs(1),
            ),
        }
    }
}
