//! What a producer tells its caller.

use std::collections::BTreeMap;

use super::Delivery;
use crate::transaction::ProduceError;
use crate::{ProducerIdAndEpoch, TopicPartition};

/// What became of a verb of the [`Producer`](super::Producer), of which each that was accepted ends with exactly one; and of
/// batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProducerEvent {
    /// The end of `init_transactions` of a transactional producer. An idempotent one whose identity can not be had fails its
    /// batches instead.
    Initialized(Result<ProducerIdAndEpoch, ProduceError>),
    /// The end of `bump_epoch`: the identity that the next transaction uses.
    EpochBumped(Result<ProducerIdAndEpoch, ProduceError>),
    /// The end of every `flush` of this tag so far: nothing of it is queued or in flight, or the transaction has failed.
    Flushed {
        /// The tag.
        tag: u64,
        /// The last offset written per partition, as far as known: a broker that had the batch already may not say
        /// where. Otherwise the tag's first failure.
        result: Result<BTreeMap<TopicPartition, i64>, ProduceError>,
    },
    /// The fate of a batch that was sent with a name, or of a part of it. Comes before the end of a flush that waited for it.
    Delivered(Delivery),
    /// The end of `send_offsets_to_transaction`.
    OffsetsSent(Result<(), ProduceError>),
    /// The end of `commit_transaction`.
    Committed(Result<(), ProduceError>),
    /// The end of `abort_transaction`.
    Aborted(Result<(), ProduceError>),
    /// The end of `discard`.
    Discarded,
    /// `has_capacity` turned true again, for the open transaction or for later ones.
    Capacity,
}
