//! Everything that one history consists of.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use millstream_engine::kafka::ClientConfig;
use millstream_engine::{JobMonitor, Phase, Resolution, SimulatedSavepoints};
use millstream_protocol::TopicPartition;

use super::savepoints::{Restoring, Taken};
use crate::cluster::{Brokers, InputRecord};
use crate::history::History;
use crate::job::{Event, Setting, events, expected};
use crate::network::Network;
use crate::oracle::rewinds::{Join, Run, read_in_order};
use crate::oracle::{Oracle, Violation};
use crate::plan::{Crash, Plan};
use crate::process::{Habits, Machine, Process, World};
use crate::runtime::Random;
use crate::universe::{Universe, WALL_CLOCK_MS};

pub(super) const JOB: &str = "counting";
pub(super) const INPUT: &str = "in";
pub(super) const OUTPUT: &str = "out";

/// The wrong variant in which savepoints are not synced although the product asks for it.
const UNSYNCED_SAVEPOINT: &str = "UnsyncedSavepoint";

/// The wrong variant in which delta files are not synced although the product asks for it.
const UNSYNCED_DELTA: &str = "UnsyncedDelta";

/// What has become of the processes of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Runs, or will run again by itself.
    Supervised,
    /// Another process owns the job, or its files are not the newest.
    Fenced,
    /// It does not trust its files.
    Damaged,
    /// It was asked to stop, and has.
    Ended,
}

/// A machine, and what runs on it.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) machine: Machine,
    pub(super) fate: Fate,
    pub(super) starts: usize,
    pub(super) running: Option<Running>,
    /// What is left after the next death, and how long until the next start.
    pub(super) killed: Option<(Crash, u64)>,
    pub(super) disk_full: bool,
    /// Somebody is at the machine: it is not started until they are done.
    pub(super) held: bool,
    /// The word with which the next start goes on from what does not fit together.
    pub(super) resolution: Option<Resolution>,
    /// That word was not meant for what there is.
    pub(super) forgotten: bool,
    /// The job is started in another shape.
    pub(super) other_shape: bool,
    /// Where the process that runs or is started next stands still.
    pub(super) pause: Option<Pause>,
    /// From which savepoint it is started.
    pub(super) restoring: Restoring,
}

/// A process stands still after a named place.
#[derive(Clone, Debug)]
pub(super) struct Pause {
    pub(super) place: String,
    /// At which passage, from 1.
    pub(super) passage: u64,
    pub(super) lasts: Duration,
}

/// A process that runs.
pub(super) struct Running {
    pub(super) process: Process,
    pub(super) monitor: JobMonitor,
    pub(super) stopper: Box<dyn Fn()>,
    pub(super) told: bool,
    pub(super) savepoints: SimulatedSavepoints,
    /// It was asked to end with a savepoint.
    pub(super) ends: bool,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("process", &self.process).finish_non_exhaustive()
    }
}

/// One history at work. Everything runs in one thread.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) plan: Plan,
    pub(super) history: History,
    pub(super) network: Network,
    pub(super) universe: Arc<Universe>,
    pub(super) machines: RefCell<Vec<Host>>,
    pub(super) random: RefCell<Random>,
    pub(super) healed: Cell<bool>,
    pub(super) stopping: Cell<bool>,
    /// All input is there.
    pub(super) fed: Cell<bool>,
    /// Somebody's word was given: output may be there twice from now on, as the product says then.
    pub(super) resolved: Cell<bool>,
    pub(super) coverage: RefCell<BTreeMap<String, u64>>,
    violation: RefCell<Option<Violation>>,
    /// Files of which a bit flipped, on any machine.
    pub(super) flipped: RefCell<BTreeSet<PathBuf>>,
    /// Savepoints that were asked for.
    pub(super) asked: Cell<u64>,
    pub(super) taken: RefCell<Taken>,
    /// Savepoints that the job was to go on from.
    pub(super) joins: RefCell<Vec<Join>>,
    input: Vec<Event>,
    /// Whose turn it is to be started when nobody runs any more.
    pub(super) next_revived: Cell<usize>,
}

impl Stage {
    /// Brokers with their topics, and one machine.
    pub(super) fn set(plan: Plan, recording: bool) -> Result<Self, String> {
        let history = History::new(recording);
        let brokers = Brokers::new(plan.seed, plan.cluster.clone(), WALL_CLOCK_MS);
        let network = Network::new(plan.seed, plan.network.clone(), brokers, history.clone());
        let partitions = i32::try_from(plan.job.partitions).map_err(|error| error.to_string())?;
        for topic in [INPUT, OUTPUT] {
            network.create_topic(topic, partitions, &[])?;
        }
        let universe = Arc::new(Universe::new(network.clone(), history.clone()));
        let mut random = Random::named(plan.seed, "machines");
        let world: Arc<dyn World> = Arc::clone(&universe) as _;
        let machine = Machine::new("job", world, random.fork());
        let input = events(plan.job.records, plan.job.keys);
        Ok(Self {
            plan,
            history,
            network,
            universe,
            machines: RefCell::new(vec![Host::new(machine)]),
            random: RefCell::new(random),
            healed: Cell::default(),
            stopping: Cell::default(),
            fed: Cell::default(),
            resolved: Cell::default(),
            coverage: RefCell::default(),
            violation: RefCell::default(),
            flipped: RefCell::default(),
            asked: Cell::default(),
            taken: RefCell::default(),
            joins: RefCell::default(),
            input,
            next_revived: Cell::default(),
        })
    }

    pub(super) fn setting(&self) -> Result<Setting, String> {
        let job = &self.plan.job;
        let kafka = ClientConfig::builder(self.network.bootstrap())
            .transaction_timeout(Duration::from_millis(job.transaction_timeout_ms))
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Setting {
            name: JOB.to_owned(),
            kafka,
            input: INPUT.to_owned(),
            output: OUTPUT.to_owned(),
            parallelism: job.parallelism,
            checkpoint_interval: Duration::from_millis(job.checkpoint_interval_ms),
            bounded: false,
            resolution: None,
            other_shape: false,
            from_savepoint: None,
        })
    }

    /// Wrong variants that are the machine's, not the product's.
    pub(super) fn corrupt(&self, machine: &Machine) {
        if self.plan.mutants.contains(UNSYNCED_DELTA) {
            machine.disk().lie_about_sync_of("delta-");
        }
        if self.plan.mutants.contains(UNSYNCED_SAVEPOINT) {
            machine.disk().lie_about_sync_of(crate::process::SAVEPOINTS);
        }
    }

    pub(super) fn habits(&self) -> Habits {
        Habits {
            reorder_one_in: self.plan.reorder_one_in,
            slow_one_in: self.plan.slow_one_in,
            slow_max: Duration::from_millis(self.plan.slow_max_ms),
            mutants: self.plan.mutants.clone(),
        }
    }

    /// Keeps the first thing that went wrong.
    pub(super) fn fail(&self, violation: Violation) {
        let mut kept = self.violation.borrow_mut();
        // A panic may be found after its consequences.
        if kept.is_none() || violation.oracle == Oracle::Endings {
            *kept = Some(violation);
        }
    }

    pub(super) fn violation(&self) -> Option<Violation> {
        self.violation.borrow().clone()
    }

    /// What the job has to have written over `runs`; of each key in its order.
    pub(super) fn expected(&self, runs: &[Run], ended: bool) -> BTreeMap<String, Vec<String>> {
        let partition = |event: &Event| i32::try_from(self.partition(event)).unwrap_or(0);
        expected(read_in_order(&self.input, partition, runs, ended))
    }

    /// Where an event is written to.
    fn partition(&self, event: &Event) -> u32 {
        event.key % self.plan.job.partitions
    }

    pub(super) fn expected_lines(&self) -> usize {
        self.input.len()
    }

    /// Whether some machine's job has ended in order and none runs.
    pub(super) fn has_ended(&self) -> bool {
        let machines = self.machines.borrow();
        machines.iter().any(|host| host.fate == Fate::Ended)
            && machines.iter().all(|host| host.fate != Fate::Supervised)
    }

    /// Whether nobody can go on because files were damaged, which the plan allows.
    pub(super) fn is_damaged(&self) -> bool {
        let machines = self.machines.borrow();
        machines.iter().any(|host| host.fate == Fate::Damaged)
            && machines.iter().all(|host| matches!(host.fate, Fate::Damaged | Fate::Fenced))
    }

    pub(super) fn ask_to_stop(&self) {
        for host in self.machines.borrow_mut().iter_mut() {
            if let Some(running) = &mut host.running
                && !running.told
                && running.monitor.snapshot().phase == Phase::Running
            {
                running.told = true;
                (running.stopper)();
            }
        }
    }

    pub(super) fn mend_machines(&self) {
        for host in self.machines.borrow_mut().iter_mut() {
            host.disk_full = false;
            host.pause = None;
            if let Some(running) = &host.running {
                running.process.set_disk_full(false);
                running.process.set_sync_fails(false);
                running.process.pass_on();
                running.process.resume();
            }
        }
    }

    pub(super) fn count(&self, what: impl Into<String>) {
        *self.coverage.borrow_mut().entry(what.into()).or_default() += 1;
    }

    /// Adds what a process has passed.
    pub(super) fn count_passed(&self, process: &Process) {
        let mut coverage = self.coverage.borrow_mut();
        for (place, times) in process.passed() {
            *coverage.entry(place).or_default() += times;
        }
    }

    /// Adds what processes that still run have passed.
    pub(super) fn count_processes(&self) {
        for host in self.machines.borrow().iter() {
            if let Some(running) = &host.running {
                self.count_passed(&running.process);
            }
        }
    }

    /// How every machine stands, in words.
    pub(super) fn standing(&self) -> String {
        let machines = self.machines.borrow();
        let words: Vec<String> = machines
            .iter()
            .map(|host| {
                let name = host.machine.name();
                match &host.running {
                    Some(running) => format!("{name}: {:?}", running.monitor.snapshot().phase),
                    None => format!("{name}: {:?}, not running", host.fate),
                }
            })
            .collect();
        words.join("; ")
    }
}

impl Host {
    pub(super) fn new(machine: Machine) -> Self {
        Self {
            machine,
            fate: Fate::Supervised,
            starts: 0,
            running: None,
            killed: None,
            disk_full: false,
            held: false,
            resolution: None,
            forgotten: false,
            other_shape: false,
            pause: None,
            restoring: Restoring::default(),
        }
    }
}

/// Writes the input over its time, past all faults.
pub(super) async fn feed(stage: Rc<Stage>) {
    const PIECES: u32 = 16;
    let per_piece = stage.input.len().div_ceil(PIECES as usize).max(1);
    let pause = Duration::from_millis(stage.plan.job.input_ms) / PIECES;
    for piece in stage.input.chunks(per_piece) {
        let mut by_partition: BTreeMap<u32, Vec<InputRecord>> = BTreeMap::new();
        for event in piece {
            by_partition.entry(stage.partition(event)).or_default().push(InputRecord {
                timestamp_ms: stage.network.broker_time_ms(),
                key: Bytes::from(event.key.to_string()),
                value: Bytes::from(event.encode()),
            });
        }
        for (partition, records) in by_partition {
            let partition = i32::try_from(partition).unwrap_or(0);
            let place = TopicPartition::new(INPUT, partition);
            loop {
                match stage.network.append_input(&place, &records) {
                    Ok(true) => break,
                    Ok(false) => tokio::time::sleep(Duration::from_millis(20)).await,
                    Err(text) => return stage.fail(Violation::new(Oracle::Progress, text)),
                }
            }
        }
        tokio::time::sleep(pause).await;
    }
    stage.fed.set(true);
}
