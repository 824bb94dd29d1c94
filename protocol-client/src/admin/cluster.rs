//! The cluster as a whole: brokers, controller, features.

use millstream_protocol::messages::kp::DescribeClusterRequest;
use millstream_protocol::messages::{ApiVersionsRequest, FinalizedFeature, SupportedFeature};
use millstream_protocol::network::{Destination, RequestError};
use millstream_protocol::{ErrorCode, Request, Response};

use super::ask::Answer;
use crate::client::Ask;
use crate::{ClientError, KafkaClient};

/// A cluster as one of its brokers describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClusterDescription {
    /// Its id, the same on all brokers; empty before 0.10.1.
    pub cluster_id: String,
    /// The broker that clients take for the controller; `None` while there is none. Under KRaft any broker, for it only
    /// passes requests on.
    pub controller: Option<i32>,
    /// Its brokers, by id.
    pub brokers: Vec<BrokerDescription>,
    /// The feature levels that the cluster has agreed on (KIP-584), by name. A feature at level 0 is not listed.
    pub finalized_features: Vec<ClusterFeature>,
    /// The feature levels that the broker could take part in, by name.
    pub supported_features: Vec<ClusterFeature>,
}

/// A broker of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrokerDescription {
    /// Its id.
    pub id: i32,
    /// Where clients reach it: its advertised host name or address.
    pub host: String,
    /// And port, 1 to 65535.
    pub port: i32,
    /// Its rack (`broker.rack`), if it has one.
    pub rack: Option<String>,
    /// Registered, but not serving (KIP-1073). Told by brokers from 4.0; older ones leave such brokers out.
    pub is_fenced: bool,
}

/// Levels of a feature (KIP-584), as `transaction.version`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterFeature {
    /// Its name.
    pub name: String,
    /// The lowest level, inclusive.
    pub min_level: i16,
    /// The highest level, inclusive.
    pub max_level: i16,
}

impl KafkaClient {
    /// Brokers, controller, id and features of the cluster: DescribeCluster 0 to 2 (KIP-700; Metadata before 2.8) and
    /// ApiVersions, asked of any broker.
    ///
    /// # Errors
    ///
    /// As [any call](KafkaClient#errors-of-any-call).
    pub async fn describe_cluster(&self) -> Result<ClusterDescription, ClientError> {
        let mut attempts = self.attempts("describe the cluster");
        let mut description = ClusterDescription {
            cluster_id: String::new(),
            controller: None,
            brokers: Vec::new(),
            finalized_features: Vec::new(),
            supported_features: Vec::new(),
        };
        self.describe_brokers(&mut description).await?;
        let question = |_: &_| {
            let request = ApiVersionsRequest {
                client_software_name: "millstream".to_owned(),
                client_software_version: env!("CARGO_PKG_VERSION").to_owned(),
            };
            Ask::new(Destination::AnyBroker, Request::ApiVersions(request))
        };
        let versions = self
            .ask(&mut attempts, question, |attempts, response| match response {
                Response::ApiVersions(response) if response.error_code.is_error() => {
                    Answer::of_code(attempts, response.error_code, None::<&str>)
                }
                Response::ApiVersions(response) => Answer::Done(response),
                _ => Answer::left_out(),
            })
            .await?;
        description.finalized_features =
            versions.finalized_features.into_iter().map(finalized).collect();
        description.supported_features =
            versions.supported_features.into_iter().map(supported).collect();
        description.finalized_features.sort();
        description.supported_features.sort();
        Ok(description)
    }

    /// DescribeCluster, or Metadata where a broker does not know it (before 2.8).
    async fn describe_brokers(
        &self,
        description: &mut ClusterDescription,
    ) -> Result<(), ClientError> {
        let mut attempts = self.attempts("describe the cluster");
        let mut fenced = true;
        loop {
            let request = DescribeClusterRequest::default().with_include_fenced_brokers(fenced);
            let ask = Ask::new(Destination::AnyBroker, Request::DescribeCluster(request));
            let response = match self.request(ask, attempts.remaining()).await {
                Ok(Response::DescribeCluster(response)) => response,
                Ok(_) => continue,
                // Brokers before 4.0 can not be asked for fenced ones.
                Err(RequestError::Encode(_)) if fenced => {
                    fenced = false;
                    continue;
                }
                Err(RequestError::UnsupportedByBroker { .. }) => break,
                Err(error) => {
                    attempts.after(error).await?;
                    continue;
                }
            };
            let code = ErrorCode(response.error_code);
            if code.is_retriable() {
                attempts.pause(&code.to_string()).await?;
                continue;
            }
            if code.is_error() {
                let message = response.error_message.as_deref();
                return Err(ClientError::of_code(attempts.operation(), code, message));
            }
            description.cluster_id = response.cluster_id.to_string();
            description.controller = Some(response.controller_id.0).filter(|id| *id >= 0);
            let brokers = response.brokers.into_iter().map(|broker| BrokerDescription {
                id: broker.broker_id.0,
                host: broker.host.to_string(),
                port: broker.port,
                rack: broker.rack.map(|rack| rack.to_string()),
                is_fenced: broker.is_fenced,
            });
            description.brokers = brokers.collect();
            description.brokers.sort_by_key(|broker| broker.id);
            return Ok(());
        }
        let metadata = self.cluster_metadata(&mut attempts, &[]).await?;
        description.cluster_id = metadata.cluster_id.as_deref().unwrap_or_default().to_owned();
        description.controller = Some(metadata.controller_id.0).filter(|id| *id >= 0);
        let brokers = metadata.brokers.into_iter().map(|broker| BrokerDescription {
            id: broker.node_id.0,
            host: broker.host.to_string(),
            port: broker.port,
            rack: broker.rack.map(|rack| rack.to_string()),
            is_fenced: false,
        });
        description.brokers = brokers.collect();
        description.brokers.sort_by_key(|broker| broker.id);
        Ok(())
    }
}

fn finalized(feature: FinalizedFeature) -> ClusterFeature {
    ClusterFeature {
        name: feature.name,
        min_level: feature.min_version_level,
        max_level: feature.max_version_level,
    }
}

fn supported(feature: SupportedFeature) -> ClusterFeature {
    ClusterFeature {
        name: feature.name,
        min_level: feature.min_version,
        max_level: feature.max_version,
    }
}
