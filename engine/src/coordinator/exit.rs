//! The end of a program that is one job.

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

use millstream_checkpoint::{SavepointError, StateError, StopReason, StoreError};
use millstream_protocol::records::RecordsError;
use millstream_protocol_client::{ClientError, ConfigError, FatalCause, FetchError, ProduceError};

use super::JobError;
use super::ledger::LedgerTopicError;
use crate::connector::kafka::{ConnectorError, DataError, ReadError};
use crate::window::TimestampOutOfRange;

// From sysexits.h where it has a fitting one. The README lists them; they are kept stable.
const FAILED: u8 = 1;
pub(super) const DATA: u8 = 65;
pub(super) const NO_INPUT: u8 = 66;
const UNAVAILABLE: u8 = 69;
const BUG: u8 = 70;
pub(super) const STATE: u8 = 73;
const FENCED: u8 = 76;
const CONFIG: u8 = 78;

/// Prints what went wrong to standard error, with its causes, and gives the exit code that says so.
#[must_use]
pub fn exit(result: Result<(), JobError>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody is left to be told that standard error is closed or full.
            let _ = writeln!(std::io::stderr(), "error: {}", error_chain(&error));
            error.exit_code().into()
        }
    }
}

/// The process exit code for an error: what the first of it and its causes that has one says, else 1.
#[must_use]
pub fn exit_code(error: &(dyn Error + 'static)) -> u8 {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(code) = own_code(error) {
            return code;
        }
        next = error.source();
    }
    FAILED
}

impl JobError {
    /// The process exit code for this error; the README lists them.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Operator(error) => exit_code(error.cause()),
            Self::Client(error) => of_client(error),
            Self::Connector(error) => of_connector(error),
            Self::Producer { source, .. } => of_producer(source),
            Self::Bug { .. } => BUG,
            Self::Ledger(error) | Self::ResolutionNotActedOn { source: error, .. } => {
                of_ledger(error)
            }
            Self::State(_)
            | Self::Store(_)
            | Self::Stop(_)
            | Self::Resolution(_)
            | Self::StopOnFullDisk { .. }
            | Self::StateDirNotEmpty { .. }
            | Self::AlreadyFinished { .. } => STATE,
            Self::Savepoint(error) => of_savepoint(error),
            Self::GaveUp { source, .. } => source.exit_code(),
            Self::Fenced(_) => FENCED,
            Self::Config(_)
            | Self::Option(_)
            | Self::InvalidJob { .. }
            | Self::IntervalTooLong { .. } => CONFIG,
            Self::SavepointNotTaken { .. }
            | Self::CheckpointTimeout { .. }
            | Self::TooManyFailedCheckpoints { .. }
            | Self::WorkerHangs { .. }
            | Self::System { .. }
            | Self::Random(_) => FAILED,
        }
    }
}

/// What `error` says without its causes.
fn own_code(error: &(dyn Error + 'static)) -> Option<u8> {
    if let Some(error) = error.downcast_ref::<JobError>() {
        Some(error.exit_code())
    } else if let Some(error) = error.downcast_ref() {
        Some(of_client(error))
    } else if let Some(error) = error.downcast_ref() {
        Some(of_connector(error))
    } else if let Some(error) = error.downcast_ref() {
        Some(of_producer(error))
    } else if let Some(error) = error.downcast_ref() {
        Some(of_fetch(error))
    } else if let Some(error) = error.downcast_ref() {
        Some(of_savepoint(error))
    } else if error.is::<StateError>() || error.is::<StopReason>() || error.is::<StoreError>() {
        Some(STATE)
    } else if let Some(error) = error.downcast_ref() {
        Some(of_ledger(error))
    } else if let Some(ReadError::Stalled { .. }) = error.downcast_ref() {
        Some(UNAVAILABLE)
    } else if error.is::<DataError>()
        || error.is::<RecordsError>()
        || error.is::<TimestampOutOfRange>()
    {
        Some(DATA)
    } else {
        error.is::<ConfigError>().then_some(CONFIG)
    }
}

fn of_savepoint(error: &SavepointError) -> u8 {
    match error {
        SavepointError::NotASavepoint { .. } => NO_INPUT,
        _ => STATE,
    }
}

fn of_client(error: &ClientError) -> u8 {
    match error {
        ClientError::Config(_) | ClientError::Security { .. } => CONFIG,
        _ => UNAVAILABLE,
    }
}

fn of_connector(error: &ConnectorError) -> u8 {
    match error {
        ConnectorError::Client { source, .. } => of_client(source),
        ConnectorError::TopicMissing { .. } => UNAVAILABLE,
        ConnectorError::OtherTopics { .. } => CONFIG,
        ConnectorError::PartitionMissing { .. }
        | ConnectorError::Gap { .. }
        | ConnectorError::TopicRecreated { .. } => NO_INPUT,
    }
}

fn of_ledger(error: &LedgerTopicError) -> u8 {
    match error {
        LedgerTopicError::Client { source, .. }
        | LedgerTopicError::Read { source: ReadError::Client(source), .. } => of_client(source),
        LedgerTopicError::Read { source: ReadError::Stalled { .. }, .. } => UNAVAILABLE,
        _ => STATE,
    }
}

fn of_producer(error: &ProduceError) -> u8 {
    match error {
        // Only a changed property or broker helps.
        ProduceError::InvalidTransactionTimeout { .. } => CONFIG,
        // The next start would make the same record and meet the same limit.
        ProduceError::Fatal {
            cause: FatalCause::RecordTooLarge { .. } | FatalCause::SplitFailed { .. },
        } => DATA,
        ProduceError::Fatal { cause: FatalCause::LateBatch { .. } }
        | ProduceError::InvalidState { .. } => BUG,
        _ => UNAVAILABLE,
    }
}

fn of_fetch(error: &FetchError) -> u8 {
    match error {
        FetchError::OffsetBelowLogStart { .. }
        | FetchError::OffsetBeyondEnd { .. }
        | FetchError::Truncated { .. }
        | FetchError::TopicRecreated { .. }
        | FetchError::UnknownTopicOrPartition { .. } => NO_INPUT,
        FetchError::CorruptBatch { .. } => DATA,
        _ => UNAVAILABLE,
    }
}

/// The error and the causes below it, one a line; a cause that its parent has said already is left out.
#[must_use]
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut above = text.clone();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let line = inner.to_string();
        if !above.contains(&line) {
            text.push_str("\n  caused by: ");
            text.push_str(&line);
            above = line;
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use millstream_protocol::TopicPartition;

    use super::*;
    use crate::error::OperatorError;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Level(&'static str, #[source] Option<Box<Level>>);

    #[test]
    fn every_cause_has_a_line_unless_its_parent_said_it() {
        let root = Level("connection refused", None);
        let same = Level("connection refused", Some(Box::new(root)));
        let top = Level("no broker", Some(Box::new(same)));
        assert_eq!(error_chain(&top), "no broker\n  caused by: connection refused");
    }

    fn producer(source: ProduceError) -> JobError {
        JobError::Producer { transactional_id: "job/0".to_owned(), source }
    }

    #[test]
    fn the_exit_code_says_who_has_to_act() {
        let flights = TopicPartition::new("flights", 0);
        let too_long =
            ProduceError::InvalidTransactionTimeout { timeout: Duration::from_hours(24) };
        assert_eq!(producer(too_long).exit_code(), CONFIG);
        let cause =
            FatalCause::RecordTooLarge { topic_partition: flights.clone(), bytes: 2_000_000 };
        assert_eq!(producer(ProduceError::Fatal { cause }).exit_code(), DATA);

        let gone = FetchError::OffsetBelowLogStart { position: 3, log_start_offset: 5 };
        let at_work = JobError::Operator(OperatorError::new(gone).at(&flights));
        assert_eq!(at_work.exit_code(), NO_INPUT);
        let at_start = ConnectorError::Gap {
            uid: "flights".to_owned(),
            topic_partition: flights,
            offset: 3,
            earliest: 5,
            lost: 2,
        };
        assert_eq!(JobError::Connector(at_start).exit_code(), NO_INPUT);

        let unreachable = || ClientError::NoBrokerReachable {
            failures: Vec::new(),
            after: Duration::from_secs(1),
        };
        let ledger = LedgerTopicError::Client { topic: "l".to_owned(), source: unreachable() };
        assert_eq!(JobError::Ledger(ledger).exit_code(), UNAVAILABLE);
        // A cause inside an error that has no code of its own counts, wherever it comes from.
        let deep = ReadError::Client(unreachable());
        assert_eq!(exit_code(&deep), UNAVAILABLE);
        let users = JobError::Operator(OperatorError::new("a function of the user's"));
        assert_eq!(users.exit_code(), FAILED);
    }
}
