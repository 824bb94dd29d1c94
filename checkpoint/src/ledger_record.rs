//! The record that makes a checkpoint: it commits, or not, in one transaction with the outputs.

use bytes::Bytes;

use crate::codec::{FormatError, Frame, Reader, Writer};
use crate::delta::DeltaDigest;
use crate::ids::{CheckpointId, CheckpointRef, Fingerprint, JobName, Nonce, OwnerId};
use crate::meta::Meta;
use crate::positions::{JobStatus, Positions, Watermarks, decode_watermarks, encode_watermarks};

/// One record of the ledger topic (its key is the transactional id).
///
/// An owner record (R6) repeats the last checkpoint with its parent and digest under another owner id:
/// [`LedgerRecord::owned_by`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerRecord {
    /// The job.
    pub job: JobName,
    /// The checkpoint.
    pub checkpoint: CheckpointId,
    /// Its attempt.
    pub nonce: Nonce,
    /// The checkpoint before, with its nonce; `None` only for checkpoint 0.
    pub parent: Option<CheckpointRef>,
    /// The process that wrote the record.
    pub owner: OwnerId,
    /// Positions of all sources at the checkpoint.
    pub positions: Positions,
    /// Watermarks of operators at the checkpoint.
    pub watermarks: Watermarks,
    /// Whether the job ended with it.
    pub status: JobStatus,
    /// Digest of the delta file; `None` for the first checkpoint of a history, which has none: 0, or the one that a savepoint
    /// was restored as.
    pub delta_digest: Option<DeltaDigest>,
    /// Operators and schemas of the job.
    pub fingerprint: Fingerprint,
    /// Milliseconds since 1970 when it was written; for people only, nothing depends on it.
    pub wall_time_ms: i64,
}

impl LedgerRecord {
    /// Longest encoded record, in bytes. Brokers take records of 1 MiB with their batch by default.
    pub const BYTES_MAX: usize = 1_000_000;

    /// The checkpoint and its attempt.
    #[must_use]
    pub fn at(&self) -> CheckpointRef {
        CheckpointRef::new(self.checkpoint, self.nonce)
    }

    /// Record 0 of a job, made from META (also by a later process, when the first one died before
    /// it was committed: number, nonce and positions are META's).
    #[must_use]
    pub fn zero(meta: &Meta, owner: OwnerId, wall_time_ms: i64) -> Self {
        Self {
            job: meta.job.clone(),
            checkpoint: CheckpointId::ZERO,
            nonce: meta.nonce,
            parent: None,
            owner,
            positions: meta.positions.clone(),
            watermarks: meta.watermarks.clone(),
            status: meta.status,
            delta_digest: None,
            fingerprint: meta.fingerprint,
            wall_time_ms,
        }
    }

    /// The owner record of R6: the same checkpoint under another owner.
    #[must_use]
    pub fn owned_by(&self, owner: OwnerId, wall_time_ms: i64) -> Self {
        Self { owner, wall_time_ms, ..self.clone() }
    }

    /// The record's value.
    ///
    /// # Errors
    ///
    /// [`FormatError::TooLong`] beyond [`LedgerRecord::BYTES_MAX`] (about 10,000 splits) and
    /// [`FormatError::Invalid`] for a parent that is not the checkpoint before.
    pub fn encode(&self) -> Result<Bytes, FormatError> {
        check_parent(self.checkpoint, self.parent)?;
        let mut body = Writer::default();
        body.string("job", self.job.as_str())?;
        body.u64(self.checkpoint.0);
        body.id(self.nonce.0);
        body.id(self.parent.map_or([0; 16], |parent| parent.nonce.0));
        body.id(self.owner.0);
        self.positions.encode(&mut body)?;
        encode_watermarks(&self.watermarks, &mut body)?;
        self.status.encode(&mut body);
        body.u8(u8::from(self.delta_digest.is_some()));
        body.id(self.delta_digest.map_or([0; 16], |digest| digest.0));
        body.id(self.fingerprint.0);
        body.i64(self.wall_time_ms);
        Ok(FRAME.seal(&body)?.into())
    }

    /// Reads a record's value.
    ///
    /// # Errors
    ///
    /// [`FormatError`] for anything that this version of Millstream did not write.
    pub fn decode(value: &[u8]) -> Result<Self, FormatError> {
        let mut body = FRAME.open(value)?;
        let job = decode_job(&mut body)?;
        let checkpoint = CheckpointId(body.u64()?);
        let nonce = Nonce(body.id()?);
        let parent_nonce = Nonce(body.id()?);
        let record = Self {
            job,
            checkpoint,
            nonce,
            parent: checkpoint.previous().map(|n| CheckpointRef::new(n, parent_nonce)),
            owner: OwnerId(body.id()?),
            positions: Positions::decode(&mut body)?,
            watermarks: decode_watermarks(&mut body)?,
            status: JobStatus::decode(&mut body)?,
            delta_digest: {
                let present = body.boolean()?;
                let digest = DeltaDigest(body.id()?);
                present.then_some(digest)
            },
            fingerprint: Fingerprint(body.id()?),
            wall_time_ms: body.i64()?,
        };
        body.end()?;
        Ok(record)
    }
}

pub(crate) fn decode_job(from: &mut Reader<'_>) -> Result<JobName, FormatError> {
    let name = from.string()?;
    JobName::new(&name).map_err(|_| from.invalid("the job name is not allowed"))
}

/// I6: the parent is the checkpoint before, and only checkpoint 0 has none.
fn check_parent(n: CheckpointId, parent: Option<CheckpointRef>) -> Result<(), FormatError> {
    if n.previous() == parent.map(|parent| parent.checkpoint) {
        return Ok(());
    }
    let reason = "its parent is not the checkpoint before it";
    Err(FormatError::Invalid { what: FRAME.what, reason })
}

const FRAME: Frame = Frame {
    what: "ledger record",
    magic: *b"MSLEDGER",
    version: 2,
    body_bytes_max: LedgerRecord::BYTES_MAX - Frame::OVERHEAD_BYTES,
};
