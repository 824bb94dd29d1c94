//! Somebody asks the job for savepoints, and lets it go on from them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use millstream_checkpoint::{Disk, Savepoint, SavepointError, SavepointManifest, SavepointTrigger};
use millstream_engine::{JobError, Phase, Resolution, error_chain};

use super::stage::{Fate, Host, Pause, Stage};
use super::{faults, meddle};
use crate::oracle::endings::Unrestored;
use crate::oracle::rewinds::{Join, positions_of};
use crate::oracle::{Oracle, Violation};
use crate::plan::{Crash, FaultKind, Meddling, Restoration};
use crate::process::{Machine, SAVEPOINTS};

/// Between two looks at what is waited for.
const STEP: Duration = Duration::from_millis(2);

/// Looks, while a job that was stopped comes to its end.
const STEPS_MAX: u32 = 2_500;

/// Until brokers have done with what a dead process has begun.
const QUIET: Duration = Duration::from_millis(500);

/// From which savepoint a machine's next starts begin, and what is to happen meanwhile.
#[derive(Debug, Default)]
pub(super) struct Restoring {
    /// The savepoint.
    pub(super) from: Option<PathBuf>,
    /// The start behind the first death forgets it.
    pub(super) forgets: bool,
    /// A start from it has died.
    pub(super) died: bool,
    /// What was forgotten.
    pub(super) forgotten: Option<PathBuf>,
    /// The named place at which the first start dies.
    pub(super) dies_at: Option<String>,
    /// What is left of its disk then.
    pub(super) crash: Crash,
    /// The machine as the job ran there before.
    pub(super) before: Option<Machine>,
    /// Workers, if another number than before.
    pub(super) parallelism: Option<usize>,
}

impl Restoring {
    /// The savepoint that the next start is given.
    pub(super) fn next_start(&mut self) -> Option<PathBuf> {
        if self.forgets && self.died {
            self.forgets = false;
            self.forgotten = self.from.take();
        }
        self.from.clone()
    }

    /// Whether a savepoint has to do with how a start ends.
    pub(super) fn is_begun(&self) -> bool {
        self.from.is_some() || self.forgotten.is_some()
    }
}

/// Takes a savepoint, and nothing more.
pub(super) async fn only_take(
    stage: Rc<Stage>,
    trigger: SavepointTrigger,
    writing: Option<String>,
) {
    take(&stage, trigger, writing.as_deref(), Crash::Process, false).await;
}

/// Takes a savepoint, and lets the job go on from it.
pub(super) async fn go_on(stage: Rc<Stage>, restoration: Restoration) {
    let Restoration { trigger, crash, beside, .. } = restoration;
    let stops = trigger != SavepointTrigger::Live;
    let writing = restoration.writing.as_deref();
    let answered = take(&stage, trigger, writing, crash, stops).await;
    if !stops {
        tokio::time::sleep(Duration::from_millis(restoration.age_ms)).await;
    }
    if !beside && !stage.stopping.get() {
        if stops && answered.is_some() {
            until_ended(&stage).await;
        }
        meddle::kill(&stage, restoration.killed_at.as_deref(), crash).await;
    }
    put(&stage, &restoration, answered.as_deref()).await;
    meddle::release(&stage);
}

/// Puts the newest savepoint into the place of the state directory, if there is one and the job may still be started.
async fn put(stage: &Rc<Stage>, restoration: &Restoration, answered: Option<&Path>) {
    let gone = || {
        let machines = stage.machines.borrow();
        machines.first().is_none_or(|host| host.fate != Fate::Supervised)
    };
    if stage.stopping.get() || stage.violation().is_some() || gone() {
        return;
    }
    let Some((from, manifest)) = newest(stage, answered) else {
        return stage.count("no savepoint to go on from");
    };
    if let Some(what) = restoration.ledger {
        tokio::time::sleep(QUIET).await;
        stage.history.note(&"somebody", || format!("{what:?}"));
        let choice = stage.random.borrow_mut().next();
        meddle::of_ledger(stage, what, choice);
    }
    let lost_ledger = restoration.ledger.is_some();
    stage.joins.borrow_mut().push(Join {
        folder: from.clone(),
        at: manifest.at,
        positions: positions_of(&manifest.positions),
        // Of an end that was lost nothing tells.
        rewinds: restoration.ledger == Some(Meddling::LoseLedgerEnd),
        lost_ledger,
    });
    let restoring = Restoring {
        from: Some(from.clone()),
        // Without a ledger nothing tells that the job has ever run.
        forgets: restoration.forgets && !lost_ledger,
        dies_at: restoration.dies_at.clone(),
        crash: restoration.crash,
        parallelism: Some(restoration.parallelism),
        ..Restoring::default()
    };
    stage.history.note(&"somebody", || format!("goes on from {}", from.display()));
    stage.count(format!("gone on from a savepoint ({})", manifest.trigger.name()));
    let mut machines = stage.machines.borrow_mut();
    let Some(host) = machines.first_mut() else { return };
    let name =
        if restoration.beside { "restored".to_owned() } else { host.machine.name().to_string() };
    let fresh = match host.machine.with_savepoints_only(&name) {
        Ok(fresh) => fresh,
        Err(error) => {
            return stage.fail(Violation::new(Oracle::Savepoints, error.to_string()));
        }
    };
    let pause = (restoration.looked_ms > 0).then(|| Pause {
        place: "Looked".to_owned(),
        passage: 1,
        lasts: Duration::from_millis(restoration.looked_ms),
    });
    if restoration.beside {
        drop(machines);
        let host = Host { restoring, pause, ..Host::new(fresh) };
        return faults::start_host_later(stage, host, Duration::ZERO);
    }
    let before = std::mem::replace(&mut host.machine, fresh);
    host.pause = pause.or(host.pause.take());
    host.restoring = Restoring { before: Some(before), ..restoring };
}

/// Asks the job for a savepoint once it runs, and waits for what becomes of it. Gives its folder if it was answered. `held`: the job
/// is not started again until somebody says so.
async fn take(
    stage: &Rc<Stage>,
    trigger: SavepointTrigger,
    writing: Option<&str>,
    crash: Crash,
    held: bool,
) -> Option<PathBuf> {
    let (process, answer, folder) = loop {
        if stage.stopping.get() || stage.violation().is_some() {
            return None;
        }
        {
            let mut machines = stage.machines.borrow_mut();
            let host = machines.first_mut().filter(|host| host.fate == Fate::Supervised)?;
            if let Some(running) = &mut host.running
                && running.monitor.snapshot().phase == Phase::Running
            {
                let number = stage.asked.get() + 1;
                stage.asked.set(number);
                let folder = Path::new(SAVEPOINTS).join(number.to_string());
                running.ends = trigger != SavepointTrigger::Live;
                host.held |= held;
                if let Some(place) = writing {
                    running.process.die_at_next(place);
                    host.killed = Some((crash, 0));
                }
                let answer = running.savepoints.ask(&folder, trigger);
                break (running.process.clone(), answer, folder);
            }
        }
        tokio::time::sleep(STEP).await;
    };
    stage.count(format!("savepoint asked for ({})", trigger.name()));
    loop {
        match answer.poll() {
            Some(Ok(manifest)) => {
                stage.count("savepoint taken");
                stage.taken.borrow_mut().insert(folder.clone(), manifest);
                return Some(folder);
            }
            Some(Err(error)) => {
                refused(stage, &error);
                if let Some(host) = stage.machines.borrow_mut().first_mut()
                    && let Some(running) = &mut host.running
                    // Of a drained job the end has come all the same.
                    && trigger != SavepointTrigger::Drain
                    && process.is_alive()
                {
                    running.ends = false;
                }
                return None;
            }
            None if !process.is_alive() || stage.violation().is_some() => {
                stage.count("savepoint not answered");
                return None;
            }
            None => tokio::time::sleep(STEP).await,
        }
    }
}

/// A savepoint may fail where the disk does, or because the job has ended.
fn refused(stage: &Stage, error: &JobError) {
    let text = error_chain(error);
    stage.history.note(&"somebody", || format!("gets no savepoint: {text}"));
    stage.count("savepoint refused");
    let plans = |wanted: fn(&FaultKind) -> bool| stage.plan.faults.iter().any(|f| wanted(&f.kind));
    let planned = match error {
        JobError::SavepointNotTaken { .. } => true,
        JobError::Savepoint(SavepointError::NoSpace { .. }) => {
            plans(|kind| matches!(kind, FaultKind::DiskFull { .. }))
        }
        JobError::Savepoint(SavepointError::Io { .. }) => {
            plans(|kind| matches!(kind, FaultKind::SyncFails { .. }))
        }
        _ => false,
    };
    if !planned {
        stage.fail(Violation::new(Oracle::Savepoints, format!("no savepoint: {text}")));
    }
}

/// Waits until a job that was stopped has ended.
async fn until_ended(stage: &Stage) {
    for _ in 0..STEPS_MAX {
        if stage.machines.borrow().first().is_none_or(|host| host.running.is_none()) {
            return;
        }
        tokio::time::sleep(STEP).await;
    }
}

/// The newest whole savepoint on the machine; the one that was just answered if there is one.
fn newest(stage: &Stage, answered: Option<&Path>) -> Option<(PathBuf, SavepointManifest)> {
    let disk: Arc<dyn Disk> = {
        let machines = stage.machines.borrow();
        Arc::new(machines.first()?.machine.disk().copy())
    };
    check(stage, &disk);
    let open = |folder: &Path| {
        let opened = Savepoint::open(Arc::clone(&disk), folder).ok()?;
        Some((folder.to_owned(), opened.manifest().clone()))
    };
    if let Some(folder) = answered {
        return open(folder);
    }
    let all = (1..=stage.asked.get()).rev();
    all.map(|number| Path::new(SAVEPOINTS).join(number.to_string())).find_map(|it| open(&it))
}

/// A savepoint is whole or not there, and one that was answered is there, as it was answered.
fn check(stage: &Stage, disk: &Arc<dyn Disk>) {
    if stage.plan.allows_damage() {
        return;
    }
    let taken = stage.taken.borrow();
    for number in 1..=stage.asked.get() {
        let folder = Path::new(SAVEPOINTS).join(number.to_string());
        let whole = Savepoint::open(Arc::clone(disk), &folder)
            .and_then(|savepoint| savepoint.verify().map(|()| savepoint.manifest().clone()));
        let answered = taken.get(&folder);
        let wrong = match (whole, answered) {
            (Ok(found), Some(answered)) if found != *answered => {
                "it is another than was answered".to_owned()
            }
            (Ok(_), _) | (Err(SavepointError::NotASavepoint { .. }), None) => continue,
            (Err(error), _) => error_chain(&error),
        };
        let text = format!("{}: {wrong}", folder.display());
        return stage.fail(Violation::new(Oracle::Savepoints, text));
    }
}

/// What follows a start that could not go on from its savepoint: the next start, unless somebody leaves it at that.
pub(super) fn after_refusal(
    stage: &Stage,
    (index, host): (usize, &mut Host),
    refused: Unrestored,
    text: &str,
) -> Result<Option<Fate>, Violation> {
    let Restoring { from, forgotten, .. } = &host.restoring;
    // A start that forgot the savepoint goes on with what was restored of it, or stops.
    let folder = from.clone().or_else(|| forgotten.clone());
    let forgot = forgotten.is_some();
    let mut joins = stage.joins.borrow_mut();
    let mut joins = joins.iter_mut();
    let join = joins.rfind(|join| Some(&join.folder) == folder.as_ref());
    let last = meddle::last_record(stage).map(|record| record.at());
    let elsewhere = join.as_ref().is_some_and(|join| last != Some(join.at));
    let lost_ledger = join.as_ref().is_some_and(|join| join.lost_ledger);
    let explained = match refused {
        Unrestored::Unfinished => forgot,
        Unrestored::Rewinds | Unrestored::Overtaken => elsewhere || lost_ledger,
        Unrestored::WithoutLedger => lost_ledger,
    };
    if !explained {
        let text = format!("nothing explains the stop of a restore: {text}");
        return Err(Violation::new(Oracle::Endings, text));
    }
    stage.count(format!("a restore was refused: {refused:?}"));
    host.restoring.from = folder;
    host.restoring.forgotten = None;
    let resolution = match refused {
        Unrestored::Unfinished => return Ok(None),
        Unrestored::Overtaken => None,
        Unrestored::Rewinds => Some(Resolution::AcceptRewind),
        Unrestored::WithoutLedger => Some(Resolution::AdoptLocal),
    };
    if stage.plan.resolves
        && let Some(join) = join
        && (resolution.is_some() || index == 0)
    {
        // In the next start's word, or with an empty directory once more.
        host.resolution = resolution;
        join.rewinds |= resolution.is_some();
        if resolution.is_none() {
            let name = host.machine.name().to_string();
            let fresh = host.machine.with_savepoints_only(&name);
            host.machine =
                fresh.map_err(|error| Violation::new(Oracle::Savepoints, error.to_string()))?;
        }
        return Ok(None);
    }
    match host.restoring.before.take() {
        // On the directory it ran with last, which is as it was.
        Some(before) if !lost_ledger => {
            stage.count("gone on from the directory of before");
            host.machine = before;
            host.restoring = Restoring::default();
            Ok(None)
        }
        _ if index > 0 => Ok(Some(Fate::Fenced)),
        _ => Ok(Some(Fate::Damaged)),
    }
}

/// Savepoints that were answered, by folder.
pub(super) type Taken = BTreeMap<PathBuf, SavepointManifest>;
