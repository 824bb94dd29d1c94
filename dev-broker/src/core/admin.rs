//! Topics from outside: CreateTopics, DeleteTopics, DescribeConfigs.

use std::sync::Arc;

use millstream_protocol::ErrorCode;
use millstream_protocol::messages::kp;
use uuid::Uuid;

use super::cluster::Cluster;
use super::connection::text;
use super::log::PartitionLog;
use super::storage::{StateRecord, StorageEffect};
use super::topics::{Topic, TopicConfig, topic_name_is_legal};

/// More would only be a mistake in a cluster in one process.
const MAX_PARTITIONS: i32 = 10_000;

const TOPIC_RESOURCE: i8 = 2;
const BROKER_RESOURCE: i8 = 4;

/// Where a described value comes from (`ConfigSource`).
const FROM_TOPIC: i8 = 1;
const FROM_BROKER_FILE: i8 = 4;
const FROM_DEFAULT: i8 = 5;

impl Cluster {
    pub(crate) fn create_topics(
        &mut self,
        version: i16,
        request: &kp::CreateTopicsRequest,
    ) -> kp::CreateTopicsResponse {
        let mut results = Vec::with_capacity(request.topics.len());
        for topic in &request.topics {
            let twice = request.topics.iter().filter(|other| other.name == topic.name).count() > 1;
            let outcome = if twice {
                Err((ErrorCode::INVALID_REQUEST, "Duplicate topic name.".to_owned()))
            } else {
                self.checked_topic(version, topic)
            };
            let result = kp::create_topics_response::CreatableTopicResult::default()
                .with_name(topic.name.clone());
            results.push(match outcome {
                Err((error, message)) => result
                    .with_error_code(error.0)
                    .with_error_message(Some(text(&message)))
                    .with_num_partitions(-1)
                    .with_replication_factor(-1),
                Ok((partitions, config)) => {
                    let id = if request.validate_only {
                        Uuid::nil()
                    } else {
                        self.add_topic(topic.name.as_str(), partitions, config.clone())
                    };
                    result
                        .with_topic_id(id)
                        .with_num_partitions(partitions)
                        .with_replication_factor(1)
                        .with_configs(Some(self.created_configs(&config)))
                }
            });
        }
        kp::CreateTopicsResponse::default().with_topics(results)
    }

    fn checked_topic(
        &self,
        version: i16,
        topic: &kp::create_topics_request::CreatableTopic,
    ) -> Result<(i32, TopicConfig), (ErrorCode, String)> {
        let name = topic.name.as_str();
        if !topic_name_is_legal(name) {
            return Err((
                ErrorCode::INVALID_TOPIC_EXCEPTION,
                format!("Topic name {name:?} is illegal"),
            ));
        }
        if self.topics.topic(name).is_some() {
            return Err((
                ErrorCode::TOPIC_ALREADY_EXISTS,
                format!("Topic '{name}' already exists."),
            ));
        }
        let partitions = self.partition_count(version, topic)?;
        let given = topic.configs.iter().map(|config| {
            (config.name.to_string(), config.value.as_ref().map(ToString::to_string))
        });
        let config =
            TopicConfig::new(given).map_err(|message| (ErrorCode::INVALID_CONFIG, message))?;
        Ok((partitions, config))
    }

    fn partition_count(
        &self,
        version: i16,
        topic: &kp::create_topics_request::CreatableTopic,
    ) -> Result<i32, (ErrorCode, String)> {
        if !topic.assignments.is_empty() {
            if topic.num_partitions != -1 || topic.replication_factor != -1 {
                return Err((
                    ErrorCode::INVALID_REQUEST,
                    "A manual assignment excludes a partition count and a replication factor."
                        .to_owned(),
                ));
            }
            let node = kp::BrokerId(self.config.node_id);
            let mut indexes: Vec<i32> =
                topic.assignments.iter().map(|assignment| assignment.partition_index).collect();
            indexes.sort_unstable();
            let consecutive = (0..).zip(&indexes).all(|(index, found)| index == *found);
            let ours = topic.assignments.iter().all(|assignment| assignment.broker_ids == [node]);
            return match i32::try_from(indexes.len()) {
                Ok(count) if consecutive && ours => Ok(count),
                _ => Err((
                    ErrorCode::INVALID_REPLICA_ASSIGNMENT,
                    format!(
                        "Partitions must be 0, 1, 2, … and lie on node {}.",
                        self.config.node_id
                    ),
                )),
            };
        }
        let defaults_allowed = version >= 4;
        let partitions = match topic.num_partitions {
            -1 if defaults_allowed => self.config.default_partitions,
            count if (1..=MAX_PARTITIONS).contains(&count) => count,
            _ => {
                return Err((
                    ErrorCode::INVALID_PARTITIONS,
                    format!("Number of partitions must be from 1 to {MAX_PARTITIONS}."),
                ));
            }
        };
        match topic.replication_factor {
            -1 if defaults_allowed => Ok(partitions),
            factor
                if u64::try_from(factor)
                    .is_ok_and(|f| (1..=self.replicas_in_sync()).contains(&f)) =>
            {
                Ok(partitions)
            }
            factor => Err((
                ErrorCode::INVALID_REPLICATION_FACTOR,
                format!(
                    "Unable to replicate the partition {factor} time(s): only {} broker(s) registered.",
                    self.replicas_in_sync()
                ),
            )),
        }
    }

    /// Makes a topic of `partitions` empty partitions and returns its id.
    pub(crate) fn add_topic(&mut self, name: &str, partitions: i32, config: TopicConfig) -> Uuid {
        let id = self.fresh_topic_id();
        let given = config.given().clone();
        self.store(|| StateRecord::TopicCreated {
            name: name.to_owned(),
            id,
            leader_epoch: 0,
            partitions,
            config: given,
        });
        let logs = (0..partitions)
            .map(|partition| {
                let mut log = PartitionLog::new();
                log.leadership = self.first_leadership(name, partition);
                log
            })
            .collect();
        let topic = Topic { id, config, partitions: logs };
        self.topics.by_name.insert(Arc::from(name), topic);
        id
    }

    fn created_configs(
        &self,
        config: &TopicConfig,
    ) -> Vec<kp::create_topics_response::CreatableTopicConfigs> {
        config
            .described(&self.config)
            .into_iter()
            .map(|(name, value, given)| {
                kp::create_topics_response::CreatableTopicConfigs::default()
                    .with_name(text(name))
                    .with_value(Some(text(&value)))
                    .with_config_source(if given { FROM_TOPIC } else { FROM_DEFAULT })
            })
            .collect()
    }

    pub(crate) fn delete_topics(
        &mut self,
        version: i16,
        request: &kp::DeleteTopicsRequest,
    ) -> kp::DeleteTopicsResponse {
        let by_state = request.topics.iter().map(|topic| (topic.name.clone(), topic.topic_id));
        let by_name = request.topic_names.iter().map(|name| (Some(name.clone()), Uuid::nil()));
        let wanted: Vec<_> = if version >= 6 { by_state.collect() } else { by_name.collect() };
        let responses = wanted
            .into_iter()
            .map(|(name, id)| {
                let found = match &name {
                    Some(name) => self.topics.by_name.get_key_value(name.as_str()),
                    None => self.topics.by_name.iter().find(|(_, topic)| topic.id == id),
                };
                let found = found.map(|(name, topic)| (Arc::clone(name), topic.id));
                let result = kp::delete_topics_response::DeletableTopicResult::default();
                match found {
                    Some((name, id)) => {
                        self.remove_topic(&name, id);
                        result
                            .with_name(Some(super::connection::topic_name(&name)))
                            .with_topic_id(id)
                    }
                    None => {
                        let error = match &name {
                            Some(_) => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                            None => ErrorCode::UNKNOWN_TOPIC_ID,
                        };
                        result.with_name(name).with_topic_id(id).with_error_code(error.0)
                    }
                }
            })
            .collect();
        kp::DeleteTopicsResponse::default().with_responses(responses)
    }

    fn remove_topic(&mut self, name: &Arc<str>, id: Uuid) {
        self.topics.by_name.remove(name);
        self.groups.forget_topic(name);
        self.store(|| StateRecord::TopicDeleted { id });
        self.effect(|| StorageEffect::DeleteLogs { topic_id: id });
        self.note_topic_gone(name);
    }

    pub(crate) fn describe_configs(
        &self,
        request: &kp::DescribeConfigsRequest,
    ) -> kp::DescribeConfigsResponse {
        let results = request.resources.iter().map(|resource| self.described(resource)).collect();
        kp::DescribeConfigsResponse::default().with_results(results)
    }

    fn described(
        &self,
        resource: &kp::describe_configs_request::DescribeConfigsResource,
    ) -> kp::describe_configs_response::DescribeConfigsResult {
        let result = kp::describe_configs_response::DescribeConfigsResult::default()
            .with_resource_type(resource.resource_type)
            .with_resource_name(resource.resource_name.clone());
        let refused = |error: ErrorCode, message: String| {
            result.clone().with_error_code(error.0).with_error_message(Some(text(&message)))
        };
        let name = resource.resource_name.as_str();
        let values: Vec<(String, String, i8)> = match resource.resource_type {
            TOPIC_RESOURCE => match self.topics.topic(name) {
                None => {
                    return refused(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, String::new());
                }
                Some(topic) => topic
                    .config
                    .described(&self.config)
                    .into_iter()
                    .map(|(name, value, given)| {
                        (name.to_owned(), value, if given { FROM_TOPIC } else { FROM_DEFAULT })
                    })
                    .collect(),
            },
            BROKER_RESOURCE => {
                if name != self.config.node_id.to_string() {
                    return refused(
                        ErrorCode::INVALID_REQUEST,
                        format!(
                            "Unexpected broker id, expected {}, but received {name}",
                            self.config.node_id
                        ),
                    );
                }
                self.broker_settings()
            }
            kind => {
                return refused(
                    ErrorCode::INVALID_REQUEST,
                    format!("Unsupported resource type {kind}"),
                );
            }
        };
        let wanted = |name: &str| {
            resource
                .configuration_keys
                .as_ref()
                .is_none_or(|keys| keys.iter().any(|key| key.as_str() == name))
        };
        let broker = resource.resource_type == BROKER_RESOURCE;
        let configs = values
            .into_iter()
            .filter(|(name, ..)| wanted(name))
            .map(|(name, value, source)| {
                kp::describe_configs_response::DescribeConfigsResourceResult::default()
                    .with_name(text(&name))
                    .with_value(Some(text(&value)))
                    .with_read_only(broker)
                    .with_config_source(source)
            })
            .collect();
        result.with_configs(configs)
    }

    fn broker_settings(&self) -> Vec<(String, String, i8)> {
        let config = &self.config;
        [
            ("auto.create.topics.enable", config.auto_create_topics.to_string()),
            ("broker.id", config.node_id.to_string()),
            ("default.replication.factor", "1".to_owned()),
            ("fetch.max.bytes", config.fetch_max_bytes.to_string()),
            ("log.segment.bytes", config.segment_bytes.to_string()),
            ("message.max.bytes", config.message_max_bytes.to_string()),
            ("min.insync.replicas", "1".to_owned()),
            ("node.id", config.node_id.to_string()),
            ("num.partitions", config.default_partitions.to_string()),
            (
                "transaction.abort.timed.out.transaction.cleanup.interval.ms",
                config.transaction_abort_scan_interval.as_millis().to_string(),
            ),
            ("transaction.max.timeout.ms", config.transaction_max_timeout.as_millis().to_string()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value, FROM_BROKER_FILE))
        .collect()
    }
}
