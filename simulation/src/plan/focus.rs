//! Plans that aim at one row of the decision table which plain chance hardly ever hits: it takes two things at their moments.
//!
//! A small share of the seeds is calm apart from that.

use millstream_engine::Resolution;

use super::{Crash, Fault, FaultKind, Meddling, Plan};
use crate::network::NetworkSettings;
use crate::runtime::Random;

/// One seed in so many.
const ONE_IN: u32 = 10;

/// What is aimed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Focus {
    /// A starter is fenced until it gives up.
    TakeoverFailed,
    /// The owner is fenced by another, who has become the owner by the time the first has fenced it in turn.
    NewerOwner,
    /// A copy of the directory is outrun between its look and its fence.
    Outrun,
    /// The ledger changes between look and fence.
    LateLedger,
    /// The file of a commit that the look can not see yet is damaged.
    LateDelta,
    /// A delta file or the end of the ledger is lost or damaged.
    Loss,
    /// The store is newer than META and delta files, and somebody accepts a rewind.
    NewerStore,
    /// An option that does not apply.
    ForgottenOption,
    /// Delta files of two lineages.
    MergedCopies,
    /// Another fingerprint.
    OtherShape,
}

/// Those that hit more than one row, or not always, more than once.
const FOCUSES: [Focus; 16] = [
    Focus::TakeoverFailed,
    Focus::NewerOwner,
    Focus::NewerOwner,
    Focus::Outrun,
    Focus::LateLedger,
    Focus::LateLedger,
    Focus::LateDelta,
    Focus::LateDelta,
    Focus::Loss,
    Focus::Loss,
    Focus::NewerStore,
    Focus::ForgottenOption,
    Focus::ForgottenOption,
    Focus::MergedCopies,
    Focus::OtherShape,
    Focus::OtherShape,
];

/// Replaces the faults of a few plans; gives whether it did.
pub(super) fn aim(plan: &mut Plan) -> bool {
    let mut random = Random::named(plan.seed, "focus");
    let random = &mut random;
    if !random.chance(ONE_IN) {
        return false;
    }
    let Some(focus) = random.pick(&FOCUSES).copied() else { return false };
    plan.lives.clear();
    plan.network =
        NetworkSettings { latency_max_ms: plan.network.latency_max_ms, ..NetworkSettings::calm() };
    plan.job.checkpoint_interval_ms = *random.pick(&[50, 100]).unwrap_or(&50);
    plan.job.input_ms = random.within(4_000..=5_000);
    plan.heal_ms = plan.job.input_ms;
    // By then the job runs.
    let at_ms = random.within(1_400..=2_000);
    let faults: Vec<(u64, FaultKind)> = match focus {
        Focus::TakeoverFailed => {
            plan.cluster.marker_delay_ms = 1;
            plan.cluster.marker_spread_ms = 0;
            plan.heal_ms = at_ms + 4_000;
            let rival = FaultKind::Rival { every_ms: random.within(2..=10), lasts_ms: 10_000 };
            let killed = FaultKind::Kill { crash: Crash::Process, down_ms: 0 };
            vec![(at_ms, killed), (at_ms, rival)]
        }
        Focus::NewerOwner => vec![
            // So that the copy is not outrun before it begins.
            (at_ms, FaultKind::Stop { lasts_ms: 800 }),
            (at_ms, FaultKind::SecondProcess { age_ms: 0, slow_ms: 0 }),
            (at_ms, pause(true, "Fenced", 1, 1_200)),
            (at_ms + 500, pause(false, "Looked", 1, 2_000)),
        ],
        Focus::Outrun => vec![
            (at_ms, FaultKind::Stop { lasts_ms: 800 }),
            (at_ms, FaultKind::SecondProcess { age_ms: 0, slow_ms: 0 }),
            (at_ms, pause(true, "Looked", 1, random.within(800..=1_500))),
        ],
        Focus::LateLedger => {
            const LEDGER: [Meddling; 6] = [
                Meddling::ForeignRecord,
                Meddling::ForeignRecord,
                Meddling::ForeignRecord,
                Meddling::RecreateLedger,
                Meddling::RecreateLedger,
                Meddling::EmptyLedger,
            ];
            let what = *random.pick(&LEDGER).unwrap_or(&Meddling::ForeignRecord);
            let choice = random.next();
            vec![(at_ms, FaultKind::Meddle { what, choice, age_ms: 0, place: None, looked_ms: 20 })]
        }
        Focus::LateDelta => {
            plan.cluster.marker_delay_ms = 1_500;
            let what = *random
                .pick(&[Meddling::DamageDelta, Meddling::ForgeDelta])
                .unwrap_or(&Meddling::DamageDelta);
            let (choice, place) = (random.next(), Some("Committed".to_owned()));
            let kind = FaultKind::Meddle { what, choice, age_ms: 0, place, looked_ms: 2_000 };
            vec![(at_ms, kind)]
        }
        Focus::Loss => {
            const LOSSES: [Meddling; 4] = [
                Meddling::RemoveDelta,
                Meddling::RemoveDelta,
                Meddling::DamageDelta,
                Meddling::LoseLedgerEnd,
            ];
            let what = *random.pick(&LOSSES).unwrap_or(&Meddling::RemoveDelta);
            let choice = random.next();
            vec![(at_ms, FaultKind::Meddle { what, choice, age_ms: 0, place: None, looked_ms: 0 })]
        }
        Focus::NewerStore => {
            plan.resolves = true;
            // The store is written every few checkpoints only.
            vec![(at_ms, older(random, Meddling::NewerStore, 1_200))]
        }
        Focus::ForgottenOption => {
            let options = [Resolution::AdoptLocal, Resolution::AcceptRewind];
            let mut resolution = *random.pick(&options).unwrap_or(&Resolution::AdoptLocal);
            let places = [None, Some("Voted"), Some("Committed")];
            let mut place = random.pick(&places).copied().flatten();
            let mut looked_ms = 0;
            if !random.chance(3) {
                // META knows of a commit whose markers the look does not see, so that the option seems to apply.
                resolution = Resolution::AdoptLocal;
                place = Some("MetaWritten");
                // Before version 2 the next epoch waits for the markers, and META for that.
                plan.cluster.transaction_version = 2;
                plan.cluster.marker_delay_ms = 1_500;
                looked_ms = 2_000;
            }
            let place = place.map(str::to_owned);
            vec![(at_ms, FaultKind::ForgottenOption { resolution, place, looked_ms })]
        }
        Focus::MergedCopies => {
            plan.resolves = true;
            vec![(at_ms, older(random, Meddling::MergedCopies, 0))]
        }
        Focus::OtherShape => match random.below(3) {
            0 => vec![(at_ms, FaultKind::OtherShape { empty: false, early: false })],
            1 => vec![(at_ms, FaultKind::OtherShape { empty: true, early: false })],
            // It looks again once its first META is written.
            _ => vec![
                (0, FaultKind::OtherShape { empty: true, early: true }),
                (1, pause(true, "Looked", 2, 2_500)),
                // It is not the first to own the job.
                (1, FaultKind::Stop { lasts_ms: 700 }),
            ],
        },
    };
    plan.faults = faults.into_iter().map(|(at_ms, kind)| Fault { at_ms, kind }).collect();
    true
}

fn pause(second: bool, place: &str, passage: u64, lasts_ms: u64) -> FaultKind {
    FaultKind::Pause { second, place: place.to_owned(), passage, lasts_ms }
}

fn older(random: &mut Random, what: Meddling, more_ms: u64) -> FaultKind {
    let (choice, age_ms) = (random.next(), more_ms + random.within(300..=900));
    FaultKind::Meddle { what, choice, age_ms, place: None, looked_ms: 0 }
}
