//! Knowledge of the cluster that a machine's answer showed to be old.

use crate::TopicPartition;
use crate::messages::LeaderIdAndEpoch;
use crate::network::Destination;

/// Knowledge of the cluster that an answer showed to be old. The driver has it renewed; the machine repeats its request by
/// itself, so a renewal that fails costs time only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StaleMetadata {
    /// The partition is led by another broker than we thought, or by none.
    Leader {
        /// The partition.
        topic_partition: TopicPartition,
        /// The leader that the answer named (KIP-951), to be used if its epoch is newer.
        hint: Option<LeaderIdAndEpoch>,
    },
    /// The coordinator of this destination moved, or did not answer.
    Coordinator(Destination),
}
