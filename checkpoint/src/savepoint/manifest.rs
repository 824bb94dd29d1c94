//! The file `SAVEPOINT`: what a savepoint holds, and the checksums of its other files.

use crate::codec::{FormatError, Frame, Writer};
use crate::delta::{KEY_GROUPS_MAX, StateId};
use crate::ids::{CheckpointRef, LineageId, RandomError, TopicId};
use crate::job_description::JobDescription;
use crate::meta::Meta;
use crate::positions::{JobStatus, Positions, Watermarks, decode_watermarks, encode_watermarks};
use crate::restored::{decode_ref, encode_ref};

use super::SavepointId;

/// How a savepoint came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavepointTrigger {
    /// Of a running job, which went on.
    Live,
    /// With the last checkpoint of a job that was stopped.
    Stop,
    /// With the last checkpoint of a job whose sources were ended first, so that all windows have fired.
    Drain,
    /// From the state directory of a job that did not run.
    Directory,
}

impl SavepointTrigger {
    const ALL: [Self; 4] = [Self::Live, Self::Stop, Self::Drain, Self::Directory];

    /// In one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Stop => "stop",
            Self::Drain => "drain",
            Self::Directory => "directory",
        }
    }

    pub(crate) fn decode(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    pub(crate) fn encode(self) -> u8 {
        match self {
            Self::Live => 0,
            Self::Stop => 1,
            Self::Drain => 2,
            Self::Directory => 3,
        }
    }
}

/// Everything about a savepoint but the entries of its states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavepointManifest {
    /// The savepoint, told apart from every other.
    pub id: SavepointId,
    /// When it was taken, in milliseconds since 1970; for people only.
    pub created_ms: i64,
    /// Version of the program that wrote it; for people only.
    pub program: String,
    /// How it came to be.
    pub trigger: SavepointTrigger,
    /// Operators, states and schemas.
    pub description: JobDescription,
    /// The confirmed checkpoint that it holds.
    pub at: CheckpointRef,
    /// The history that the checkpoint belongs to.
    pub lineage: LineageId,
    /// Whether the job ended with it.
    pub status: JobStatus,
    /// Partition of the ledger topic.
    pub ledger_partition: i32,
    /// Offset of the checkpoint's record on the ledger, if known.
    pub ledger_offset: Option<i64>,
    /// Id of the ledger topic, [`TopicId::UNKNOWN`] where the broker gave none.
    pub ledger_topic_id: TopicId,
    /// Positions of all sources.
    pub positions: Positions,
    /// Watermarks of operators.
    pub watermarks: Watermarks,
    /// The states in the order of (operator uid, name); number i is in the file [`state_file_name`] of i.
    pub states: Vec<SavedState>,
}

/// One state's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedState {
    /// The state.
    pub state: StateId,
    /// Entries in it.
    pub entries: u64,
    /// Length of the file in bytes.
    pub file_bytes: u64,
    /// SHA-256 of the file.
    pub sha256: [u8; 32],
}

/// Name of the file of state number `index`.
#[must_use]
pub fn state_file_name(index: usize) -> String {
    format!("state-{index:05}.data")
}

impl SavepointManifest {
    /// Largest file, in bytes.
    pub const BYTES_MAX: usize = 64 << 20;

    /// The manifest of a savepoint that is to be taken: of the confirmed checkpoint that `meta` describes.
    ///
    /// # Errors
    ///
    /// [`RandomError`] if there are no random numbers for its id.
    pub fn of(
        meta: &Meta,
        description: JobDescription,
        trigger: SavepointTrigger,
        created_ms: i64,
    ) -> Result<Self, RandomError> {
        Ok(Self {
            id: SavepointId::random()?,
            created_ms,
            program: concat!("millstream ", env!("CARGO_PKG_VERSION")).to_owned(),
            trigger,
            description,
            at: meta.at(),
            lineage: meta.lineage,
            status: meta.status,
            ledger_partition: meta.ledger_partition,
            ledger_offset: meta.ledger_offset,
            ledger_topic_id: meta.ledger_topic_id,
            positions: meta.positions.clone(),
            watermarks: meta.watermarks.clone(),
            states: Vec::new(),
        })
    }

    /// Entries of all states.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.states.iter().map(|state| state.entries).sum()
    }

    /// Bytes of all state files.
    #[must_use]
    pub fn state_bytes(&self) -> u64 {
        self.states.iter().map(|state| state.file_bytes).sum()
    }

    /// The file's contents.
    ///
    /// # Errors
    ///
    /// [`FormatError::TooLong`] for a string or file beyond its bound.
    pub fn encode(&self) -> Result<Vec<u8>, FormatError> {
        let mut body = Writer::default();
        body.id(self.id.0);
        body.i64(self.created_ms);
        body.string("program", &self.program)?;
        body.u8(self.trigger.encode());
        self.description.encode_body(&mut body)?;
        encode_ref(&mut body, self.at);
        body.id(self.lineage.0);
        self.status.encode(&mut body);
        body.i32(self.ledger_partition);
        body.option_i64(self.ledger_offset);
        body.id(self.ledger_topic_id.0);
        self.positions.encode(&mut body)?;
        encode_watermarks(&self.watermarks, &mut body)?;
        body.length("states", self.states.len())?;
        for saved in &self.states {
            body.string("operator uid", &saved.state.operator_uid)?;
            body.string("state name", &saved.state.state_name)?;
            body.u64(saved.entries);
            body.u64(saved.file_bytes);
            body.0.extend_from_slice(&saved.sha256);
        }
        FRAME.seal(&body)
    }

    /// Reads the file's contents.
    ///
    /// # Errors
    ///
    /// [`FormatError`] for anything that this version of Millstream did not write.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut body = FRAME.open(bytes)?;
        let manifest = Self {
            id: SavepointId(body.id()?),
            created_ms: body.i64()?,
            program: body.string()?.as_ref().to_owned(),
            trigger: {
                let trigger = SavepointTrigger::decode(body.u8()?);
                trigger.ok_or_else(|| body.invalid("its trigger is unknown"))?
            },
            description: JobDescription::decode_body(&mut body)?,
            at: decode_ref(&mut body)?,
            lineage: LineageId(body.id()?),
            status: JobStatus::decode(&mut body)?,
            ledger_partition: body.i32()?,
            ledger_offset: body.option_i64()?,
            ledger_topic_id: TopicId(body.id()?),
            positions: Positions::decode(&mut body)?,
            watermarks: decode_watermarks(&mut body)?,
            states: {
                let mut states: Vec<SavedState> = Vec::new();
                for _ in 0..body.count(4 + 4 + 8 + 8 + 32)? {
                    let state =
                        StateId { operator_uid: body.string()?, state_name: body.string()? };
                    if states.last().is_some_and(|last| last.state >= state) {
                        return Err(body.invalid("its states are not sorted"));
                    }
                    let (entries, file_bytes) = (body.u64()?, body.u64()?);
                    let sha256 = body.take(32)?.try_into();
                    let sha256 = sha256.map_err(|_| body.invalid("a checksum is too short"))?;
                    states.push(SavedState { state, entries, file_bytes, sha256 });
                }
                states
            },
        };
        body.end()?;
        let groups = manifest.description.max_parallelism;
        if groups == 0 || groups > KEY_GROUPS_MAX {
            return Err(body.invalid("its number of key groups is out of range"));
        }
        for SavedState { state, .. } in &manifest.states {
            if manifest.description.schema(&state.operator_uid, &state.state_name).is_none() {
                return Err(body.invalid("a state is not described"));
            }
        }
        Ok(manifest)
    }
}

const FRAME: Frame = Frame {
    what: "savepoint",
    magic: *b"MSSAVEP\n",
    version: 1,
    body_bytes_max: SavepointManifest::BYTES_MAX - Frame::OVERHEAD_BYTES,
};
