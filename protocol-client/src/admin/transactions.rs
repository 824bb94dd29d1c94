//! Transactions as the coordinators know them (KIP-664).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millstream_protocol::messages::kp::{
    DescribeTransactionsRequest, ListTransactionsRequest, TransactionalId,
    describe_transactions_response as described,
};
use millstream_protocol::network::Destination;
use millstream_protocol::{ErrorCode, ProducerIdAndEpoch, Request, Response, TopicPartition};

use super::ask::Answer;
use super::text;
use crate::attempts::Attempts;
use crate::client::Ask;
use crate::{ClientError, KafkaClient};

/// Which transactions are listed (KIP-664). The default is all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransactionFilter {
    /// Those in one of these states; all if empty. Kafka's names: `Empty`, `Ongoing`, `PrepareCommit`, `PrepareAbort`,
    /// `CompleteCommit`, `CompleteAbort`, `PrepareEpochFence`, `Dead`.
    pub states: Vec<String>,
    /// Those of one of these producers; all if empty.
    pub producer_ids: Vec<i64>,
    /// Those that run for longer than this (brokers from 3.8, KIP-994).
    pub running_longer_than: Option<Duration>,
}

/// A transactional id with its last transaction, as its coordinator lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedTransaction {
    /// The transactional id.
    pub transactional_id: String,
    /// The id of the producer that uses it.
    pub producer_id: i64,
    /// The state of its last transaction, as in [`TransactionFilter::states`].
    pub state: String,
    /// The id of the broker that coordinates it.
    pub coordinator: i32,
}

/// A transactional id with its last transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransactionDescription {
    /// The state of the transaction, as in [`TransactionFilter::states`].
    pub state: String,
    /// `transaction.timeout.ms` of its producer: the coordinator aborts what runs for longer.
    pub timeout: Duration,
    /// When it began, in milliseconds since 1970; `None` if none is open.
    pub start_time_ms: Option<i64>,
    /// The producer that owns the id.
    pub producer: ProducerIdAndEpoch,
    /// Partitions registered with the transaction, those of group offsets (`__consumer_offsets`) too.
    pub partitions: Vec<TopicPartition>,
}

impl KafkaClient {
    /// Transactional ids that start with `prefix` and whose transaction is open or being ended, sorted. Every broker is
    /// asked, for each coordinates some of the ids.
    ///
    /// # Errors
    ///
    /// As [`list_transactions`](Self::list_transactions).
    pub async fn list_open_transactions(&self, prefix: &str) -> Result<Vec<String>, ClientError> {
        let states = OPEN_STATES.map(str::to_owned).to_vec();
        let filter = TransactionFilter { states, ..TransactionFilter::default() };
        let listed = self.list_transactions(&filter).await?;
        let ids = listed.into_iter().map(|listed| listed.transactional_id);
        Ok(ids.filter(|id| id.starts_with(prefix)).collect())
    }

    /// Transactional ids that the coordinators know and the user may see, sorted: ListTransactions 0 to 2 (KIP-664, KIP-994).
    /// Every broker is asked, for each coordinates some of the ids.
    ///
    /// # Errors
    ///
    /// [`ClientError::Unsupported`] for brokers before 3.0; [`ClientError::Request`] if `running_longer_than` is wanted of
    /// one before 3.8; [`ClientError::Broker`] with INVALID_REQUEST for a state that Kafka does not know;
    /// [`ClientError::TimedOut`] if a broker does not answer: its ids would be missing.
    pub async fn list_transactions(
        &self,
        filter: &TransactionFilter,
    ) -> Result<Vec<ListedTransaction>, ClientError> {
        let mut attempts = self.attempts("list transactions");
        let question = || {
            let states = filter.states.iter().map(|state| text(state));
            let longer_than = filter
                .running_longer_than
                .map_or(-1, |duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX));
            ListTransactionsRequest::default()
                .with_state_filters(states.collect())
                .with_producer_id_filters(
                    filter.producer_ids.iter().map(|id| (*id).into()).collect(),
                )
                .with_duration_filter(longer_than)
                .into()
        };
        let listed = self
            .ask_every_broker(&mut attempts, question, |response| {
                let Response::ListTransactions(response) = response else { return Ok(Vec::new()) };
                let code = ErrorCode(response.error_code);
                if code.is_error() {
                    return Err((code, None));
                }
                if !response.unknown_state_filters.is_empty() {
                    let message = format!(
                        "the broker knows no transaction states {:?}",
                        response.unknown_state_filters
                    );
                    return Err((ErrorCode::INVALID_REQUEST, Some(message)));
                }
                Ok(response.transaction_states)
            })
            .await?;
        let mut transactions: Vec<_> = listed
            .into_iter()
            .map(|(node, state)| ListedTransaction {
                transactional_id: state.transactional_id.to_string(),
                producer_id: state.producer_id.0,
                state: state.transaction_state.to_string(),
                coordinator: node.0,
            })
            .collect();
        transactions.sort_by(|a, b| a.transactional_id.cmp(&b.transactional_id));
        // An id whose coordinator has just moved may be listed by both.
        transactions.dedup_by(|a, b| a.transactional_id == b.transactional_id);
        Ok(transactions)
    }

    /// The last transaction of each of these ids: DescribeTransactions 0 (KIP-664), asked of their coordinators.
    ///
    /// # Errors
    ///
    /// By id: [`ClientError::Broker`] with TRANSACTIONAL_ID_NOT_FOUND, or a permission error;
    /// [`ClientError::Unsupported`] for brokers before 3.0; else as [any call](KafkaClient#errors-of-any-call).
    pub async fn describe_transactions(
        &self,
        transactional_ids: &[&str],
    ) -> BTreeMap<String, Result<TransactionDescription, ClientError>> {
        let call = self.attempts("describe transactions");
        let mut results = BTreeMap::new();
        for id in transactional_ids {
            let mut attempts = call.part(format!("describe the transaction of '{id}'"));
            let question = |_: &Attempts| {
                let request = DescribeTransactionsRequest::default()
                    .with_transactional_ids(vec![TransactionalId(text(id))]);
                let destination = Destination::TransactionCoordinator(Arc::from(*id));
                Ask::new(destination, Request::DescribeTransactions(request))
            };
            let result = self
                .ask(&mut attempts, question, |attempts, response| {
                    let Response::DescribeTransactions(response) = response else {
                        return Answer::left_out();
                    };
                    let Some(state) = response.transaction_states.into_iter().next() else {
                        return Answer::left_out();
                    };
                    match ErrorCode(state.error_code) {
                        ErrorCode::NONE => Answer::Done(description(&state)),
                        code => Answer::of_code(attempts, code, None::<&str>),
                    }
                })
                .await;
            results.insert((*id).to_owned(), result);
        }
        results
    }
}

fn description(state: &described::TransactionState) -> TransactionDescription {
    let mut partitions: Vec<_> = state
        .topics
        .iter()
        .flat_map(|topic| {
            let name: Arc<str> = Arc::from(topic.topic.as_str());
            topic.partitions.iter().map(move |p| TopicPartition::new(Arc::clone(&name), *p))
        })
        .collect();
    partitions.sort();
    let timeout = u64::try_from(state.transaction_timeout_ms).unwrap_or(0);
    TransactionDescription {
        state: state.transaction_state.to_string(),
        timeout: Duration::from_millis(timeout),
        start_time_ms: Some(state.transaction_start_time_ms).filter(|at| *at >= 0),
        producer: ProducerIdAndEpoch {
            producer_id: state.producer_id.0,
            producer_epoch: state.producer_epoch,
        },
        partitions,
    }
}

const OPEN_STATES: [&str; 3] = ["Ongoing", "PrepareCommit", "PrepareAbort"];
