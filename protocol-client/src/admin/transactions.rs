//! Transactions as the coordinators know them (KIP-664).

use std::collections::BTreeSet;

use millstream_protocol::messages::kp::ListTransactionsRequest;
use millstream_protocol::network::Destination;
use millstream_protocol::{ErrorCode, NodeId, Request, Response};

use super::text;
use crate::client::Ask;
use crate::{ClientError, KafkaClient};

impl KafkaClient {
    /// Transactional ids that start with `prefix` and whose transaction is open or being ended, sorted. Every broker is
    /// asked, for each coordinates some of the ids.
    ///
    /// # Errors
    ///
    /// [`ClientError::Unsupported`] for brokers before 3.0; [`ClientError::TimedOut`] if a broker does not answer: its ids
    /// would be missing.
    pub async fn list_open_transactions(&self, prefix: &str) -> Result<Vec<String>, ClientError> {
        let mut attempts = self.attempts("list transactions");
        let mut asked = BTreeSet::new();
        let mut ids = BTreeSet::new();
        loop {
            let metadata = self.cluster_metadata(&mut attempts, &[]).await?;
            let mut last = None;
            for broker in metadata.brokers {
                let node = NodeId(broker.node_id.0);
                if asked.contains(&node) {
                    continue;
                }
                let request = ListTransactionsRequest::default()
                    .with_state_filters(OPEN_STATES.iter().map(|state| text(state)).collect());
                let ask = Ask::new(Destination::Node(node), Request::ListTransactions(request));
                let response = match self.request(ask, attempts.remaining()).await {
                    Ok(response) => response,
                    Err(error) if error.is_retriable() => {
                        last = Some(error.to_string());
                        continue;
                    }
                    Err(error) => {
                        return Err(ClientError::of_request(attempts.operation(), error));
                    }
                };
                let Response::ListTransactions(response) = response else { continue };
                match ErrorCode(response.error_code) {
                    ErrorCode::NONE => {
                        asked.insert(node);
                        let found = response.transaction_states.iter();
                        let found = found.map(|state| state.transactional_id.0.as_str());
                        ids.extend(found.filter(|id| id.starts_with(prefix)).map(str::to_owned));
                    }
                    code if code.is_retriable() || code.is_coordinator_moved() => {
                        last = Some(format!("broker {node}: {code}"));
                    }
                    code => {
                        return Err(ClientError::of_code(attempts.operation(), code, None::<&str>));
                    }
                }
            }
            match last {
                None => return Ok(ids.into_iter().collect()),
                Some(last) => attempts.pause(&last).await?,
            }
        }
    }
}

const OPEN_STATES: [&str; 3] = ["Ongoing", "PrepareCommit", "PrepareAbort"];
