//! One authentication in Kafka's frames: SaslHandshake, then SaslAuthenticate as often as the mechanism needs.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use super::mechanism::{Conversation, Next};
use super::{SaslError, SaslLogin, SaslMechanism};
use crate::ErrorCode;
use crate::messages::{Request, Response, StrBytes, kp};

/// One authentication, the first or a later one, on one connection. A request at a time: send what
/// [`poll_request`](Self::poll_request) gives, hand its answer to [`handle_response`](Self::handle_response).
#[derive(Debug)]
pub struct SaslExchange {
    mechanism: SaslMechanism,
    conversation: Conversation,
    state: State,
}

#[derive(Debug)]
enum State {
    StartHandshake,
    Handshake,
    Send(Message),
    Sent,
}

/// Bytes that hold a secret.
struct Message(Vec<u8>);

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaslProgress {
    /// There is another request to send.
    Continue,
    /// Both sides are content.
    Done {
        /// How long the broker believes it (`session_lifetime_ms`, KIP-368); `None` for as long as the connection lives.
        session_lifetime: Option<Duration>,
    },
}

impl SaslExchange {
    /// Begins with a login.
    ///
    /// # Errors
    ///
    /// [`SaslError::InvalidLogin`] if the mechanism can not express it.
    pub fn new(login: SaslLogin) -> Result<Self, SaslError> {
        let mechanism = login.mechanism();
        let conversation = Conversation::new(login)?;
        Ok(Self { mechanism, conversation, state: State::StartHandshake })
    }

    /// The next request; `None` while an answer is awaited.
    pub fn poll_request(&mut self) -> Option<Request> {
        match std::mem::replace(&mut self.state, State::Sent) {
            State::StartHandshake => {
                self.state = State::Handshake;
                let name = StrBytes::from_static_str(self.mechanism.name());
                let request = kp::SaslHandshakeRequest::default().with_mechanism(name);
                Some(Request::SaslHandshake(request))
            }
            State::Send(Message(message)) => {
                let request =
                    kp::SaslAuthenticateRequest::default().with_auth_bytes(Bytes::from(message));
                Some(Request::SaslAuthenticate(request))
            }
            waiting @ (State::Handshake | State::Sent) => {
                self.state = waiting;
                None
            }
        }
    }

    /// Takes the answer of the last request.
    ///
    /// # Errors
    ///
    /// [`SaslError`]: the authentication has failed, and would fail again with the same login.
    pub fn handle_response(
        mut self,
        response: &Response,
    ) -> Result<(Self, SaslProgress), SaslError> {
        let unexpected =
            SaslError::Unexpected { mechanism: self.mechanism, detail: "nothing was asked" };
        match (&self.state, response) {
            (State::Handshake, Response::SaslHandshake(response)) => {
                self.handle_handshake(response)?;
                self.state = State::Send(Message(self.conversation.first()));
                Ok((self, SaslProgress::Continue))
            }
            (State::Sent, Response::SaslAuthenticate(response)) => {
                self.handle_authenticate(response)
            }
            _ => Err(unexpected),
        }
    }

    fn handle_handshake(&self, response: &kp::SaslHandshakeResponse) -> Result<(), SaslError> {
        match ErrorCode(response.error_code) {
            ErrorCode::NONE => Ok(()),
            ErrorCode::ILLEGAL_SASL_STATE => Err(SaslError::NotASaslListener),
            ErrorCode::UNSUPPORTED_SASL_MECHANISM => {
                let offered = response.mechanisms.iter().take(MOST_NAMED);
                let offered = offered.map(|name| printable(name)).collect();
                Err(SaslError::MechanismNotOffered { mechanism: self.mechanism, offered })
            }
            code => {
                Err(SaslError::Broker { mechanism: self.mechanism, code, message: String::new() })
            }
        }
    }

    fn handle_authenticate(
        mut self,
        response: &kp::SaslAuthenticateResponse,
    ) -> Result<(Self, SaslProgress), SaslError> {
        let mechanism = self.mechanism;
        let code = ErrorCode(response.error_code);
        if code.is_error() {
            let message = response.error_message.as_deref().map(printable).unwrap_or_default();
            // The mechanism's own words say more than the code that ends the exchange.
            return Err(self.conversation.refusal().unwrap_or(match code {
                ErrorCode::SASL_AUTHENTICATION_FAILED => SaslError::Refused { mechanism, message },
                code => SaslError::Broker { mechanism, code, message },
            }));
        }
        match self.conversation.handle(&response.auth_bytes)? {
            Next::Send(message) => {
                self.state = State::Send(Message(message));
                Ok((self, SaslProgress::Continue))
            }
            Next::Done => {
                let lifetime = u64::try_from(response.session_lifetime_ms).unwrap_or(0);
                let session_lifetime = (lifetime > 0).then(|| Duration::from_millis(lifetime));
                Ok((self, SaslProgress::Done { session_lifetime }))
            }
        }
    }
}

/// A broker's words, bounded and without control characters: they end up in logs.
fn printable(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(300).collect()
}

const MOST_NAMED: usize = 20;
