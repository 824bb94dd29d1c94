//! The operator's word where state and ledger do not fit together: `--adopt-local`, `--accept-rewind`.

use millstream_checkpoint::{LedgerRecord, LineageId, Meta, Nonce, RecoveryPoint};

use millstream_protocol_client::surroundings::wall_time_ms;

use super::error::JobError;
use super::random_id;
use super::recovery::Standing;

impl Standing {
    /// META of the state that a resolution takes as the truth: a lineage of its own, on the ledger as it is now.
    pub(super) fn resolved_meta(&self, meta: &Meta) -> Result<Meta, JobError> {
        let lineage = LineageId(random_id()?);
        tracing::info!("state of lineage {} goes on as lineage {lineage}", meta.lineage);
        Ok(Meta {
            lineage,
            ledger_topic_id: self.ledger.topic_id(),
            ledger_offset: None,
            ..meta.clone()
        })
    }

    /// The record that puts the resolved state on the ledger, made from the directory alone.
    pub(super) fn resolved_record(&self, meta: &Meta, point: &RecoveryPoint) -> LedgerRecord {
        let local = self.directory.local();
        let delta = local.delta(point.at);
        // Where the file is gone, so is the nonce of the parent; nobody goes on from the parent any more.
        let parent = point.at.checkpoint.previous().map(|before| {
            delta
                .map_or(millstream_checkpoint::CheckpointRef::new(before, Nonce::default()), |it| {
                    it.header.parent
                })
        });
        LedgerRecord {
            checkpoint: point.at.checkpoint,
            nonce: point.at.nonce,
            parent,
            positions: point.positions.clone(),
            watermarks: point.watermarks.clone(),
            status: point.status,
            delta_digest: delta.map(|it| it.digest),
            ..LedgerRecord::zero(meta, self.owner, wall_time_ms())
        }
    }
}
