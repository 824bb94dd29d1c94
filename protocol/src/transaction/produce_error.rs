//! Why something was not written, and what can be done about it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

use crate::messages::ApiKey;
use crate::network::RequestError;
use crate::{ErrorCode, ProducerIdAndEpoch, TopicPartition};

/// Why something was not written. Its text fits after "failed to commit: ".
///
/// Error codes are classified by the request they answer, never by themselves: INVALID_PRODUCER_EPOCH from a partition's
/// leader aborts a transaction, from the coordinator it says that another producer took over.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProduceError {
    /// Another producer took over the transactional id, or the coordinator's own timeout did. From EndTxn it does not say
    /// what became of the transaction: a try before may have been carried out.
    #[error(
        "producer fenced: another one uses transactional id '{transactional_id}', or its transaction timed out ({api:?} was answered {code})"
    )]
    Fenced {
        /// The id both use.
        transactional_id: Arc<str>,
        /// The request that was refused.
        api: ApiKey,
        /// PRODUCER_FENCED, or INVALID_PRODUCER_EPOCH from older versions.
        code: ErrorCode,
    },
    /// The transaction can not be committed any more. The producer serves again after an abort or `init`. From an idempotent
    /// producer, which has no transaction: the batch is not known to be written, and the producer goes on.
    #[error("not everything is known to be written: {cause}")]
    Abortable {
        /// Why.
        cause: AbortCause,
    },
    /// EndTxn met no definite answer in time: the transaction may be committed, aborted or still open. Nothing can be sent
    /// until `init`.
    #[error("no definite answer to EndTxn for transactional id '{transactional_id}' within {after:?}{}", tried(.last))]
    UnknownOutcome {
        /// The id.
        transactional_id: Arc<str>,
        /// How long it was tried.
        after: Duration,
        /// What the last try met.
        last: Option<Arc<str>>,
    },
    /// InitProducerId met an open transaction of this id. The coordinator is aborting it.
    #[error("a transaction of transactional id '{transactional_id}' is still open")]
    ConcurrentTransactions {
        /// The id.
        transactional_id: Arc<str>,
    },
    /// The broker refuses such a long transaction timeout (INVALID_TRANSACTION_TIMEOUT).
    #[error(
        "transaction.timeout.ms {} is above the broker's transaction.max.timeout.ms: lower the one or raise the other",
        timeout.as_millis()
    )]
    InvalidTransactionTimeout {
        /// What was asked for.
        timeout: Duration,
    },
    /// No transaction may be opened so close to the last epoch (32766): bump the epoch first, which renews the producer id
    /// (KIP-360).
    #[error("{identity} is near the last epoch: bump it before the next transaction")]
    EpochExhausted {
        /// The identity.
        identity: ProducerIdAndEpoch,
    },
    /// The identity has carried a transaction under TV1 rules: bump the epoch before the next one, lest a late EndTxn of
    /// the former decides it.
    #[error("{identity} has carried a transaction: bump its epoch before the next one")]
    BumpRequired {
        /// The identity.
        identity: ProducerIdAndEpoch,
    },
    /// The call does not fit the producer's state.
    #[error("can not {verb} while the producer is {state}")]
    InvalidState {
        /// What was called.
        verb: &'static str,
        /// The state.
        state: &'static str,
    },
    /// The coordinator gave no final answer in time. The call may be repeated.
    #[error("{api:?} did not succeed within {after:?}{}", tried(.last))]
    TimedOut {
        /// The request.
        api: ApiKey,
        /// How long it was tried.
        after: Duration,
        /// What the last try met.
        last: Option<Arc<str>>,
    },
    /// Trying again would not help. A transactional producer serves again after `init`; an idempotent one goes on with the
    /// next batch.
    #[error("{cause}")]
    Fatal {
        /// Why.
        cause: FatalCause,
    },
}

/// Why a transaction can not be committed any more.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum AbortCause {
    /// A broker refused a request of the transaction.
    #[error("{api:?} was answered {code}{}{}", place(.topic_partition), hint(*.code))]
    Refused {
        /// The request.
        api: ApiKey,
        /// The answer.
        code: ErrorCode,
        /// The partition it was about, if one.
        topic_partition: Option<TopicPartition>,
    },
    /// A batch was not acknowledged in time (`delivery.timeout.ms`).
    #[error("a batch for {topic_partition} was not acknowledged within {after:?}{}", tried(.last))]
    DeliveryTimedOut {
        /// The partition.
        topic_partition: TopicPartition,
        /// How long it was tried.
        after: Duration,
        /// What the last try met.
        last: Option<Arc<str>>,
    },
    /// Its batches were not all acknowledged within the time that its end was given.
    #[error("its batches were not acknowledged within the {after:?} that its end was given")]
    FlushTimedOut {
        /// The time.
        after: Duration,
    },
    /// Its batches were dropped on demand (discard, abort, `init`).
    #[error("its batches were discarded")]
    Discarded,
}

/// Why trying again would not help.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum FatalCause {
    /// A broker refused for a reason that lasts.
    #[error("{api:?} was answered {code}{}{}", place(.topic_partition), detail(.message))]
    Refused {
        /// The request.
        api: ApiKey,
        /// The answer.
        code: ErrorCode,
        /// The partition it was about, if one.
        topic_partition: Option<TopicPartition>,
        /// The broker's explanation, if it gave one.
        message: Option<Arc<str>>,
    },
    /// One record alone is larger than the topic allows (MESSAGE_TOO_LARGE; `max.message.bytes`).
    #[error(
        "a record of {bytes} bytes for {topic_partition} is larger than the broker takes: raise max.message.bytes of the topic"
    )]
    RecordTooLarge {
        /// The partition.
        topic_partition: TopicPartition,
        /// Size of the batch that holds the one record.
        bytes: usize,
    },
    /// No broker has known the partition for `delivery.timeout.ms`.
    #[error("no broker has known {topic_partition} for {after:?}: was the topic deleted?")]
    UnknownTopicOrPartition {
        /// The partition.
        topic_partition: TopicPartition,
        /// How long it was tried.
        after: Duration,
    },
    /// A batch came for a transaction that is closed.
    #[error("a batch for {topic_partition} came for transaction {tag}, which is closed")]
    LateBatch {
        /// The partition.
        topic_partition: TopicPartition,
        /// The transaction's tag.
        tag: u64,
    },
    /// The batch is larger than the topic allows, and can not be split because it can not be read back.
    #[error("a batch for {topic_partition} is too large and can not be split: {detail}")]
    SplitFailed {
        /// The partition.
        topic_partition: TopicPartition,
        /// What reading it back found.
        detail: Arc<str>,
    },
    /// The request can not be made.
    #[error(transparent)]
    Request(RequestError),
}

impl ProduceError {
    /// A refusal for a reason that lasts.
    pub(crate) fn refused(api: ApiKey, code: ErrorCode) -> Self {
        Self::Fatal {
            cause: FatalCause::Refused { api, code, topic_partition: None, message: None },
        }
    }

    /// A refusal that costs the transaction only.
    pub(crate) fn abortable(
        api: ApiKey,
        code: ErrorCode,
        topic_partition: Option<TopicPartition>,
    ) -> Self {
        Self::Abortable { cause: AbortCause::Refused { api, code, topic_partition } }
    }
}

fn tried(last: &Option<Arc<str>>) -> impl fmt::Display {
    last.as_ref().map(|text| format!(" (last: {text})")).unwrap_or_default()
}

fn detail(message: &Option<Arc<str>>) -> impl fmt::Display {
    message.as_ref().map(|text| format!(": {text}")).unwrap_or_default()
}

/// What a code means that does not say so itself.
fn hint(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::INVALID_TXN_STATE => {
            ": there is no such open transaction; the coordinator aborts those older than transaction.timeout.ms"
        }
        ErrorCode::INVALID_PRODUCER_EPOCH | ErrorCode::PRODUCER_FENCED => {
            ": another producer took over the transactional id, or the transaction was open for longer than \
             transaction.timeout.ms; it is aborted"
        }
        _ => "",
    }
}

fn place(topic_partition: &Option<TopicPartition>) -> impl fmt::Display {
    topic_partition.as_ref().map(|place| format!(" for {place}")).unwrap_or_default()
}
