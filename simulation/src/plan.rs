//! What happens in one history, drawn from its seed: how the job runs, which faults strike and when.
//!
//! Each seed takes part in only some kinds of faults, each with a weight of its own (swarm testing): a history in which everything
//! fails at once gets nowhere, and some defects show only where another kind of fault does not cover them.

mod fault;
mod focus;
mod generate;
mod savepoint;

use std::collections::BTreeSet;
use std::fmt;

use millstream_checkpoint::SavepointTrigger;

use crate::cluster::ClusterSettings;
use crate::network::NetworkSettings;
pub use fault::{Crash, Death, Fault, FaultKind, Life, Meddling};
pub use savepoint::Restoration;

/// One history, before it happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Where it comes from; also the source of everything that is random while it runs.
    pub seed: u64,
    /// The job and its input.
    pub job: JobPlan,
    /// The network while faults strike.
    pub network: NetworkSettings,
    /// The brokers.
    pub cluster: ClusterSettings,
    /// One in so many polls of a task is put behind all others; 0 for none.
    pub reorder_one_in: u64,
    /// One in so many blocking steps takes up to `slow_max_ms`; 0 for none.
    pub slow_one_in: u64,
    /// Longest such step.
    pub slow_max_ms: u64,
    /// How the first starts of the job end; later ones are not killed.
    pub lives: Vec<Life>,
    /// Faults at points in time.
    pub faults: Vec<Fault>,
    /// When faults end and everything is mended, in milliseconds.
    pub heal_ms: u64,
    /// Somebody takes the way out that the job names when it stops because files or ledger were meddled with.
    pub resolves: bool,
    /// Rules of the product that are left out.
    pub mutants: BTreeSet<String>,
}

/// The job and its input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPlan {
    /// Records of the input.
    pub records: u32,
    /// Keys that they are spread over.
    pub keys: u32,
    /// Partitions of input and output.
    pub partitions: u32,
    /// Workers.
    pub parallelism: usize,
    /// Between two checkpoints.
    pub checkpoint_interval_ms: u64,
    /// `transaction.timeout.ms`.
    pub transaction_timeout_ms: u64,
    /// The input comes evenly over this time.
    pub input_ms: u64,
}

impl Plan {
    /// The plan of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        generate::plan(seed)
    }

    /// Whether the job may end with the error of another owner, or of a directory that is not the newest.
    #[must_use]
    pub fn allows_takeover(&self) -> bool {
        self.faults.iter().any(|fault| fault.kind.starts_another_process())
    }

    /// Whether another program takes the job's transactional id, so that it may give up to take the job over.
    #[must_use]
    pub fn has_rival(&self) -> bool {
        self.faults.iter().any(|fault| matches!(fault.kind, FaultKind::Rival { .. }))
    }

    /// Whether the job is started in another shape as well; and if so, perhaps before its first start.
    #[must_use]
    pub fn other_shape(&self) -> Option<bool> {
        self.faults.iter().find_map(|fault| match fault.kind {
            FaultKind::OtherShape { early, .. } => Some(early),
            _ => None,
        })
    }

    /// Whether the job may be started with an option that does not apply.
    #[must_use]
    pub fn allows_refusal(&self) -> bool {
        let forgets = |fault: &Fault| matches!(fault.kind, FaultKind::ForgottenOption { .. });
        (self.resolves && self.allows_damage()) || self.faults.iter().any(forgets)
    }

    /// Whether the job is stopped with drain, so that it has finished.
    #[must_use]
    pub fn drains(&self) -> bool {
        self.faults.iter().any(|fault| {
            matches!(&fault.kind, FaultKind::Restore(it) if it.trigger == SavepointTrigger::Drain)
        })
    }

    /// Whether another job writes to the ledger while a savepoint is being restored.
    #[must_use]
    pub fn spoils_ledger(&self) -> bool {
        self.faults.iter().any(|fault| {
            matches!(&fault.kind, FaultKind::Restore(it) if it.ledger == Some(Meddling::ForeignRecord))
        })
    }

    /// Whether files may be damaged, so that the job may refuse to go on.
    #[must_use]
    pub fn allows_damage(&self) -> bool {
        self.faults.iter().any(|fault| {
            matches!(fault.kind, FaultKind::FlipByte { .. } | FaultKind::Meddle { .. })
        }) || self.lives.iter().any(|life| life.flips_byte)
    }
}

impl Plan {
    /// Whether the ledger is meddled with, so that its records prove nothing.
    #[must_use]
    pub fn meddles_with_ledger(&self) -> bool {
        self.faults.iter().any(
            |fault| matches!(fault.kind, FaultKind::Meddle { what, .. } if what.is_of_ledger()),
        )
    }
}

impl Plan {
    /// Whether the ledger may lose what proves that the last output was committed, which nothing else does.
    #[must_use]
    pub fn loses_proof(&self) -> bool {
        self.faults.iter().any(|fault| {
            matches!(
                fault.kind,
                FaultKind::Meddle {
                    what: Meddling::LoseLedgerEnd
                        | Meddling::EmptyLedger
                        | Meddling::RemoveMetaAndLedger,
                    ..
                }
            )
        })
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let job = &self.job;
        writeln!(
            f,
            "seed {}: {} records over {} ms, {} keys, {} partitions, {} workers, checkpoints every {} ms, \
             transaction.timeout.ms={}, transaction.version={}, {} brokers",
            self.seed,
            job.records,
            job.input_ms,
            job.keys,
            job.partitions,
            job.parallelism,
            job.checkpoint_interval_ms,
            job.transaction_timeout_ms,
            self.cluster.transaction_version,
            self.cluster.brokers
        )?;
        if self.network != NetworkSettings::calm() {
            writeln!(f, "  network: {:?}", self.network)?;
        }
        if self.resolves {
            writeln!(f, "  the way out that the job names is taken")?;
        }
        if !self.mutants.is_empty() {
            writeln!(f, "  left out: {:?}", self.mutants)?;
        }
        for (start, life) in (1..).zip(&self.lives) {
            writeln!(f, "  start {start}: {life}")?;
        }
        for fault in &self.faults {
            writeln!(f, "  {:>9.3} {}", fault.at_ms as f64 / 1000.0, fault.kind)?;
        }
        write!(f, "  {:>9.3} all is mended", self.heal_ms as f64 / 1000.0)
    }
}
