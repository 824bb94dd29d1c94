//! The commit and abort markers in fetched partitions: what the brokers themselves say about transactions.

use millstream_protocol::ProducerIdAndEpoch;
use millstream_protocol::records::{ControlRecordType, RecordSet};
use millstream_protocol_client::FetchedPartition;

use super::topic_reader::ReadError;

/// The end of one producer's transaction in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ControlMarker {
    /// Producer id and the epoch that the marker carries.
    pub producer: ProducerIdAndEpoch,
    /// Committed, or aborted.
    pub committed: bool,
}

/// The markers in `fetched` from `position` on, which moves behind the last whole batch.
///
/// # Errors
///
/// [`ReadError::Records`] for a damaged batch.
pub fn control_markers(
    fetched: &FetchedPartition,
    position: &mut i64,
) -> Result<Vec<ControlMarker>, ReadError> {
    let failed =
        |source| ReadError::Records { topic_partition: fetched.topic_partition.clone(), source };
    let mut markers = Vec::new();
    for batch in RecordSet::new(fetched.records.clone()) {
        let batch = batch.map_err(failed)?;
        if batch.next_offset() <= *position {
            continue;
        }
        *position = batch.next_offset();
        if !batch.is_control() {
            continue;
        }
        let producer = batch.header().producer();
        match batch.control_record().map_err(failed)?.map(|record| record.record_type) {
            Some(ControlRecordType::Commit) => {
                markers.push(ControlMarker { producer, committed: true })
            }
            Some(ControlRecordType::Abort) => {
                markers.push(ControlMarker { producer, committed: false })
            }
            _ => {}
        }
    }
    Ok(markers)
}
