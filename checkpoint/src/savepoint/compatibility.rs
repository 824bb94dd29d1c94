//! Whether a savepoint fits a job, and what of it is taken over. Pure.

use thiserror::Error;

use super::schema_difference::{SchemaDifference, schema_difference};
use super::{SavepointManifest, manifest::SavedState};
use crate::job_description::JobDescription;
use crate::positions::{Positions, Watermarks};

/// What of a savepoint goes into a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestorePlan {
    /// Numbers of the manifest's states that are taken over.
    pub states: Vec<usize>,
    /// Positions of the sources that the job still has.
    pub positions: Positions,
    /// Watermarks of the operators that the job still has.
    pub watermarks: Watermarks,
    /// What is left out, which was allowed.
    pub not_restored: Vec<NotRestored>,
    /// Uids of operators with state, and of sources, that the savepoint does not know: they start empty.
    pub new_operators: Vec<String>,
}

/// Something of a savepoint that the job has no place for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotRestored {
    /// Entries of a state.
    State {
        /// Uid of the operator it belonged to.
        operator_uid: String,
        /// Its name.
        state_name: String,
        /// Entries in it.
        entries: u64,
    },
    /// Positions of a source.
    Source {
        /// Its uid.
        uid: String,
        /// Splits it had.
        splits: usize,
    },
}

impl std::fmt::Display for NotRestored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::State { operator_uid, state_name, entries } => {
                let ending = if *entries == 1 { "y" } else { "ies" };
                write!(
                    f,
                    "state '{state_name}' of operator '{operator_uid}' ({entries} entr{ending})"
                )
            }
            Self::Source { uid, splits } => {
                let ending = if *splits == 1 { "" } else { "s" };
                write!(f, "the positions of source '{uid}' ({splits} split{ending})")
            }
        }
    }
}

/// A savepoint can not be restored into a job.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum IncompatibleSavepoint {
    /// Keys would not be found again.
    #[error(
        "it was taken with max_parallelism {savepoint}, the job has {job}: set max_parallelism({savepoint}), which the keys of all state were made with"
    )]
    MaxParallelism {
        /// Key groups of the savepoint.
        savepoint: u16,
        /// Key groups of the job.
        job: u16,
    },
    /// The savepoint holds something that the job has no place for.
    #[error(
        "the job has no place for {}: give the operators the uids they had, or allow it to be left behind (--allow-non-restored-state)",
        names(items)
    )]
    NonRestoredState {
        /// What would be lost.
        items: Vec<NotRestored>,
    },
    /// A state has another schema.
    #[error(
        "state '{state_name}' of operator '{operator_uid}' has changed: {difference}; give the state the type it had, or another uid to its operator so that it starts empty (--allow-non-restored-state leaves the old one behind)"
    )]
    Schema {
        /// Uid of the operator.
        operator_uid: String,
        /// Name of the state.
        state_name: String,
        /// The first difference.
        difference: SchemaDifference,
    },
}

fn names(items: &[NotRestored]) -> String {
    items.iter().map(NotRestored::to_string).collect::<Vec<_>>().join(" and ")
}

/// Holds a savepoint against the job that it is to be restored into. The job's parallelism and name may be others.
///
/// A watermark that stands at the end of time, as after a drain or the end of a bounded job, is not taken over: with it
/// everything that comes would be late.
///
/// # Errors
///
/// [`IncompatibleSavepoint`].
pub fn plan_restore(
    savepoint: &SavepointManifest,
    job: &JobDescription,
    allow_non_restored_state: bool,
) -> Result<RestorePlan, IncompatibleSavepoint> {
    let old = &savepoint.description;
    if old.max_parallelism != job.max_parallelism {
        let (savepoint, job) = (old.max_parallelism, job.max_parallelism);
        return Err(IncompatibleSavepoint::MaxParallelism { savepoint, job });
    }
    let mut plan = RestorePlan {
        states: Vec::new(),
        positions: Positions::new(),
        watermarks: Vec::new(),
        not_restored: Vec::new(),
        new_operators: new_operators(old, job),
    };
    for (index, saved) in savepoint.states.iter().enumerate() {
        if restores(old, job, saved)? {
            plan.states.push(index);
        } else if saved.entries > 0 {
            plan.not_restored.push(NotRestored::State {
                operator_uid: saved.state.operator_uid.to_string(),
                state_name: saved.state.state_name.to_string(),
                entries: saved.entries,
            });
        }
    }
    for (uid, position) in savepoint.positions.iter() {
        if job.operator(uid).is_some() {
            plan.positions.insert(uid.clone(), position.clone());
            continue;
        }
        match plan.not_restored.last_mut() {
            Some(NotRestored::Source { uid: last, splits }) if **last == **uid => *splits += 1,
            _ => plan.not_restored.push(NotRestored::Source { uid: uid.to_string(), splits: 1 }),
        }
    }
    let watermarks = savepoint.watermarks.iter();
    plan.watermarks = watermarks
        .filter(|(name, time)| *time != i64::MAX && job.operator(operator_of(name)).is_some())
        .cloned()
        .collect();
    if !plan.not_restored.is_empty() && !allow_non_restored_state {
        return Err(IncompatibleSavepoint::NonRestoredState { items: plan.not_restored });
    }
    Ok(plan)
}

/// The operator that a watermark is of. Its processing time is kept beside it, under the uid and what follows a zero byte.
fn operator_of(name: &str) -> &str {
    name.split('\0').next().unwrap_or(name)
}

/// Whether the job has the state, with the same schema.
fn restores(
    old: &JobDescription,
    job: &JobDescription,
    saved: &SavedState,
) -> Result<bool, IncompatibleSavepoint> {
    let (uid, name) = (&*saved.state.operator_uid, &*saved.state.state_name);
    let Some(now) = job.schema(uid, name) else { return Ok(false) };
    let before = old.schema(uid, name).unwrap_or_default();
    match schema_difference(before, now) {
        // Nothing is there that could be read wrongly.
        Some(_) if saved.entries == 0 => Ok(false),
        Some(difference) => Err(IncompatibleSavepoint::Schema {
            operator_uid: uid.to_owned(),
            state_name: name.to_owned(),
            difference,
        }),
        None => Ok(true),
    }
}

fn new_operators(old: &JobDescription, job: &JobDescription) -> Vec<String> {
    let with_state =
        job.operators.iter().filter(|new| !new.states.is_empty() || &*new.kind == "source");
    let unknown = with_state.filter(|new| old.operator(&new.uid).is_none());
    unknown.map(|new| new.uid.to_string()).collect()
}

/// What changed between two descriptions of one job, a line for each change; empty if their fingerprints are the same.
/// What makes a state directory unusable is put in words by this.
fn changes(old: &JobDescription, new: &JobDescription) -> Vec<String> {
    let mut changes = Vec::new();
    if old.max_parallelism != new.max_parallelism {
        changes.push(format!(
            "max_parallelism was {}, is {}",
            old.max_parallelism, new.max_parallelism
        ));
    }
    for before in &old.operators {
        let Some(now) = new.operator(&before.uid) else {
            changes.push(format!("operator '{}' is gone", before.uid));
            continue;
        };
        if before.kind != now.kind {
            changes.push(format!(
                "operator '{}' was a {}, is a {}",
                before.uid, before.kind, now.kind
            ));
        }
        for state in &before.states {
            let difference = match now.states.iter().find(|found| found.name == state.name) {
                None => Some("is gone".to_owned()),
                Some(found) => schema_difference(&state.schema, &found.schema)
                    .map(|difference| format!("has changed: {difference}")),
            };
            if let Some(difference) = difference {
                changes.push(format!(
                    "state '{}' of operator '{}' {difference}",
                    state.name, before.uid
                ));
            }
        }
        for state in &now.states {
            if before.states.iter().all(|known| known.name != state.name) {
                changes.push(format!("state '{}' of operator '{}' is new", state.name, now.uid));
            }
        }
    }
    for now in &new.operators {
        if old.operator(&now.uid).is_none() {
            changes.push(format!("operator '{}' is new", now.uid));
        }
    }
    if changes.is_empty() && old.fingerprint() != new.fingerprint() {
        changes.push("its operators stand in another order".to_owned());
    }
    changes
}

impl JobDescription {
    /// What the state that `self` describes has and `now` has not, and the reverse, in words.
    #[must_use]
    pub fn changes_to(&self, now: &Self) -> Vec<String> {
        changes(self, now)
    }
}
