//! Keyed state: typed values, lists, maps and timers in the worker's memory over the job's layered store.
//!
//! A function registers its states in [`RuntimeContext`] and reads and writes them by handles under the key of the element
//! it processes. What it changes between two barriers is one checkpoint's.
//!
//! ```
//! use millstream_engine::state::{
//!     KeyedStateBackend, ListStateDescriptor, RuntimeContext, ValueStateDescriptor,
//! };
//!
//! let mut states = KeyedStateBackend::in_memory("visits")?;
//! let mut runtime = RuntimeContext::of_backend::<String>(&mut states);
//! let count = runtime.value_state(ValueStateDescriptor::<u64>::new("count"))?;
//! let pages = runtime.list_state(ListStateDescriptor::<String>::new("pages"))?;
//!
//! states.set_current_key(&"alice".to_owned())?;
//! count.update(&mut states, 2)?;
//! pages.add(&mut states, &"/home".to_owned())?;
//! states.set_current_key(&"bob".to_owned())?;
//! assert_eq!(count.value(&mut states)?, None);
//! states.set_current_key(&"alice".to_owned())?;
//! assert_eq!(count.value(&mut states)?, Some(&2));
//! assert_eq!(pages.get(&mut states)?, ["/home"]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod backend;
mod codec;
mod collection_table;
mod current_key;
mod descriptors;
mod dirty_count;
mod handles;
mod key_groups;
mod mutant;
mod runtime_context;
mod schema;
mod seal_budget;
mod timer_queue;
mod ttl;
mod value_table;

pub(crate) use backend::Place;
pub use backend::{KeyedStateBackend, StateAccessError};
pub use codec::{CodecError, StateCodec};
pub use descriptors::{
    AggregatingStateDescriptor, ListStateDescriptor, MapStateDescriptor, ReducingStateDescriptor,
    ValueStateDescriptor,
};
pub(crate) use dirty_count::DirtyCount;
pub use handles::{AggregatingState, ListState, MapState, ReducingState, StateContext, ValueState};
pub(crate) use key_groups::EncodedKey;
pub use key_groups::KeyGroups;
pub use runtime_context::RuntimeContext;
pub(crate) use seal_budget::SealBudget;
pub use ttl::{StateTtlConfig, TtlStateVisibility, TtlTimeCharacteristic, TtlUpdateType};
pub(crate) use value_table::ValueTable;

#[cfg(test)]
mod tests;
