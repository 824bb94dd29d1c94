//! What can go wrong with a cluster.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

/// A cluster could not be started or used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// Nothing on this machine can run Apache Kafka.
    #[error("no real Apache Kafka on this machine: {reason}")]
    Unavailable {
        /// What was looked for, and what was found.
        reason: String,
    },
    /// The operating system refused something.
    #[error("failed to {action}")]
    Io {
        /// What was tried.
        action: String,
        /// Why it failed.
        source: io::Error,
    },
    /// A command ended with an error.
    #[error("{command} ended with exit code {code}: {output}")]
    Command {
        /// The command, shortened.
        command: String,
        /// Its exit code.
        code: i32,
        /// The end of what it printed.
        output: String,
    },
    /// A broker ended instead of becoming ready.
    #[error("broker {broker} ended with exit code {code}; its log is in {}: {tail}", log_dir.display())]
    BrokerEnded {
        /// Index of the broker, from 0.
        broker: usize,
        /// Exit code, 128 + n for signal n.
        code: i32,
        /// Folder with its log, kept.
        log_dir: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    /// The brokers ran but did not answer in time.
    #[error("broker {broker} is not ready after {waited:?} ({last}); its log is in {}", log_dir.display())]
    NotReady {
        /// Index of the broker, from 0.
        broker: usize,
        /// How long it was asked.
        waited: Duration,
        /// The last answer.
        last: String,
        /// Folder with its log, kept.
        log_dir: PathBuf,
    },
    /// The JVM helper answered something that is no result.
    #[error("the Java client failed to {action}: {message}")]
    JavaClient {
        /// The command sent.
        action: String,
        /// The exception, or what was read instead of an answer.
        message: String,
    },
}

impl From<io::Error> for ClusterError {
    fn from(source: io::Error) -> Self {
        Self::Io { action: "use the file system".to_owned(), source }
    }
}

/// Says what was tried when the operating system refuses.
pub(crate) trait Action<T> {
    /// Turns an I/O error into one that names the action.
    fn action(self, action: impl FnOnce() -> String) -> Result<T, ClusterError>;
}

impl<T> Action<T> for io::Result<T> {
    fn action(self, action: impl FnOnce() -> String) -> Result<T, ClusterError> {
        self.map_err(|source| ClusterError::Io { action: action(), source })
    }
}
