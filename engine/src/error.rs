//! What can go wrong while a graph is built and while it runs.

use std::error::Error;
use std::fmt;

use thiserror::Error;

/// The cause inside an [`OperatorError`]: whatever the user's function, the connector or the store said.
pub type Cause = Box<dyn Error + Send + Sync + 'static>;

/// An operator could not process an element. It names the operator's uid and, if known, the element's place
/// (topic, partition, offset). One pointer wide, so that a `Result` on the hot path costs nothing.
pub struct OperatorError(Box<Inner>);

struct Inner {
    uid: Option<String>,
    place: Option<String>,
    cause: Cause,
}

impl OperatorError {
    /// An error with a cause and no place yet; the operators it passes on its way out add what they know.
    pub fn new(cause: impl Into<Cause>) -> Self {
        Self(Box::new(Inner { uid: None, place: None, cause: cause.into() }))
    }

    /// Names the operator, unless an inner one has been named already.
    #[must_use]
    pub fn in_operator(mut self, uid: &str) -> Self {
        self.0.uid.get_or_insert_with(|| uid.to_owned());
        self
    }

    /// Names the element's place, unless one nearer to the cause has been named already.
    #[must_use]
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        self.0.place.get_or_insert_with(|| place.to_string());
        self
    }

    /// The uid of the operator that failed.
    #[must_use]
    pub fn uid(&self) -> Option<&str> {
        self.0.uid.as_deref()
    }

    /// Where the element came from, as its source spells it.
    #[must_use]
    pub fn place(&self) -> Option<&str> {
        self.0.place.as_deref()
    }

    /// What the operator met.
    #[must_use]
    pub fn cause(&self) -> &(dyn Error + Send + Sync + 'static) {
        self.0.cause.as_ref()
    }
}

impl fmt::Display for OperatorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.uid() {
            Some(uid) => write!(f, "operator {uid:?} failed")?,
            None => write!(f, "an operator failed")?,
        }
        match self.place() {
            Some(place) => write!(f, " at {place}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for OperatorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperatorError")
            .field("uid", &self.0.uid)
            .field("place", &self.0.place)
            .field("cause", &self.0.cause)
            .finish()
    }
}

impl Error for OperatorError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.0.cause.as_ref())
    }
}

/// An invariant of the engine does not hold. Never the user's fault; please report it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("bug in the engine: {0}")]
pub struct Bug(pub String);

/// A job can not be built as it was described.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum GraphError {
    /// Two operators carry the same uid, so their state could not be told apart.
    #[error("two operators share the uid {uid:?}; give each its own with .uid(\"...\")")]
    DuplicateUid {
        /// The uid both carry.
        uid: String,
    },
    /// Parallelism must lie between 1 and max parallelism.
    #[error("parallelism {parallelism} is not between 1 and max parallelism {max_parallelism}")]
    InvalidParallelism {
        /// What was asked for.
        parallelism: usize,
        /// Number of key groups of the job.
        max_parallelism: u16,
    },
    /// Key groups are numbers of 15 bits.
    #[error("max parallelism {max_parallelism} is not between 1 and 32768")]
    InvalidMaxParallelism {
        /// What was asked for.
        max_parallelism: u16,
    },
    /// A function refuses to be opened, or registers a state that can not be.
    #[error("operator {uid:?} can not be opened: {reason}")]
    InvalidFunction {
        /// The operator.
        uid: String,
        /// What it said.
        reason: String,
    },
    /// Nothing is written anywhere.
    #[error("the job has no sink: end at least one stream with .sink_to(...)")]
    NoSink,
    /// An invariant of the engine does not hold.
    #[error(transparent)]
    Bug(#[from] Bug),
}
