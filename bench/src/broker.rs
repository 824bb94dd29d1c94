//! The brokers a benchmark runs on.

use clap::ValueEnum;
use millstream_dev_broker::{DevBroker, DevBrokerConfig};
use millstream_testcontainers::{Availability, KafkaCluster, availability};

use crate::BenchError;
use crate::usage::cpu_seconds_of;

/// Which broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// The development broker, in the benchmark's own process.
    Dev,
    /// Apache Kafka, one node, with the JVM's default flags and a heap of 2 GiB.
    Kafka,
}

/// A running broker.
#[derive(Debug)]
pub(crate) enum Broker {
    Dev(DevBroker),
    Kafka(KafkaCluster),
}

impl Broker {
    /// Starts one; the reason if this machine can not.
    pub(crate) async fn start(kind: Kind) -> Result<Result<Self, String>, BenchError> {
        match kind {
            Kind::Dev => {
                let config =
                    DevBrokerConfig { listen: "127.0.0.1:0".to_owned(), ..Default::default() };
                Ok(Ok(Self::Dev(DevBroker::start(config)?)))
            }
            Kind::Kafka => {
                if let Availability::Neither { reason } = availability() {
                    return Ok(Err(reason.clone()));
                }
                // A deleted topic gives its memory back at once: a run that had to fill fresh pages, as where a machine lends
                // them late, would be told apart from its neighbour by that alone.
                let builder = KafkaCluster::builder().for_benchmarks().heap("2g");
                let builder = builder.property("log.segment.delete.delay.ms", "100");
                let cluster = tokio::task::spawn_blocking(|| builder.start());
                Ok(Ok(Self::Kafka(cluster.await??)))
            }
        }
    }

    pub(crate) fn bootstrap_server(&self) -> String {
        match self {
            Self::Dev(broker) => broker.address().to_string(),
            Self::Kafka(cluster) => cluster.bootstrap_servers(),
        }
    }

    /// Starts real Kafka, an error if this machine can not.
    pub(crate) async fn kafka() -> Result<Self, BenchError> {
        let started = Self::start(Kind::Kafka).await?;
        started.map_err(|reason| format!("no broker to measure on: {reason}").into())
    }

    /// Processor time that a broker in a process of its own has used so far, in seconds.
    pub(crate) fn cpu_seconds(&self) -> Result<Option<f64>, BenchError> {
        let Self::Kafka(cluster) = self else { return Ok(None) };
        let Some(id) = cluster.process_id(0) else { return Ok(None) };
        Ok(Some(cpu_seconds_of(&id.to_string())?))
    }

    pub(crate) fn name(&self) -> String {
        match self {
            Self::Dev(_) => "development broker".to_owned(),
            Self::Kafka(cluster) => format!("Apache Kafka {}", cluster.version()),
        }
    }
}
