//! From a seed to a plan.

use std::collections::BTreeSet;

use super::fault::Death;
use super::{Crash, Fault, FaultKind, JobPlan, Life, Meddling, Plan, focus, savepoint};
use crate::cluster::ClusterSettings;
use crate::network::NetworkSettings;
use crate::runtime::Random;

/// Named places of the product at which a process dies; those that few runs pass are drawn more often.
const PLACES: [(&str, u32); 38] = [
    ("Locked", 1),
    ("LedgerOpened", 1),
    ("FirstMeta", 2),
    ("Looked", 1),
    ("Fenced", 1),
    ("Resolved", 1),
    ("Decided", 1),
    ("Quarantined", 2),
    ("Replayed", 1),
    ("Repaired", 1),
    ("OwnerVoted", 1),
    ("OwnerCommitted", 1),
    ("Owned", 1),
    ("Triggered", 1),
    ("Sealed", 1),
    ("DeltaWritten", 1),
    ("LedgerAppended", 1),
    ("Voted", 2),
    ("Committed", 2),
    ("Bumped", 1),
    ("Confirmed", 1),
    ("Applied", 1),
    ("StorePersisted", 1),
    ("MetaWritten", 1),
    ("Deleted", 1),
    ("RollbackBegun", 3),
    ("Discarded", 3),
    ("RolledBack", 3),
    ("DeltaCreate", 1),
    ("DeltaWrite", 1),
    ("DeltaSync", 1),
    ("DeltaRename", 1),
    ("DeltaSyncDir", 1),
    ("DeltaRemove", 1),
    ("MetaCreate", 1),
    ("MetaSync", 1),
    ("MetaRename", 1),
    ("MetaSyncDir", 1),
];

/// What a seed draws its faults from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Cut,
    Partition,
    HalfOpen,
    CrashBroker,
    FreezeBroker,
    Reassign,
    Compact,
    Kill,
    Stop,
    DiskFull,
    SyncFails,
    ClockJump,
    FlipByte,
    SecondProcess,
    EmptyProcess,
    Meddle,
}

const KINDS: [Kind; 16] = [
    Kind::Cut,
    Kind::Partition,
    Kind::HalfOpen,
    Kind::CrashBroker,
    Kind::FreezeBroker,
    Kind::Reassign,
    Kind::Compact,
    Kind::Kill,
    Kind::Stop,
    Kind::DiskFull,
    Kind::SyncFails,
    Kind::ClockJump,
    Kind::FlipByte,
    Kind::SecondProcess,
    Kind::EmptyProcess,
    Kind::Meddle,
];

pub(super) fn plan(seed: u64) -> Plan {
    let mut random = Random::named(seed, "plan");
    let random = &mut random;
    let transaction_version = match random.below(4) {
        0 => 0,
        1 => 1,
        _ => 2,
    };
    let cluster = cluster(random, transaction_version);
    let job = job(random);
    let heal_ms = random.within(job.input_ms / 2..=job.input_ms + 1_000);
    let network = network(random);
    let lives = lives(random);
    let faults = faults(random, heal_ms, i32::from(cluster.brokers));
    let mut plan = Plan {
        seed,
        job,
        network,
        cluster,
        reorder_one_in: *random.pick(&[0, 4, 16, 64]).unwrap_or(&0),
        slow_one_in: *random.pick(&[0, 2, 8]).unwrap_or(&0),
        slow_max_ms: random.within(1..=50),
        lives,
        faults,
        heal_ms,
        resolves: random.chance(2),
        mutants: BTreeSet::new(),
    };
    let aimed = focus::aim(&mut plan);
    savepoint::add(&mut plan, aimed);
    plan
}

fn cluster(random: &mut Random, transaction_version: i16) -> ClusterSettings {
    ClusterSettings {
        brokers: *random.pick(&[1, 3, 3, 3]).unwrap_or(&3),
        transaction_version,
        replication_max_ms: *random.pick(&[0, 2, 10, 50]).unwrap_or(&2),
        marker_delay_ms: *random.pick(&[0, 1, 20, 200]).unwrap_or(&1),
        marker_spread_ms: *random.pick(&[0, 0, 5, 50]).unwrap_or(&0),
        election_max_ms: *random.pick(&[50, 300, 1_500]).unwrap_or(&300),
        loading_max_ms: *random.pick(&[0, 20, 300]).unwrap_or(&20),
        session_timeout_ms: *random.pick(&[300, 1_500]).unwrap_or(&1_500),
        abort_scan_ms: *random.pick(&[100, 500]).unwrap_or(&500),
    }
}

fn job(random: &mut Random) -> JobPlan {
    let checkpoint_interval_ms = *random.pick(&[50, 100, 250]).unwrap_or(&100);
    JobPlan {
        records: u32::try_from(random.within(10..=60)).unwrap_or(40),
        keys: u32::try_from(random.within(1..=6)).unwrap_or(3),
        partitions: u32::try_from(random.within(1..=3)).unwrap_or(2),
        parallelism: *random.pick(&[1, 2]).unwrap_or(&1),
        checkpoint_interval_ms,
        transaction_timeout_ms: *random.pick(&[1_000, 3_000, 10_000]).unwrap_or(&3_000),
        input_ms: random.within(500..=5_000),
    }
}

fn network(random: &mut Random) -> NetworkSettings {
    let mut network = NetworkSettings::calm();
    network.latency_max_ms = *random.pick(&[1, 3, 20]).unwrap_or(&1);
    if random.chance(3) {
        network.spike_one_in = *random.pick(&[10, 50]).unwrap_or(&50);
        network.spike_max_ms = *random.pick(&[50, 500]).unwrap_or(&50);
    }
    if random.chance(3) {
        network.cut_one_in = *random.pick(&[20, 100, 400]).unwrap_or(&100);
    }
    if random.chance(2) {
        network.late_one_in = *random.pick(&[1, 3]).unwrap_or(&3);
        network.late_max_ms = *random.pick(&[100, 2_000, 10_000]).unwrap_or(&2_000);
    }
    network
}

fn crash(random: &mut Random) -> Crash {
    *random.pick(&[Crash::Process, Crash::PowerLost, Crash::Torn]).unwrap_or(&Crash::Process)
}

fn down_ms(random: &mut Random) -> u64 {
    *random.pick(&[0, 1, 20, 500]).unwrap_or(&0)
}

fn lives(random: &mut Random) -> Vec<Life> {
    if random.chance(3) {
        return Vec::new();
    }
    let count = random.within(1..=3);
    let bytes_flip = random.chance(40);
    (0..count)
        .map(|_| {
            let death = match random.below(3) {
                0 => Death::AtPoll(random.within(1..=3_000)),
                1 => Death::AtDiskOperation(random.within(1..=80)),
                _ => place(random),
            };
            Life {
                death,
                crash: crash(random),
                down_ms: down_ms(random),
                flips_byte: bytes_flip && random.chance(2),
            }
        })
        .collect()
}

fn place(random: &mut Random) -> Death {
    let total: u32 = PLACES.iter().map(|(_, weight)| weight).sum();
    let mut drawn = random.below(total.into());
    for (place, weight) in PLACES {
        if drawn < u64::from(weight) {
            let passage = if random.chance(2) { 1 } else { random.within(1..=8) };
            return Death::AtPlace(place.to_owned(), passage);
        }
        drawn -= u64::from(weight);
    }
    Death::AtPoll(1)
}

fn faults(random: &mut Random, heal_ms: u64, brokers: i32) -> Vec<Fault> {
    let mut weights: Vec<(Kind, u64)> = Vec::new();
    for kind in KINDS {
        let one_in = match kind {
            Kind::FlipByte | Kind::EmptyProcess => 20,
            Kind::SecondProcess | Kind::Meddle => 5,
            _ => 4,
        };
        if random.chance(one_in) {
            weights.push((kind, random.within(1..=4)));
        }
    }
    let total: u64 = weights.iter().map(|(_, weight)| weight).sum();
    if total == 0 {
        return Vec::new();
    }
    let count = random.within(1..=6);
    let (mut processes, mut meddlings) = (0, 0);
    let mut faults = Vec::new();
    for _ in 0..count {
        let mut drawn = random.below(total);
        let mut chosen = None;
        for (kind, weight) in &weights {
            if drawn < *weight {
                chosen = Some(*kind);
                break;
            }
            drawn -= weight;
        }
        let Some(kind) = chosen else { continue };
        let kind = fault(random, kind, brokers);
        processes += u32::from(kind.starts_another_process());
        if kind.starts_another_process() && processes > 1 {
            continue;
        }
        meddlings += u32::from(matches!(kind, FaultKind::Meddle { .. }));
        if matches!(kind, FaultKind::Meddle { .. }) && meddlings > 1 {
            // Of two, the second may cover what the first would show.
            continue;
        }
        // A job that has never run needs most of a second to get there.
        let earliest = if random.chance(4) { 0 } else { heal_ms.min(900) };
        faults.push(Fault { at_ms: random.within(earliest..=heal_ms), kind });
    }
    faults.sort_by_key(|fault| fault.at_ms);
    faults
}

/// What is about one file only is drawn more often: it has to meet the moment at which that file counts.
fn meddling(random: &mut Random) -> Meddling {
    const MORE: [Meddling; 11] = [
        Meddling::RemoveDelta,
        Meddling::ForgeDelta,
        Meddling::NewerStore,
        Meddling::RemoveMetaAndLedger,
        Meddling::LoseLedgerEnd,
        Meddling::EmptyLedger,
        Meddling::ForgeDelta,
        Meddling::LoseLedgerEnd,
        Meddling::ForeignRecord,
        Meddling::DamageDelta,
        Meddling::DamageDelta,
    ];
    let all: &[Meddling] = if random.chance(2) { &MORE } else { &Meddling::ALL };
    *random.pick(all).unwrap_or(&Meddling::RemoveMeta)
}

fn fault(random: &mut Random, kind: Kind, brokers: i32) -> FaultKind {
    let node = i32::try_from(random.within(1..=brokers.unsigned_abs().into())).unwrap_or(1);
    let some_node = if random.chance(3) { None } else { Some(node) };
    let short = random.within(10..=400);
    let long = random.within(100..=4_000);
    match kind {
        Kind::Cut => FaultKind::Cut { node: some_node },
        Kind::Partition => {
            FaultKind::Block { node: some_node, up: true, down: true, lasts_ms: long }
        }
        Kind::HalfOpen => {
            let up = random.chance(3);
            FaultKind::Block { node: some_node, up, down: !up, lasts_ms: long }
        }
        Kind::CrashBroker => FaultKind::CrashBroker { node, down_ms: long },
        Kind::FreezeBroker => FaultKind::FreezeBroker { node, lasts_ms: long },
        Kind::Reassign => FaultKind::Reassign,
        Kind::Compact => FaultKind::Compact,
        Kind::Kill => FaultKind::Kill { crash: crash(random), down_ms: down_ms(random) },
        Kind::Stop => FaultKind::Stop { lasts_ms: if random.chance(2) { short } else { long } },
        Kind::DiskFull => FaultKind::DiskFull { lasts_ms: short },
        Kind::SyncFails => FaultKind::SyncFails { lasts_ms: short },
        Kind::ClockJump => {
            let far = i64::try_from(random.within(1..=7_200_000)).unwrap_or(0);
            FaultKind::ClockJump { by_ms: if random.chance(2) { far } else { -far } }
        }
        Kind::FlipByte => FaultKind::FlipByte { choice: random.next() },
        Kind::SecondProcess => FaultKind::SecondProcess {
            age_ms: *random.pick(&[0, 0, 50, 400]).unwrap_or(&0),
            slow_ms: *random.pick(&[0, 20, 100, 300, 600]).unwrap_or(&0),
        },
        Kind::EmptyProcess => FaultKind::EmptyProcess,
        Kind::Meddle => FaultKind::Meddle {
            what: meddling(random),
            choice: random.next(),
            age_ms: random.within(50..=1_000),
            place: None,
            looked_ms: 0,
        },
    }
}
