//! Somebody puts back old files, removes some, or deletes the ledger, while the process is down.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use millstream_checkpoint::{
    Disk, FrozenDelta, JobName, LedgerRecord, SimulatedDisk, StateDirectory,
};
use millstream_protocol::TopicPartition;

use super::stage::{JOB, Stage};
use crate::cluster::InputRecord;
use crate::oracle::CommittedLog;
use crate::plan::{Crash, Meddling};
use crate::process::Machine;

/// Kills the process, does it, and lets the process be started again.
pub(super) async fn meddle(stage: Rc<Stage>, what: Meddling, choice: u64, age_ms: u64) {
    let old = matches!(what, Meddling::OlderCopy | Meddling::OlderMeta | Meddling::NewerStore)
        .then(|| copy(&stage))
        .flatten();
    if old.is_some() {
        tokio::time::sleep(Duration::from_millis(age_ms)).await;
    }
    if stage.stopping.get() {
        return;
    }
    kill(&stage);
    // Its end has been dealt with once nothing runs any more.
    while stage.machines.borrow().first().is_some_and(|host| host.running.is_some()) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    stage.history.note(&"somebody", || format!("{what:?}"));
    if what == Meddling::RemoveMetaAndLedger {
        of_files(&stage, Meddling::RemoveMeta, choice, None);
    }
    if what.is_of_ledger() {
        of_ledger(&stage, what, choice);
    } else {
        of_files(&stage, what, choice, old);
    }
    if let Some(host) = stage.machines.borrow_mut().first_mut() {
        host.held = false;
    }
}

fn copy(stage: &Stage) -> Option<Machine> {
    let mut machines = stage.machines.borrow_mut();
    machines.first_mut().map(|host| {
        let name = Arc::clone(host.machine.name());
        host.machine.copy(&name)
    })
}

fn kill(stage: &Stage) {
    let process = {
        let mut machines = stage.machines.borrow_mut();
        let Some(host) = machines.first_mut() else { return };
        host.held = true;
        host.killed = Some((Crash::Process, 0));
        host.running.as_ref().map(|running| running.process.clone())
    };
    if let Some(process) = process {
        process.kill();
    }
}

fn of_files(stage: &Stage, what: Meddling, choice: u64, old: Option<Machine>) {
    let mut machines = stage.machines.borrow_mut();
    let Some(host) = machines.first_mut() else { return };
    let disk = host.machine.disk().clone();
    let files = disk.files();
    let chosen = |from: u64| {
        let count = u64::try_from(files.len()).unwrap_or(1).max(1);
        files.get(usize::try_from(from % count).unwrap_or(0)).cloned()
    };
    let meta = files.iter().find(|path| is_meta(path)).cloned();
    match what {
        Meddling::RemoveMeta => remove(&disk, meta),
        Meddling::RemoveDelta => {
            let deltas: Vec<&PathBuf> = files.iter().filter(|path| is_delta(path)).collect();
            let count = u64::try_from(deltas.len()).unwrap_or(1).max(1);
            let index = usize::try_from(choice % count).unwrap_or(0);
            remove(&disk, deltas.get(index).map(|path| (*path).clone()));
        }
        Meddling::DamageDelta => {
            if let Some(newest) = files.iter().rfind(|path| is_delta(path)) {
                let at = usize::try_from(choice >> 3).unwrap_or(0);
                let _ = disk.damage(newest, |bytes| {
                    let length = bytes.len().max(1);
                    if let Some(byte) = bytes.get_mut(at % length) {
                        *byte ^= 1 << (choice & 7);
                    }
                });
            }
        }
        Meddling::ForgeDelta => forge_delta(stage, &disk),
        Meddling::NewerStore => {
            if let Some(old) = old {
                host.machine.put_back_files(&old);
            }
        }
        Meddling::RemoveFile => remove(&disk, chosen(choice)),
        Meddling::OlderMeta => {
            let content = meta.as_ref().zip(old).and_then(|(path, old)| read(old.disk(), path));
            replace(&disk, meta, content);
        }
        Meddling::SwapFiles => {
            let content = chosen(choice >> 16).and_then(|path| read(&disk, &path));
            replace(&disk, chosen(choice), content);
        }
        Meddling::OlderCopy => {
            if let Some(old) = old {
                host.machine = old;
            }
        }
        _ => {}
    }
}

fn is_meta(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()) == Some("META")
}

fn is_delta(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with("delta-") && name.ends_with(".delta")
}

/// A file that is right in itself, but not the one that was committed.
fn forge_delta(stage: &Stage, disk: &SimulatedDisk) {
    let Some(last) = last_record(stage) else { return };
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let path = Path::new(super::STATE_DIRECTORY);
    let Ok(directory) = StateDirectory::open(disk, path, &last.job, last.fingerprint) else {
        return;
    };
    if let Some(newest) = directory.local().deltas.last() {
        // Refused only if the directory is damaged already.
        let _ = directory.write_delta(&newest.header, &FrozenDelta::default());
    }
}

fn remove(disk: &SimulatedDisk, path: Option<PathBuf>) {
    if let Some(path) = path {
        // A file that is not there any more needs no removal.
        let _ = disk.remove(&path);
        if let Some(folder) = path.parent() {
            let _ = disk.sync_dir(folder);
        }
    }
}

fn read(disk: &SimulatedDisk, path: &Path) -> Option<Vec<u8>> {
    let (mut file, _) = disk.open(path).ok()??;
    let mut content = Vec::new();
    file.read_to_end(&mut content).ok()?;
    Some(content)
}

fn replace(disk: &SimulatedDisk, path: Option<PathBuf>, content: Option<Vec<u8>>) {
    if let (Some(path), Some(content)) = (path, content) {
        let _ = disk.damage(&path, |bytes| *bytes = content);
    }
}

fn of_ledger(stage: &Stage, what: Meddling, choice: u64) {
    let topic = millstream_engine::ledger_topic(JOB);
    let place = TopicPartition::new(topic.as_str(), 0);
    match what {
        Meddling::LoseLedgerEnd => stage.network.lose_end(&place, choice),
        Meddling::EmptyLedger | Meddling::RemoveMetaAndLedger => stage.network.lose_end(&place, 0),
        Meddling::DeleteLedger | Meddling::RecreateLedger => {
            // Refused if it was never made.
            let _ = stage.network.delete_topic(&topic);
            if what == Meddling::RecreateLedger {
                let _ = stage.network.create_topic(&topic, 1, &[("cleanup.policy", "compact")]);
            }
        }
        Meddling::ForeignRecord => {
            if let (Some(last), Ok(job)) = (last_record(stage), JobName::new("another")) {
                let foreign = LedgerRecord { job, ..last };
                let record = InputRecord {
                    timestamp_ms: stage.network.broker_time_ms(),
                    key: Bytes::from(format!("{JOB}/0")),
                    value: foreign.encode().unwrap_or_default(),
                };
                let _ = stage.network.append_input(&place, &[record]);
            }
        }
        _ => {}
    }
}

/// The last committed record of the ledger, as it ever was.
fn last_record(stage: &Stage) -> Option<LedgerRecord> {
    let topic = millstream_engine::ledger_topic(JOB);
    let mut log = CommittedLog::default();
    for (place, batches) in stage.network.appended() {
        if *place.topic == *topic {
            let _ = log.read(&place, &batches);
        }
    }
    log.records.last().and_then(|last| LedgerRecord::decode(&last.value).ok())
}
