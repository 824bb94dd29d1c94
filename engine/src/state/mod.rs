//! Keyed state: typed values in the worker's memory over the job's layered store.

mod codec;
mod key_groups;
mod keyed_state;
mod schema;

pub use codec::{CodecError, StateCodec};
pub(crate) use key_groups::EncodedKey;
pub use key_groups::KeyGroups;
pub(crate) use keyed_state::ValueState;
