//! The one HTTP request of this client: an OAuth token for client credentials (RFC 6749 §4.4), over TLS.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use millstream_protocol::network::DisconnectReason;
use millstream_protocol::sasl::Secret;
use tokio::time::{Instant, sleep, timeout};

use super::tls::TlsConnector;
use super::{SaslConfig, TlsConfig};
use crate::ConfigError;
use crate::net::{SocketOptions, connect_tcp};

/// An endpoint that gives tokens for client credentials.
#[derive(Debug)]
pub(super) struct TokenEndpoint {
    url: Uri,
    host: String,
    authorization: Secret,
    body: String,
    tls: TlsConnector,
}

impl TokenEndpoint {
    pub(super) fn new(
        url: &str,
        client_id: &str,
        client_secret: &Secret,
        scope: Option<String>,
        urlencode: bool,
        tls: &TlsConfig,
    ) -> Result<Self, ConfigError> {
        let invalid = || {
            ConfigError::Invalid {
            name: "sasl.oauthbearer.token.endpoint.url",
            // It might have a password in it.
            value: "…".to_owned(),
            expected: "an address of the form https://host/path (http would show the secret), or file:///path"
                .to_owned(),
        }
        };
        let url: Uri = url.trim().parse().map_err(|_| invalid())?;
        if url.scheme_str() != Some("https") {
            return Err(invalid());
        }
        let host = url.host().ok_or_else(invalid)?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let (id, secret) = if urlencode {
            (form_encoded(client_id), form_encoded(client_secret.expose()))
        } else {
            (client_id.to_owned(), client_secret.expose().to_owned())
        };
        let authorization = format!("Basic {}", STANDARD.encode(format!("{id}:{secret}")));
        let mut body = "grant_type=client_credentials".to_owned();
        if let Some(scope) = scope.filter(|scope| !scope.trim().is_empty()) {
            body.push_str("&scope=");
            body.push_str(&form_encoded(scope.trim()));
        }
        let tls = TlsConnector::for_token_endpoint(tls)?;
        Ok(Self { url, host, authorization: Secret::new(authorization), body, tls })
    }

    /// A token and how long it lives. Failures that may pass are tried again for `sasl.login.retry.backoff.max.ms`.
    pub(super) async fn fetch(
        &self,
        config: &SaslConfig,
    ) -> Result<(Secret, Duration), DisconnectReason> {
        let started = Instant::now();
        let mut pause = config.login_retry_backoff;
        loop {
            let failure = match self.try_once(config).await {
                Ok(found) => return Ok(found),
                Err(failure) => failure,
            };
            let late = started.elapsed() + pause > config.login_retry_backoff_max;
            if !failure.retriable || late {
                return Err(DisconnectReason::LoginFailed {
                    detail: format!(
                        "token endpoint {}: {}",
                        self.url.authority().map_or("", |authority| authority.as_str()),
                        failure.detail
                    ),
                    retriable: failure.retriable,
                });
            }
            sleep(pause).await;
            pause = (pause * 2).min(config.login_retry_backoff_max);
        }
    }

    async fn try_once(&self, config: &SaslConfig) -> Result<(Secret, Duration), Failure> {
        let connecting = timeout(config.login_connect_timeout, self.connect());
        let stream = connecting
            .await
            .map_err(|_| Failure::passing("it does not answer to the connection attempt"))??;
        let exchange = timeout(config.login_read_timeout, self.ask(stream));
        let (status, body) =
            exchange.await.map_err(|_| Failure::passing("it does not answer the request"))??;
        if status != StatusCode::OK {
            return Err(Failure {
                detail: format!("it answered {status}{}", oauth_error(&body)),
                retriable: status.is_server_error()
                    || status == StatusCode::TOO_MANY_REQUESTS
                    || status == StatusCode::REQUEST_TIMEOUT,
            });
        }
        token_of(&body)
    }

    async fn connect(
        &self,
    ) -> Result<tokio_rustls::client::TlsStream<tokio::net::TcpStream>, Failure> {
        let passing = |reason: DisconnectReason| Failure {
            detail: endpoint_text(&reason),
            retriable: !reason.is_security(),
        };
        let port = self.url.port_u16().unwrap_or(443);
        let options = SocketOptions { send_buffer_bytes: None, receive_buffer_bytes: None };
        let stream = connect_tcp(&self.host, port, options).await.map_err(passing)?;
        let connection = self.tls.connect(&self.host, stream).await.map_err(passing)?;
        Ok(connection.stream)
    }

    async fn ask(
        &self,
        stream: tokio_rustls::client::TlsStream<tokio::net::TcpStream>,
    ) -> Result<(StatusCode, Bytes), Failure> {
        let failed = |error: hyper::Error| Failure::passing(&error.to_string());
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
        let path = self.url.path_and_query().map_or("/", |path| path.as_str());
        let host = self.url.authority().map_or("", |authority| authority.as_str());
        let host = host.rsplit('@').next().unwrap_or(host);
        let request = Request::post(path)
            .header(HOST, host)
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(AUTHORIZATION, self.authorization.expose())
            .body(Full::new(Bytes::from(self.body.clone())))
            .map_err(|error| Failure::lasting(&error.to_string()))?;
        let answer = async {
            let response = sender.send_request(request).await.map_err(failed)?;
            let status = response.status();
            let body = Limited::new(response.into_body(), LARGEST_ANSWER).collect().await;
            let body = body.map_err(|error| Failure::passing(&error.to_string()))?;
            Ok((status, body.to_bytes()))
        };
        // The connection moves the bytes; it ends with the answer, or before it with an error.
        tokio::pin!(answer);
        tokio::select! {
            answer = &mut answer => answer,
            ended = connection => match ended {
                Ok(()) => answer.await,
                Err(error) => Err(failed(error)),
            },
        }
    }
}

/// Why there is no token.
struct Failure {
    detail: String,
    retriable: bool,
}

impl Failure {
    fn passing(detail: &str) -> Self {
        Self { detail: detail.to_owned(), retriable: true }
    }

    fn lasting(detail: &str) -> Self {
        Self { detail: detail.to_owned(), retriable: false }
    }
}

/// Texts about brokers, for something that is none.
fn endpoint_text(reason: &DisconnectReason) -> String {
    reason.to_string().replace("the broker's certificate", "its certificate")
}

/// `error` and `error_description` of RFC 6749 §5.2, if they are there.
fn oauth_error(body: &[u8]) -> String {
    let Ok(json) = serde_json::from_slice::<serde_json::Value>(body) else { return String::new() };
    let field = |name: &str| {
        let text = json.get(name)?.as_str()?;
        Some(text.chars().filter(|c| !c.is_control()).take(200).collect::<String>())
    };
    let texts: Vec<String> =
        [field("error"), field("error_description")].into_iter().flatten().collect();
    if texts.is_empty() { String::new() } else { format!(" ({})", texts.join(": ")) }
}

fn token_of(body: &[u8]) -> Result<(Secret, Duration), Failure> {
    let json: serde_json::Value = serde_json::from_slice(body)
        .map_err(|_| Failure::lasting("its answer is not JSON: is it the token endpoint?"))?;
    let token = ["access_token", "id_token"]
        .iter()
        .find_map(|name| json.get(*name).and_then(serde_json::Value::as_str))
        .filter(|token| !token.trim().is_empty())
        .ok_or_else(|| Failure::lasting("its answer has no access_token"))?;
    let told = json.get("expires_in").and_then(|value| {
        value.as_u64().or_else(|| value.as_str().and_then(|text| text.parse().ok()))
    });
    let lifetime = told
        .map(Duration::from_secs)
        .or_else(|| remaining(token.trim()))
        .unwrap_or(UNKNOWN_LIFETIME);
    Ok((Secret::from(token.trim()), lifetime.min(LONGEST_LIFETIME)))
}

/// The rest of a JWT's life by its `exp`, which is read and not verified: the broker does that.
fn remaining(token: &str) -> Option<Duration> {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?.trim_end_matches('=')).ok()?;
    let claims: serde_json::Value = serde_json::from_slice(&claims).ok()?;
    let exp = claims.get("exp")?.as_f64()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    Duration::try_from_secs_f64(exp - now.as_secs_f64()).ok()
}

/// `application/x-www-form-urlencoded`.
fn form_encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'*' => {
                out.push(char::from(byte));
            }
            b' ' => out.push('+'),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

const LARGEST_ANSWER: usize = 1 << 20;
/// For endpoints that do not tell, with tokens that are no JWT.
const UNKNOWN_LIFETIME: Duration = Duration::from_secs(300);
const LONGEST_LIFETIME: Duration = Duration::from_secs(30 * 86_400);

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(body: &str) -> Result<(String, u64), String> {
        match token_of(body.as_bytes()) {
            Ok((token, lifetime)) => Ok((token.expose().to_owned(), lifetime.as_secs())),
            Err(failure) => Err(failure.detail),
        }
    }

    #[test]
    fn tokens_and_their_lives_are_read() {
        let ok = |token: &str, seconds| Ok((token.to_owned(), seconds));
        assert_eq!(parsed(r#"{"access_token":"a","expires_in":60}"#), ok("a", 60));
        assert_eq!(parsed(r#"{"access_token":"a","expires_in":"60"}"#), ok("a", 60));
        assert_eq!(parsed(r#"{"id_token":"b"}"#), ok("b", 300));
        // Its `exp` lies in the past.
        let jwt = format!("x.{}.y", URL_SAFE_NO_PAD.encode(r#"{"exp":1}"#));
        assert_eq!(parsed(&format!(r#"{{"access_token":"{jwt}"}}"#)), ok(&jwt, 300));
        assert!(parsed("<html>").unwrap_err().contains("not JSON"));
        assert!(parsed(r#"{"access_token":""}"#).unwrap_err().contains("no access_token"));
    }

    #[test]
    fn errors_of_the_endpoint_are_quoted_without_control_characters() {
        let body = br#"{"error":"invalid_scope","error_description":"a\nb"}"#;
        assert_eq!(oauth_error(body), " (invalid_scope: ab)");
        assert_eq!(oauth_error(b"<html>"), "");
    }

    #[test]
    fn scopes_are_form_encoded() {
        assert_eq!(form_encoded("api://x/.default a+b"), "api%3A%2F%2Fx%2F.default+a%2Bb");
    }

    #[test]
    fn secrets_are_not_sent_in_plain_text() {
        for url in ["http://localhost/token", "ftp://x", "localhost", "https://"] {
            let endpoint =
                TokenEndpoint::new(url, "id", &"s".into(), None, false, &TlsConfig::default());
            assert!(endpoint.unwrap_err().to_string().contains("https://host/path"), "{url}");
        }
    }
}
