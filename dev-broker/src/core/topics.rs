//! Topics, their partitions, and their settings.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millstream_protocol::TopicPartition;
use uuid::Uuid;

use super::config::ClusterConfig;
use super::log::{AppendRules, PartitionLog};

/// Topic settings as a client gave them, checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TopicConfig {
    values: BTreeMap<String, String>,
}

/// A setting a topic may have: name, default, and what a value must be.
struct Setting {
    name: &'static str,
    default: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    OneOf(&'static [&'static str]),
    Number { min: i64, max: i64 },
    Ratio,
    Boolean,
}

const MAX: i64 = i64::MAX;
const INT: i64 = i32::MAX as i64;

/// Every setting a topic may have; `max.message.bytes` takes its default from the broker. Those whose effect this
/// broker has no use for (one replica, nothing is deleted) are kept and described all the same.
const SETTINGS: [Setting; 21] = [
    Setting {
        name: "cleanup.policy",
        default: "delete",
        kind: Kind::OneOf(&["delete", "compact", "compact,delete", "delete,compact"]),
    },
    Setting { name: "compression.type", default: "producer", kind: Kind::OneOf(&["producer"]) },
    Setting {
        name: "delete.retention.ms",
        default: "86400000",
        kind: Kind::Number { min: 0, max: MAX },
    },
    Setting {
        name: "file.delete.delay.ms",
        default: "60000",
        kind: Kind::Number { min: 0, max: MAX },
    },
    Setting {
        name: "flush.messages",
        default: "9223372036854775807",
        kind: Kind::Number { min: 1, max: MAX },
    },
    Setting {
        name: "flush.ms",
        default: "9223372036854775807",
        kind: Kind::Number { min: 0, max: MAX },
    },
    Setting {
        name: "index.interval.bytes",
        default: "4096",
        kind: Kind::Number { min: 0, max: INT },
    },
    Setting {
        name: "max.compaction.lag.ms",
        default: "9223372036854775807",
        kind: Kind::Number { min: 1, max: MAX },
    },
    Setting {
        name: "max.message.bytes",
        default: "1048588",
        kind: Kind::Number { min: 0, max: INT },
    },
    Setting {
        name: "message.timestamp.after.max.ms",
        default: "3600000",
        kind: Kind::Number { min: 0, max: MAX },
    },
    Setting {
        name: "message.timestamp.before.max.ms",
        default: "9223372036854775807",
        kind: Kind::Number { min: 0, max: MAX },
    },
    Setting {
        name: "message.timestamp.type",
        default: "CreateTime",
        kind: Kind::OneOf(&["CreateTime", "LogAppendTime"]),
    },
    Setting { name: "min.cleanable.dirty.ratio", default: "0.5", kind: Kind::Ratio },
    Setting {
        name: "min.compaction.lag.ms",
        default: "0",
        kind: Kind::Number { min: 0, max: MAX },
    },
    Setting { name: "min.insync.replicas", default: "1", kind: Kind::Number { min: 1, max: INT } },
    Setting { name: "retention.bytes", default: "-1", kind: Kind::Number { min: -1, max: MAX } },
    Setting { name: "retention.ms", default: "-1", kind: Kind::Number { min: -1, max: MAX } },
    Setting {
        name: "segment.bytes",
        default: "1073741824",
        kind: Kind::Number { min: 14, max: INT },
    },
    Setting { name: "segment.ms", default: "604800000", kind: Kind::Number { min: 1, max: MAX } },
    Setting { name: "unclean.leader.election.enable", default: "false", kind: Kind::Boolean },
    Setting { name: "preallocate", default: "false", kind: Kind::Boolean },
];

impl Kind {
    fn allows(self, value: &str) -> bool {
        match self {
            Self::OneOf(values) => values.contains(&value),
            Self::Number { min, max } => {
                value.parse::<i64>().is_ok_and(|number| (min..=max).contains(&number))
            }
            Self::Ratio => value.parse::<f64>().is_ok_and(|ratio| (0.0..=1.0).contains(&ratio)),
            Self::Boolean => value == "true" || value == "false",
        }
    }
}

impl TopicConfig {
    /// Takes settings of a CreateTopics request; the error is a sentence for its answer.
    pub(crate) fn new(
        given: impl IntoIterator<Item = (String, Option<String>)>,
    ) -> Result<Self, String> {
        let mut values = BTreeMap::new();
        for (name, value) in given {
            let Some(setting) = SETTINGS.iter().find(|setting| setting.name == name) else {
                return Err(format!("Unknown topic config name: {name}"));
            };
            let Some(value) = value else {
                return Err(format!("Null value not supported for topic configs: {name}"));
            };
            if !setting.kind.allows(&value) {
                return Err(format!("Invalid value {value} for configuration {name}"));
            }
            values.insert(name, value);
        }
        Ok(Self { values })
    }

    pub(crate) fn from_stored(values: BTreeMap<String, String>) -> Self {
        Self { values }
    }

    /// The settings that differ from the defaults.
    pub(crate) fn given(&self) -> &BTreeMap<String, String> {
        &self.values
    }

    /// Every setting: name, value, whether the topic itself set it.
    pub(crate) fn described(&self, config: &ClusterConfig) -> Vec<(&'static str, String, bool)> {
        SETTINGS
            .iter()
            .map(|setting| match self.values.get(setting.name) {
                Some(value) => (setting.name, value.clone(), true),
                None if setting.name == "max.message.bytes" => {
                    (setting.name, config.message_max_bytes.to_string(), false)
                }
                None => (setting.name, setting.default.to_owned(), false),
            })
            .collect()
    }

    fn text(&self, name: &str) -> &str {
        let default = SETTINGS
            .iter()
            .find(|setting| setting.name == name)
            .map_or("", |setting| setting.default);
        self.values.get(name).map_or(default, String::as_str)
    }

    fn number(&self, name: &str) -> u64 {
        self.text(name).parse().unwrap_or(u64::MAX)
    }

    pub(crate) fn is_compacted(&self) -> bool {
        self.text("cleanup.policy").contains("compact")
    }

    pub(crate) fn delete_retention(&self) -> Duration {
        Duration::from_millis(self.number("delete.retention.ms"))
    }

    pub(crate) fn min_insync_replicas(&self) -> u64 {
        self.number("min.insync.replicas")
    }

    /// `min.cleanable.dirty.ratio` in percent, rounded down.
    pub(crate) fn min_dirty_percent(&self) -> u8 {
        let ratio: f64 = self.text("min.cleanable.dirty.ratio").parse().unwrap_or(0.5);
        (ratio.clamp(0.0, 1.0) * 100.0) as u8
    }

    pub(crate) fn segment_bytes(&self, config: &ClusterConfig) -> usize {
        usize::try_from(self.number("segment.bytes"))
            .unwrap_or(usize::MAX)
            .min(config.segment_bytes)
    }

    pub(crate) fn append_rules(&self, config: &ClusterConfig) -> AppendRules {
        let max_message_bytes = if self.values.contains_key("max.message.bytes") {
            usize::try_from(self.number("max.message.bytes")).unwrap_or(usize::MAX)
        } else {
            config.message_max_bytes
        };
        AppendRules {
            max_message_bytes,
            compacted: self.is_compacted(),
            log_append_time: self.text("message.timestamp.type") == "LogAppendTime",
            timestamp_before_max: Duration::from_millis(
                self.number("message.timestamp.before.max.ms"),
            ),
            timestamp_after_max: Duration::from_millis(
                self.number("message.timestamp.after.max.ms"),
            ),
        }
    }
}

/// One topic.
#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) id: Uuid,
    pub(crate) config: TopicConfig,
    pub(crate) partitions: Vec<PartitionLog>,
}

/// All topics, by name.
#[derive(Debug, Default)]
pub(crate) struct Topics {
    pub(crate) by_name: BTreeMap<Arc<str>, Topic>,
}

impl Topics {
    pub(crate) fn topic(&self, name: &str) -> Option<&Topic> {
        self.by_name.get(name)
    }

    pub(crate) fn partition(&self, name: &str, index: i32) -> Option<(&Topic, &PartitionLog)> {
        let topic = self.by_name.get(name)?;
        Some((topic, topic.partitions.get(usize::try_from(index).ok()?)?))
    }

    pub(crate) fn partition_mut(
        &mut self,
        topic_partition: &TopicPartition,
    ) -> Option<PartitionMut<'_>> {
        let topic = self.by_name.get_mut(&topic_partition.topic)?;
        let index = usize::try_from(topic_partition.partition).ok()?;
        Some(PartitionMut {
            id: topic.id,
            config: &topic.config,
            log: topic.partitions.get_mut(index)?,
        })
    }
}

/// A partition to write to, with what its topic says about it.
#[derive(Debug)]
pub(crate) struct PartitionMut<'a> {
    pub(crate) id: Uuid,
    pub(crate) config: &'a TopicConfig,
    pub(crate) log: &'a mut PartitionLog,
}

/// Whether a name may be a topic's (`Topic.validate`): 1 to 249 of `a-z A-Z 0-9 . _ -`, neither `.` nor `..`.
#[must_use]
pub fn topic_name_is_legal(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 249
        && name != "."
        && name != ".."
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}
