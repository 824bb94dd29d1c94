//! How a state directory that was restored from a savepoint began: the file `RESTORED`.

use std::fmt;

use crate::codec::{FormatError, Frame, Reader, Writer};
use crate::ids::{CheckpointId, CheckpointRef, JobName, Nonce};
use crate::ledger_record::decode_job;
use crate::savepoint::SavepointId;

/// Written before anything of a savepoint goes into the store, and never changed. Without META the restore was not
/// finished, and the directory holds no state. With META it says how the directory's history is joined to the ledger's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The savepoint.
    pub savepoint: SavepointId,
    /// The job that it was taken of.
    pub savepoint_job: JobName,
    /// The checkpoint that it holds.
    pub savepoint_at: CheckpointRef,
    /// The first checkpoint of the new history, which holds the same state under a new nonce.
    pub at: CheckpointRef,
    /// What the record of `at` names as its parent: the ledger's last checkpoint, or else the savepoint's.
    pub parent: CheckpointRef,
    /// Where the ledger stood; `None` if it held nothing. The record of `at` may be written only behind this.
    pub ledger: Option<CheckpointRef>,
}

impl Restored {
    /// Largest file, in bytes.
    pub const BYTES_MAX: usize = 4096;

    /// The file's contents.
    ///
    /// # Errors
    ///
    /// [`FormatError::TooLong`], which a valid job name does not cause.
    pub fn encode(&self) -> Result<Vec<u8>, FormatError> {
        let mut body = Writer::default();
        body.id(self.savepoint.0);
        body.string("job", self.savepoint_job.as_str())?;
        for at in [self.savepoint_at, self.at, self.parent] {
            encode_ref(&mut body, at);
        }
        body.u8(u8::from(self.ledger.is_some()));
        let none = CheckpointRef::new(CheckpointId::ZERO, Nonce([0; 16]));
        encode_ref(&mut body, self.ledger.unwrap_or(none));
        FRAME.seal(&body)
    }

    /// Reads the file's contents.
    ///
    /// # Errors
    ///
    /// [`FormatError`] for anything that this version of Millstream did not write.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut body = FRAME.open(bytes)?;
        let restored = Self {
            savepoint: SavepointId(body.id()?),
            savepoint_job: decode_job(&mut body)?,
            savepoint_at: decode_ref(&mut body)?,
            at: decode_ref(&mut body)?,
            parent: decode_ref(&mut body)?,
            ledger: {
                let present = body.boolean()?;
                let at = decode_ref(&mut body)?;
                present.then_some(at)
            },
        };
        if restored.at.checkpoint.previous() != Some(restored.parent.checkpoint) {
            return Err(body.invalid("its parent is not the checkpoint before it"));
        }
        body.end()?;
        Ok(restored)
    }
}

impl fmt::Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "savepoint {} of job {}", self.savepoint, self.savepoint_job)
    }
}

pub(crate) fn encode_ref(to: &mut Writer, at: CheckpointRef) {
    to.u64(at.checkpoint.0);
    to.id(at.nonce.0);
}

pub(crate) fn decode_ref(from: &mut Reader<'_>) -> Result<CheckpointRef, FormatError> {
    Ok(CheckpointRef::new(CheckpointId(from.u64()?), Nonce(from.id()?)))
}

const FRAME: Frame = Frame {
    what: "RESTORED",
    magic: *b"MSRESTOR",
    version: 1,
    body_bytes_max: Restored::BYTES_MAX - Frame::OVERHEAD_BYTES,
};
