//! The three kinds of files, as `docs/state.md` describes them.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::codec::{FormatError, Frame, STRING_BYTES_MAX, Writer};
use crate::ids::{CheckpointRef, JobName, Nonce};
use crate::ledger_record::decode_job;
use crate::restored::{decode_ref, encode_ref};
use crate::savepoint::{SavepointId, SavepointTrigger};

/// Largest file here, in bytes.
pub(super) const BYTES_MAX: usize = 16 << 10;

pub(super) const FOLDER: &str = "control";
pub(super) const SERVER: &str = "SERVER";
const REQUEST: &str = ".request";
pub(super) const ANSWER: &str = ".answer";

/// Which process serves requests, and which request it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RequestName(pub(super) Nonce);

impl RequestName {
    pub(super) fn request(self) -> String {
        format!("{self}{REQUEST}")
    }

    pub(super) fn answer(self) -> String {
        format!("{self}{ANSWER}")
    }

    /// `None` if the file is not a request.
    pub(super) fn of_request(file_name: &str) -> Option<Self> {
        let id = file_name.strip_suffix(REQUEST)?;
        let digits = id.len() == 32 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let id = u128::from_str_radix(id, 16).ok().filter(|_| digits)?;
        Some(Self(Nonce(id.to_be_bytes())))
    }
}

impl fmt::Display for RequestName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Somebody asks for a savepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlRequest {
    pub(super) name: RequestName,
    pub(super) server: Nonce,
    /// Live, with stop, or with stop and drain.
    pub trigger: SavepointTrigger,
    /// The folder of the savepoint, absolute.
    pub target: PathBuf,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlAnswer {
    /// The savepoint is whole and durable.
    Taken(SavepointTaken),
    /// It was not taken.
    Refused {
        /// Exit code for the one who asked, as the job's process would give it.
        exit_code: u8,
        /// Why, and what to do.
        reason: String,
    },
}

/// A savepoint that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavepointTaken {
    /// The savepoint.
    pub id: SavepointId,
    /// The job that it is of.
    pub job: JobName,
    /// Its checkpoint.
    pub at: CheckpointRef,
    /// Entries of all states.
    pub entries: u64,
    /// Bytes of all state files.
    pub state_bytes: u64,
}

pub(super) fn encode_server(server: Nonce) -> Result<Vec<u8>, FormatError> {
    let mut body = Writer::default();
    body.id(server.0);
    SERVER_FRAME.seal(&body)
}

pub(super) fn decode_server(bytes: &[u8]) -> Result<Nonce, FormatError> {
    let mut body = SERVER_FRAME.open(bytes)?;
    let server = Nonce(body.id()?);
    body.end()?;
    Ok(server)
}

impl ControlRequest {
    pub(super) fn encode(&self) -> Result<Vec<u8>, FormatError> {
        let mut body = Writer::default();
        body.id(self.server.0);
        body.id(self.name.0.0);
        body.u8(self.trigger.encode());
        let target = self.target.to_str().ok_or(FormatError::Invalid {
            what: REQUEST_FRAME.what,
            reason: "the path of the savepoint is not UTF-8",
        })?;
        body.string("path of a savepoint", target)?;
        REQUEST_FRAME.seal(&body)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut body = REQUEST_FRAME.open(bytes)?;
        let (server, name) = (Nonce(body.id()?), RequestName(Nonce(body.id()?)));
        let trigger = SavepointTrigger::decode(body.u8()?)
            .filter(|trigger| *trigger != SavepointTrigger::Directory)
            .ok_or_else(|| body.invalid("what it asks for is unknown"))?;
        let target = PathBuf::from(&*body.string()?);
        if !Path::new(&target).is_absolute() {
            return Err(body.invalid("the path of the savepoint is not absolute"));
        }
        body.end()?;
        Ok(Self { name, server, trigger, target })
    }
}

impl ControlAnswer {
    pub(super) fn encode(&self, name: RequestName) -> Result<Vec<u8>, FormatError> {
        let mut body = Writer::default();
        body.id(name.0.0);
        match self {
            Self::Taken(taken) => {
                body.u8(0);
                body.id(taken.id.0);
                body.string("job", taken.job.as_str())?;
                encode_ref(&mut body, taken.at);
                body.u64(taken.entries);
                body.u64(taken.state_bytes);
            }
            Self::Refused { exit_code, reason } => {
                body.u8(1);
                body.u8(*exit_code);
                let end = reason.floor_char_boundary(STRING_BYTES_MAX);
                body.string("reason", reason.get(..end).unwrap_or_default())?;
            }
        }
        ANSWER_FRAME.seal(&body)
    }

    pub(super) fn decode(bytes: &[u8], name: RequestName) -> Result<Self, FormatError> {
        let mut body = ANSWER_FRAME.open(bytes)?;
        if body.id()? != name.0.0 {
            return Err(body.invalid("it answers another request"));
        }
        let answer = match body.u8()? {
            0 => Self::Taken(SavepointTaken {
                id: SavepointId(body.id()?),
                job: decode_job(&mut body)?,
                at: decode_ref(&mut body)?,
                entries: body.u64()?,
                state_bytes: body.u64()?,
            }),
            1 => Self::Refused { exit_code: body.u8()?, reason: body.string()?.to_string() },
            _ => return Err(body.invalid("its outcome is unknown")),
        };
        body.end()?;
        Ok(answer)
    }
}

const fn frame(what: &'static str, magic: [u8; 8]) -> Frame {
    Frame { what, magic, version: 1, body_bytes_max: BYTES_MAX - Frame::OVERHEAD_BYTES }
}

const SERVER_FRAME: Frame = frame("control/SERVER", *b"MSSERVER");
const REQUEST_FRAME: Frame = frame("request to a job", *b"MSASKS\r\n");
const ANSWER_FRAME: Frame = frame("answer of a job", *b"MSANSW\r\n");
