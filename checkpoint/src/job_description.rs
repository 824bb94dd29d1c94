//! What a job's state looks like, in words: the file `JOB` of a state directory, and a part of every savepoint.
//!
//! The [`Fingerprint`] only says that something changed; this says what.

use std::sync::Arc;

use crate::codec::{FormatError, Frame, Reader, Writer, bounded};
use crate::ids::{Fingerprint, FingerprintPart, JobName};
use crate::ledger_record::decode_job;

/// Operators, states and schemas of a job, in the order of its program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobDescription {
    /// The job.
    pub job: JobName,
    /// Number of key groups, which the keys of all state are made with.
    pub max_parallelism: u16,
    /// All operators, those without state too.
    pub operators: Vec<DescribedOperator>,
}

/// One operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedOperator {
    /// Its uid.
    pub uid: Arc<str>,
    /// What kind of operator it is, for example `window`.
    pub kind: Arc<str>,
    /// Its keyed states.
    pub states: Vec<DescribedState>,
}

/// One keyed state of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedState {
    /// Its name within the operator.
    pub name: Arc<str>,
    /// Layout, key and value in a stable spelling, see `docs/state.md`.
    pub schema: Arc<str>,
}

/// Longest schema, in bytes.
const SCHEMA_BYTES_MAX: usize = 1 << 20;

impl JobDescription {
    /// Largest file, in bytes.
    pub const BYTES_MAX: usize = 16 << 20;

    /// What [`Meta`](crate::Meta) and ledger records hold of it.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        Self::fingerprint_of(self.max_parallelism, &self.operators)
    }

    /// The fingerprint of a job whatever its name.
    #[must_use]
    pub fn fingerprint_of(max_parallelism: u16, operators: &[DescribedOperator]) -> Fingerprint {
        let key_groups = max_parallelism.to_string();
        // Key groups name the keys of all state: another number of them would not find it again.
        let first = FingerprintPart {
            operator_uid: "",
            operator_kind: "key-groups",
            state_name: "",
            schema: &key_groups,
        };
        let parts = operators.iter().flat_map(|operator| {
            let part = |state_name, schema| FingerprintPart {
                operator_uid: &operator.uid,
                operator_kind: &operator.kind,
                state_name,
                schema,
            };
            let states = operator.states.iter();
            std::iter::once(part("", "")).chain(states.map(move |s| part(&s.name, &s.schema)))
        });
        Fingerprint::of(std::iter::once(first).chain(parts))
    }

    /// The operator with this uid.
    #[must_use]
    pub fn operator(&self, uid: &str) -> Option<&DescribedOperator> {
        self.operators.iter().find(|operator| &*operator.uid == uid)
    }

    /// The schema of one state.
    #[must_use]
    pub fn schema(&self, operator_uid: &str, state_name: &str) -> Option<&str> {
        let states = &self.operator(operator_uid)?.states;
        states.iter().find(|state| &*state.name == state_name).map(|state| &*state.schema)
    }

    /// The file's contents.
    ///
    /// # Errors
    ///
    /// [`FormatError::TooLong`] for a string or file beyond its bound.
    pub fn encode(&self) -> Result<Vec<u8>, FormatError> {
        let mut body = Writer::default();
        self.encode_body(&mut body)?;
        FRAME.seal(&body)
    }

    /// Reads the file's contents.
    ///
    /// # Errors
    ///
    /// [`FormatError`] for anything that this version of Millstream did not write.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut body = FRAME.open(bytes)?;
        let description = Self::decode_body(&mut body)?;
        body.end()?;
        Ok(description)
    }

    pub(crate) fn encode_body(&self, body: &mut Writer) -> Result<(), FormatError> {
        body.string("job", self.job.as_str())?;
        body.u16(self.max_parallelism);
        body.length("operators", self.operators.len())?;
        for operator in &self.operators {
            body.string("operator uid", &operator.uid)?;
            body.string("operator kind", &operator.kind)?;
            body.length("states", operator.states.len())?;
            for state in &operator.states {
                body.string("state name", &state.name)?;
                bounded("schema", state.schema.len(), SCHEMA_BYTES_MAX)?;
                body.length("schema", state.schema.len())?;
                body.0.extend_from_slice(state.schema.as_bytes());
            }
        }
        Ok(())
    }

    pub(crate) fn decode_body(body: &mut Reader<'_>) -> Result<Self, FormatError> {
        let job = decode_job(body)?;
        let max_parallelism = body.u16()?;
        // Uid, kind and number of states; name and schema.
        let mut operators = Vec::new();
        for _ in 0..body.count(4 + 4 + 4)? {
            let (uid, kind) = (body.string()?, body.string()?);
            let mut states = Vec::new();
            for _ in 0..body.count(4 + 4)? {
                let name = body.string()?;
                let bytes = body.u32()? as usize;
                bounded("schema", bytes, SCHEMA_BYTES_MAX)?;
                let schema = std::str::from_utf8(body.take(bytes)?).map(Arc::from);
                let schema = schema.map_err(|_| body.invalid("a schema is not UTF-8"))?;
                states.push(DescribedState { name, schema });
            }
            operators.push(DescribedOperator { uid, kind, states });
        }
        Ok(Self { job, max_parallelism, operators })
    }
}

const FRAME: Frame = Frame {
    what: "JOB",
    magic: *b"MSJOB\r\n\0",
    version: 1,
    body_bytes_max: JobDescription::BYTES_MAX - Frame::OVERHEAD_BYTES,
};
