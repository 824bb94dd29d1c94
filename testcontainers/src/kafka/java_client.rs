//! Kafka's Java client behind typed calls: one JVM that serves a whole test binary.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

use crate::cache::fill_once;
use crate::kafka::builder::DEFAULT_VERSION;
use crate::kafka::error::{Action, ClusterError};
use crate::kafka::jars::{KafkaJars, java_program, last_lines};

const SOURCE: &str = include_str!("../../java/InteropClient.java");

/// A header as it stands in a record: names may repeat, a value may be null.
pub type JavaHeader = (String, Option<Vec<u8>>);

/// A record for the Java producer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JavaRecord {
    /// Partition; `None` lets the producer choose by the key.
    pub partition: Option<i32>,
    /// Milliseconds since 1970; `None` for now.
    pub timestamp: Option<i64>,
    /// Key, `None` for null.
    pub key: Option<Vec<u8>>,
    /// Value, `None` for null (a tombstone).
    pub value: Option<Vec<u8>>,
    /// Headers in order.
    pub headers: Vec<JavaHeader>,
}

/// A record as the Java consumer read it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProducedRecord {
    /// Partition it was read from.
    pub partition: i32,
    /// Its offset.
    pub offset: i64,
    /// Milliseconds since 1970.
    pub timestamp: i64,
    /// Key, `None` for null.
    pub key: Option<Vec<u8>>,
    /// Value, `None` for null.
    pub value: Option<Vec<u8>>,
    /// Headers in order.
    pub headers: Vec<JavaHeader>,
}

/// `compression.type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Codec {
    #[default]
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

impl Codec {
    /// Every codec of the protocol.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// Kafka's name for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

/// How a transactional produce ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionEnd {
    /// `commitTransaction`.
    Commit,
    /// `abortTransaction`.
    Abort,
    /// Left open; the next produce with the same id goes on in it.
    Open,
}

/// How to produce.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProduceOptions {
    /// Codec of the batches.
    pub codec: Codec,
    /// Transactional id and end; `None` for a plain idempotent producer.
    pub transaction: Option<(String, TransactionEnd)>,
    /// Further producer properties.
    pub properties: BTreeMap<String, String>,
}

impl TransactionEnd {
    fn name(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Abort => "abort",
            Self::Open => "open",
        }
    }
}

/// Which records a consumer sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Committed ones, up to the last stable offset.
    ReadCommitted,
    /// All.
    ReadUncommitted,
}

/// A transaction that the cluster knows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JavaTransaction {
    /// The transactional id.
    pub transactional_id: String,
    /// The producer id.
    pub producer_id: i64,
    /// `Ongoing`, `CompleteCommit` …
    pub state: String,
}

/// A JVM with Kafka's client that takes one call at a time. It serves any cluster, real or not. Ends when dropped, or with us.
#[derive(Debug)]
pub struct JavaClient {
    log: PathBuf,
    // A command and its answer belong together, whichever thread asks.
    conversation: Mutex<Conversation>,
}

#[derive(Debug)]
struct Conversation {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl JavaClient {
    /// Starts the JVM with the client of the default release.
    ///
    /// # Errors
    ///
    /// If jars or compiler are missing.
    pub fn start() -> Result<Self, ClusterError> {
        Self::start_version(DEFAULT_VERSION)
    }

    /// Starts the JVM with the client of a release.
    ///
    /// # Errors
    ///
    /// If jars or compiler are missing.
    pub fn start_version(version: &str) -> Result<Self, ClusterError> {
        let jars = KafkaJars::resolve(version)?;
        let classes = jars.folder().join(format!("interop-{:016x}", fingerprint(SOURCE)));
        fill_once(&classes, |staging| compile(&jars, staging))?;
        let mut class_path = jars.class_path();
        class_path.push(":");
        class_path.push(&classes);
        let log =
            std::env::temp_dir().join(format!("millstream-java-client-{}.log", std::process::id()));
        let stderr = File::create(&log).action(|| format!("write {}", log.display()))?;
        let mut child = Command::new(java_program("java"))
            .args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m"])
            .arg(jars.log_config())
            // Standard output is for answers.
            .args(["-Dmillstream.log.level=off", "-cp"])
            .arg(class_path)
            .arg("InteropClient")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .action(|| "start java".to_owned())?;
        let (Some(commands), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(std::io::Error::other("no pipe to java").into());
        };
        let answers = BufReader::new(answers);
        Ok(Self { log, conversation: Mutex::new(Conversation { child, commands, answers }) })
    }

    /// Produces the records, flushes, and ends the transaction if there is one. Returns partition and offset of each record.
    ///
    /// # Errors
    ///
    /// [`ClusterError::JavaClient`] with the client's exception.
    pub fn produce(
        &self,
        bootstrap_servers: &str,
        topic: &str,
        records: &[JavaRecord],
        options: &ProduceOptions,
    ) -> Result<Vec<(i32, i64)>, ClusterError> {
        let records: Vec<Value> = records.iter().map(record_to_json).collect();
        let mut command = json!({
            "op": "produce",
            "bootstrap": bootstrap_servers,
            "topic": topic,
            "codec": options.codec.name(),
            "properties": options.properties,
            "records": records,
        });
        if let Some((id, end)) = &options.transaction {
            command["transactionalId"] = json!(id);
            command["end"] = json!(end.name());
        }
        let answer = self.ask(&command, |_| Some(()))?.1;
        let offsets = answer["offsets"].as_array().map(Vec::as_slice).unwrap_or_default();
        offsets
            .iter()
            .map(|pair| Some((i32_of(&pair[0])?, pair[1].as_i64()?)))
            .collect::<Option<_>>()
            .ok_or_else(|| unexpected("produce", &answer.to_string()))
    }

    /// Reads every partition of a topic from its beginning to the end that it has now. Sorted by partition and offset.
    ///
    /// # Errors
    ///
    /// [`ClusterError::JavaClient`] with the client's exception, or after a minute.
    pub fn consume(
        &self,
        bootstrap_servers: &str,
        topic: &str,
        isolation: Isolation,
    ) -> Result<Vec<ProducedRecord>, ClusterError> {
        let isolation = match isolation {
            Isolation::ReadCommitted => "read_committed",
            Isolation::ReadUncommitted => "read_uncommitted",
        };
        let command = json!({"op": "consume", "bootstrap": bootstrap_servers, "topic": topic, "isolation": isolation});
        let mut records = self.ask(&command, record_from_json)?.0;
        records.sort();
        Ok(records)
    }

    /// The transactions that the coordinators know.
    ///
    /// # Errors
    ///
    /// [`ClusterError::JavaClient`] with the client's exception.
    pub fn list_transactions(
        &self,
        bootstrap_servers: &str,
    ) -> Result<Vec<JavaTransaction>, ClusterError> {
        let command = json!({"op": "transactions", "bootstrap": bootstrap_servers});
        let answer = self.ask(&command, |_| Some(()))?.1;
        let list = answer["transactions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let transaction = |entry: &Value| {
            Some(JavaTransaction {
                transactional_id: entry["transactionalId"].as_str()?.to_owned(),
                producer_id: entry["producerId"].as_i64()?,
                state: entry["state"].as_str()?.to_owned(),
            })
        };
        list.iter()
            .map(transaction)
            .collect::<Option<_>>()
            .ok_or_else(|| unexpected("transactions", &answer.to_string()))
    }

    /// Creates a topic with the cluster's replication factor.
    ///
    /// # Errors
    ///
    /// [`ClusterError::JavaClient`] with the client's exception.
    pub fn create_topic(
        &self,
        bootstrap_servers: &str,
        topic: &str,
        partitions: u32,
        configs: &BTreeMap<String, String>,
    ) -> Result<(), ClusterError> {
        let command = json!({
            "op": "createTopic",
            "bootstrap": bootstrap_servers,
            "topic": topic,
            "partitions": partitions,
            "configs": configs,
        });
        self.ask(&command, |_| Some(())).map(drop)
    }

    /// Deletes a topic.
    ///
    /// # Errors
    ///
    /// [`ClusterError::JavaClient`] with the client's exception.
    pub fn delete_topic(&self, bootstrap_servers: &str, topic: &str) -> Result<(), ClusterError> {
        let command = json!({"op": "deleteTopic", "bootstrap": bootstrap_servers, "topic": topic});
        self.ask(&command, |_| Some(())).map(drop)
    }

    /// Sends a command; returns its lines as `item` reads them, and the last line.
    fn ask<T>(
        &self,
        command: &Value,
        item: impl Fn(&Value) -> Option<T>,
    ) -> Result<(Vec<T>, Value), ClusterError> {
        let action = command["op"].as_str().unwrap_or_default();
        let mut conversation = self.conversation.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = |error: std::io::Error| {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            unexpected(action, &format!("{error}; {}", last_lines(&log, 5)))
        };
        writeln!(conversation.commands, "{command}").map_err(gone)?;
        let mut items = Vec::new();
        loop {
            let mut line = String::new();
            if conversation.answers.read_line(&mut line).map_err(gone)? == 0 {
                return Err(gone(std::io::ErrorKind::UnexpectedEof.into()));
            }
            let Ok(answer) = serde_json::from_str::<Value>(&line) else {
                return Err(unexpected(action, &line));
            };
            if let Some(error) = answer["error"].as_str() {
                return Err(unexpected(action, error));
            }
            if answer["done"] == true {
                return Ok((items, answer));
            }
            items.push(item(&answer).ok_or_else(|| unexpected(action, &line))?);
        }
    }
}

impl Drop for JavaClient {
    fn drop(&mut self) {
        let conversation = self.conversation.get_mut().unwrap_or_else(PoisonError::into_inner);
        // It has nothing to lose, and may have ended already.
        let _ = conversation.child.kill();
        let _ = conversation.child.wait();
        let _ = fs::remove_file(&self.log);
    }
}

fn compile(jars: &KafkaJars, staging: &Path) -> Result<(), ClusterError> {
    let source = staging.join("InteropClient.java");
    fs::write(&source, SOURCE).action(|| format!("write {}", source.display()))?;
    let output = Command::new(java_program("javac"))
        .arg("-cp")
        .arg(jars.class_path())
        .arg("-d")
        .arg(staging)
        .arg(&source)
        .stdin(Stdio::null())
        .output()
        .action(|| "start javac".to_owned())?;
    if output.status.success() {
        return Ok(());
    }
    Err(ClusterError::Command {
        command: "javac InteropClient.java".to_owned(),
        code: output.status.code().unwrap_or(-1),
        output: last_lines(&String::from_utf8_lossy(&output.stderr), 12),
    })
}

/// FNV-1a: a changed source is compiled anew.
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn record_to_json(record: &JavaRecord) -> Value {
    let headers: Vec<Value> = record
        .headers
        .iter()
        .map(|(name, value)| json!([name, value.as_deref().map(to_hex)]))
        .collect();
    json!({
        "partition": record.partition,
        "timestamp": record.timestamp,
        "key": record.key.as_deref().map(to_hex),
        "value": record.value.as_deref().map(to_hex),
        "headers": headers,
    })
}

fn record_from_json(json: &Value) -> Option<ProducedRecord> {
    let headers = json["headers"].as_array()?;
    Some(ProducedRecord {
        partition: i32_of(&json["partition"])?,
        offset: json["offset"].as_i64()?,
        timestamp: json["timestamp"].as_i64()?,
        key: bytes_of(&json["key"])?,
        value: bytes_of(&json["value"])?,
        headers: headers
            .iter()
            .map(|pair| Some((pair[0].as_str()?.to_owned(), bytes_of(&pair[1])?)))
            .collect::<Option<_>>()?,
    })
}

fn i32_of(json: &Value) -> Option<i32> {
    json.as_i64()?.try_into().ok()
}

/// Outer `None`: neither null nor hexadecimal.
fn bytes_of(json: &Value) -> Option<Option<Vec<u8>>> {
    if json.is_null() {
        return Some(None);
    }
    let text = json.as_str()?;
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16)?.try_into().ok()).collect();
    let digits = digits?;
    let pairs =
        digits.chunks_exact(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit));
    digits.len().is_multiple_of(2).then(|| Some(pairs.collect()))
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unexpected(action: &str, message: &str) -> ClusterError {
    ClusterError::JavaClient { action: action.to_owned(), message: message.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_the_way_through_text() {
        for bytes in [None, Some(vec![]), Some(vec![0, 15, 16, 255])] {
            assert_eq!(bytes_of(&json!(bytes.as_deref().map(to_hex))), Some(bytes));
        }
        for wrong in ["0", "0g"] {
            assert_eq!(bytes_of(&json!(wrong)), None);
        }
    }
}
