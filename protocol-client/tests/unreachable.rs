//! What a user reads when the address is wrong.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail the test"
)]

use std::time::Duration;

use millstream_protocol_client::{ClientConfig, ClientError, KafkaClient};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

/// Connects with a limit of `limit_ms` and gives the error's text and the time it took.
async fn failure(bootstrap: String, limit_ms: u64) -> (String, Duration) {
    let mut config = ClientConfig::new(bootstrap);
    config.default_api_timeout = Duration::from_millis(limit_ms);
    let started = Instant::now();
    let error = KafkaClient::connect(config).await.expect_err("nothing there speaks Kafka");
    assert!(matches!(error, ClientError::NoBrokerReachable { .. }), "{error:?}");
    (error.to_string(), started.elapsed())
}

/// A server on a free port that does the same with each connection.
async fn serve<F: Future<Output = ()> + Send + 'static>(
    handle: impl Fn(TcpStream) -> F + Send + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(handle(stream));
        }
    });
    address
}

/// A port that was free a moment ago.
async fn closed_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().to_string()
}

#[tokio::test]
async fn nothing_listens() {
    let address = closed_port().await;
    let (text, took) = failure(address.clone(), 400).await;
    assert!(text.contains(&format!("{address}: connection refused")), "{text}");
    assert!(text.contains("bootstrap.servers"), "{text}");
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[tokio::test]
async fn a_web_server_is_named_at_once() {
    let address = serve(|mut stream| async move {
        let mut request = [0; 64];
        let _ = stream.read(&mut request).await;
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    })
    .await;
    let (text, took) = failure(address.clone(), 30_000).await;
    assert!(text.contains(&address) && text.contains("speaks HTTP"), "{text}");
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[tokio::test]
async fn a_tls_listener_is_named_at_once() {
    let address = serve(|mut stream| async move {
        let mut request = [0; 64];
        let _ = stream.read(&mut request).await;
        let _ = stream.write_all(&[0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x46]).await;
    })
    .await;
    let (text, took) = failure(address, 30_000).await;
    assert!(text.contains("speaks TLS"), "{text}");
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[tokio::test]
async fn a_listener_that_closes_is_named() {
    let address = serve(|stream| async move { drop(stream) }).await;
    let (text, _) = failure(address, 1000).await;
    assert!(text.contains("closed the connection on the first request"), "{text}");
}

#[tokio::test]
async fn a_silent_listener_is_named_within_the_limit() {
    let address = serve(|mut stream| async move {
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all).await;
    })
    .await;
    let (text, took) = failure(address, 700).await;
    assert!(text.contains("accepted, but nothing answered"), "{text}");
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[tokio::test]
async fn a_name_without_address_is_named() {
    let (text, took) = failure("no-such-host.invalid:9092".to_owned(), 3000).await;
    assert!(text.contains("no-such-host.invalid:9092"), "{text}");
    assert!(took < Duration::from_secs(8), "{took:?}");
}

#[tokio::test]
async fn every_address_is_named_with_its_own_reason() {
    let refused = closed_port().await;
    let silent = serve(|mut stream| async move {
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all).await;
    })
    .await;
    let (text, _) = failure(format!("{refused},{silent}"), 2500).await;
    assert!(text.contains(&format!("{refused}: connection refused")), "{text}");
    assert!(text.contains(&format!("{silent}: the connection was accepted")), "{text}");
}
