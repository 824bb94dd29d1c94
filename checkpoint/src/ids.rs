//! Names and numbers that tell one checkpoint, process and job from another.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;
use xxhash_rust::xxh3::xxh3_128;

/// Number of a checkpoint; 0 is the first record of a job on its ledger, before anything was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckpointId(pub u64);

impl CheckpointId {
    /// The checkpoint of a job that has read nothing yet.
    pub const ZERO: Self = Self(0);

    /// The checkpoint after this one (saturating: 2⁶⁴ checkpoints do not happen).
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The checkpoint before this one, `None` for checkpoint 0.
    #[must_use]
    pub const fn previous(self) -> Option<Self> {
        match self.0.checked_sub(1) {
            Some(n) => Some(Self(n)),
            None => None,
        }
    }
}

impl fmt::Display for CheckpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

macro_rules! id128 {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; 16]);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:032x}", u128::from_be_bytes(self.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }
    };
}

macro_rules! random_id {
    ($name:ident) => {
        impl $name {
            /// A new random id from the operating system.
            ///
            /// # Errors
            ///
            /// [`RandomError`] if the operating system gives no random numbers (in a container:
            /// no `/dev/urandom`).
            pub fn random() -> Result<Self, RandomError> {
                let mut bytes = [0; 16];
                getrandom::fill(&mut bytes).map_err(RandomError)?;
                Ok(Self(bytes))
            }
        }
    };
}

id128! {
    /// One attempt at checkpoints: new at every process start and after every soft rollback.
    ///
    /// Two attempts at the same checkpoint number may hold different state (processing need not be
    /// deterministic); the nonce tells them apart.
    Nonce
}
id128! {
    /// One process that owns, or tries to own, a job: new at every process start.
    OwnerId
}
id128! {
    /// One history of a job's state, chosen at its first start and kept in META.
    LineageId
}
id128! {
    /// Kafka's id of a topic; all zero where the broker gives none (before 2.8, KIP-516).
    TopicId
}
id128! {
    /// What a job's state looks like: operators, state names, schemas. Never parallelism, bounds,
    /// intervals or addresses, which may change between runs.
    Fingerprint
}
random_id!(Nonce);
random_id!(OwnerId);
random_id!(LineageId);

impl TopicId {
    /// "The broker gave no id."
    pub const UNKNOWN: Self = Self([0; 16]);
}

impl Fingerprint {
    /// Hashes the parts in the order given; every string is hashed with its length.
    #[must_use]
    pub fn of<'a>(parts: impl IntoIterator<Item = FingerprintPart<'a>>) -> Self {
        let mut text = Vec::new();
        for part in parts {
            for field in [part.operator_uid, part.operator_kind, part.state_name, part.schema] {
                text.extend_from_slice(&(field.len() as u64).to_be_bytes());
                text.extend_from_slice(field.as_bytes());
            }
        }
        Self(xxh3_128(&text).to_be_bytes())
    }
}

/// One state of one operator as the [`Fingerprint`] sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FingerprintPart<'a> {
    /// The operator's uid.
    pub operator_uid: &'a str,
    /// What kind of operator it is, for example `tumble`.
    pub operator_kind: &'a str,
    /// The state's name; empty for an operator without state.
    pub state_name: &'a str,
    /// The schema of key and value, in any stable spelling.
    pub schema: &'a str,
}

/// A checkpoint and the attempt that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CheckpointRef {
    /// The number.
    pub checkpoint: CheckpointId,
    /// The attempt.
    pub nonce: Nonce,
}

impl CheckpointRef {
    /// Names the attempt `nonce` at `checkpoint`.
    #[must_use]
    pub const fn new(checkpoint: CheckpointId, nonce: Nonce) -> Self {
        Self { checkpoint, nonce }
    }
}

impl fmt::Display for CheckpointRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.checkpoint, self.nonce)
    }
}

/// A job's name: 1 to 200 of `a-z A-Z 0-9 . _ -`, not `.` or `..`, so that topic names, transactional
/// ids and file names can be made of it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobName(Arc<str>);

impl JobName {
    /// Longest name in bytes. Kafka allows 249 for a topic; the rest is room for suffixes.
    pub const LEN_MAX: usize = 200;

    /// Checks and wraps a name.
    ///
    /// # Errors
    ///
    /// [`InvalidJobName`] with the name and what is wrong with it.
    pub fn new(name: &str) -> Result<Self, InvalidJobName> {
        let refuse = |reason| Err(InvalidJobName { name: name.chars().take(64).collect(), reason });
        if name.is_empty() || name.len() > Self::LEN_MAX {
            return refuse("it must have 1 to 200 characters");
        }
        if name == "." || name == ".." {
            return refuse("it names a folder");
        }
        if !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-')) {
            return refuse("only a-z A-Z 0-9 . _ - are allowed");
        }
        Ok(Self(name.into()))
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobName({:?})", &*self.0)
    }
}

/// A job name that Kafka or a file system would refuse.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("invalid job name {name:?}: {reason}")]
pub struct InvalidJobName {
    /// The name, cut at 64 characters.
    pub name: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// The operating system gave no random numbers.
#[derive(Clone, Debug, Error)]
#[error("no random numbers from the operating system (is /dev/urandom present?)")]
pub struct RandomError(#[source] pub getrandom::Error);

#[cfg(test)]
mod tests {
    use super::*;

    fn part<'a>(uid: &'a str, name: &'a str) -> FingerprintPart<'a> {
        FingerprintPart { operator_uid: uid, operator_kind: "k", state_name: name, schema: "u64" }
    }

    #[test]
    fn random_ids_differ() {
        assert_ne!(Nonce::random().unwrap(), Nonce::random().unwrap());
        assert_ne!(OwnerId::random().unwrap().0, [0; 16]);
    }

    #[test]
    fn an_id_is_shown_as_32_hex_digits() {
        let mut bytes = [0; 16];
        bytes[15] = 0xab;
        assert_eq!(Nonce(bytes).to_string(), format!("{}ab", "0".repeat(30)));
    }

    #[test]
    fn fingerprint_depends_on_order_and_on_where_a_string_ends() {
        let one = Fingerprint::of([part("a", "bc"), part("d", "e")]);
        assert_eq!(one, Fingerprint::of([part("a", "bc"), part("d", "e")]));
        assert_ne!(one, Fingerprint::of([part("d", "e"), part("a", "bc")]));
        assert_ne!(one, Fingerprint::of([part("ab", "c"), part("d", "e")]));
    }

    #[test]
    fn job_names_that_kafka_or_the_file_system_would_refuse_are_refused() {
        for bad in ["", ".", "..", "a/b", "a b", "ü", &"x".repeat(201)] {
            assert!(JobName::new(bad).is_err(), "{bad:?}");
        }
        assert_eq!(JobName::new("orders.v2_x-1").unwrap().as_str(), "orders.v2_x-1");
    }

    #[test]
    fn checkpoint_zero_has_no_predecessor() {
        assert_eq!(CheckpointId::ZERO.previous(), None);
        assert_eq!(CheckpointId::ZERO.next().previous(), Some(CheckpointId::ZERO));
    }
}
