//! Faults, one by one.

use std::fmt;

use millstream_checkpoint::SavepointTrigger;
use millstream_engine::Resolution;

use super::Restoration;

pub use crate::process::Crash;

/// One fault at a point in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Milliseconds from the beginning.
    pub at_ms: u64,
    /// What happens.
    pub kind: FaultKind,
}

/// A fault. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// Every connection to a broker, or to all, breaks.
    Cut {
        /// The broker, or all.
        node: Option<i32>,
    },
    /// Nothing passes between processes and a broker, or all, in the given directions.
    Block {
        /// The broker, or all.
        node: Option<i32>,
        /// No request passes.
        up: bool,
        /// No answer passes.
        down: bool,
        /// For how long.
        lasts_ms: u64,
    },
    /// A broker dies and comes back.
    CrashBroker {
        /// The broker.
        node: i32,
        /// How long it is down.
        down_ms: u64,
    },
    /// A broker stands still (SIGSTOP).
    FreezeBroker {
        /// The broker.
        node: i32,
        /// For how long.
        lasts_ms: u64,
    },
    /// Leaders and coordinators move, in order.
    Reassign,
    /// Compacted topics are compacted.
    Compact,
    /// The job's process is killed.
    Kill {
        /// What is left of its disk.
        crash: Crash,
        /// How long until it is started again.
        down_ms: u64,
    },
    /// The job's process stands still (SIGSTOP).
    Stop {
        /// For how long.
        lasts_ms: u64,
    },
    /// The machine's disk has no room.
    DiskFull {
        /// For how long.
        lasts_ms: u64,
    },
    /// What the process syncs to its disk fails.
    SyncFails {
        /// For how long.
        lasts_ms: u64,
    },
    /// The machine's clock of the day jumps, back if negative.
    ClockJump {
        /// How far.
        by_ms: i64,
    },
    /// A byte of a file of the state directory changes.
    FlipByte {
        /// Chooses the file and the byte.
        choice: u64,
    },
    /// A second process is started on a copy of the state directory as it is then.
    SecondProcess {
        /// Milliseconds between the copy and the start; the older, the staler.
        age_ms: u64,
        /// Its requests are under way for up to so much longer; 0 for not at all.
        slow_ms: u64,
    },
    /// A second process is started on an empty directory.
    EmptyProcess,
    /// While the process is down, somebody meddles with its files or its ledger.
    Meddle {
        /// What is done.
        what: Meddling,
        /// Chooses among files and offsets.
        choice: u64,
        /// How long until it is done, where it is about something older.
        age_ms: u64,
        /// The named place at whose next passage the process is killed; at once if there is none.
        place: Option<String>,
        /// For how long the next process stands still between its first look at the ledger and its fence. What is about the ledger
        /// is done meanwhile, what is about files before. 0 for not at all.
        looked_ms: u64,
    },
    /// Another program takes the job's transactional id, again and again.
    Rival {
        /// Between two times.
        every_ms: u64,
        /// For how long.
        lasts_ms: u64,
    },
    /// A process stands still (SIGSTOP) once it has passed a named place.
    Pause {
        /// The second process, or else the job's.
        second: bool,
        /// The place.
        place: String,
        /// At which passage from now on, from 1.
        passage: u64,
        /// For how long.
        lasts_ms: u64,
    },
    /// The process is killed, and started with an option that somebody forgot in a script.
    ForgottenOption {
        /// The option.
        resolution: Resolution,
        /// The named place at whose next passage it is killed; at once if there is none.
        place: Option<String>,
        /// For how long the new process stands still between its look and its fence.
        looked_ms: u64,
    },
    /// The job is started once with another uid of its operator, so that its fingerprint is another one.
    OtherShape {
        /// On an empty directory, beside the process that runs; else in its place.
        empty: bool,
        /// Even if the ledger holds nothing yet, so that it may become the first.
        early: bool,
    },
    /// Somebody asks for a savepoint; a job that is stopped with it is started again on its state directory.
    Savepoint {
        /// How.
        trigger: SavepointTrigger,
        /// The named place at which the process dies while it writes.
        writing: Option<String>,
    },
    /// Somebody takes a savepoint, and lets the job go on from it in an empty state directory.
    Restore(Restoration),
}

/// What must not be done to a job's files and its ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Meddling {
    /// META is removed.
    RemoveMeta,
    /// A file of the directory is removed.
    RemoveFile,
    /// The whole directory is replaced by an older copy.
    OlderCopy,
    /// META is replaced by an older one.
    OlderMeta,
    /// One file gets the content of another.
    SwapFiles,
    /// A delta file is removed.
    RemoveDelta,
    /// A byte of the newest delta file changes.
    DamageDelta,
    /// The newest delta file is replaced by a valid one with another content.
    ForgeDelta,
    /// META and delta files are replaced by older ones, the store stays.
    NewerStore,
    /// The directory is replaced by an older copy; once the job has gone on from that, the delta files it had before are put back
    /// beside the new ones.
    MergedCopies,
    /// META is removed, and the ledger loses all its records.
    RemoveMetaAndLedger,
    /// The ledger loses its last records, as in an unclean election.
    LoseLedgerEnd,
    /// The ledger loses all its records.
    EmptyLedger,
    /// The ledger topic is deleted.
    DeleteLedger,
    /// The ledger topic is deleted and made again.
    RecreateLedger,
    /// Another job writes to the ledger.
    ForeignRecord,
}

impl Meddling {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::RemoveMeta,
        Self::RemoveFile,
        Self::OlderCopy,
        Self::OlderMeta,
        Self::SwapFiles,
        Self::RemoveDelta,
        Self::DamageDelta,
        Self::ForgeDelta,
        Self::NewerStore,
        Self::MergedCopies,
        Self::RemoveMetaAndLedger,
        Self::LoseLedgerEnd,
        Self::EmptyLedger,
        Self::DeleteLedger,
        Self::RecreateLedger,
        Self::ForeignRecord,
    ];

    /// Whether it is about the ledger.
    #[must_use]
    pub fn is_of_ledger(self) -> bool {
        self >= Self::RemoveMetaAndLedger
    }
}

impl FaultKind {
    /// Whether it starts another process that may become the job's owner.
    #[must_use]
    pub fn starts_another_process(&self) -> bool {
        matches!(
            self,
            Self::SecondProcess { .. }
                | Self::EmptyProcess
                | Self::OtherShape { empty: true, early: true }
                | Self::Restore(Restoration { beside: true, .. })
        )
    }

    /// A name for counting.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Cut { .. } => "connections cut",
            Self::Block { up: true, down: true, .. } => "network partition",
            Self::Block { .. } => "half-open connections",
            Self::CrashBroker { .. } => "broker crash",
            Self::FreezeBroker { .. } => "broker frozen",
            Self::Reassign => "leaders moved",
            Self::Compact => "compaction",
            Self::Kill { .. } => "process killed",
            Self::Stop { .. } => "process stopped (SIGSTOP)",
            Self::DiskFull { .. } => "disk full",
            Self::SyncFails { .. } => "fsync failed",
            Self::ClockJump { .. } => "clock jump",
            Self::FlipByte { .. } => "byte flipped",
            Self::SecondProcess { .. } => "second process on a copy",
            Self::EmptyProcess => "second process on nothing",
            Self::Meddle { .. } => "files or ledger meddled with",
            Self::Rival { .. } => "transactional id taken by another program",
            Self::Pause { .. } => "process stopped at a place",
            Self::ForgottenOption { .. } => "start with a forgotten option",
            Self::OtherShape { empty: true, .. } => "start in another shape, on nothing",
            Self::OtherShape { .. } => "start in another shape",
            Self::Savepoint { .. } => "savepoint",
            Self::Restore(_) => "savepoint to go on from",
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let broker = |node: &Option<i32>| {
            node.map_or("all brokers".to_owned(), |node| format!("broker {node}"))
        };
        match self {
            Self::Cut { node } => write!(f, "connections to {} break", broker(node)),
            Self::Block { node, up, down, lasts_ms } => {
                let what = match (up, down) {
                    (true, false) => "no request",
                    (false, true) => "no answer",
                    _ => "nothing",
                };
                write!(f, "{what} passes to or from {} for {lasts_ms} ms", broker(node))
            }
            Self::CrashBroker { node, down_ms } => {
                write!(f, "broker {node} dies, for {down_ms} ms")
            }
            Self::FreezeBroker { node, lasts_ms } => {
                write!(f, "broker {node} stands still for {lasts_ms} ms")
            }
            Self::Reassign => f.write_str("leaders and coordinators move"),
            Self::Compact => f.write_str("compaction"),
            Self::Kill { crash, down_ms } => {
                write!(f, "the process is killed ({crash:?}), down for {down_ms} ms")
            }
            Self::Stop { lasts_ms } => write!(f, "the process stands still for {lasts_ms} ms"),
            Self::DiskFull { lasts_ms } => write!(f, "the disk is full for {lasts_ms} ms"),
            Self::SyncFails { lasts_ms } => write!(f, "fsync fails for {lasts_ms} ms"),
            Self::ClockJump { by_ms } => write!(f, "the clock jumps by {by_ms} ms"),
            Self::FlipByte { choice } => write!(f, "a byte flips on the disk (choice {choice})"),
            Self::SecondProcess { age_ms, slow_ms } => {
                write!(f, "a second process on a copy that is {age_ms} ms old, {slow_ms} ms away")
            }
            Self::EmptyProcess => f.write_str("a second process on an empty directory"),
            Self::Meddle { what, choice, age_ms, place, looked_ms } => {
                write!(f, "meddling: {what:?} (choice {choice}), {age_ms} ms old")?;
                if let Some(place) = place {
                    write!(f, ", killed at {place}")?;
                }
                match looked_ms {
                    0 => Ok(()),
                    _ => write!(f, ", {looked_ms} ms between look and fence"),
                }
            }
            Self::Rival { every_ms, lasts_ms } => {
                write!(f, "another program takes the id each {every_ms} ms, for {lasts_ms} ms")
            }
            Self::Pause { second, place, passage, lasts_ms } => {
                let who = if *second { "the second process" } else { "the process" };
                write!(f, "{who} stands still after {place}, passage {passage}, for {lasts_ms} ms")
            }
            Self::ForgottenOption { resolution, place, looked_ms } => {
                let at = place.as_deref().unwrap_or("once");
                write!(
                    f,
                    "the process is killed at {at}, and started with {resolution}, {looked_ms} ms between look and fence"
                )
            }
            Self::OtherShape { empty, early } => {
                let on = if *empty { "an empty directory" } else { "its directory" };
                write!(f, "a start in another shape on {on}")?;
                if *early { f.write_str(", even before the first") } else { Ok(()) }
            }
            Self::Savepoint { trigger, writing } => {
                write!(f, "a savepoint ({})", trigger.name())?;
                match writing {
                    Some(place) => write!(f, ", the writer dies at {place}"),
                    None => Ok(()),
                }
            }
            Self::Restore(restoration) => restoration.fmt(f),
        }
    }
}

/// How one start of the job's process ends, if nothing else ends it before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// What kills it.
    pub death: Death,
    /// What is left of its disk.
    pub crash: Crash,
    /// How long until it is started again, in milliseconds.
    pub down_ms: u64,
    /// A byte of its files changes while it is down.
    pub flips_byte: bool,
}

/// What kills a process from within.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Death {
    /// After so many polls of its tasks: at any await.
    AtPoll(u64),
    /// At the n-th passage (from 1) of a named crash point.
    AtPlace(String, u64),
    /// In the middle of the n-th operation (from 1) that changes its disk.
    AtDiskOperation(u64),
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.death {
            Death::AtPoll(n) => write!(f, "dies at poll {n}")?,
            Death::AtPlace(place, n) => write!(f, "dies at {place}, passage {n}")?,
            Death::AtDiskOperation(n) => write!(f, "dies in disk operation {n}")?,
        }
        write!(f, " ({:?}), down for {} ms", self.crash, self.down_ms)?;
        if self.flips_byte { f.write_str(", a byte flips meanwhile") } else { Ok(()) }
    }
}
