//! An HTTPS token endpoint for client credentials, good for one test.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::certificates::Authority;

/// A server on a port of this machine that gives unsigned JWTs.
pub(crate) struct TokenEndpoint {
    pub(crate) url: String,
    shared: Arc<Shared>,
}

struct Shared {
    client: (String, String),
    lifetime_seconds: u64,
    /// Requests to answer with 503 first.
    failures: AtomicU32,
    requests: Mutex<Vec<String>>,
}

impl TokenEndpoint {
    /// Starts it on the present runtime. It knows one client, fails `failures` times, and its tokens live as told.
    pub(crate) async fn start(
        authority: &Authority,
        client: (&str, &str),
        lifetime_seconds: u64,
        failures: u32,
    ) -> Self {
        let issued = authority.issue(&["localhost"]);
        let chain = CertificateDer::pem_slice_iter(issued.certificate.as_bytes());
        let chain: Vec<_> = chain.map(Result::unwrap).collect();
        let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url =
            format!("https://localhost:{}/oauth2/token", listener.local_addr().unwrap().port());
        let shared = Arc::new(Shared {
            client: (client.0.to_owned(), client.1.to_owned()),
            lifetime_seconds,
            failures: AtomicU32::new(failures),
            requests: Mutex::new(Vec::new()),
        });
        let serving = Arc::clone(&shared);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, shared) = (acceptor.clone(), Arc::clone(&serving));
                tokio::spawn(async move {
                    // A client that does not trust us ends here.
                    let Ok(mut stream) = acceptor.accept(stream).await else { return };
                    let request = read_request(&mut stream).await;
                    let (status, body) = shared.answer(&request);
                    let answer = format!(
                        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                        body.len()
                    );
                    let _ = stream.write_all(answer.as_bytes()).await;
                    let _ = stream.shutdown().await;
                });
            }
        });
        Self { url, shared }
    }

    /// What was asked so far, header and body.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.shared.requests.lock().unwrap().clone()
    }
}

impl Shared {
    fn answer(&self, request: &str) -> (&'static str, String) {
        self.requests.lock().unwrap().push(request.to_owned());
        let left = self.failures.load(Ordering::Relaxed);
        if left > 0 {
            self.failures.store(left - 1, Ordering::Relaxed);
            return ("503 Service Unavailable", String::new());
        }
        let (id, secret) = &self.client;
        let expected = format!("Basic {}", STANDARD.encode(format!("{id}:{secret}")));
        if !request.contains(&expected) {
            let body = r#"{"error":"invalid_client","error_description":"no such client"}"#;
            return ("401 Unauthorized", body.to_owned());
        }
        let token = unsigned_jwt(id, self.lifetime_seconds);
        let body = serde_json::json!({
            "access_token": token, "token_type": "Bearer", "expires_in": self.lifetime_seconds,
        });
        ("200 OK", body.to_string())
    }
}

/// A JWT as Kafka's validator for tests accepts it.
pub(crate) fn unsigned_jwt(subject: &str, lifetime_seconds: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let claims = serde_json::json!({"sub": subject, "iat": now, "exp": now + lifetime_seconds});
    let part = |json: &str| URL_SAFE_NO_PAD.encode(json);
    format!("{}.{}.", part(r#"{"alg":"none"}"#), part(&claims.to_string()))
}

async fn read_request(stream: &mut (impl AsyncReadExt + Unpin)) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().unwrap())
            });
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return text;
        }
    }
}
