//! Delta files: the state changes of one checkpoint, durable before its transaction is committed.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use thiserror::Error;

mod changes;
mod delta_reader;
mod delta_writer;

pub(crate) use changes::Changes;
pub use changes::{SealedState, SealedStateWriter};
pub(crate) use delta_reader::{ReadError, read_delta};
pub(crate) use delta_writer::{DeltaWriter, WriteError};

use crate::codec::FormatError;
use crate::ids::{CheckpointRef, Fingerprint, JobName};
use crate::positions::{JobStatus, Positions, Watermarks};

/// Name of one state of one operator.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateId {
    /// The operator's uid.
    pub operator_uid: Arc<str>,
    /// The state's name within the operator.
    pub state_name: Arc<str>,
}

impl StateId {
    /// Names a state.
    pub fn new(operator_uid: impl Into<Arc<str>>, state_name: impl Into<Arc<str>>) -> Self {
        Self { operator_uid: operator_uid.into(), state_name: state_name.into() }
    }
}

impl fmt::Display for StateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.operator_uid, self.state_name)
    }
}

/// One change: a key (key group u16 big-endian, then the user's key) and its new value, `None` for a
/// delete.
pub type DeltaEntry = (Bytes, Option<Bytes>);

/// Changes of one state by one worker, keys strictly ascending: the plain form of a [`SealedState`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDelta {
    /// The state.
    pub state: StateId,
    /// Its changes.
    pub entries: Vec<DeltaEntry>,
}

/// The changes of one checkpoint from all workers, frozen: what is written to the delta file and
/// read by [`LayeredState`](crate::LayeredState) until it is in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrozenDelta {
    /// Per state, all changes with strictly ascending keys.
    states: BTreeMap<StateId, Arc<Changes>>,
    bytes: usize,
}

impl FrozenDelta {
    /// Sorts and merges the changes of all workers, which own disjoint key groups. Takes the time of a sort: off the
    /// workers. Keys and values stay where they are.
    ///
    /// # Errors
    ///
    /// [`DeltaError::Unsorted`] if keys of a part that says that they ascend do not,
    /// [`DeltaError::KeyGroup`] for a key without a key group below [`KEY_GROUPS_MAX`], and
    /// [`DeltaError::Overlap`] if a key is changed twice.
    pub fn from_parts<P>(parts: impl IntoIterator<Item = P>) -> Result<Self, DeltaError>
    where
        P: Into<SealedState>,
    {
        let mut runs: BTreeMap<StateId, Vec<Changes>> = BTreeMap::new();
        for part in parts {
            let SealedState { state, mut changes, ascending } = part.into();
            if !changes.have_key_groups() {
                return Err(DeltaError::KeyGroup { state });
            }
            match changes.disorder() {
                None => {}
                Some(_) if ascending => return Err(DeltaError::Unsorted { state }),
                Some(_) => changes.sort(),
            }
            if changes.len() > 0 {
                runs.entry(state).or_default().push(changes);
            }
        }
        let mut frozen = Self::default();
        for (state, mut runs) in runs {
            runs.sort_by(|one, other| one.first_key().cmp(other.first_key()));
            let mut merged = Changes::default();
            runs.into_iter().for_each(|run| merged.append(run));
            if merged.disorder() == Some(Ordering::Greater) {
                // Key groups of workers interleave.
                merged.sort();
            }
            if merged.disorder().is_some() {
                return Err(DeltaError::Overlap { state });
            }
            frozen.insert_sorted(state, merged);
        }
        Ok(frozen)
    }

    /// Adds a state, or more changes behind those it has.
    pub(crate) fn insert_sorted(&mut self, state: StateId, changes: Changes) {
        self.bytes += changes.bytes();
        Arc::make_mut(self.states.entry(state).or_default()).append(changes);
    }

    /// The changes of one state in the order of their keys; slices of what is held here.
    pub fn changes(&self, state: &StateId) -> impl Iterator<Item = DeltaEntry> + '_ {
        self.states.get(state).into_iter().flat_map(|changes| changes.iter())
    }

    /// The same, to be looked into and to be kept apart from the rest.
    pub(crate) fn shared_changes(&self, state: &StateId) -> Option<&Arc<Changes>> {
        self.states.get(state)
    }

    /// The states that changed, in order.
    pub fn states(&self) -> impl Iterator<Item = &StateId> {
        self.states.keys()
    }

    /// Memory held, in bytes: keys, values and about what an entry costs beside them.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Number of changes.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.states.values().map(|changes| changes.len()).sum()
    }

    /// Whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }
}

/// Key groups are numbers below this (Flink's bound on max parallelism is the same, 2¹⁵).
pub const KEY_GROUPS_MAX: u16 = 1 << 15;

/// The key group of a state key; `None` if it has none below [`KEY_GROUPS_MAX`].
#[must_use]
pub fn key_group(key: &[u8]) -> Option<u16> {
    let group = u16::from_be_bytes(*key.first_chunk()?);
    (group < KEY_GROUPS_MAX).then_some(group)
}

/// What a delta file says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeltaHeader {
    /// The job.
    pub job: JobName,
    /// The checkpoint n and its attempt.
    pub at: CheckpointRef,
    /// Checkpoint n-1, which was confirmed when the delta was written (C1, C6): this line makes its
    /// confirmation durable.
    pub parent: CheckpointRef,
    /// Offset of n-1's ledger record, if known, so that META can be rebuilt.
    pub parent_ledger_offset: Option<i64>,
    /// Positions of all sources at n.
    pub positions: Positions,
    /// Watermarks of operators at n.
    pub watermarks: Watermarks,
    /// Whether the job ends with n.
    pub status: JobStatus,
    /// Operators and schemas of the job.
    pub fingerprint: Fingerprint,
    /// Producer id and epoch of the transaction; for information only.
    pub producer: Option<(i64, i16)>,
}

/// xxh3-128 over the whole delta file up to the digest; the ledger record names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeltaDigest(pub [u8; 16]);

impl fmt::Display for DeltaDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// A valid delta file of the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeltaSummary {
    /// Its header.
    pub header: DeltaHeader,
    /// Its digest.
    pub digest: DeltaDigest,
    /// Its length in bytes.
    pub file_bytes: u64,
}

/// A delta that cannot be written or read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeltaError {
    /// Keys handed over by a worker are not strictly ascending (a bug of the caller).
    #[error("changes of state {state} are not sorted by key")]
    Unsorted {
        /// The state.
        state: StateId,
    },
    /// Two workers changed the same key (a bug of the caller).
    #[error("two workers changed the same key of state {state}")]
    Overlap {
        /// The state.
        state: StateId,
    },
    /// A key does not begin with a key group below [`KEY_GROUPS_MAX`] (a bug of the caller).
    #[error("a key of state {state} has no valid key group")]
    KeyGroup {
        /// The state.
        state: StateId,
    },
    /// A key or a value is longer than a delta file can hold: 512 MiB.
    #[error("a key or a value of state {state} is longer than 512 MiB")]
    TooLong {
        /// The state.
        state: StateId,
    },
    /// The checkpoint is not the one after its parent (a bug of the caller).
    #[error("checkpoint {at} cannot follow {parent}")]
    Parent {
        /// The checkpoint.
        at: CheckpointRef,
        /// What was given as its parent.
        parent: CheckpointRef,
    },
    /// The header is damaged, foreign or of another version.
    #[error("header: {0}")]
    Header(#[source] FormatError),
    /// A block is damaged.
    #[error("block {block} (at byte {at_byte}): {source}")]
    Block {
        /// Which block, counted from 0.
        block: u64,
        /// Where it begins in the file.
        at_byte: u64,
        /// What is wrong.
        source: FormatError,
    },
    /// The end of the file is missing: it was not written completely.
    #[error("the file ends after {bytes} bytes, before its digest")]
    Torn {
        /// Bytes there are.
        bytes: u64,
    },
    /// Every block is well but together they are not the file that was written.
    #[error("the file's digest is {found}, its end says {expected}")]
    DigestMismatch {
        /// Digest of the bytes there are.
        found: DeltaDigest,
        /// Digest written at the end.
        expected: DeltaDigest,
    },
    /// The file is not the one its name says.
    #[error("the file holds checkpoint {found} of job {job}")]
    WrongName {
        /// What its header says.
        found: CheckpointRef,
        /// The job its header names.
        job: JobName,
    },
}
