//! Kafka's own command-line tools, each a JVM of its own (about a second of processor time).

use std::fs;
use std::time::Duration;

use crate::kafka::cluster::KafkaCluster;
use crate::kafka::error::{Action, ClusterError};
use crate::kafka::jars::{at_least, java_program, last_lines};
use crate::kafka::node::Runtime;
use crate::process::GuardedCommand;

const TOOL_LIMIT: Duration = Duration::from_secs(120);
const NULL: &str = "\u{1}null\u{1}";
const SEPARATOR: char = '\u{1f}';

/// What a tool printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolOutput {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// When the console consumer has read enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumeEnd {
    /// After so many records, or when none came for the time.
    Records(u64, Duration),
    /// When no record came for the time.
    Idle(Duration),
}

/// A record as the console consumer printed it. Bytes that are not UTF-8 are replaced.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConsoleRecord {
    /// Partition it was read from.
    pub partition: i32,
    /// Its offset.
    pub offset: i64,
    /// Its key, `None` for null.
    pub key: Option<String>,
    /// Its value, `None` for null.
    pub value: Option<String>,
}

/// A line of `TransactionsCommand list`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListedTransaction {
    /// The transactional id.
    pub transactional_id: String,
    /// Node id of the coordinator.
    pub coordinator: i32,
    /// The producer id.
    pub producer_id: i64,
    /// `Ongoing`, `PrepareCommit`, `CompleteAbort` …
    pub state: String,
}

impl ListedTransaction {
    /// Whether it holds back readers of committed records.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !matches!(self.state.as_str(), "Empty" | "CompleteCommit" | "CompleteAbort" | "Dead")
    }
}

impl KafkaCluster {
    /// Runs the main class of a tool, such as `org.apache.kafka.tools.TopicCommand`. `--bootstrap-server` is not added; see
    /// [`tool_bootstrap_servers`](Self::tool_bootstrap_servers).
    ///
    /// # Errors
    ///
    /// [`ClusterError::Command`] with what it printed, if it exits with anything but 0, or after 2 minutes.
    pub fn run_tool(&self, class: &str, args: &[&str]) -> Result<ToolOutput, ClusterError> {
        self.run_tool_within(class, args, TOOL_LIMIT)
    }

    fn run_tool_within(
        &self,
        class: &str,
        args: &[&str],
        limit: Duration,
    ) -> Result<ToolOutput, ClusterError> {
        let folder = tempfile::tempdir().action(|| "make a temporary folder".to_owned())?;
        let (out, err) = (folder.path().join("out"), folder.path().join("err"));
        let command = match &self.node(0)?.runtime {
            Runtime::Jars { jars, .. } => GuardedCommand::new(java_program("java"))
                .args(jars.tool_args())
                .args(self.tool_hosts())
                .arg(class),
            Runtime::Docker(docker) => docker.tool_command(class),
        };
        let mut process = command
            .args(args)
            .stdout(&out)
            .stderr(&err)
            .spawn()
            .action(|| format!("start {class}"))?;
        let code = process.wait(limit).action(|| format!("wait for {class}"))?;
        let read = |file| fs::read(file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let output = ToolOutput {
            stdout: read(&out).action(|| format!("read the output of {class}"))?,
            stderr: read(&err).action(|| format!("read the output of {class}"))?,
        };
        if code == Some(0) {
            return Ok(output);
        }
        Err(ClusterError::Command {
            command: format!("{class} {}", args.join(" ")),
            code: code.unwrap_or(-1),
            output: last_lines(&format!("{}\n{}", output.stdout, output.stderr), 8),
        })
    }

    /// The addresses that a tool run by [`run_tool`](Self::run_tool) reaches the brokers at.
    #[must_use]
    pub fn tool_bootstrap_servers(&self) -> String {
        let addresses: Vec<String> = self
            .nodes
            .iter()
            .map(|node| format!("{}:{}", node.address.host, node.address.internal_port))
            .collect();
        addresses.join(",")
    }

    /// Creates a topic with the cluster's replication factor. `configs` are pairs such as `cleanup.policy=compact`.
    ///
    /// # Errors
    ///
    /// If the tool fails, for example because the topic exists.
    pub fn create_topic(
        &self,
        name: &str,
        partitions: u32,
        configs: &[&str],
    ) -> Result<(), ClusterError> {
        let bootstrap = self.tool_bootstrap_servers();
        let partitions = partitions.to_string();
        let mut args = vec![
            "--bootstrap-server",
            &bootstrap,
            "--create",
            "--topic",
            name,
            "--partitions",
            &partitions,
        ];
        for config in configs {
            args.extend(["--config", config]);
        }
        self.run_tool("org.apache.kafka.tools.TopicCommand", &args).map(drop)
    }

    /// Reads a topic from the beginning with Kafka's console consumer under `read_committed`.
    ///
    /// # Errors
    ///
    /// If the tool fails, or prints something that is no record.
    pub fn console_consume(
        &self,
        topic: &str,
        end: ConsumeEnd,
    ) -> Result<Vec<ConsoleRecord>, ClusterError> {
        let bootstrap = self.tool_bootstrap_servers();
        let (records, idle) = match end {
            ConsumeEnd::Records(records, idle) => (Some(records.to_string()), idle),
            ConsumeEnd::Idle(idle) => (None, idle),
        };
        let idle_ms = idle.as_millis().to_string();
        let mut args = vec!["--bootstrap-server", &bootstrap, "--topic", topic, "--from-beginning"];
        args.extend(["--isolation-level", "read_committed", "--timeout-ms", &idle_ms]);
        if let Some(records) = &records {
            args.extend(["--max-messages", records]);
        }
        let null = format!("null.literal={NULL}");
        let separator = format!("key.separator={SEPARATOR}");
        // KIP-1147 renamed the option.
        let option =
            if at_least(self.version(), 4, 2) { "--formatter-property" } else { "--property" };
        for property in
            ["print.partition=true", "print.offset=true", "print.key=true", &null, &separator]
        {
            args.extend([option, property]);
        }
        let class = "org.apache.kafka.tools.consumer.ConsoleConsumer";
        let class =
            if at_least(self.version(), 3, 8) { class } else { "kafka.tools.ConsoleConsumer" };
        let output = self.run_tool_within(class, &args, TOOL_LIMIT.saturating_add(idle) * 3)?;
        // Between the records stand lines of its log, such as the time-out that ends it; the tool's own count tells whether
        // one of them was a record after all.
        let records: Vec<ConsoleRecord> =
            output.stdout.lines().filter_map(console_record).collect();
        if processed(&output) == Some(records.len()) {
            return Ok(records);
        }
        Err(ClusterError::Command {
            command: class.to_owned(),
            code: 0,
            output: format!(
                "{} records were understood; it also printed: {}",
                records.len(),
                last_lines(&output.stderr, 5)
            ),
        })
    }

    /// All transactions that the coordinators know, by Kafka's tool; [`ListedTransaction::is_open`] tells which hold readers back.
    ///
    /// # Errors
    ///
    /// If the tool fails.
    pub fn list_transactions(&self) -> Result<Vec<ListedTransaction>, ClusterError> {
        let bootstrap = self.tool_bootstrap_servers();
        let args = ["--bootstrap-server", bootstrap.as_str(), "list"];
        let output = self.run_tool("org.apache.kafka.tools.TransactionsCommand", &args)?;
        Ok(output.stdout.lines().filter_map(listed_transaction).collect())
    }
}

/// The number in `Processed a total of 12 messages`.
fn processed(output: &ToolOutput) -> Option<usize> {
    let lines = output.stderr.lines().chain(output.stdout.lines());
    let count = lines.rev().find_map(|line| line.strip_prefix("Processed a total of "))?;
    count.split_whitespace().next()?.parse().ok()
}

/// `Partition:0<sep>Offset:7<sep>key<sep>value`.
fn console_record(line: &str) -> Option<ConsoleRecord> {
    let mut parts = line.splitn(4, SEPARATOR);
    let partition = parts.next()?.strip_prefix("Partition:")?.parse().ok()?;
    let offset = parts.next()?.strip_prefix("Offset:")?.parse().ok()?;
    let mut text = || parts.next().map(|text| (text != NULL).then(|| text.to_owned()));
    Some(ConsoleRecord { partition, offset, key: text()?, value: text()? })
}

/// `TransactionalId<tab>Coordinator<tab>ProducerId<tab>TransactionState` in columns; the header is no transaction.
fn listed_transaction(line: &str) -> Option<ListedTransaction> {
    let mut words = line.split_whitespace().rev();
    let state = words.next()?.to_owned();
    let producer_id = words.next()?.parse().ok()?;
    let coordinator = words.next()?.parse().ok()?;
    let transactional_id = words.rev().collect::<Vec<_>>().join(" ");
    Some(ListedTransaction { transactional_id, coordinator, producer_id, state })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn console_lines_are_taken_apart() {
        let line = format!("Partition:2\u{1f}Offset:17\u{1f}{NULL}\u{1f}a\u{1f}b");
        let record = ConsoleRecord {
            partition: 2,
            offset: 17,
            key: None,
            value: Some("a\u{1f}b".to_owned()),
        };
        assert_eq!(console_record(&line), Some(record));
        assert_eq!(console_record("Processed a total of 3 messages"), None);
    }

    #[test]
    fn transaction_lines_are_taken_apart_and_the_header_is_skipped() {
        assert_eq!(
            listed_transaction("TransactionalId\tCoordinator\tProducerId\tTransactionState"),
            None
        );
        let listed =
            listed_transaction("flights-q1/0  \t1          \t2000      \tOngoing         ")
                .unwrap();
        assert_eq!(listed.transactional_id, "flights-q1/0");
        assert_eq!((listed.coordinator, listed.producer_id), (1, 2000));
        assert!(listed.is_open());
    }
}
