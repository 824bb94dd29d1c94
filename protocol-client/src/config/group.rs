//! What a member of a consumer group is told.

use std::sync::Arc;

use millstream_protocol::group::GroupConfig;

use super::{ClientConfig, ConfigError};

/// Who assigns a group's partitions (`group.protocol`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupProtocol {
    /// The members, by `partition.assignment.strategy` (JoinGroup 2 to 9). Every broker knows it.
    #[default]
    Classic,
    /// The broker (KIP-848, Kafka 4.0), by `group.remote.assignor`.
    Consumer,
}

impl ClientConfig {
    /// Checks what members of groups need. [`group_consumer`](crate::KafkaClient::group_consumer) does it first.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Invalid`] if `heartbeat.interval.ms` is not below `session.timeout.ms`, without an assignor, and for a
    /// property that was set by name and belongs to the other protocol: there it would be without effect.
    pub fn validate_group(&self) -> Result<(), ConfigError> {
        let (others, expected): (&[&'static str], _) = match self.group_protocol {
            GroupProtocol::Classic => {
                (&["group.remote.assignor"], "it not to be set with group.protocol=classic")
            }
            GroupProtocol::Consumer => (
                &["partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms"],
                "it not to be set with group.protocol=consumer: there it is the broker's to choose",
            ),
        };
        if let Some(name) = others.iter().find(|name| self.is_explicit(name)) {
            let value = String::from("…");
            return Err(ConfigError::Invalid { name, value, expected: expected.to_owned() });
        }
        if self.partition_assignment_strategy.is_empty() {
            return Err(ConfigError::Invalid {
                name: "partition.assignment.strategy",
                value: String::new(),
                expected: "at least one assignor".to_owned(),
            });
        }
        if self.heartbeat_interval >= self.session_timeout {
            return Err(ConfigError::Invalid {
                name: "heartbeat.interval.ms",
                value: self.heartbeat_interval.as_millis().to_string(),
                expected: "less than session.timeout.ms, at best a third of it".to_owned(),
            });
        }
        Ok(())
    }

    pub(crate) fn group_config(&self, group_id: &Arc<str>) -> GroupConfig {
        GroupConfig {
            group_instance_id: self.group_instance_id.as_deref().map(Arc::from),
            session_timeout: self.session_timeout,
            heartbeat_interval: self.heartbeat_interval,
            max_poll_interval: self.max_poll_interval,
            assignors: self.partition_assignment_strategy.clone(),
            remote_assignor: self.group_remote_assignor.as_deref().map(Arc::from),
            request_timeout: self.request_timeout,
            retry_backoff: self.retry_backoff(),
            ..GroupConfig::new(Arc::clone(group_id))
        }
    }
}
