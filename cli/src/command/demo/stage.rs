//! What the demo needs around its job, and leaves as it found it: a broker, topics, a folder for state.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use millstream_dev_broker::{DevBroker, DevBrokerConfig};
use millstream_engine::kafka::{ClientConfig, ClientError, KafkaClient, NewTopic};
use millstream_engine::ledger_topic;
use tempfile::TempDir;

use super::feed::PARTITIONS;
use super::job::Place;
use crate::args::DemoArguments;
use crate::command::CommandError;
use crate::output::note;

/// A job that was just killed may still write into the folder that is being removed.
const REMOVE_PATIENCE: Duration = Duration::from_secs(2);

/// Names carry the time, so that they are new on a cluster that others use.
#[derive(Debug)]
pub(crate) struct Stage {
    /// Unless the cluster is somebody else's.
    broker: Option<DevBroker>,
    bootstrap_server: String,
    pub(crate) client: KafkaClient,
    pub(crate) job: String,
    pub(crate) input_topic: String,
    pub(crate) output_topic: String,
    pub(crate) ledger_topic: String,
    state: TempDir,
}

impl Stage {
    /// Connects to `bootstrap_server`, or else to a broker in this process. Makes nothing on the cluster yet.
    pub(crate) async fn open(bootstrap_server: Option<&str>) -> Result<Self, CommandError> {
        let (broker, bootstrap_server) = match bootstrap_server {
            Some(address) => (None, address.to_owned()),
            None => {
                let broker = DevBroker::start(DevBrokerConfig::default())?;
                let address = broker.address().to_owned();
                (Some(broker), address)
            }
        };
        let client = KafkaClient::connect(ClientConfig::new(&bootstrap_server)).await?;
        let stamp = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
        let job = format!("millstream-demo-{stamp}");
        // An empty root, as of a container made of this binary alone, has no folder for temporary files yet.
        std::fs::create_dir_all(std::env::temp_dir())?;
        let state = tempfile::Builder::new().prefix("millstream-demo-").tempdir()?;
        Ok(Self {
            broker,
            bootstrap_server,
            client,
            input_topic: format!("{job}-flights"),
            output_topic: format!("{job}-landings"),
            ledger_topic: ledger_topic(&job),
            job,
            state,
        })
    }

    /// Whether the cluster is somebody else's.
    pub(crate) fn is_foreign(&self) -> bool {
        self.broker.is_none()
    }

    pub(crate) async fn create_topics(&self) -> Result<(), CommandError> {
        for name in [&self.input_topic, &self.output_topic] {
            self.client.create_topic(NewTopic::new(name, PARTITIONS, 1)).await?;
        }
        Ok(())
    }

    pub(crate) fn place<'a>(
        &'a self,
        arguments: &DemoArguments,
        out_of_orderness: Duration,
    ) -> Place<'a> {
        Place {
            bootstrap_server: &self.bootstrap_server,
            input_topic: &self.input_topic,
            output_topic: &self.output_topic,
            state_dir: self.state.path(),
            job: &self.job,
            parallelism: arguments.parallelism,
            checkpoint_interval: arguments.checkpoint_interval,
            out_of_orderness,
            bounded: false,
        }
    }

    /// Removes what the demo has made; `keep_topics` leaves the topics on somebody else's cluster. No job may be at work any more.
    pub(crate) async fn close(self, keep_topics: bool) {
        if self.is_foreign() {
            let topics = [&self.input_topic, &self.output_topic, &self.ledger_topic];
            if keep_topics {
                note("these topics stay on the cluster:");
                topics.iter().for_each(|topic| note(&format!("  {topic}")));
            } else {
                for topic in topics {
                    self.delete(topic).await;
                }
            }
        }
        self.client.close().await;
        if let Some(broker) = self.broker {
            broker.stop().await;
        }
        remove(self.state).await;
    }

    async fn delete(&self, topic: &str) {
        match self.client.delete_topic(topic).await {
            // A demo that ended early has not made all of them.
            Ok(()) | Err(ClientError::UnknownTopic { .. }) => {}
            Err(error) => note(&format!("topic {topic} stays on the cluster: {error}")),
        }
    }
}

async fn remove(state: TempDir) {
    let path = state.keep();
    let begun = Instant::now();
    while let Err(error) = std::fs::remove_dir_all(&path) {
        if error.kind() == std::io::ErrorKind::NotFound {
            return;
        }
        if begun.elapsed() >= REMOVE_PATIENCE {
            note(&format!("failed to remove {}: {error}", path.display()));
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
