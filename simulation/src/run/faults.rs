//! Faults of a plan, at their times.

use std::rc::Rc;
use std::time::Duration;

use super::meddle;
use super::stage::{Host, JOB, Pause, Stage};
use super::{savepoints, supervisor};
use crate::network::Blocked;
use crate::plan::{Crash, FaultKind};
use crate::process::Machine;

/// Between two looks at what is waited for.
const STEP: Duration = Duration::from_millis(5);

/// Lets every fault happen at its time.
pub(super) async fn strike(stage: Rc<Stage>) {
    let begin = stage.history.origin();
    for fault in stage.plan.faults.clone() {
        tokio::time::sleep_until(begin + Duration::from_millis(fault.at_ms)).await;
        if stage.healed.get() {
            return;
        }
        stage.history.note(&"fault", || fault.kind.to_string());
        stage.count(fault.kind.name());
        happen(&stage, &fault.kind);
    }
}

fn happen(stage: &Rc<Stage>, kind: &FaultKind) {
    let network = &stage.network;
    match kind {
        FaultKind::Cut { node } => network.cut(None, *node),
        FaultKind::Block { node, up, down, lasts_ms } => network.block(Blocked {
            process: None,
            node: *node,
            up: *up,
            down: *down,
            lasts: Duration::from_millis(*lasts_ms),
        }),
        FaultKind::CrashBroker { node, down_ms } => network.crash_broker(*node, *down_ms),
        FaultKind::FreezeBroker { node, lasts_ms } => network.freeze_broker(*node, *lasts_ms),
        FaultKind::Reassign => network.reassign_leaders(),
        FaultKind::Compact => network.compact(),
        FaultKind::Kill { crash, down_ms } => {
            with_job(stage, |host| {
                if let Some(running) = &host.running {
                    host.killed = Some((*crash, *down_ms));
                    let process = running.process.clone();
                    // Its end is dealt with by whoever supervises it, who needs the machine.
                    tokio::task::spawn_local(async move { process.kill() });
                }
            });
        }
        FaultKind::Stop { lasts_ms } => {
            let mut stopped = None;
            with_job(stage, |host| {
                stopped = host.running.as_ref().map(|running| running.process.clone());
            });
            if let Some(process) = stopped {
                process.stop();
                let lasts = Duration::from_millis(*lasts_ms);
                tokio::task::spawn_local(async move {
                    tokio::time::sleep(lasts).await;
                    process.resume();
                });
            }
        }
        FaultKind::DiskFull { lasts_ms } => {
            set_disk_full(stage, true);
            let (stage, lasts) = (Rc::clone(stage), Duration::from_millis(*lasts_ms));
            tokio::task::spawn_local(async move {
                tokio::time::sleep(lasts).await;
                set_disk_full(&stage, false);
            });
        }
        FaultKind::SyncFails { lasts_ms } => {
            let process = stage
                .machines
                .borrow()
                .first()
                .and_then(|host| host.running.as_ref().map(|running| running.process.clone()));
            if let Some(process) = process {
                process.set_sync_fails(true);
                let lasts = Duration::from_millis(*lasts_ms);
                tokio::task::spawn_local(async move {
                    tokio::time::sleep(lasts).await;
                    process.set_sync_fails(false);
                });
            }
        }
        FaultKind::ClockJump { by_ms } => {
            let name = stage.machines.borrow().first().map(|host| host.machine.name().clone());
            if let Some(name) = name {
                stage.universe.jump(&name, *by_ms);
            }
        }
        FaultKind::FlipByte { choice } => flip_byte(stage, 0, *choice),
        FaultKind::SecondProcess { age_ms, slow_ms } => {
            let mut copy = None;
            with_job(stage, |host| copy = Some(host.machine.copy("copy")));
            if let Some(machine) = copy {
                if *slow_ms > 0 {
                    network.slow_down(machine.name(), *slow_ms);
                }
                start_later(stage, machine, Duration::from_millis(*age_ms));
            }
        }
        FaultKind::Meddle { what, choice, age_ms, place, looked_ms } => {
            stage.count(format!("meddling: {what:?}"));
            let when = meddle::When {
                age: Duration::from_millis(*age_ms),
                place: place.clone(),
                looked: Duration::from_millis(*looked_ms),
            };
            let meddle = meddle::meddle(Rc::clone(stage), *what, *choice, when);
            tokio::task::spawn_local(meddle);
        }
        FaultKind::EmptyProcess => {
            let world = std::sync::Arc::clone(&stage.universe);
            let random = stage.random.borrow_mut().fork();
            start_later(stage, Machine::new("empty", world, random), Duration::ZERO);
        }
        FaultKind::Rival { every_ms, lasts_ms } => {
            let (every, lasts) =
                (Duration::from_millis(*every_ms), Duration::from_millis(*lasts_ms));
            tokio::task::spawn_local(take_id(Rc::clone(stage), every, lasts));
        }
        FaultKind::Pause { second, place, passage, lasts_ms } => {
            let mut machines = stage.machines.borrow_mut();
            let host = if *second { machines.get_mut(1) } else { machines.first_mut() };
            if let Some(host) = host {
                let lasts = Duration::from_millis(*lasts_ms);
                host.pause = Some(Pause { place: place.clone(), passage: *passage, lasts });
                pause(host);
            }
        }
        FaultKind::ForgottenOption { resolution, place, looked_ms } => with_job(stage, |host| {
            host.resolution = Some(*resolution);
            host.forgotten = true;
            if stage.plan.allows_damage() || stage.plan.allows_takeover() {
                // It may apply after all.
                stage.resolved.set(true);
            }
            let Some(running) = &host.running else { return };
            host.killed = Some((Crash::Process, 0));
            let process = running.process.clone();
            if *looked_ms > 0 {
                let lasts = Duration::from_millis(*looked_ms);
                host.pause = Some(Pause { place: "Looked".to_owned(), passage: 1, lasts });
            }
            match place {
                Some(place) => process.die_at_next(place),
                None => drop(tokio::task::spawn_local(async move { process.kill() })),
            }
        }),
        FaultKind::OtherShape { empty, early } => {
            tokio::task::spawn_local(start_in_other_shape(Rc::clone(stage), *empty, *early));
        }
        FaultKind::Savepoint { trigger, writing } => {
            let taken = savepoints::only_take(Rc::clone(stage), *trigger, writing.clone());
            tokio::task::spawn_local(taken);
        }
        FaultKind::Restore(restoration) => {
            tokio::task::spawn_local(savepoints::go_on(Rc::clone(stage), restoration.clone()));
        }
    }
}

/// Lets the process that runs on a machine stand still where it is to.
pub(super) fn pause(host: &mut Host) {
    let Some(running) = &host.running else { return };
    let Some(Pause { place, passage, lasts }) = host.pause.take() else { return };
    let process = running.process.clone();
    process.stop_at(&place, passage);
    tokio::task::spawn_local(async move {
        while process.is_to_stop() {
            if !process.is_alive() {
                return;
            }
            tokio::time::sleep(STEP).await;
        }
        tokio::time::sleep(lasts).await;
        process.resume();
    });
}

/// Another program with the job's transactional id, which it writes nothing under.
async fn take_id(stage: Rc<Stage>, every: Duration, lasts: Duration) {
    let id = format!("{JOB}/0");
    let until = tokio::time::Instant::now() + lasts;
    while tokio::time::Instant::now() < until && !stage.healed.get() {
        stage.network.take_transactional_id(&id);
        tokio::time::sleep(every).await;
    }
}

/// The job with another fingerprint: beside the process that runs, or in its place.
async fn start_in_other_shape(stage: Rc<Stage>, empty: bool, early: bool) {
    // Else it may be the first that the ledger knows.
    while !early && meddle::last_record(&stage).is_none() {
        if stage.healed.get() {
            return;
        }
        tokio::time::sleep(STEP).await;
    }
    if empty {
        let world = std::sync::Arc::clone(&stage.universe);
        let random = stage.random.borrow_mut().fork();
        let mut host = Host::new(Machine::new("other", world, random));
        host.other_shape = true;
        start_host_later(&stage, host, Duration::ZERO);
        return;
    }
    let process = {
        let mut machines = stage.machines.borrow_mut();
        let Some(host) = machines.first_mut() else { return };
        host.other_shape = true;
        host.killed = Some((Crash::Process, 0));
        host.running.as_ref().map(|running| running.process.clone())
    };
    if let Some(process) = process {
        process.kill();
    }
}

fn with_job(stage: &Stage, step: impl FnOnce(&mut Host)) {
    if let Some(host) = stage.machines.borrow_mut().first_mut() {
        step(host);
    }
}

fn set_disk_full(stage: &Stage, full: bool) {
    with_job(stage, |host| {
        host.disk_full = full;
        if let Some(running) = &host.running {
            running.process.set_disk_full(full);
        }
    });
}

fn start_later(stage: &Rc<Stage>, machine: Machine, after: Duration) {
    start_host_later(stage, Host::new(machine), after);
}

pub(super) fn start_host_later(stage: &Rc<Stage>, host: Host, after: Duration) {
    let index = {
        let mut machines = stage.machines.borrow_mut();
        machines.push(host);
        machines.len() - 1
    };
    let stage = Rc::clone(stage);
    tokio::task::spawn_local(async move {
        tokio::time::sleep(after).await;
        supervisor::revive(&stage, index);
    });
}

/// Flips one bit of one file of a machine's state directory.
pub(super) fn flip_byte(stage: &Stage, index: usize, choice: u64) {
    let machines = stage.machines.borrow();
    let Some(host) = machines.get(index) else { return };
    let disk = host.machine.disk();
    let files = disk.files();
    let Some(path) = files.get(usize::try_from(choice).unwrap_or(0) % files.len().max(1)) else {
        return;
    };
    let damaged = disk.damage(path, |bytes| {
        let at = usize::try_from(choice >> 8).unwrap_or(0) % bytes.len().max(1);
        if let Some(byte) = bytes.get_mut(at) {
            *byte ^= 1 << (choice >> 61);
        }
    });
    if damaged.is_ok() {
        stage.history.note(host.machine.name(), || format!("a bit of {} flips", path.display()));
        stage.count("bit flipped");
        stage.flipped.borrow_mut().insert(path.clone());
    }
}
