//! What stands between this machine and a broker, step by step.
//!
//! A [`KafkaClient`](crate::KafkaClient) says what failed last; a probe of one address takes the same steps one after the
//! other, says how long each took and what it found, and stops at the first that fails. It asks questions only: nothing at
//! the broker changes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use millstream_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse, StrBytes, kp};
use millstream_protocol::network::{DisconnectReason, metadata_request};
use millstream_protocol::sasl::{SaslError, SaslExchange, SaslMechanism, SaslProgress};
use millstream_protocol::{ApiKey, ErrorCode, Request, Response};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::config::address_of;
use crate::net::{Dialogue, SocketOptions, Stream, connect_tcp, resolve};
use crate::security::Security;
use crate::{ClientConfig, ConfigError};

/// A step on the way to a broker, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ProbeStep {
    /// From the host's name to addresses: literals, `localhost`, the hosts file, name servers.
    Resolve,
    /// A TCP connection to the first address that answers.
    Connect,
    /// TLS, with `security.protocol` SSL and SASL_SSL; left out else.
    TlsHandshake,
    /// What the broker speaks (ApiVersions 0 to 4, KIP-35, KIP-511).
    ApiVersions,
    /// SASL (KIP-152), with `security.protocol` SASL_PLAINTEXT and SASL_SSL; left out else.
    Authenticate,
    /// The first question about the cluster: its brokers (Metadata 4 to 12).
    Metadata,
}

/// A step that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProbedStep {
    /// Which step.
    pub step: ProbeStep,
    /// How long it took, whether it succeeded or not.
    pub took: Duration,
    /// What it found, in words for people, as a list of addresses; or why there is no next one.
    pub result: Result<String, DisconnectReason>,
}

/// What a probe of one address found. The last step is the failed one, if one has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrokerProbe {
    /// `host:port`, as it was given.
    pub address: String,
    /// The steps that were taken, in their order.
    pub steps: Vec<ProbedStep>,
    /// What the broker speaks, once it was asked.
    pub api_versions: Option<ApiVersionsResponse>,
    /// The addresses `host:port` that the brokers advertise, each with the broker's id, once they were asked for. A client
    /// connects to these, so they must be reachable from here, too; a probe of each tells.
    pub advertised: Vec<(i32, String)>,
}

impl BrokerProbe {
    /// Why the broker can not be used; `None` if it can.
    #[must_use]
    pub fn failure(&self) -> Option<(ProbeStep, &DisconnectReason)> {
        let last = self.steps.last()?;
        last.result.as_ref().err().map(|reason| (last.step, reason))
    }

    async fn take<T>(
        &mut self,
        step: ProbeStep,
        work: impl Future<Output = Result<(T, String), DisconnectReason>>,
    ) -> Option<T> {
        let started = Instant::now();
        let (value, result) = match work.await {
            Ok((value, found)) => (Some(value), Ok(found)),
            Err(reason) => (None, Err(reason)),
        };
        self.steps.push(ProbedStep { step, took: started.elapsed(), result });
        value
    }
}

impl ProbeStep {
    /// Its name in words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Connect => "connect",
            Self::TlsHandshake => "TLS handshake",
            Self::ApiVersions => "API versions",
            Self::Authenticate => "authenticate",
            Self::Metadata => "metadata",
        }
    }
}

impl fmt::Display for ProbeStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Takes every step to the broker at `address` (`host:port`) that `config` asks for; its `bootstrap.servers` are not used.
/// Each may take `socket.connection.setup.timeout.ms`. On a connection of its own, which ends with the call or when the
/// future is dropped; nothing at the broker changes.
///
/// # Errors
///
/// [`ConfigError`] if the address or the security properties can not be used. What fails on the way is in the result.
pub async fn probe_broker(
    config: &ClientConfig,
    address: &str,
) -> Result<BrokerProbe, ConfigError> {
    let (host, port) = address_of(address)?;
    let security = Security::new(config)?;
    let mut probe = BrokerProbe {
        address: address.to_owned(),
        steps: Vec::new(),
        api_versions: None,
        advertised: Vec::new(),
    };
    if let Some(stream) = reach(&mut probe, config, &host, port, &security).await {
        talk(&mut probe, config, &host, &security, stream).await;
    }
    Ok(probe)
}

/// The mechanisms that the listener at `address` offers (SaslHandshake 1, KIP-43), at most 16; `None` if it does not use SASL
/// or does not answer within `socket.connection.setup.timeout.ms`. With TLS if `config` has it; nobody is authenticated. The
/// names are the peer's own: controls in them are escaped.
///
/// # Errors
///
/// [`ConfigError`] if the address or the security properties can not be used.
pub async fn offered_mechanisms(
    config: &ClientConfig,
    address: &str,
) -> Result<Option<Vec<String>>, ConfigError> {
    let (host, port) = address_of(address)?;
    let security = Security::new(config)?;
    let limit = config.connection_setup_timeout;
    let connected = async {
        let stream = connect_tcp(&host, port, socket_options(config)).await?;
        security.protect(&host, stream).await
    };
    let Ok(Ok(stream)) = timeout(limit, connected).await else { return Ok(None) };
    let mut dialogue = dialogue(config, stream);
    // A name that no broker has: it answers with those that it has.
    let name = StrBytes::from_static_str("?");
    let request = kp::SaslHandshakeRequest::default().with_mechanism(name);
    let version = *ApiKey::SaslHandshake.client_versions().end();
    match dialogue.ask(&Request::SaslHandshake(request), version).await {
        Ok(Response::SaslHandshake(response)) if !response.mechanisms.is_empty() => {
            let offered = response.mechanisms.iter().take(MOST_NAMED);
            Ok(Some(offered.map(|name| name.escape_debug().to_string()).collect()))
        }
        _ => Ok(None),
    }
}

/// Up to a connection that bytes of Kafka's protocol can go over.
async fn reach(
    probe: &mut BrokerProbe,
    config: &ClientConfig,
    host: &Arc<str>,
    port: u16,
    security: &Security,
) -> Option<Stream> {
    let limit = config.connection_setup_timeout;
    let resolving = async {
        let unresolved = |detail| DisconnectReason::Unresolved { detail };
        let addresses = timeout(limit, resolve(host))
            .await
            .unwrap_or_else(|_| Err(format!("no answer within {limit:?}")))
            .map_err(unresolved)?;
        let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        Ok(((), addresses.join(", ")))
    };
    probe.take(ProbeStep::Resolve, resolving).await?;
    let connecting = async {
        let stream: TcpStream = timeout(limit, connect_tcp(host, port, socket_options(config)))
            .await
            .unwrap_or(Err(DisconnectReason::ConnectTimedOut { after: limit }))?;
        let peer = stream.peer_addr().map(|peer| peer.to_string()).unwrap_or_default();
        Ok((stream, peer))
    };
    let stream = probe.take(ProbeStep::Connect, connecting).await?;
    if !config.security_protocol.uses_tls() {
        return Some(Stream::Plain(stream));
    }
    let protecting = async {
        let stream = security.protect(host, stream).await?;
        let found = stream.protection();
        Ok((stream, found))
    };
    probe.take(ProbeStep::TlsHandshake, protecting).await
}

/// What a client asks before everything else.
async fn talk(
    probe: &mut BrokerProbe,
    config: &ClientConfig,
    host: &Arc<str>,
    security: &Security,
    stream: Stream,
) -> Option<()> {
    let mut dialogue = dialogue(config, stream);
    let versions = probe
        .take(ProbeStep::ApiVersions, async {
            let versions = ask_versions(&mut dialogue).await?;
            let found = format!("the broker speaks {} APIs", versions.api_keys.len());
            Ok((versions, found))
        })
        .await?;
    probe.api_versions = Some(versions.clone());
    if config.security_protocol.uses_sasl() {
        probe
            .take(ProbeStep::Authenticate, async {
                let found = authenticate(&mut dialogue, &versions, host, security).await?;
                Ok(((), found))
            })
            .await?;
    }
    let advertised = probe
        .take(ProbeStep::Metadata, async {
            let version = common_version(&versions, ApiKey::Metadata)?;
            let request = Request::Metadata(metadata_request(&[]));
            let metadata = match dialogue.ask(&request, version).await {
                Ok(Response::Metadata(metadata)) => metadata,
                Ok(_) => return Err(unexpected("Metadata")),
                Err(DisconnectReason::Closed) => {
                    return Err(DisconnectReason::ClosedOnFirstRequest);
                }
                Err(reason) => return Err(reason),
            };
            let id = metadata.cluster_id.as_deref().unwrap_or("without id").to_owned();
            let advertised: Vec<_> = metadata
                .brokers
                .iter()
                .map(|broker| (broker.node_id.0, address_text(&broker.host, broker.port)))
                .collect();
            let list: Vec<_> =
                advertised.iter().map(|(id, address)| format!("{id} at {address}")).collect();
            let found = format!("cluster {id}; brokers {}", list.join(", "));
            Ok((advertised, found))
        })
        .await?;
    probe.advertised = advertised;
    Some(())
}

async fn ask_versions(dialogue: &mut Dialogue) -> Result<ApiVersionsResponse, DisconnectReason> {
    let request = Request::ApiVersions(ApiVersionsRequest {
        client_software_name: "millstream".to_owned(),
        client_software_version: env!("CARGO_PKG_VERSION").to_owned(),
    });
    let mut version = *ApiKey::ApiVersions.client_versions().end();
    loop {
        let response = match dialogue.ask(&request, version).await {
            Ok(Response::ApiVersions(response)) => response,
            Ok(_) => return Err(unexpected("ApiVersions")),
            Err(DisconnectReason::Closed) => return Err(DisconnectReason::ClosedInHandshake),
            Err(DisconnectReason::RequestTimedOut { after, .. }) => {
                return Err(DisconnectReason::Silent { after });
            }
            Err(reason) => return Err(reason),
        };
        match response.error_code {
            ErrorCode::NONE => return Ok(response),
            ErrorCode::UNSUPPORTED_VERSION if version > 0 => {
                // The answer says what would be understood; old brokers say nothing and mean 0.
                let theirs = response.api_keys.iter();
                let theirs = theirs.filter(|api| api.api_key == ApiKey::ApiVersions.code());
                let highest = theirs.map(|api| api.max_version).max().unwrap_or(0);
                version = highest.clamp(0, version - 1);
            }
            code => return Err(DisconnectReason::HandshakeRefused { code }),
        }
    }
}

async fn authenticate(
    dialogue: &mut Dialogue,
    versions: &ApiVersionsResponse,
    host: &Arc<str>,
    security: &Security,
) -> Result<String, DisconnectReason> {
    let failed = DisconnectReason::AuthenticationFailed;
    let login = security.login(host).await?;
    let mechanism: SaslMechanism = login.mechanism();
    let mut exchange = SaslExchange::new(login).map_err(failed)?;
    while let Some(request) = exchange.poll_request() {
        let version = match common_version(versions, request.api_key()) {
            Ok(version) if request.api_key() != ApiKey::SaslHandshake || version > 0 => version,
            _ => return Err(failed(SaslError::BrokerTooOld)),
        };
        let response = match dialogue.ask(&request, version).await {
            Err(DisconnectReason::Closed) => return Err(DisconnectReason::ClosedInAuthentication),
            other => other?,
        };
        let (next, progress) = exchange.handle_response(&response).map_err(failed)?;
        exchange = next;
        if let SaslProgress::Done { session_lifetime } = progress {
            let session = session_lifetime
                .map(|lifetime| format!(", for {} s", lifetime.as_secs()))
                .unwrap_or_default();
            return Ok(format!("{mechanism} accepted{session}"));
        }
    }
    Err(unexpected("SASL"))
}

/// The highest version that both speak.
fn common_version(versions: &ApiVersionsResponse, api: ApiKey) -> Result<i16, DisconnectReason> {
    let ours = api.client_versions();
    let theirs = versions.api_keys.iter().find(|version| version.api_key == api.code());
    let theirs = theirs.map_or((0, -1), |version| (version.min_version, version.max_version));
    let version = theirs.1.min(*ours.end());
    if version >= theirs.0.max(*ours.start()) {
        return Ok(version);
    }
    let detail = format!(
        "it supports versions {} to {} of {api}, needed is {} to {}",
        theirs.0,
        theirs.1,
        ours.start(),
        ours.end()
    );
    Err(DisconnectReason::Protocol { detail })
}

fn unexpected(api: &str) -> DisconnectReason {
    DisconnectReason::Protocol { detail: format!("an answer to another question than {api}") }
}

/// `host:port`, with brackets where they are needed.
fn address_text(host: &str, port: i32) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn dialogue(config: &ClientConfig, stream: Stream) -> Dialogue {
    let limit = config.connection_setup_timeout;
    Dialogue::new(stream, config.max_response_frame_bytes, &config.client_id, limit)
}

fn socket_options(config: &ClientConfig) -> SocketOptions {
    SocketOptions {
        send_buffer_bytes: config.send_buffer_bytes,
        receive_buffer_bytes: config.receive_buffer_bytes,
    }
}

/// A peer's list may be long, and is for people to read.
const MOST_NAMED: usize = 16;
