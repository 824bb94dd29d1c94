//! The programs that are compared: ours, and the peers', which are built when they are needed.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::ValueEnum;
use millstream_testcontainers::{DEFAULT_VERSION, KafkaJars, cache_dir, java_program};

use super::workload::Workload;
use crate::BenchError;

/// One client in one way of using it.
#[derive(Clone, Debug)]
pub(crate) struct Contestant {
    pub(crate) name: String,
    pub(crate) is_ours: bool,
    /// Program and arguments before the verb.
    program: Vec<OsString>,
    verb: &'static str,
    more: Vec<String>,
    /// Partitions of the topic, if it has a say in it.
    pub(crate) partitions: Option<i32>,
}

impl Contestant {
    fn new(name: &str, program: &[OsString], verb: &'static str) -> Self {
        Self {
            name: name.to_owned(),
            is_ours: false,
            program: program.to_vec(),
            verb,
            more: Vec::new(),
            partitions: None,
        }
    }

    fn with(mut self, more: &[&str]) -> Self {
        self.more.extend(more.iter().map(|&argument| argument.to_owned()));
        self
    }

    fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    fn over(mut self, partitions: i32) -> Self {
        self.partitions = Some(partitions);
        self
    }

    /// How to start it, but for the options that all have in common.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(self.program.first().cloned().unwrap_or_default());
        command.args(self.program.iter().skip(1)).arg(self.verb).args(&self.more);
        command
    }
}

/// Our own program.
pub(crate) fn ours(verb: &'static str, name: &str) -> Result<Contestant, BenchError> {
    let program = [std::env::current_exe()?.into_os_string(), "client".into()];
    Ok(Contestant { is_ours: true, ..Contestant::new(name, &program, verb) })
}

/// Who takes part in a workload.
pub(crate) fn contestants(
    workload: Workload,
    peers: &[(Peer, Vec<OsString>)],
) -> Result<Vec<Contestant>, BenchError> {
    let of_peers = |verb: &'static str| {
        peers.iter().filter_map(move |(peer, program)| {
            let contestant = Contestant::new(peer.library(), program, verb);
            match peer {
                Peer::FranzGoPooled if verb == "produce" => None,
                Peer::FranzGoPooled => {
                    Some(contestant.named("franz-go pooled").with(&["--pooled"]))
                }
                _ => Some(contestant),
            }
        })
    };
    let mut all = Vec::new();
    match workload {
        Workload::Consume100
        | Workload::Consume100Lz4
        | Workload::Consume1k
        | Workload::Consume1kLz4 => {
            all.push(ours("consume", "millstream")?);
            all.extend(of_peers("consume"));
        }
        Workload::Produce100 | Workload::Produce100Lz4 => {
            all.push(ours("produce", "millstream")?);
            all.push(ours("produce-batches", "millstream, batches")?);
            all.extend(of_peers("produce"));
        }
        Workload::Transactions => {
            all.push(ours("produce", "no transactions")?);
            let committing = ours("produce", "committed each 100 ms")?;
            all.push(committing.with(&["--commit-interval-ms", "100"]));
        }
        Workload::Partitions => {
            all.push(ours("consume", "1 partition")?.over(1));
            let many = super::workload::MANY_PARTITIONS;
            all.push(ours("consume", "1,000 partitions")?.over(many));
        }
    }
    Ok(all)
}

/// A client to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Peer {
    /// librdkafka, read by batches of its queue
    Librdkafka,
    /// franz-go
    FranzGo,
    /// franz-go with pools for records and decompressed batches
    FranzGoPooled,
    /// Apache Kafka's own client for Java
    KafkaClients,
}

impl Peer {
    const fn library(self) -> &'static str {
        match self {
            Self::Librdkafka => "librdkafka",
            Self::FranzGo | Self::FranzGoPooled => "franz-go",
            Self::KafkaClients => "kafka-clients",
        }
    }

    /// Builds the peer's program, outside the repository; the words that start it. The reason if it can not be built.
    pub(crate) fn build(self) -> Result<Vec<OsString>, String> {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
        let cache = cache_dir().join("peers");
        match self {
            Self::Librdkafka => librdkafka(&sources.join("librdkafka"), &cache),
            Self::FranzGo | Self::FranzGoPooled => franz_go(&sources.join("franz-go"), &cache),
            Self::KafkaClients => kafka_clients(&sources.join("java"), &cache),
        }
    }
}

fn librdkafka(sources: &Path, cache: &Path) -> Result<Vec<OsString>, String> {
    let target = cache.join("librdkafka");
    done(
        Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["build", "--quiet", "--release", "--locked", "--target-dir"])
            .arg(&target)
            .current_dir(sources),
    )?;
    Ok(vec![target.join("release/peer-librdkafka").into()])
}

fn franz_go(sources: &Path, cache: &Path) -> Result<Vec<OsString>, String> {
    let program = cache.join("franz-go/peer-franz-go");
    done(
        Command::new("go")
            .args(["build", "-mod=readonly", "-trimpath", "-o"])
            .arg(&program)
            .arg(".")
            .env("GOCACHE", cache.join("franz-go/build"))
            .env("GOMODCACHE", cache.join("franz-go/modules"))
            .env("GOFLAGS", "-modcacherw")
            .env("GOTOOLCHAIN", "local")
            .current_dir(sources),
    )?;
    Ok(vec![program.into()])
}

fn kafka_clients(sources: &Path, cache: &Path) -> Result<Vec<OsString>, String> {
    let jars = KafkaJars::resolve(DEFAULT_VERSION).map_err(|error| error.to_string())?;
    let classes: PathBuf = cache.join("java");
    fs::create_dir_all(&classes).map_err(|error| format!("{}: {error}", classes.display()))?;
    let compiler = java_program("javac");
    done(
        Command::new(compiler)
            .arg("-cp")
            .arg(jars.class_path())
            .arg("-d")
            .arg(&classes)
            .arg("PeerClient.java")
            .current_dir(sources),
    )?;
    let mut class_path = jars.class_path();
    class_path.push(":");
    class_path.push(&classes);
    let mut logging = OsString::from("-Dlog4j2.configurationFile=");
    logging.push(jars.folder().join("log4j2.xml"));
    let mut words = vec![java_program("java").into_os_string()];
    words.extend(
        ["-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-Dmillstream.log.level=warn"].map(Into::into),
    );
    words.extend([logging, "-cp".into(), class_path, "PeerClient".into()]);
    Ok(words)
}

/// Runs a step of a build; what it said if it failed.
fn done(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{name} can not be started: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said.trim_end().lines().collect();
    let last = lines.get(lines.len().saturating_sub(5)..).unwrap_or_default().join("\n");
    Err(format!("{name} ended with {}: {last}", output.status))
}
