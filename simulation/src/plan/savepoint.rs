//! Plans with savepoints: of a job that is calm apart from that, aimed at what plain chance hardly ever hits, or in the midst of other
//! faults.

use std::fmt;

use millstream_checkpoint::SavepointTrigger;
use millstream_engine::savepoint_crash_points;

use super::{Crash, Fault, FaultKind, Meddling, Plan};
use crate::network::NetworkSettings;
use crate::runtime::Random;

/// One seed in so many is about a savepoint alone.
const AIMED_ONE_IN: u32 = 16;

/// Of the others, one in so many takes one as well.
const BESIDES_ONE_IN: u32 = 10;

/// Somebody takes a savepoint, and lets the job go on from it in an empty state directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restoration {
    /// How the savepoint is taken; [`Directory`](SavepointTrigger::Directory) is none that a running job can be asked for.
    pub trigger: SavepointTrigger,
    /// The named place at which the process dies while it writes.
    pub writing: Option<String>,
    /// How long the job goes on behind the savepoint, in milliseconds; not if that has stopped it.
    pub age_ms: u64,
    /// The named place at whose next passage the job is killed then; at once if there is none.
    pub killed_at: Option<String>,
    /// What is left of the disk then, and whenever a restore dies.
    pub crash: Crash,
    /// What becomes of the ledger meanwhile.
    pub ledger: Option<Meddling>,
    /// The job is not killed: the savepoint is copied to another machine, and goes on there.
    pub beside: bool,
    /// The named place at which the process that restores dies.
    pub dies_at: Option<String>,
    /// The start behind that death is without the savepoint.
    pub forgets: bool,
    /// For how long the process stands still between its look and its fence once it has restored, in milliseconds; 0 for not at all.
    pub looked_ms: u64,
    /// Workers of the job that goes on.
    pub parallelism: usize,
}

impl fmt::Display for Restoration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trigger, writing, age_ms, killed_at, crash, ledger, .. } = self;
        write!(f, "a savepoint ({})", trigger.name())?;
        if let Some(place) = writing {
            write!(f, ", the writer dies at {place}")?;
        }
        match (self.beside, killed_at) {
            (true, _) => write!(f, ", gone on from {age_ms} ms later on another machine")?,
            (_, place) => {
                let at = place.as_deref().unwrap_or("once");
                write!(f, ", gone on from {age_ms} ms later, killed at {at} ({crash:?})")?;
            }
        }
        if let Some(what) = ledger {
            write!(f, ", {what:?}")?;
        }
        if let Some(place) = &self.dies_at {
            write!(f, ", the restore dies at {place}")?;
        }
        if self.forgets {
            f.write_str(", the next start forgets it")?;
        }
        if self.looked_ms > 0 {
            write!(f, ", {} ms between look and fence", self.looked_ms)?;
        }
        write!(f, ", {} workers", self.parallelism)
    }
}

/// What is aimed at.
#[derive(Clone, Copy, Debug)]
enum Aim {
    /// Stopped with a savepoint, and gone on from it.
    Stopped,
    /// Stopped with drain, and gone on from it.
    Drained,
    /// The job has gone on behind its savepoint.
    Rewound,
    /// What was committed last is not seen yet when the savepoint is restored.
    Overtaken,
    /// Gone on from on another machine, while the job runs.
    Beside,
    /// The ledger is gone, or ends earlier.
    WithoutLedger,
    /// The writer dies.
    WriterDies,
    /// The restore dies.
    RestoreDies,
    /// The restore dies half-way, and the next start forgets it.
    Forgotten,
}

const AIMS: [Aim; 13] = [
    Aim::Stopped,
    Aim::Drained,
    Aim::Rewound,
    Aim::Overtaken,
    Aim::Overtaken,
    Aim::Beside,
    Aim::WithoutLedger,
    Aim::WithoutLedger,
    Aim::WriterDies,
    Aim::WriterDies,
    Aim::RestoreDies,
    Aim::RestoreDies,
    Aim::Forgotten,
];

/// Where a restore dies; the job that it begins may be about to go on, too.
const RESTORING: [&str; 10] = [
    "RestoredCreate",
    "RestoredSync",
    "RestoredRename",
    "RestoreBegun",
    "RestoreStored",
    "RestoreStored",
    "RestoreWritten",
    "Fenced",
    "OwnerVoted",
    "OwnerCommitted",
];

/// Puts savepoints into some plans. `aimed`: the plan is about something else.
pub(super) fn add(plan: &mut Plan, aimed: bool) {
    let mut random = Random::named(plan.seed, "savepoints");
    let random = &mut random;
    if aimed {
        return;
    }
    if random.chance(AIMED_ONE_IN) {
        aim(plan, random);
    } else if random.chance(BESIDES_ONE_IN) {
        besides(plan, random);
    }
}

fn plain(random: &mut Random, trigger: SavepointTrigger) -> Restoration {
    Restoration {
        trigger,
        writing: None,
        age_ms: random.within(0..=600),
        killed_at: None,
        crash: crash(random),
        ledger: None,
        beside: false,
        dies_at: None,
        forgets: false,
        looked_ms: 0,
        parallelism: *random.pick(&[1, 2, 3]).unwrap_or(&1),
    }
}

fn crash(random: &mut Random) -> Crash {
    *random.pick(&[Crash::Process, Crash::PowerLost, Crash::Torn]).unwrap_or(&Crash::Process)
}

fn trigger(random: &mut Random) -> SavepointTrigger {
    let all = [
        SavepointTrigger::Live,
        SavepointTrigger::Live,
        SavepointTrigger::Stop,
        SavepointTrigger::Drain,
    ];
    *random.pick(&all).unwrap_or(&SavepointTrigger::Live)
}

fn one_of(random: &mut Random, places: &[&str]) -> Option<String> {
    random.pick(places).map(|place| (*place).to_owned())
}

fn aim(plan: &mut Plan, random: &mut Random) {
    let Some(aim) = random.pick(&AIMS).copied() else { return };
    plan.lives.clear();
    plan.network =
        NetworkSettings { latency_max_ms: plan.network.latency_max_ms, ..NetworkSettings::calm() };
    plan.job.checkpoint_interval_ms = *random.pick(&[50, 100]).unwrap_or(&50);
    plan.job.input_ms = random.within(2_500..=3_500);
    plan.heal_ms = plan.job.input_ms;
    plan.resolves = !random.chance(4);
    let at_ms = random.within(600..=1_500);
    let live = SavepointTrigger::Live;
    let restoration = match aim {
        Aim::Stopped => plain(random, SavepointTrigger::Stop),
        Aim::Drained => plain(random, SavepointTrigger::Drain),
        Aim::Rewound => plain(random, live),
        Aim::Overtaken => {
            plan.cluster.transaction_version = 2;
            plan.cluster.marker_delay_ms = 1_500;
            let looked_ms = *random.pick(&[0, 2_000, 2_000]).unwrap_or(&0);
            let killed_at = Some("Committed".to_owned());
            Restoration { killed_at, age_ms: 0, looked_ms, ..plain(random, live) }
        }
        Aim::Beside => Restoration { beside: true, ..plain(random, live) },
        Aim::WithoutLedger => {
            const LOSSES: [Meddling; 5] = [
                Meddling::DeleteLedger,
                Meddling::DeleteLedger,
                Meddling::EmptyLedger,
                Meddling::LoseLedgerEnd,
                Meddling::ForeignRecord,
            ];
            plan.cluster.marker_delay_ms = plan.cluster.marker_delay_ms.min(20);
            let ledger = random.pick(&LOSSES).copied();
            let trigger = *random.pick(&[live, SavepointTrigger::Stop]).unwrap_or(&live);
            Restoration { ledger, ..plain(random, trigger) }
        }
        Aim::WriterDies => {
            let (trigger, writing) = (trigger(random), one_of(random, &savepoint_crash_points()));
            Restoration { writing, ..plain(random, trigger) }
        }
        Aim::RestoreDies => {
            let (trigger, dies_at) = (trigger(random), one_of(random, &RESTORING));
            let forgets = random.chance(2);
            Restoration { dies_at, forgets, ..plain(random, trigger) }
        }
        Aim::Forgotten => {
            plan.resolves = true;
            let dies_at = one_of(random, &["RestoreBegun", "RestoreStored"]);
            let stop = SavepointTrigger::Stop;
            Restoration { dies_at, forgets: true, ..plain(random, stop) }
        }
    };
    plan.faults = vec![Fault { at_ms, kind: FaultKind::Restore(restoration) }];
}

/// In the midst of other faults.
fn besides(plan: &mut Plan, random: &mut Random) {
    let others = plan.faults.iter().any(|fault| {
        // Whoever is at the machine for these is in the way of one who puts another directory there.
        matches!(fault.kind, FaultKind::Meddle { .. }) || fault.kind.starts_another_process()
    });
    let at_ms = random.within(0..=plan.heal_ms);
    let trigger = trigger(random);
    let writing = if random.chance(4) { one_of(random, &savepoint_crash_points()) } else { None };
    let kind = if others || random.chance(3) {
        let trigger = if others { SavepointTrigger::Live } else { trigger };
        let trigger =
            if trigger == SavepointTrigger::Drain { SavepointTrigger::Stop } else { trigger };
        FaultKind::Savepoint { trigger, writing }
    } else {
        let dies_at = if random.chance(4) { one_of(random, &RESTORING) } else { None };
        FaultKind::Restore(Restoration { writing, dies_at, ..plain(random, trigger) })
    };
    plan.faults.push(Fault { at_ms, kind });
    plan.faults.sort_by_key(|fault| fault.at_ms);
}
