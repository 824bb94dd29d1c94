//! The whole client against a broker over TCP that lies about one API at a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use millstream_fuzz_targets::{Broker, Damage, Random, damage};
use millstream_protocol::frame::FrameDecoder;
use millstream_protocol::sasl::Secret;
use millstream_protocol::{ApiKey, Request};
use millstream_protocol_client::{ClientConfig, SecurityProtocol};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::frames::{number, seed};

mod calls;

/// `MILLSTREAM_HOSTILE_SECONDS` lets each API be attacked for longer.
#[test]
fn the_client_bears_a_lying_broker_of_every_api() {
    let seed = seed("the_client_bears_a_lying_broker_of_every_api");
    let time = Duration::from_secs(number("MILLSTREAM_HOSTILE_SECONDS", 6));
    let panics = count_panics();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let lies = runtime.block_on(async {
        // Several at a time: they wait more than they work.
        let places = Arc::new(Semaphore::new(8));
        let attacks: Vec<_> = calls::SENT
            .iter()
            .map(|api| {
                let (api, places) = (*api, Arc::clone(&places));
                tokio::spawn(async move {
                    let _place = places.acquire().await.expect("it is never closed");
                    (api, attack(api, seed ^ api.code() as u64, time).await)
                })
            })
            .collect();
        let mut lies = BTreeMap::new();
        for attack in attacks {
            lies.extend([attack.await.expect("an attack that ends")]);
        }
        lies
    });
    drop(runtime);
    println!("{} hostile answers: {lies:?}", lies.values().sum::<u64>());
    assert_eq!(panics.load(Ordering::Relaxed), 0, "something panicked");
    let few: Vec<_> = lies.iter().filter(|(_, lies)| **lies < FEWEST).collect();
    assert!(few.is_empty(), "not asked often enough: {few:?}");
}

/// Tasks of the client run apart, so a panic there would only show as a closed client.
fn count_panics() -> Arc<AtomicUsize> {
    let panics = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&panics);
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        counted.fetch_add(1, Ordering::Relaxed);
        usual(panic);
    }));
    panics
}

/// Calls for that time, and on until the broker has lied a few times.
async fn attack(api: ApiKey, seed: u64, time: Duration) -> u64 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let lies = Arc::new(AtomicU64::new(0));
    let server = tokio::spawn(serve(listener, port, api, seed, Arc::clone(&lies)));
    let begun = Instant::now();
    let told = || lies.load(Ordering::Relaxed);
    while begun.elapsed() < time || told() < FEWEST && begun.elapsed() < LONGEST_ATTACK {
        calls::call(api, config(api, port)).await;
    }
    server.abort();
    told()
}

/// Quick to give up, quick to try again.
fn config(api: ApiKey, port: u16) -> ClientConfig {
    let mut config = ClientConfig::new(format!("127.0.0.1:{port}"));
    config.request_timeout = Duration::from_millis(50);
    config.default_api_timeout = Duration::from_millis(200);
    config.delivery_timeout = Duration::from_millis(200);
    config.max_block = Duration::from_millis(200);
    config.connection_setup_timeout = Duration::from_millis(50);
    config.connection_setup_timeout_max = Duration::from_millis(50);
    config.reconnect_backoff = Duration::from_millis(1);
    config.reconnect_backoff_max = Duration::from_millis(2);
    config.retry_backoff = Duration::from_millis(1);
    config.retry_backoff_max = Duration::from_millis(2);
    config.heartbeat_interval = Duration::from_millis(5);
    config.session_timeout = Duration::from_millis(200);
    config.auto_commit_interval = Duration::from_millis(5);
    config.linger = Duration::ZERO;
    config.group_id = Some("g".to_owned());
    if matches!(api, ApiKey::SaslHandshake | ApiKey::SaslAuthenticate) {
        config.security_protocol = SecurityProtocol::SaslPlaintext;
        config.sasl.mechanism = Some(millstream_protocol::sasl::SaslMechanism::ScramSha256);
        config.sasl.username = Some("user".to_owned());
        config.sasl.password = Some(Secret::new("pencil"));
    }
    config
}

async fn serve(listener: TcpListener, port: u16, api: ApiKey, seed: u64, lies: Arc<AtomicU64>) {
    // The client registers partitions and groups by itself only without TV2.
    let version = match api {
        ApiKey::AddPartitionsToTxn | ApiKey::AddOffsetsToTxn => 0,
        _ => 2,
    };
    let broker = Arc::new(Broker::new("127.0.0.1", port, version));
    for connection in 0.. {
        let Ok((stream, _)) = listener.accept().await else { return };
        let liar = Liar {
            broker: Arc::clone(&broker),
            api,
            random: Random::new(seed.wrapping_add(connection)),
            lies: Arc::clone(&lies),
        };
        // A client that hangs up in the middle is expected.
        tokio::spawn(async move { liar.serve(stream).await.ok() });
    }
}

struct Liar {
    broker: Arc<Broker>,
    api: ApiKey,
    random: Random,
    lies: Arc<AtomicU64>,
}

impl Liar {
    async fn serve(mut self, mut stream: TcpStream) -> std::io::Result<()> {
        stream.set_nodelay(true)?;
        let mut decoder = FrameDecoder::new(16 << 20);
        loop {
            if stream.read_buf(decoder.read_buffer()).await? == 0 {
                return Ok(());
            }
            while let Some(frame) = decoder.next_frame().expect("the client's own frames") {
                let (header, request) = Request::decode(frame).expect("the client's own request");
                if let Request::Fetch(_) = request {
                    // As a broker waits for data: a reader that gets nothing at once would ask without end.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                let version = header.api_version;
                let Some(answer) = self.broker.answer(&request, version) else { continue };
                let answer = answer.encode(version, header.correlation_id).expect("our own");
                let honest = answer.to_bytes();
                if request.api_key() != self.api || self.random.one_in(2) {
                    stream.write_all(&honest).await?;
                    continue;
                }
                self.lies.fetch_add(1, Ordering::Relaxed);
                if !self.lie(&mut stream, &honest).await? {
                    return Ok(());
                }
            }
        }
    }

    /// True if the connection goes on.
    async fn lie(&mut self, stream: &mut TcpStream, honest: &[u8]) -> std::io::Result<bool> {
        let how = Damage::ALL[self.random.below(Damage::ALL.len())];
        let framed = |body: &[u8]| {
            let size = u32::try_from(body.len()).expect("small");
            [&size.to_be_bytes(), body].concat()
        };
        let body = &honest[4..];
        match self.random.below(16) {
            // No answer: the client gives up by itself.
            0 => return Ok(true),
            // Half of one.
            1 => {
                stream.write_all(&honest[..self.random.below(honest.len())]).await?;
                return Ok(false);
            }
            // A size that claims more than will ever come.
            2 => {
                let size = [0x03, 0xff, 0xff, self.random.bytes(1)[0]];
                stream.write_all(&[&size, body].concat()).await?;
            }
            // Other protocols.
            3 => stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await?,
            4 => stream.write_all(&[0x15, 3, 3, 0, 2, 2, 40]).await?,
            // The same again, to a question that nobody asked.
            5 => stream.write_all(&[honest, honest].concat()).await?,
            6 => stream.write_all(&framed(&damage(&mut self.random, body, 0, how))).await?,
            _ => stream.write_all(&framed(&damage(&mut self.random, body, 4, how))).await?,
        }
        Ok(true)
    }
}

/// Of each API.
const FEWEST: u64 = 2;
/// On a machine with much else to do.
const LONGEST_ATTACK: Duration = Duration::from_secs(60);
