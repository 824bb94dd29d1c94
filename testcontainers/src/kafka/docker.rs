//! Brokers in containers of the `apache/kafka` image, by the command-line client of Docker.
//!
//! A container lives as long as one run of the broker; its data lie in the node's folder, so a killed broker finds them again.
//! Clients reach it through a port published on 127.0.0.1, other brokers through a network of the cluster.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::kafka::error::{Action, ClusterError};
use crate::kafka::jars::last_lines;
use crate::kafka::properties::NodeAddress;
use crate::process::{GuardedCommand, Signal};

const LABEL: &str = "millstream-testcontainers";
/// The node's folder as the container sees it.
pub(crate) const FOLDER_INSIDE: &str = "/millstream";

/// Formats on the first start; `exec` so that signals reach the JVM.
const START: &str = "/opt/kafka/bin/kafka-storage.sh format --ignore-formatted -t \"$CLUSTER_ID\" \
     -c /millstream/server.properties $FORMAT_ARGS && \
     exec /opt/kafka/bin/kafka-server-start.sh /millstream/server.properties";

/// How one broker's container is run.
#[derive(Debug)]
pub(crate) struct DockerNode {
    pub(crate) image: String,
    pub(crate) container: String,
    pub(crate) network: Option<String>,
    pub(crate) cluster_id: String,
    pub(crate) format_args: Vec<String>,
    pub(crate) shared_folder: Option<PathBuf>,
    pub(crate) heap: String,
}

impl DockerNode {
    /// The foreground client whose end is the end of the container.
    pub(crate) fn run_command(&self, folder: &Path, address: &NodeAddress) -> GuardedCommand {
        let published = |port: u16| format!("127.0.0.1:{port}:{port}");
        let mut command = GuardedCommand::new("docker")
            .args(["run", "--rm", "--user", "root", "--entrypoint", "/bin/bash"])
            .args(["--label", LABEL, "--name", &self.container, "--hostname", &address.host])
            .args(["-p", &published(address.client_port), "-p", &published(address.internal_port)])
            .args(["-v", &format!("{}:{FOLDER_INSIDE}", folder.display())])
            .args(["-e", &format!("CLUSTER_ID={}", self.cluster_id)])
            .args(["-e", &format!("FORMAT_ARGS={}", self.format_args.join(" "))])
            .args(["-e", &format!("KAFKA_HEAP_OPTS=-Xmx{}", self.heap)]);
        if let Some(network) = &self.network {
            command = command.args(["--network", network]);
        }
        for (.., port) in &address.more {
            command = command.args(["-p", &published(*port)]);
        }
        if let Some(shared) = &self.shared_folder {
            command = command.args(["-v", &format!("{0}:{0}:ro", shared.display())]);
        }
        // Killing the client leaves the container running.
        let remove = format!("docker rm -f {} >/dev/null 2>&1", self.container);
        command.args([self.image.as_str(), "-c", START]).when_abandoned(remove)
    }

    /// Docker's own verb for a signal. A container that is gone takes no notice.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), ClusterError> {
        let verb: &[&str] = match signal {
            Signal::Kill => &["rm", "-f"],
            Signal::Term => &["kill", "-s", "TERM"],
            Signal::Int => &["kill", "-s", "INT"],
            Signal::Stop => &["pause"],
            Signal::Cont => &["unpause"],
        };
        Command::new("docker")
            .args(verb)
            .arg(&self.container)
            .stdin(Stdio::null())
            .output()
            .action(|| format!("send {signal:?} to container {}", self.container))?;
        Ok(())
    }

    /// A tool of the distribution, run inside the broker's container.
    pub(crate) fn tool_command(&self, class: &str) -> GuardedCommand {
        GuardedCommand::new("docker").args([
            "exec",
            &self.container,
            "/opt/kafka/bin/kafka-run-class.sh",
            class,
        ])
    }
}

/// Makes the network of a cluster, and removes those that killed test processes left an hour ago or earlier.
pub(crate) fn create_network(name: &str) -> Result<(), ClusterError> {
    docker(&[
        "network",
        "prune",
        "-f",
        "--filter",
        &format!("label={LABEL}"),
        "--filter",
        "until=1h",
    ])?;
    docker(&["network", "create", "--label", LABEL, name])
}

/// Removes the network of a cluster whose containers are gone.
pub(crate) fn remove_network(name: &str) -> Result<(), ClusterError> {
    docker(&["network", "rm", name])
}

/// Brings the image, so that the time for it does not count as start-up time of a broker.
pub(crate) fn pull(image: &str) -> Result<(), ClusterError> {
    if docker(&["image", "inspect", image]).is_ok() {
        return Ok(());
    }
    docker(&["pull", "-q", image])
}

fn docker(args: &[&str]) -> Result<(), ClusterError> {
    let output = Command::new("docker")
        .args(args)
        .stdin(Stdio::null())
        .output()
        .action(|| "start docker".to_owned())?;
    if output.status.success() {
        return Ok(());
    }
    Err(ClusterError::Command {
        command: format!("docker {}", args.join(" ")),
        code: output.status.code().unwrap_or(-1),
        output: last_lines(&String::from_utf8_lossy(&output.stderr), 5),
    })
}
