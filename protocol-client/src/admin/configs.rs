//! Read and change the configuration of topics and brokers.

use std::collections::BTreeMap;
use std::fmt;

use millstream_protocol::messages::kp::describe_configs_request::DescribeConfigsResource;
use millstream_protocol::messages::kp::describe_configs_response::DescribeConfigsResourceResult;
use millstream_protocol::messages::kp::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use millstream_protocol::messages::kp::{DescribeConfigsRequest, IncrementalAlterConfigsRequest};
use millstream_protocol::network::Destination;
use millstream_protocol::{ErrorCode, NodeId, Request, Response};

use super::ask::Answer;
use super::text;
use crate::attempts::Attempts;
use crate::client::Ask;
use crate::{ClientError, KafkaClient};

/// What has a configuration.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigResource {
    /// A topic, by name.
    Topic(String),
    /// A broker, by id. It is asked itself.
    Broker(i32),
    /// All brokers (the cluster-wide default, KIP-226): what holds where a broker has no value of its own.
    AllBrokers,
}

/// A property of a topic or broker.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigEntry {
    /// Its name, as `retention.ms`.
    pub name: String,
    /// Its value as text, durations in the unit of the name; `None` if it has none or is sensitive.
    pub value: Option<String>,
    /// Where the value comes from.
    pub source: ConfigSource,
    /// It can not be changed while the broker runs (KIP-226).
    pub is_read_only: bool,
    /// It is a secret, which brokers do not tell.
    pub is_sensitive: bool,
}

/// Where the value of a property comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigSource {
    /// Set on the topic.
    Topic,
    /// Set on this broker while it ran.
    Broker,
    /// Set for all brokers while they ran.
    AllBrokers,
    /// The broker's properties file.
    File,
    /// Kafka's default.
    Default,
    /// Another, by Kafka's number.
    Other(i8),
}

/// A change of one property (KIP-339). Lists, as `cleanup.policy`, can be changed by element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigChange {
    /// Gives the property this value.
    Set {
        /// The property.
        name: String,
        /// The value.
        value: String,
    },
    /// Takes the value away: what is less specific holds again, in the end Kafka's default.
    Delete {
        /// The property.
        name: String,
    },
    /// Adds elements to a list.
    Append {
        /// The property.
        name: String,
        /// Elements, with commas between.
        value: String,
    },
    /// Takes elements from a list.
    Subtract {
        /// The property.
        name: String,
        /// Elements, with commas between.
        value: String,
    },
}

impl KafkaClient {
    /// The values of these properties, of all if none is named, by name. Properties without a value, unknown and sensitive
    /// ones are left out.
    ///
    /// # Errors
    ///
    /// As [`describe_config_entries`](Self::describe_config_entries).
    pub async fn describe_configs(
        &self,
        resource: ConfigResource,
        names: &[&str],
    ) -> Result<BTreeMap<String, String>, ClientError> {
        let entries = self.describe_config_entries(&resource, names).await?;
        Ok(entries.into_iter().filter_map(|entry| Some((entry.name, entry.value?))).collect())
    }

    /// These properties with where their values come from, all if none is named, sorted by name: DescribeConfigs 1 to 4
    /// (KIP-133). Unknown ones are left out.
    ///
    /// # Errors
    ///
    /// [`ClientError::UnknownTopic`]; [`ClientError::TimedOut`] for a broker that is not part of the cluster;
    /// [`ClientError::Broker`] for a missing permission (DESCRIBE_CONFIGS); else as
    /// [any call](KafkaClient#errors-of-any-call).
    pub async fn describe_config_entries(
        &self,
        resource: &ConfigResource,
        names: &[&str],
    ) -> Result<Vec<ConfigEntry>, ClientError> {
        let mut attempts = self.attempts(format!("describe the configuration of {resource}"));
        let keys: Option<Vec<_>> =
            (!names.is_empty()).then(|| names.iter().map(|name| text(name)).collect());
        let question = |_: &Attempts| {
            let asked = DescribeConfigsResource::default()
                .with_resource_type(resource.kind())
                .with_resource_name(text(&resource.name()))
                .with_configuration_keys(keys.clone());
            let request = DescribeConfigsRequest::default().with_resources(vec![asked]);
            Ask::new(resource.destination(), Request::DescribeConfigs(request))
        };
        let mut entries = self
            .ask(&mut attempts, question, |attempts, response| {
                let Response::DescribeConfigs(response) = response else {
                    return Answer::left_out();
                };
                let Some(result) = response.results.into_iter().next() else {
                    return Answer::left_out();
                };
                let code = ErrorCode(result.error_code);
                if code.is_error() {
                    return refused(attempts, resource, code, result.error_message.as_deref());
                }
                Answer::Done(result.configs.into_iter().map(entry).collect::<Vec<_>>())
            })
            .await?;
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// Changes properties, each resource by itself and as a whole or not at all; properties that are not named keep their
    /// values: IncrementalAlterConfigs 0 to 1 (KIP-339). With `validate_only` nothing is changed. One time limit
    /// (`default.api.timeout.ms`) holds for all resources together.
    ///
    /// # Errors
    ///
    /// By resource: [`ClientError::Broker`] with INVALID_CONFIG for an unknown name or bad value, INVALID_REQUEST for a
    /// broker's property that needs a restart or an element taken from what is no list, or a permission error;
    /// [`ClientError::UnknownTopic`]; [`ClientError::Unsupported`] for brokers before 2.3.
    pub async fn alter_configs(
        &self,
        changes: &BTreeMap<ConfigResource, Vec<ConfigChange>>,
        validate_only: bool,
    ) -> BTreeMap<ConfigResource, Result<(), ClientError>> {
        let call = self.attempts("change configurations");
        let mut results = BTreeMap::new();
        for (resource, changes) in changes {
            let mut attempts = call.part(format!("change the configuration of {resource}"));
            let question = |_: &Attempts| {
                let altered = AlterConfigsResource::default()
                    .with_resource_type(resource.kind())
                    .with_resource_name(text(&resource.name()))
                    .with_configs(changes.iter().map(ConfigChange::alterable).collect());
                let request = IncrementalAlterConfigsRequest::default()
                    .with_resources(vec![altered])
                    .with_validate_only(validate_only);
                let request = Request::IncrementalAlterConfigs(request);
                Ask::new(resource.destination(), request).slow()
            };
            let result = self
                .ask(&mut attempts, question, |attempts, response| {
                    let Response::IncrementalAlterConfigs(response) = response else {
                        return Answer::left_out();
                    };
                    let Some(result) = response.responses.first() else {
                        return Answer::left_out();
                    };
                    let code = ErrorCode(result.error_code);
                    if code.is_error() {
                        return refused(attempts, resource, code, result.error_message.as_deref());
                    }
                    Answer::Done(())
                })
                .await;
            results.insert(resource.clone(), result);
        }
        results
    }
}

impl ConfigResource {
    fn kind(&self) -> i8 {
        match self {
            Self::Topic(_) => 2,
            Self::Broker(_) | Self::AllBrokers => 4,
        }
    }

    fn name(&self) -> String {
        match self {
            Self::Topic(name) => name.clone(),
            Self::Broker(id) => id.to_string(),
            Self::AllBrokers => String::new(),
        }
    }

    /// A broker's own properties are told and changed only by itself.
    fn destination(&self) -> Destination {
        match self {
            Self::Broker(id) => Destination::Node(NodeId(*id)),
            Self::Topic(_) | Self::AllBrokers => Destination::AnyBroker,
        }
    }
}

impl fmt::Display for ConfigResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topic(name) => write!(f, "topic '{name}'"),
            Self::Broker(id) => write!(f, "broker {id}"),
            Self::AllBrokers => f.write_str("all brokers"),
        }
    }
}

impl ConfigChange {
    fn alterable(&self) -> AlterableConfig {
        let (operation, name, value) = match self {
            Self::Set { name, value } => (0, name, Some(value)),
            Self::Delete { name } => (1, name, None),
            Self::Append { name, value } => (2, name, Some(value)),
            Self::Subtract { name, value } => (3, name, Some(value)),
        };
        AlterableConfig::default()
            .with_config_operation(operation)
            .with_name(text(name))
            .with_value(value.map(|value| text(value)))
    }
}

fn entry(result: DescribeConfigsResourceResult) -> ConfigEntry {
    ConfigEntry {
        name: result.name.to_string(),
        value: result.value.map(|value| value.to_string()),
        source: match result.config_source {
            1 => ConfigSource::Topic,
            2 => ConfigSource::Broker,
            3 => ConfigSource::AllBrokers,
            4 => ConfigSource::File,
            5 => ConfigSource::Default,
            other => ConfigSource::Other(other),
        },
        is_read_only: result.read_only,
        is_sensitive: result.is_sensitive,
    }
}

fn refused<T>(
    attempts: &Attempts,
    resource: &ConfigResource,
    code: ErrorCode,
    message: Option<&str>,
) -> Answer<T> {
    match resource {
        ConfigResource::Topic(topic)
            if code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
                && attempts.failures() >= MISSING_TRIES =>
        {
            let operation = attempts.operation().to_owned();
            Answer::Refused(ClientError::UnknownTopic { operation, topic: topic.clone() })
        }
        _ => Answer::of_code(attempts, code, message),
    }
}

/// How often "unknown" is not believed yet: topics just created are not known everywhere at once.
const MISSING_TRIES: u32 = 3;
