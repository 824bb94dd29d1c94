//! Writing batches: queues, sequences, retries, transactions.
//!
//! A [`Producer`] takes sealed batches tagged with the transaction (a checkpoint) they belong to, keeps those of later
//! transactions until theirs begins, and sends the others: at most one batch per partition and request, at most five
//! requests in flight per broker. Sequence numbers are given once, when a batch is first sent; every retry sends the same
//! bytes, oldest first, so a broker writes each batch once and in order (KIP-98). Identity and coordinator are the
//! [`TransactionManager`](crate::transaction::TransactionManager)'s business.

mod delivery;
mod ending;
mod partition_window;
mod partitioner;
mod prepared;
mod produce_reaction;
mod produce_response;
#[expect(clippy::module_inception, reason = "a file is named after the type in it")]
mod producer;
mod producer_config;
mod producer_event;
mod record_accumulator;
mod sender;
mod sticky_partitioner;

pub use delivery::{BatchId, Delivered, Delivery};
pub use partitioner::partition_for_key;
pub use producer::Producer;
pub use producer_config::ProducerConfig;
pub use producer_event::ProducerEvent;
pub use sticky_partitioner::StickyPartitioner;
