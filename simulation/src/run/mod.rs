//! One history: a plan is carried out, then everything is mended, then the oracles look.

mod faults;
mod meddle;
mod savepoints;
mod stage;
mod supervisor;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use crate::network::NetworkSettings;
use crate::oracle::{
    CommittedLog, Oracle, Violation, atomic, ledger, order, output, rewinds, transactions,
};
use crate::plan::Plan;
use stage::{Fate, INPUT, OUTPUT, Stage};

/// What a history came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What an oracle found.
    pub violation: Option<Violation>,
    /// All lines, if they were recorded.
    pub history: String,
    /// A number that differs if any line does; of no meaning unless they were recorded.
    pub digest: u64,
    /// How often each named place, decision and fault came to pass.
    pub coverage: BTreeMap<String, u64>,
    /// Simulated time.
    pub took: Duration,
}

/// Where the job keeps its state, on the simulated disk.
const STATE_DIRECTORY: &str = "/state";

/// Simulated time in which a job has to have caught up once everything is mended. Requests time out after 30 s, and
/// a client that was cut off tries several of them; a record for a topic that is gone is given up after 120 s.
const PROGRESS_LIMIT: Duration = Duration::from_secs(300);

/// And in which it has to end from then on: it is asked to once it runs, which may take as long (seed 828636: the ledger is
/// deleted under a process that takes over).
const STOP_LIMIT: Duration = PROGRESS_LIMIT;

/// Between two looks at what has been committed.
const LOOK: Duration = Duration::from_millis(100);

/// Time for the last markers.
const SETTLE: Duration = Duration::from_secs(2);

/// Carries out a plan. With `recording`, the report holds the readable history.
///
/// # Errors
///
/// If the stage could not be set: a defect of the simulation, not of the product.
pub fn run(plan: &Plan, recording: bool) -> Result<Report, String> {
    let history = carry_out(plan.clone(), recording);
    crate::runtime::run(history).map_err(|error| error.to_string())?
}

async fn carry_out(plan: Plan, recording: bool) -> Result<Report, String> {
    let stage = Rc::new(Stage::set(plan, recording)?);
    tokio::task::spawn_local(stage.network.clone().run());
    tokio::task::spawn_local(stage::feed(Rc::clone(&stage)));
    tokio::task::spawn_local(faults::strike(Rc::clone(&stage)));
    supervisor::revive(&stage, 0);
    let mut log = CommittedLog::default();
    let complete = until_complete(&stage, &mut log).await;
    // Also after an early end: a transaction that was decided just before gets its markers, so that nothing of it looks torn.
    tokio::time::sleep(SETTLE).await;
    if let Err(violation) = complete {
        stage.fail(violation);
    }
    if let Err(violation) = judge(&stage, &mut log) {
        stage.fail(violation);
    }
    let violation = stage.violation();
    match &violation {
        Some(violation) => stage.history.note(&"oracle", || violation.to_string()),
        None => stage.history.note(&"oracle", || "all is well".to_owned()),
    }
    stage.count_processes();
    let recorded = stage.history.is_recording();
    Ok(Report {
        violation,
        history: if recorded { stage.history.text() } else { String::new() },
        digest: stage.history.digest(),
        coverage: stage.coverage.take(),
        took: stage.history.elapsed(),
    })
}

/// Faults, healing, catching up, and an end in order.
async fn until_complete(stage: &Rc<Stage>, log: &mut CommittedLog) -> Result<(), Violation> {
    tokio::time::sleep(Duration::from_millis(stage.plan.heal_ms)).await;
    heal(stage);
    let deadline = tokio::time::Instant::now() + PROGRESS_LIMIT;
    loop {
        if stage.violation().is_some() || stage.is_damaged() {
            return Ok(());
        }
        read(stage, log)?;
        if stage.fed.get() && lines(log) >= stage.expected_lines() {
            break;
        }
        if tokio::time::Instant::now() > deadline {
            let written = lines(log);
            return Err(Violation::new(
                Oracle::Progress,
                format!(
                    "{PROGRESS_LIMIT:?} after everything was mended, {written} of {} records are committed; {}",
                    stage.expected_lines(),
                    stage.standing()
                ),
            ));
        }
        supervisor::revive_if_all_are_gone(stage);
        tokio::time::sleep(LOOK).await;
    }
    stage
        .history
        .note(&"harness", || "all output is committed; the job is asked to stop".to_owned());
    stage.stopping.set(true);
    let deadline = tokio::time::Instant::now() + STOP_LIMIT;
    while !stage.has_ended() {
        if stage.violation().is_some() || stage.is_damaged() {
            return Ok(());
        }
        if tokio::time::Instant::now() > deadline {
            return Err(Violation::new(
                Oracle::Progress,
                format!("the job did not end within {STOP_LIMIT:?}; {}", stage.standing()),
            ));
        }
        stage.ask_to_stop();
        supervisor::revive_if_all_are_gone(stage);
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

/// Different lines that are committed.
fn lines(log: &CommittedLog) -> usize {
    let lines: BTreeSet<&[u8]> = log.of_topic(OUTPUT).map(|record| &record.value[..]).collect();
    lines.len()
}

fn heal(stage: &Stage) {
    stage.history.note(&"harness", || "everything is mended".to_owned());
    stage.healed.set(true);
    stage.network.set_settings(NetworkSettings::calm());
    stage.network.unblock();
    stage.network.mend_brokers();
    stage.universe.set_clocks();
    stage.mend_machines();
}

fn read(stage: &Stage, log: &mut CommittedLog) -> Result<(), Violation> {
    for (place, batches) in stage.network.appended() {
        if &*place.topic != INPUT {
            log.read(&place, &batches).map_err(|text| Violation::new(Oracle::Atomic, text))?;
        }
    }
    Ok(())
}

/// What holds at the end, and of an unfinished history as far as it came.
fn judge(stage: &Stage, log: &mut CommittedLog) -> Result<(), Violation> {
    read(stage, log)?;
    let ended = stage.has_ended() && stage.violation().is_none();
    let topic = millstream_engine::ledger_topic(stage::JOB);
    let twice = stage.resolved.get() || stage.plan.loses_proof();
    let joins = stage.joins.borrow();
    let runs = rewinds::runs(log, &topic, &joins);
    let rewound = runs.len() - 1;
    if rewound > 0 {
        stage.count("output written again behind a savepoint");
    }
    let expected = stage.expected(&runs, ended);
    // First: what is out of order is, as a rule, wrong as well.
    if !twice {
        order::check(log.of_topic(OUTPUT), &expected)?;
    }
    output::check(log.of_topic(OUTPUT), &expected, ended, twice)?;
    if stage.resolved.get() || stage.plan.meddles_with_ledger() {
        return if ended { transactions::check(&stage.network) } else { Ok(()) };
    }
    atomic::check(log, OUTPUT, &topic)?;
    let last = ledger::check_chain(log, &topic, &joins)?;
    if !ended {
        return Ok(());
    }
    transactions::check(&stage.network)?;
    let mut found = Ok(());
    for machine in stage.machines.borrow().iter() {
        if machine.fate != Fate::Ended {
            continue;
        }
        let (disk, directory) = (machine.machine.disk(), Path::new(STATE_DIRECTORY));
        found = ledger::check_disk(last.as_ref(), disk, directory, &stage.flipped.borrow());
        if found.is_ok() {
            break;
        }
    }
    found
}
