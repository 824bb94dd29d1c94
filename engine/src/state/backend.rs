//! What keyed state reads from: the job's committed state with every confirmed change on top.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use thiserror::Error;

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

/// Changes of one state by one worker, keys (key group u16 big-endian, then the operator's key) strictly ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDelta {
    /// The state.
    pub state: StateId,
    /// Its changes; `None` deletes.
    pub entries: Vec<(Bytes, Option<Bytes>)>,
}

/// The position of one split of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePosition {
    /// Topic.
    pub topic: Arc<str>,
    /// Partition.
    pub partition: i32,
    /// Offset of the next record to read.
    pub offset: i64,
    /// Leader epoch of the last record read, -1 if unknown.
    pub leader_epoch: i32,
    /// Largest event time seen, in milliseconds.
    pub max_event_time: Option<i64>,
    /// A bounded split that was read to its end.
    pub finished: bool,
}

/// The store failed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("state store: {0}")]
pub struct StateError(pub String);

/// Committed keyed state. Reads may block on the disk.
pub trait StateBackend: Send + Sync + fmt::Debug {
    /// The value of a key.
    ///
    /// # Errors
    ///
    /// [`StateError`] if the store fails.
    fn get(&self, state: &StateId, key: &[u8]) -> Result<Option<Bytes>, StateError>;

    /// Calls `visit` with every entry of the key groups from `first` to before `end`, in key order.
    ///
    /// # Errors
    ///
    /// [`StateError`] if the store fails.
    fn scan_key_groups(
        &self,
        state: &StateId,
        first: u16,
        end: u16,
        visit: &mut dyn FnMut(Bytes, Bytes),
    ) -> Result<(), StateError>;
}

/// State in memory, for tests and for jobs that may forget.
#[derive(Debug, Default)]
pub struct MemoryStateBackend {
    entries: Mutex<BTreeMap<(StateId, Bytes), Bytes>>,
}

impl MemoryStateBackend {
    /// Empty state.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies the changes of a confirmed checkpoint.
    pub fn apply(&self, deltas: impl IntoIterator<Item = StateDelta>) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        for delta in deltas {
            for (key, value) in delta.entries {
                match value {
                    Some(value) => entries.insert((delta.state.clone(), key), value),
                    None => entries.remove(&(delta.state.clone(), key)),
                };
            }
        }
    }

    /// A copy of everything.
    #[must_use]
    pub fn snapshot(&self) -> Self {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        Self { entries: Mutex::new(entries.clone()) }
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl StateBackend for MemoryStateBackend {
    fn get(&self, state: &StateId, key: &[u8]) -> Result<Option<Bytes>, StateError> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(entries.get(&(state.clone(), Bytes::copy_from_slice(key))).cloned())
    }

    fn scan_key_groups(
        &self,
        state: &StateId,
        first: u16,
        end: u16,
        visit: &mut dyn FnMut(Bytes, Bytes),
    ) -> Result<(), StateError> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let start = (state.clone(), Bytes::copy_from_slice(&first.to_be_bytes()));
        for ((of, key), value) in entries.range(start..) {
            if of != state || key.get(..2).is_none_or(|group| group >= &end.to_be_bytes()[..]) {
                break;
            }
            visit(key.clone(), value.clone());
        }
        Ok(())
    }
}
