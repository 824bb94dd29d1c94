//! Kafka's Java client behind typed calls: one JVM that serves a whole test binary.

mod groups;
mod json;
mod types;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use json::{i32_of, record_from_json, record_to_json};
pub use types::{
    Codec, Isolation, JavaAssignment, JavaGroupMember, JavaHeader, JavaRecord, JavaTransaction,
    ProduceOptions, ProducedRecord, TransactionEnd,
};

use crate::cache::fill_once;
use crate::kafka::builder::DEFAULT_VERSION;
use crate::kafka::class_archive;
use crate::kafka::error::{Action, ClusterError};
use crate::kafka::jars::{KafkaJars, QUICK_START, java_program, last_lines};

const SOURCE: &str = include_str!("../../../java/InteropClient.java");

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
        static CLIENTS: AtomicU32 = AtomicU32::new(0);
        let number = CLIENTS.fetch_add(1, Ordering::Relaxed);
        let name = format!("millstream-java-client-{}-{number}.log", std::process::id());
        let log = std::env::temp_dir().join(name);
        let stderr = File::create(&log).action(|| format!("write {}", log.display()))?;
        let mut child = Command::new(java_program("java"))
            .args(QUICK_START)
            .args(class_archive::option(version))
            .arg("-Xmx256m")
            .arg(jars.log_config())
            .args(["-Dmillstream.log.level=warn", "-cp"])
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

    /// Produces the first `lines` lines of a gzip file as values (line i to partition i modulo their number), spread evenly over a
    /// time. Returns how many. It blocks this client meanwhile; feed by one of its own what others read at the same time.
    ///
    /// # Errors
    ///
    /// [`ClusterError::JavaClient`] with the client's exception.
    pub fn feed_lines(
        &self,
        bootstrap_servers: &str,
        topic: &str,
        file: &Path,
        lines: usize,
        over: Duration,
    ) -> Result<u64, ClusterError> {
        let command = json!({
            "op": "feed",
            "bootstrap": bootstrap_servers,
            "topic": topic,
            "file": file.display().to_string(),
            "lines": lines.min(i32::MAX as usize),
            "overMs": u64::try_from(over.as_millis()).unwrap_or(u64::MAX),
        });
        let answer = self.ask(&command, |_| Some(()))?.1;
        answer["count"].as_u64().ok_or_else(|| unexpected("feed", &answer.to_string()))
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
        let failed = |error: &dyn Display| {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            unexpected(action, &format!("{error}; it logged last:\n{}", last_lines(&log, 20)))
        };
        let gone = |error: std::io::Error| failed(&error);
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
                return Err(failed(&error));
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

fn unexpected(action: &str, message: &str) -> ClusterError {
    ClusterError::JavaClient { action: action.to_owned(), message: message.to_owned() }
}
