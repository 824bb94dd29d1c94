//! What histories have to come by: every row of the decision table that they can reach, and every named place to die at.
//!
//! Rows are named as the report names them. Out of reach, and so not asked for:
//!
//! | row | why |
//! | --- | --- |
//! | `restore: begin` | a ledger that holds nothing, and a savepoint of another job name or of a directory whose job never ran; the savepoints of a simulation are those of its one job, which has run. `tests/tests/savepoints/` begins so |
//! | `look` of `LedgerLost`, `LedgerBehind`; `after the fence` of `TakeoverFailed` | the decision takes them only on the other side of the fence: an empty ledger proves nothing before it, and a fence that succeeded is no failed try |
//! | `after the fence` of `ContradictingFiles`, `FirstMetaGone`, `MetaMissing`, `NoLocalState`, `RestoreUnfinished` | the directory is read once, when a process starts; what the look found there is what the decision finds |

use std::collections::BTreeMap;

use millstream_engine::{crash_points, restore_crash_points, savepoint_crash_points};

/// Rows of the decision table, and what comes of savepoints.
pub const ROWS: [&str; 48] = [
    "decision look: first start",
    "decision look: go on",
    "decision look: ContradictingFiles",
    "decision look: DamagedDelta",
    "decision look: DigestMismatch",
    "decision look: ForeignRecord",
    "decision look: LedgerTopicRecreated",
    "decision look: LineageSplit",
    "decision look: MetaMissing",
    "decision look: NewerOwner",
    "decision look: NoLocalState",
    "decision look: OtherFingerprint",
    "decision look: Refused",
    "decision look: RestoreOvertaken",
    "decision look: RestoreUnfinished",
    "decision look: StaleLocalState",
    "decision look: TakeoverFailed",
    "decision after the fence: commit record 0",
    "decision after the fence: confirm",
    "decision after the fence: join a savepoint",
    "decision after the fence: resolved",
    "decision after the fence: resume",
    "decision after the fence: DamagedDelta",
    "decision after the fence: DigestMismatch",
    "decision after the fence: ForeignRecord",
    "decision after the fence: LedgerBehind",
    "decision after the fence: LedgerLost",
    "decision after the fence: LedgerTopicRecreated",
    "decision after the fence: LineageSplit",
    "decision after the fence: NewerOwner",
    "decision after the fence: OtherFingerprint",
    "decision after the fence: Refused",
    "decision after the fence: RestoreOvertaken",
    "decision after the fence: StaleLocalState",
    "decision repair: ForeignStore",
    "decision repair: MissingDelta",
    "decision restore: begun before",
    "decision restore: go on",
    "decision restore: with somebody's word",
    "decision restore: ForeignRecord",
    "decision restore: RestoreRewinds",
    "decision restore: RestoreWithoutLedger",
    "a state directory of another shape",
    "gone on from a savepoint (drain)",
    "gone on from a savepoint (live)",
    "gone on from a savepoint (stop)",
    "gone on from the directory of before",
    "output written again behind a savepoint",
];

/// Rows and crash points that came fewer than `least` times, with how often they did.
#[must_use]
pub fn seldom(coverage: &BTreeMap<String, u64>, least: u64) -> Vec<(&'static str, u64)> {
    let times = |name: &str| coverage.get(name).copied().unwrap_or(0);
    let of_savepoints = savepoint_crash_points().into_iter().chain(restore_crash_points());
    // `place:n` is a passage of a place that is there already.
    let of_savepoints = of_savepoints.filter(|place| !place.contains(':'));
    let all = ROWS.into_iter().chain(crash_points()).chain(of_savepoints);
    all.map(|name| (name, times(name))).filter(|(_, times)| *times < least).collect()
}

/// How many times in `histories` are as often as `per_million` in a million, rounded up.
#[must_use]
pub fn scaled(per_million: u64, histories: u64) -> u64 {
    u64::try_from((u128::from(per_million) * u128::from(histories)).div_ceil(1_000_000))
        .unwrap_or(u64::MAX)
}
