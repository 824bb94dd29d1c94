//! Ending a transaction that another process has prepared.

use std::sync::Arc;

use millstream_protocol::network::Destination;
use millstream_protocol::transaction::{PreparedTransaction, ResumeStep, TransactionOutcome};
use millstream_protocol::{ErrorCode, Request, Response};

use super::ask::Answer;
use crate::attempts::Attempts;
use crate::client::Ask;
use crate::{ClientError, KafkaClient};

impl KafkaClient {
    /// Commits or aborts what another process has [prepared](crate::Producer::prepared_transaction), and says what became of
    /// it: also when it was ended before, in either way. The same EndTxn (up to 4 or 5, by its mode) is repeated until a
    /// definite answer; DescribeTransactions says the rest. A dropped future may have ended it: call again.
    ///
    /// Nobody may initialize a producer of the transactional id before this has answered: that aborts what is open, and the
    /// coordinator remembers the last transaction only.
    ///
    /// # Errors
    ///
    /// [`ClientError::TimedOut`] without a definite answer within `default.api.timeout.ms`: call it again.
    /// [`ClientError::Broker`] for a missing permission. [`ClientError::Unsupported`] if the id was superseded and the
    /// brokers can not describe transactions (before 3.0).
    pub async fn finish_transaction(
        &self,
        prepared: &PreparedTransaction,
        commit: bool,
    ) -> Result<TransactionOutcome, ClientError> {
        let verb = if commit { "commit" } else { "abort" };
        let id = &prepared.transactional_id;
        let mut attempts = self.attempts(format!("{verb} the prepared transaction of '{id}'"));
        let question = |_: &Attempts| {
            let destination = Destination::TransactionCoordinator(Arc::clone(id));
            let request = Request::EndTxn(prepared.end_request(commit));
            Ask::new(destination, request).up_to(prepared.max_version())
        };
        let ended = self
            .ask(&mut attempts, question, |attempts, response| {
                let Response::EndTxn(response) = response else { return Answer::left_out() };
                let code = ErrorCode(response.error_code);
                match prepared.judge_end(commit, code) {
                    ResumeStep::Done(outcome) => Answer::Done(Some(outcome)),
                    ResumeStep::Look => Answer::Done(None),
                    ResumeStep::Again => Answer::Again(code.to_string()),
                    ResumeStep::Refused => Answer::Refused(ClientError::of_code(
                        attempts.operation(),
                        code,
                        None::<&str>,
                    )),
                }
            })
            .await?;
        match ended {
            Some(outcome) => Ok(outcome),
            None => self.look_at(prepared).await,
        }
    }

    async fn look_at(
        &self,
        prepared: &PreparedTransaction,
    ) -> Result<TransactionOutcome, ClientError> {
        let id: &str = &prepared.transactional_id;
        match self.describe_transactions(&[id]).await.remove(id) {
            Some(Ok(found)) => Ok(prepared.judge_state(&found.state, found.producer)),
            Some(Err(ClientError::Broker {
                code: ErrorCode::TRANSACTIONAL_ID_NOT_FOUND, ..
            }))
            | None => Ok(TransactionOutcome::Expired),
            Some(Err(error)) => Err(error),
        }
    }
}
