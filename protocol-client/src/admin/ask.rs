//! How calls ask: again while it may help, of one broker or of all.

use millstream_protocol::network::Destination;
use millstream_protocol::{ErrorCode, NodeId, Request, Response};

use crate::attempts::Attempts;
use crate::client::Ask;
use crate::{ClientError, KafkaClient};

/// What a broker's answer means for the call.
#[derive(Debug)]
pub(super) enum Answer<T> {
    /// It is done.
    Done(T),
    /// Not yet, for this reason.
    Again(String),
    /// It will not be done.
    Refused(ClientError),
}

/// What a broker gave instead of a result.
pub(super) type Refusal = (ErrorCode, Option<String>);

impl<T> Answer<T> {
    /// What to do after an error code.
    pub(super) fn of_code(
        attempts: &Attempts,
        code: ErrorCode,
        message: Option<impl AsRef<str>>,
    ) -> Self {
        if code.is_retriable() {
            Self::Again(code.to_string())
        } else {
            Self::Refused(ClientError::of_code(attempts.operation(), code, message))
        }
    }

    /// The answer does not name what was asked for.
    pub(super) fn left_out() -> Self {
        Self::Again("the answer leaves out what was asked for".to_owned())
    }
}

impl KafkaClient {
    /// Asks until there is a result or a refusal. `question` is made anew for each try.
    pub(super) async fn ask<T>(
        &self,
        attempts: &mut Attempts,
        question: impl Fn(&Attempts) -> Ask,
        read: impl Fn(&Attempts, Response) -> Answer<T>,
    ) -> Result<T, ClientError> {
        loop {
            let response = match self.request(question(attempts), attempts.remaining()).await {
                Ok(response) => response,
                Err(error) => {
                    attempts.after(error).await?;
                    continue;
                }
            };
            match read(attempts, response) {
                Answer::Done(result) => return Ok(result),
                Answer::Again(last) => {
                    // The controller may have moved. Coordinators are looked for again in any case.
                    self.refresh_metadata();
                    attempts.pause(&last).await?;
                }
                Answer::Refused(error) => return Err(error),
            }
        }
    }

    /// Asks every broker, and again those that do not answer: what they know would be missing.
    pub(super) async fn ask_every_broker<T>(
        &self,
        attempts: &mut Attempts,
        question: impl Fn() -> Request,
        read: impl Fn(Response) -> Result<Vec<T>, Refusal>,
    ) -> Result<Vec<(NodeId, T)>, ClientError> {
        let mut asked = Vec::new();
        let mut found = Vec::new();
        loop {
            let metadata = self.cluster_metadata(attempts, &[]).await?;
            let mut last = None;
            for broker in metadata.brokers {
                let node = NodeId(broker.node_id.0);
                if asked.contains(&node) {
                    continue;
                }
                let ask = Ask::new(Destination::Node(node), question());
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
                match read(response) {
                    Ok(items) => {
                        asked.push(node);
                        found.extend(items.into_iter().map(|item| (node, item)));
                    }
                    Err((code, _)) if code.is_retriable() => {
                        last = Some(format!("broker {node}: {code}"));
                    }
                    Err((code, message)) => {
                        return Err(ClientError::of_code(attempts.operation(), code, message));
                    }
                }
            }
            match last {
                None => return Ok(found),
                Some(last) => attempts.pause(&last).await?,
            }
        }
    }
}
