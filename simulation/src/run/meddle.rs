//! Somebody puts back old files, removes some, or deletes the ledger, while the process is down.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use millstream_checkpoint::{
    CheckpointRef, Disk, FrozenDelta, JobName, LedgerRecord, LocalState, SimulatedDisk,
    StateDirectory,
};
use millstream_protocol::TopicPartition;

use super::stage::{JOB, Pause, Stage};
use crate::cluster::InputRecord;
use crate::oracle::CommittedLog;
use crate::plan::{Crash, Meddling};
use crate::process::Machine;

/// When something is done.
#[derive(Clone, Debug)]
pub(super) struct When {
    /// So long after a copy was made, where it is about something older.
    pub(super) age: Duration,
    /// Once the process has passed a named place.
    pub(super) place: Option<String>,
    /// How long the next process stands still between its first look at the ledger and its fence.
    pub(super) looked: Duration,
}

/// Between two looks at what is waited for.
const STEP: Duration = Duration::from_millis(1);

/// Looks, while a process is waited for.
const STEPS_MAX: u32 = 5_000;

/// Kills the process, does it, and lets the process be started again.
pub(super) async fn meddle(stage: Rc<Stage>, what: Meddling, choice: u64, when: When) {
    let older =
        [Meddling::OlderCopy, Meddling::OlderMeta, Meddling::NewerStore, Meddling::MergedCopies];
    let old = older.contains(&what).then(|| copy(&stage)).flatten();
    if old.is_some() {
        tokio::time::sleep(when.age).await;
    }
    if stage.stopping.get() {
        return;
    }
    kill(&stage, when.place.as_deref(), Crash::Process).await;
    if !when.looked.is_zero() {
        stand_still_when_looked(&stage, when.looked);
        if what.is_of_ledger() {
            release(&stage);
            until_looked(&stage).await;
        }
    }
    let newer = (what == Meddling::MergedCopies).then(|| copy(&stage)).flatten();
    stage.history.note(&"somebody", || format!("{what:?}"));
    if what == Meddling::RemoveMetaAndLedger {
        of_files(&stage, Meddling::RemoveMeta, choice, None);
    }
    if what.is_of_ledger() {
        of_ledger(&stage, what, choice);
    } else {
        of_files(&stage, what, choice, old);
    }
    release(&stage);
    if let Some(newer) = newer {
        merge(&stage, newer.disk()).await;
    }
}

/// Somebody is done with the machine.
pub(super) fn release(stage: &Stage) {
    if let Some(host) = stage.machines.borrow_mut().first_mut() {
        host.held = false;
    }
}

/// The next process stands still behind its first look at the ledger.
fn stand_still_when_looked(stage: &Stage, lasts: Duration) {
    if let Some(host) = stage.machines.borrow_mut().first_mut() {
        host.pause = Some(Pause { place: "Looked".to_owned(), passage: 1, lasts });
    }
}

/// Waits until it stands there, or can not get there.
async fn until_looked(stage: &Stage) {
    for _ in 0..STEPS_MAX {
        let waits = stage.machines.borrow().first().is_some_and(|host| {
            host.pause.is_some()
                || host.running.as_ref().is_some_and(|running| running.process.is_to_stop())
        });
        if !waits {
            return;
        }
        tokio::time::sleep(STEP).await;
    }
}

/// Waits until the job has gone on from an older copy, past checkpoints that `newer` knows as other attempts; then puts the delta
/// files of both into one folder.
async fn merge(stage: &Stage, newer: &SimulatedDisk) {
    let theirs = parents(stage, newer);
    for _ in 0..STEPS_MAX {
        if stage.stopping.get() || stage.is_damaged() {
            return;
        }
        let disk = stage.machines.borrow().first().map(|host| host.machine.disk().clone());
        let ours = disk.map(|disk| claims(stage, &disk)).unwrap_or_default();
        let differs = |one: &CheckpointRef| {
            theirs.iter().any(|at| at.checkpoint == one.checkpoint && at.nonce != one.nonce)
        };
        if ours.iter().any(differs) {
            break;
        }
        tokio::time::sleep(STEP).await;
    }
    kill(stage, None, Crash::Process).await;
    stage.history.note(&"somebody", || "puts the newer delta files back".to_owned());
    let disk = stage.machines.borrow().first().map(|host| host.machine.disk().clone());
    if let Some(disk) = disk {
        let there = disk.files();
        for path in newer.files().iter().filter(|path| is_delta(path) && !there.contains(path)) {
            let Some(content) = read(newer, path) else { continue };
            // The disk of a simulation takes what nobody makes fail.
            if let Ok(mut file) = disk.create(path) {
                let _ = file.write_all(&content).and_then(|()| file.sync_all());
            }
            let _ = path.parent().map(|folder| disk.sync_dir(folder));
        }
    }
    release(stage);
}

/// What the delta files of a disk call committed.
fn parents(stage: &Stage, disk: &SimulatedDisk) -> Vec<CheckpointRef> {
    let local = local(stage, disk);
    local
        .map(|local| local.deltas.iter().map(|delta| delta.header.parent).collect())
        .unwrap_or_default()
}

/// What META and delta files of a disk call committed.
fn claims(stage: &Stage, disk: &SimulatedDisk) -> Vec<CheckpointRef> {
    let mut claims = parents(stage, disk);
    claims.extend(local(stage, disk).and_then(|local| local.meta).map(|meta| meta.at()));
    claims
}

fn local(stage: &Stage, disk: &SimulatedDisk) -> Option<LocalState> {
    let last = last_record(stage)?;
    let disk: Arc<dyn Disk> = Arc::new(disk.copy());
    let path = Path::new(super::STATE_DIRECTORY);
    StateDirectory::open(disk, path, &last.job, last.fingerprint).ok().map(|state| state.local())
}

fn copy(stage: &Stage) -> Option<Machine> {
    let mut machines = stage.machines.borrow_mut();
    machines.first_mut().map(|host| {
        let name = Arc::clone(host.machine.name());
        host.machine.copy(&name)
    })
}

/// Kills the process, at a named place if one is given and it comes there, and waits until its end has been dealt with; nothing is
/// started until [`release`].
pub(super) async fn kill(stage: &Stage, place: Option<&str>, crash: Crash) {
    let process = {
        let mut machines = stage.machines.borrow_mut();
        let Some(host) = machines.first_mut() else { return };
        host.held = true;
        host.killed = host.running.as_ref().map(|_| (crash, 0));
        host.running.as_ref().map(|running| running.process.clone())
    };
    if let Some(process) = process {
        if let Some(place) = place {
            process.die_at_next(place);
            for _ in 0..STEPS_MAX {
                if !process.is_alive() || stage.stopping.get() {
                    break;
                }
                tokio::time::sleep(STEP).await;
            }
        }
        process.kill();
    }
    while stage.machines.borrow().first().is_some_and(|host| host.running.is_some()) {
        tokio::time::sleep(STEP).await;
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
        Meddling::OlderCopy | Meddling::MergedCopies => {
            if let Some(old) = old {
                host.machine = old;
            }
        }
        _ => {}
    }
}

pub(super) fn is_meta(path: &Path) -> bool {
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

pub(super) fn of_ledger(stage: &Stage, what: Meddling, choice: u64) {
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
pub(super) fn last_record(stage: &Stage) -> Option<LedgerRecord> {
    let topic = millstream_engine::ledger_topic(JOB);
    let mut log = CommittedLog::default();
    for (place, batches) in stage.network.appended() {
        if *place.topic == *topic {
            let _ = log.read(&place, &batches);
        }
    }
    log.records.last().and_then(|last| LedgerRecord::decode(&last.value).ok())
}
