//! The messages of each mechanism, one after the other.

use std::collections::BTreeMap;

use super::scram::{ScramClient, ScramError};
use super::{SaslError, SaslLogin, SaslMechanism, Secret};

/// One conversation in a mechanism.
#[derive(Debug)]
pub(super) struct Conversation {
    mechanism: SaslMechanism,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The first message waits to be sent; the broker's answer to it ends the conversation.
    OneRound {
        first: Secret,
    },
    ScramFirst(ScramClient),
    ScramFinal(ScramClient),
    /// The token is refused; the broker's error awaits our acknowledgement (RFC 7628 §3.2.3).
    TokenRefused(SaslError),
    Done,
}

/// What follows a message of the broker.
pub(super) enum Next {
    Send(Vec<u8>),
    Done,
}

impl Conversation {
    pub(super) fn new(login: SaslLogin) -> Result<Self, SaslError> {
        let mechanism = login.mechanism();
        let invalid = |detail| SaslError::InvalidLogin { mechanism, detail };
        let state = match login {
            SaslLogin::Plain { username, password } => {
                if username.contains('\0') || password.expose().contains('\0') {
                    return Err(invalid("neither user name nor password may contain NUL"));
                }
                let message = format!("\0{username}\0{}", password.expose());
                State::OneRound { first: Secret::new(message) }
            }
            SaslLogin::Scram { hash, username, password, token_auth, nonce } => {
                State::ScramFirst(ScramClient::new(hash, &username, password, nonce, token_auth))
            }
            SaslLogin::OAuthBearer { token, extensions } => {
                let message = bearer_message(&token, &extensions).map_err(invalid)?;
                State::OneRound { first: message }
            }
            SaslLogin::AwsMskIam { payload } => State::OneRound { first: payload },
        };
        Ok(Self { mechanism, state })
    }

    pub(super) fn first(&self) -> Vec<u8> {
        match &self.state {
            State::OneRound { first } => first.expose().as_bytes().to_vec(),
            State::ScramFirst(client) => client.client_first().into_bytes(),
            State::ScramFinal(_) | State::TokenRefused(_) | State::Done => Vec::new(),
        }
    }

    /// Takes what a successful answer carried.
    pub(super) fn handle(&mut self, message: &[u8]) -> Result<Next, SaslError> {
        let mechanism = self.mechanism;
        let scram = |source: ScramError| SaslError::Scram { mechanism, source };
        let unexpected = |detail| SaslError::Unexpected { mechanism, detail };
        match std::mem::replace(&mut self.state, State::Done) {
            State::OneRound { .. } => match (mechanism, message.is_empty()) {
                (SaslMechanism::OAuthBearer, false) => {
                    self.state = State::TokenRefused(refusal(message));
                    Ok(Next::Send(vec![1]))
                }
                (SaslMechanism::AwsMskIam, true) => Err(unexpected("it is empty")),
                _ => Ok(Next::Done),
            },
            State::ScramFirst(mut client) => {
                let answer = client.client_final(message).map_err(scram)?;
                self.state = State::ScramFinal(client);
                Ok(Next::Send(answer.into_bytes()))
            }
            State::ScramFinal(mut client) => {
                client.verify_server_final(message).map_err(scram)?;
                Ok(Next::Done)
            }
            // It took back its refusal: then it never meant this exchange.
            State::TokenRefused(error) => Err(error),
            State::Done => Err(unexpected("it comes after the end")),
        }
    }

    /// What the broker said in the mechanism's own words before it failed the exchange.
    pub(super) fn refusal(self) -> Option<SaslError> {
        match self.state {
            State::TokenRefused(error) => Some(error),
            _ => None,
        }
    }
}

/// RFC 7628's first message with KIP-342's extensions.
fn bearer_message(
    token: &Secret,
    extensions: &BTreeMap<String, String>,
) -> Result<Secret, &'static str> {
    let text = token.expose().trim_end_matches('=');
    let in_token = |c: char| c.is_ascii_alphanumeric() || "-._~+/".contains(c);
    if text.is_empty() || !text.chars().all(in_token) {
        return Err("the token is empty, or has characters that a bearer token can not have");
    }
    let mut message = format!("n,,\u{1}auth=Bearer {}", token.expose());
    for (name, value) in extensions {
        if name.is_empty() || name == "auth" || !name.chars().all(|c| c.is_ascii_alphabetic()) {
            return Err("names of extensions consist of letters, and 'auth' is taken");
        }
        let in_value = |c: char| matches!(c, ' '..='~' | '\t' | '\r' | '\n');
        if value.is_empty() || !value.chars().all(in_value) {
            return Err("values of extensions consist of printable ASCII");
        }
        message.push_str(&format!("\u{1}{name}={value}"));
    }
    message.push_str("\u{1}\u{1}");
    Ok(Secret::new(message))
}

/// The server's error of RFC 7628 §3.2.2. What is not of that form is quoted in short.
fn refusal(message: &[u8]) -> SaslError {
    let bounded = message.get(..LONGEST_REFUSAL).unwrap_or(message);
    let parsed: Option<serde_json::Value> = serde_json::from_slice(bounded).ok();
    let field = |name: &str| {
        let text = parsed.as_ref()?.get(name)?.as_str()?;
        Some(text.chars().filter(|c| !c.is_control()).take(200).collect::<String>())
    };
    let status = field("status").unwrap_or_else(|| {
        let text = String::from_utf8_lossy(bounded);
        text.chars().filter(|c| !c.is_control()).take(200).collect()
    });
    SaslError::TokenRefused {
        status,
        scope: field("scope").filter(|scope| !scope.is_empty()),
        openid_configuration: field("openid-configuration"),
    }
}

const LONGEST_REFUSAL: usize = 4096;
