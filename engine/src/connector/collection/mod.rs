//! Sources and sinks in memory: for tests of jobs, without a broker.

mod collecting_sink;
mod collection_source;

pub use collecting_sink::{Collected, CollectingSink, CollectingWriter};
pub use collection_source::{CollectionReader, CollectionSource, OwnedRecord};
