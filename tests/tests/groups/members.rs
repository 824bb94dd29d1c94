//! Members as processes, ours and Java's, and what they wrote down.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use millstream_testcontainers::{GuardedCommand, GuardedProcess, JavaClient, Signal};
use serde_json::Value;

use crate::oracle::{Change, Life};

/// A running member.
pub(crate) struct Member {
    name: String,
    log: PathBuf,
    process: Process,
}

enum Process {
    Ours(GuardedProcess),
    Java(JavaClient),
}

/// Where a group's members run.
pub(crate) struct Place<'a> {
    pub(crate) servers: String,
    pub(crate) topic: String,
    pub(crate) folder: &'a Path,
}

pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

impl Member {
    pub(crate) fn ours(
        place: &Place<'_>,
        name: &str,
        properties: &BTreeMap<String, String>,
    ) -> Self {
        let log = place.folder.join(format!("{name}.log"));
        let process = GuardedCommand::new(env!("CARGO_BIN_EXE_group_member"))
            .args([&place.servers, &place.topic, &log.display().to_string()])
            .args(properties.iter().map(|(key, value)| format!("{key}={value}")))
            .stderr(place.folder.join(format!("{name}.stderr")))
            .spawn()
            .unwrap();
        Self { name: name.to_owned(), log, process: Process::Ours(process) }
    }

    pub(crate) fn java(
        place: &Place<'_>,
        name: &str,
        properties: &BTreeMap<String, String>,
    ) -> Self {
        let log = place.folder.join(format!("{name}.log"));
        let java = JavaClient::start().unwrap();
        java.join_group(&place.servers, &[&place.topic], properties, &log).unwrap();
        Self { name: name.to_owned(), log, process: Process::Java(java) }
    }

    /// What it wrote down so far.
    pub(crate) fn life(&self) -> Life {
        let mut life = Life { name: self.name.clone(), ..Life::default() };
        // A member that is just starting has written nothing.
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        for line in text.lines() {
            // A killed member's last line may be cut.
            let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
            let partition = |index: usize| i32::try_from(line[index].as_i64().unwrap()).unwrap();
            match line[0].as_str().unwrap() {
                "record" => {
                    life.records.insert((partition(1), line[2].as_i64().unwrap()));
                }
                "assigned" => {
                    life.changes.push((line[1].as_u64().unwrap(), partition(2), Change::Gained));
                }
                "revoked" | "lost" => {
                    life.changes.push((line[1].as_u64().unwrap(), partition(2), Change::GaveUp));
                }
                "failed" => life.failed = Some(line[1].as_str().unwrap().to_owned()),
                _ => panic!("member {}: {line}", self.name),
            }
        }
        life
    }

    /// SIGKILL.
    pub(crate) fn kill(mut self) -> Life {
        let before = now_ms();
        match &mut self.process {
            Process::Ours(process) => drop(process.kill().unwrap()),
            Process::Java(java) => java.kill(),
        }
        Life { ended_ms: Some(before), ..self.life() }
    }

    /// Closes it: it commits and leaves.
    pub(crate) fn close(mut self) -> Life {
        match &mut self.process {
            Process::Ours(process) => {
                process.signal(Signal::Term);
                let code = process.wait(Duration::from_secs(60)).unwrap();
                assert_eq!(code, Some(0), "member {}", self.name);
            }
            Process::Java(java) => java.leave_group().unwrap(),
        }
        Life { ended_ms: Some(now_ms()), ..self.life() }
    }
}
