//! Whoever starts the job again, as systemd or Kubernetes would.

use std::rc::Rc;
use std::time::Duration;

use super::savepoints;
use super::stage::{Fate, Host, Running, Stage};
use crate::job::counting;
use crate::oracle::endings::{Ending, judge};
use crate::oracle::{Oracle, Violation};
use crate::plan::{Crash, Death};
use crate::process;
use millstream_engine::Resolution;

/// Pause before a job that has ended with an error is started again.
const PAUSE: Duration = Duration::from_millis(200);

/// Starts supervising a machine.
pub(super) fn revive(stage: &Rc<Stage>, index: usize) {
    if let Some(host) = stage.machines.borrow_mut().get_mut(index) {
        host.fate = Fate::Supervised;
    }
    tokio::task::spawn_local(supervise(Rc::clone(stage), index));
}

/// Of several processes all may have given up in favour of another: then somebody starts one again, each in its turn.
pub(super) fn revive_if_all_are_gone(stage: &Rc<Stage>) {
    let machines = stage.machines.borrow();
    let gone = |fate| fate == Fate::Fenced || fate == Fate::Damaged;
    if !machines.iter().all(|host| gone(host.fate)) {
        return;
    }
    let count = machines.len();
    drop(machines);
    let index = stage.next_revived.get() % count;
    stage.next_revived.set(index + 1);
    let fate = stage.machines.borrow().get(index).map(|host| host.fate);
    if fate == Some(Fate::Fenced) {
        revive(stage, index);
    }
}

/// Between two looks at whether a machine may be used again.
const HELD: Duration = Duration::from_millis(5);

async fn supervise(stage: Rc<Stage>, index: usize) {
    loop {
        if stage.violation().is_some() {
            return;
        }
        match one_life(&stage, index).await {
            Ok(Some(pause)) => tokio::time::sleep(pause).await,
            Ok(None) => return,
            Err(violation) => return stage.fail(violation),
        }
    }
}

/// From a start to an end; the pause before the next start, if there is one.
async fn one_life(stage: &Rc<Stage>, index: usize) -> Result<Option<Duration>, Violation> {
    let broken = |text: String| Violation::new(Oracle::Endings, text);
    while stage.machines.borrow().get(index).is_some_and(|host| host.held) {
        tokio::time::sleep(HELD).await;
    }
    let mut setting = stage.setting().map_err(broken)?;
    if let Some(host) = stage.machines.borrow_mut().get_mut(index) {
        setting.other_shape = host.other_shape;
        setting.resolution = host.resolution.take();
        setting.from_savepoint = host.restoring.next_start();
        setting.parallelism = host.restoring.parallelism.unwrap_or(setting.parallelism);
    }
    let job = counting(&setting).map_err(|error| broken(error.to_string()))?;
    let (process, job, life) = {
        let mut machines = stage.machines.borrow_mut();
        let Some(host) = machines.get_mut(index) else { return Ok(None) };
        let planned = index == 0 && !stage.healed.get();
        let life = stage.plan.lives.get(host.starts).filter(|_| planned).cloned();
        host.starts += 1;
        if index > 0
            && stage.plan.meddles_with_ledger()
            && !host.machine.disk().files().iter().any(|path| super::meddle::is_meta(path))
        {
            // Without either, nothing shows that the job ever ran.
            stage.resolved.set(true);
        }
        stage.corrupt(&host.machine);
        let (process, job) = host.machine.start(job, stage.habits(), fate(life.as_ref()));
        process.set_disk_full(host.disk_full);
        host.running = Some(Running {
            process: process.clone(),
            monitor: job.monitor.clone(),
            stopper: Box::new(job.stopper()),
            told: false,
            savepoints: job.savepoints(),
            ends: false,
        });
        die_restoring(host);
        super::faults::pause(host);
        (process, job, life)
    };
    let result = process.run(job.run).await;
    stage.count_passed(&process);
    if let Some(text) = process.panicked() {
        return Err(Violation::new(Oracle::Endings, text));
    }
    let mut machines = stage.machines.borrow_mut();
    let Some(host) = machines.get_mut(index) else { return Ok(None) };
    let ends = host.running.take().is_some_and(|running| running.ends);
    let Some(result) = result else {
        let planned = life.map(|life| (life.crash, life.down_ms, life.flips_byte));
        let (crash, down_ms, flips) = match host.killed.take() {
            Some((crash, down_ms)) => (crash, down_ms, false),
            None => planned.unwrap_or((Crash::Process, 0, false)),
        };
        host.machine.crashed(crash);
        host.restoring.died |= host.restoring.from.is_some();
        stage.count(format!("left as after {crash:?}"));
        drop(machines);
        if flips {
            let choice = stage.random.borrow_mut().next();
            super::faults::flip_byte(stage, index, choice);
        }
        return Ok(Some(Duration::from_millis(down_ms)));
    };
    host.machine.crashed(Crash::Process);
    let name = host.machine.name().clone();
    let first = stage.plan.other_shape() == Some(true);
    if setting.other_shape && !first && process.passed().contains_key("Owned") {
        return Err(broken("the job went on in another shape".to_owned()));
    }
    let ending = judge(result, &stage.plan, host.restoring.is_begun())?;
    stage.history.note(&name, || format!("ends: {ending:?}"));
    let fate = match ending {
        Ending::Stopped if stage.stopping.get() => Fate::Ended,
        Ending::Stopped if ends => {
            stage.count("stopped with a savepoint");
            return Ok(Some(Duration::ZERO));
        }
        Ending::Stopped => {
            return Err(Violation::new(Oracle::Endings, "the job ended though nobody asked it to"));
        }
        Ending::Again(_) => {
            stage.count("started again after an error");
            return Ok(Some(PAUSE));
        }
        Ending::Fenced(_) => Fate::Fenced,
        // What its state directory has is not gone on from here.
        Ending::Finished(_) => Fate::Damaged,
        Ending::Unrestored(refused, text) => {
            match savepoints::after_refusal(stage, (index, host), refused, &text)? {
                None => return Ok(Some(PAUSE)),
                Some(fate) => fate,
            }
        }
        Ending::Refused(_) if host.forgotten => {
            stage.count("a forgotten option was refused");
            host.forgotten = false;
            return Ok(Some(PAUSE));
        }
        Ending::Refused(_) => Fate::Damaged,
        // Only one start was in another shape.
        Ending::OtherShape(_) if index == 0 && setting.other_shape => {
            host.other_shape = false;
            stage.count("a state directory of another shape");
            return Ok(Some(PAUSE));
        }
        Ending::OtherShape(_) if setting.other_shape || first => Fate::Fenced,
        Ending::OtherShape(text) => return Err(broken(text)),
        Ending::Damaged(text) => {
            if stage.plan.resolves
                && let Some(resolution) = way_out(&text)
            {
                stage.count(format!("somebody's word: {resolution}"));
                stage.resolved.set(true);
                host.resolution = Some(resolution);
                // With a savepoint the word would be about that.
                host.restoring.from = None;
                return Ok(Some(PAUSE));
            }
            Fate::Damaged
        }
    };
    stage.count(format!("ended as {fate:?}"));
    host.fate = fate;
    Ok(None)
}

/// The first start from a savepoint dies where it is to.
fn die_restoring(host: &mut Host) {
    let (Some(running), Some(place)) = (&host.running, host.restoring.dies_at.take()) else {
        return;
    };
    running.process.die_at_next(&place);
    host.killed = Some((host.restoring.crash, 0));
}

/// The way out that an error names.
fn way_out(text: &str) -> Option<Resolution> {
    if text.contains("--adopt-local") {
        Some(Resolution::AdoptLocal)
    } else if text.contains("--accept-rewind") {
        Some(Resolution::AcceptRewind)
    } else {
        None
    }
}

fn fate(life: Option<&crate::plan::Life>) -> process::Fate {
    let mut fate = process::Fate::default();
    match life.map(|life| &life.death) {
        None => {}
        Some(Death::AtPoll(n)) => fate.at_poll = Some(*n),
        Some(Death::AtPlace(place, n)) => fate.at_place = Some((place.clone(), *n)),
        Some(Death::AtDiskOperation(n)) => fate.at_disk_operation = Some(*n),
    }
    fate
}
