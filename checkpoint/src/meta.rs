//! META: the last confirmed checkpoint that the directory itself knows of.

use crate::codec::{FormatError, Frame, Writer};
use crate::ids::{CheckpointId, CheckpointRef, Fingerprint, JobName, LineageId, Nonce, TopicId};
use crate::ledger_record::decode_job;
use crate::positions::{JobStatus, Positions, Watermarks, decode_watermarks, encode_watermarks};

/// Contents of the file META, which is replaced as a whole (see
/// [`StateDirectory::write_meta`](crate::StateDirectory::write_meta)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// The job the directory belongs to.
    pub job: JobName,
    /// A confirmed checkpoint c: the ledger is known to hold it, except c = 0, which is written
    /// before the job's first ledger record.
    pub checkpoint: CheckpointId,
    /// Attempt of c.
    pub nonce: Nonce,
    /// Positions of all sources at c.
    pub positions: Positions,
    /// Watermarks of operators at c.
    pub watermarks: Watermarks,
    /// Whether the job ended with c.
    pub status: JobStatus,
    /// Partition of the ledger topic that belongs to this process slot.
    pub ledger_partition: i32,
    /// Offset of c's record in it; `None` while not known. Only ever set once that record is
    /// committed: [`decide`](crate::decide()) takes it as proof that the ledger existed.
    pub ledger_offset: Option<i64>,
    /// Id of the ledger topic, [`TopicId::UNKNOWN`] where the broker gives none.
    pub ledger_topic_id: TopicId,
    /// The history this state belongs to.
    pub lineage: LineageId,
    /// Operators and schemas of the job.
    pub fingerprint: Fingerprint,
}

impl Meta {
    /// Largest file, in bytes.
    pub const BYTES_MAX: usize = 64 << 20;

    /// The checkpoint and its attempt.
    #[must_use]
    pub fn at(&self) -> CheckpointRef {
        CheckpointRef::new(self.checkpoint, self.nonce)
    }

    /// The file's contents.
    ///
    /// # Errors
    ///
    /// [`FormatError::TooLong`] for a string or file beyond its bound.
    pub fn encode(&self) -> Result<Vec<u8>, FormatError> {
        let mut body = Writer::default();
        body.string("job", self.job.as_str())?;
        body.u64(self.checkpoint.0);
        body.id(self.nonce.0);
        self.positions.encode(&mut body)?;
        encode_watermarks(&self.watermarks, &mut body)?;
        self.status.encode(&mut body);
        body.i32(self.ledger_partition);
        body.option_i64(self.ledger_offset);
        body.id(self.ledger_topic_id.0);
        body.id(self.lineage.0);
        body.id(self.fingerprint.0);
        FRAME.seal(&body)
    }

    /// Reads the file's contents.
    ///
    /// # Errors
    ///
    /// [`FormatError`] for anything that this version of Millstream did not write.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut body = FRAME.open(bytes)?;
        let meta = Self {
            job: decode_job(&mut body)?,
            checkpoint: CheckpointId(body.u64()?),
            nonce: Nonce(body.id()?),
            positions: Positions::decode(&mut body)?,
            watermarks: decode_watermarks(&mut body)?,
            status: JobStatus::decode(&mut body)?,
            ledger_partition: body.i32()?,
            ledger_offset: body.option_i64()?,
            ledger_topic_id: TopicId(body.id()?),
            lineage: LineageId(body.id()?),
            fingerprint: Fingerprint(body.id()?),
        };
        body.end()?;
        Ok(meta)
    }
}

const FRAME: Frame = Frame {
    what: "META",
    magic: *b"MSMETA\r\n",
    version: 2,
    body_bytes_max: Meta::BYTES_MAX - Frame::OVERHEAD_BYTES,
};
