//! One broker of a cluster, whichever way it runs.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::fault_proxy::FaultProxy;
use crate::kafka::docker::DockerNode;
use crate::kafka::error::{Action, ClusterError};
use crate::kafka::jars::{KafkaJars, java_program, last_lines};
use crate::kafka::kept_logs::KEEP;
use crate::kafka::properties::NodeAddress;
use crate::ports::PortLease;
use crate::process::{GuardedCommand, GuardedProcess, Signal, shell_quoted};

/// Where the broker's program comes from.
#[derive(Debug)]
pub(crate) enum Runtime {
    Jars { jars: KafkaJars, jvm_flags: Vec<OsString> },
    Docker(DockerNode),
}

/// A broker's folder, ports and process.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) index: usize,
    pub(crate) folder: PathBuf,
    pub(crate) address: NodeAddress,
    pub(crate) proxy: Option<FaultProxy>,
    pub(crate) runtime: Runtime,
    // Tests of one binary may share a cluster, so all verbs take `&self`; the lock makes each verb one step.
    process: Mutex<Option<GuardedProcess>>,
    _ports: Vec<PortLease>,
}

impl Node {
    pub(crate) fn new(
        index: usize,
        folder: PathBuf,
        address: NodeAddress,
        ports: Vec<PortLease>,
        proxy: Option<FaultProxy>,
        runtime: Runtime,
    ) -> Self {
        Self { index, folder, address, proxy, runtime, process: Mutex::new(None), _ports: ports }
    }

    /// Starts the process without waiting until it is ready.
    pub(crate) fn spawn(&self) -> Result<(), ClusterError> {
        let log = self.log_file();
        let command = match &self.runtime {
            Runtime::Jars { jars, jvm_flags } => GuardedCommand::new(java_program("java"))
                .args(jvm_flags)
                .arg(jars.log_config())
                .arg("-cp")
                .arg(jars.class_path())
                .arg("kafka.Kafka")
                .arg(self.folder.join("server.properties"))
                .when_abandoned(remove_unless_kept(&self.folder)),
            Runtime::Docker(docker) => docker.run_command(&self.folder, &self.address),
        };
        let process = command
            .current_dir(&self.folder)
            .stdout(&log)
            .stderr(&log)
            .spawn()
            .action(|| format!("start broker {}", self.index))?;
        *self.process() = Some(process);
        Ok(())
    }

    /// The exit code if the process ended by itself.
    pub(crate) fn ended(&self) -> Option<i32> {
        self.process().as_mut().and_then(|process| process.try_wait().ok().flatten())
    }

    /// Sends a signal; for SIGKILL, waits until the broker is gone.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), ClusterError> {
        let mut process = self.process();
        if let Runtime::Docker(docker) = &self.runtime {
            docker.signal(signal)?;
        } else if let Some(process) = process.as_ref() {
            process.signal(signal);
        }
        if signal == Signal::Kill {
            // Dropping waits for the end.
            *process = None;
        }
        Ok(())
    }

    /// Asks the broker to end and waits for it; SIGKILL if it does not within the limit.
    pub(crate) fn stop(&self, limit: Duration) -> Result<(), ClusterError> {
        self.signal(Signal::Term)?;
        if let Some(process) = self.process().as_mut() {
            process.wait(limit).action(|| format!("wait for broker {}", self.index))?;
        }
        self.signal(Signal::Kill)
    }

    pub(crate) fn process_id(&self) -> Option<u32> {
        self.process().as_ref().map(GuardedProcess::process_id)
    }

    pub(crate) fn log_file(&self) -> PathBuf {
        self.folder.join("kafka.log")
    }

    pub(crate) fn log_tail(&self, lines: usize) -> String {
        last_lines(&fs::read_to_string(self.log_file()).unwrap_or_default(), lines)
    }

    fn process(&self) -> MutexGuard<'_, Option<GuardedProcess>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a watchdog does with a node's folder: gone, and its parent with the last one, unless a panic marked it.
fn remove_unless_kept(folder: &Path) -> String {
    let cluster = folder.parent().unwrap_or(folder);
    let keep = shell_quoted(&cluster.join(KEEP).display().to_string());
    let cluster = shell_quoted(&cluster.display().to_string());
    let folder = shell_quoted(&folder.display().to_string());
    format!("if [ ! -e {keep} ]; then rm -rf {folder}; rmdir {cluster} 2>/dev/null; fi")
}
