//! Read the configuration of topics and brokers.

use std::collections::BTreeMap;

use millstream_protocol::messages::kp::DescribeConfigsRequest;
use millstream_protocol::messages::kp::describe_configs_request::DescribeConfigsResource;
use millstream_protocol::network::Destination;
use millstream_protocol::{ErrorCode, NodeId, Request, Response};

use super::text;
use crate::client::Ask;
use crate::{ClientError, KafkaClient};

/// What has a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigResource {
    /// A topic, by name.
    Topic(String),
    /// A broker, by id.
    Broker(i32),
}

impl KafkaClient {
    /// The values of these properties, of all if none is named. Properties without a value, unknown and sensitive ones are
    /// left out.
    ///
    /// # Errors
    ///
    /// [`ClientError::UnknownTopic`]; [`ClientError::Broker`] for a missing permission.
    pub async fn describe_configs(
        &self,
        resource: ConfigResource,
        names: &[&str],
    ) -> Result<BTreeMap<String, String>, ClientError> {
        let (kind, name, destination) = match &resource {
            ConfigResource::Topic(name) => (TOPIC, name.clone(), Destination::AnyBroker),
            ConfigResource::Broker(id) => (BROKER, id.to_string(), Destination::Node(NodeId(*id))),
        };
        let what = if kind == TOPIC { "topic" } else { "broker" };
        let mut attempts = self.attempts(format!("describe the configuration of {what} '{name}'"));
        let keys = (!names.is_empty()).then(|| names.iter().map(|name| text(name)).collect());
        loop {
            let resource = DescribeConfigsResource::default()
                .with_resource_type(kind)
                .with_resource_name(text(&name))
                .with_configuration_keys(keys.clone());
            let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
            let ask = Ask::new(destination.clone(), Request::DescribeConfigs(request));
            let response = match self.request(ask, attempts.remaining()).await {
                Ok(response) => response,
                Err(error) => {
                    attempts.after(error).await?;
                    continue;
                }
            };
            let Response::DescribeConfigs(response) = response else { continue };
            let Some(result) = response.results.into_iter().next() else {
                attempts.pause("the answer leaves the resource out").await?;
                continue;
            };
            match ErrorCode(result.error_code) {
                ErrorCode::NONE => {
                    let values = result.configs.into_iter();
                    let values =
                        values.filter_map(|c| Some((c.name.to_string(), c.value?.to_string())));
                    return Ok(values.collect());
                }
                ErrorCode::UNKNOWN_TOPIC_OR_PARTITION if attempts.failures() >= 3 => {
                    let operation = attempts.operation().to_owned();
                    return Err(ClientError::UnknownTopic { operation, topic: name });
                }
                code if code.is_retriable() => attempts.pause(&code.to_string()).await?,
                code => {
                    let message = result.error_message.as_deref();
                    return Err(ClientError::of_code(attempts.operation(), code, message));
                }
            }
        }
    }
}

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
