//! OAUTHBEARER tokens: given, from a file, from a token endpoint, made for tests, or signed with Amazon's credentials.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use millstream_protocol::network::DisconnectReason;
use millstream_protocol::sasl::jaas::JaasModule;
use millstream_protocol::sasl::{SaslLogin, SaslMechanism, Secret};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::aws::AwsSource;
use super::http::TokenEndpoint;
use super::login::{check_module, jaas_error};
use super::token_cache::CachedToken;
use super::{SaslConfig, TlsConfig};
use crate::{ConfigError, bounded_file};

/// Where tokens come from, and the last one.
#[derive(Debug)]
pub(super) struct TokenSource {
    origin: Origin,
    extensions: BTreeMap<String, String>,
    config: SaslConfig,
    /// The token in use. Held while a new one is asked for, so that connections made at the same time share one.
    cached: Mutex<Option<CachedToken>>,
}

#[derive(Debug)]
enum Origin {
    Static(Secret),
    /// Read for every login: someone else renews it.
    File(PathBuf),
    Endpoint(Box<TokenEndpoint>),
    /// Not signed: for brokers under test, as Java's own default.
    Unsecured {
        subject: String,
        lifetime: Duration,
    },
    Aws(AwsSource),
}

impl TokenSource {
    pub(super) fn new(config: &SaslConfig, tls: &TlsConfig) -> Result<Self, ConfigError> {
        let module = config.jaas.as_ref();
        let mut options = OPTIONS.to_vec();
        // Extensions have names of their own.
        let own = module.into_iter().flat_map(|module| &module.options);
        options.extend(own.map(|(name, _)| name.as_str()).filter(|n| n.starts_with(EXTENSION)));
        if config.aws_bearer_token {
            options = AwsSource::OPTIONS.to_vec();
        }
        check_module(module, SaslMechanism::OAuthBearer, "OAuthBearerLoginModule", &options)?;
        let mut extensions = config.extensions.clone();
        for (name, value) in module.into_iter().flat_map(|module| &module.options) {
            if let Some(name) = name.strip_prefix(EXTENSION) {
                extensions.insert(name.to_owned(), value.expose().to_owned());
            }
        }
        let origin = origin(config, tls)?;
        Ok(Self { origin, extensions, config: config.clone(), cached: Mutex::new(None) })
    }

    pub(super) async fn login(&self) -> Result<SaslLogin, DisconnectReason> {
        let token = match &self.origin {
            Origin::Static(token) => token.clone(),
            Origin::File(path) => read_token(path).await?,
            Origin::Unsecured { subject, lifetime } => unsecured(subject, *lifetime),
            Origin::Aws(source) => source.bearer_token()?,
            Origin::Endpoint(endpoint) => self.cached_token(endpoint).await?,
        };
        Ok(SaslLogin::OAuthBearer { token, extensions: self.extensions.clone() })
    }

    async fn cached_token(&self, endpoint: &TokenEndpoint) -> Result<Secret, DisconnectReason> {
        let mut cached = self.cached.lock().await;
        if let Some(known) = cached.as_ref().filter(|known| Instant::now() < known.refresh_at) {
            return Ok(known.token.clone());
        }
        match endpoint.fetch(&self.config).await {
            Ok((token, lifetime)) => {
                let now = Instant::now();
                let new = CachedToken::new(token.clone(), lifetime, now, &self.config, jitter());
                tracing::debug!(?lifetime, "a new OAUTHBEARER token");
                *cached = Some(new);
                Ok(token)
            }
            Err(failure) => match cached.as_ref().filter(|old| Instant::now() < old.expires_at) {
                Some(old) => {
                    tracing::warn!(%failure, "no new OAUTHBEARER token; the old one is still valid");
                    Ok(old.token.clone())
                }
                None => Err(failure),
            },
        }
    }
}

fn origin(config: &SaslConfig, tls: &TlsConfig) -> Result<Origin, ConfigError> {
    let module = config.jaas.as_ref();
    let option = |name: &str| module.and_then(|module| module.option(name)).cloned();
    if config.aws_bearer_token {
        return AwsSource::new(module).map(Origin::Aws);
    }
    if let Some(token) = config.token.clone().or_else(|| option("token")) {
        return Ok(Origin::Static(token));
    }
    if let Some(url) = &config.token_endpoint_url {
        if let Some(path) = file_path(url) {
            return Ok(Origin::File(path));
        }
        let id = config
            .client_id
            .clone()
            .or_else(|| option("clientId").map(|id| id.expose().to_owned()));
        let secret = config.client_secret.clone().or_else(|| option("clientSecret"));
        let (Some(id), Some(secret)) = (id, secret) else {
            return Err(ConfigError::Invalid {
                name: "sasl.oauthbearer.client.credentials.client.id",
                value: String::new(),
                expected: "it and sasl.oauthbearer.client.credentials.client.secret, or clientId and clientSecret in sasl.jaas.config".to_owned(),
            });
        };
        let scope =
            config.scope.clone().or_else(|| option("scope").map(|text| text.expose().to_owned()));
        let endpoint = TokenEndpoint::new(url, &id, &secret, scope, config.header_urlencode, tls)?;
        return Ok(Origin::Endpoint(Box::new(endpoint)));
    }
    if let Some(subject) = option("unsecuredLoginStringClaim_sub") {
        return unsecured_origin(module, subject.expose());
    }
    Err(jaas_error(
        "where tokens come from: sasl.oauthbearer.token.endpoint.url (https: or file:), or an option token in the login module".to_owned(),
    ))
}

fn unsecured_origin(module: Option<&JaasModule>, subject: &str) -> Result<Origin, ConfigError> {
    let seconds = module.and_then(|module| module.option("unsecuredLoginLifetimeSeconds"));
    let seconds = seconds.map_or(Ok(3600), |text| text.expose().parse());
    let seconds = seconds
        .map_err(|_| jaas_error("whole seconds in unsecuredLoginLifetimeSeconds".to_owned()))?;
    let subject = subject.to_owned();
    Ok(Origin::Unsecured { subject, lifetime: Duration::from_secs(seconds) })
}

/// The path of a `file:` URL.
fn file_path(url: &str) -> Option<PathBuf> {
    let rest = url.strip_prefix("file:")?;
    Some(PathBuf::from(rest.strip_prefix("//").unwrap_or(rest)))
}

async fn read_token(path: &Path) -> Result<Secret, DisconnectReason> {
    let failed = |detail: String| DisconnectReason::LoginFailed {
        detail: format!("token file {}: {detail}", path.display()),
        // It may be in the middle of being renewed.
        retriable: true,
    };
    let task = {
        let path = path.to_owned();
        tokio::task::spawn_blocking(move || bounded_file::read_text(&path))
    };
    let text = task.await.map_err(|error| failed(error.to_string()))?;
    let text = text.map_err(|error| failed(error.to_string()))?;
    match text.trim() {
        "" => Err(failed("it is empty".to_owned())),
        token => Ok(Secret::from(token)),
    }
}

/// A JWT with algorithm `none`.
fn unsecured(subject: &str, lifetime: Duration) -> Secret {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let claims = serde_json::json!({
        "sub": subject,
        "iat": now.as_secs(),
        "exp": (now + lifetime).as_secs(),
    });
    let part = |json: &str| URL_SAFE_NO_PAD.encode(json);
    Secret::new(format!("{}.{}.", part("{\"alg\":\"none\"}"), part(&claims.to_string())))
}

fn jitter() -> f64 {
    let mut byte = [0_u8; 1];
    // Without random numbers there is no jitter.
    let _ = getrandom::fill(&mut byte);
    f64::from(byte[0]) / 255.0
}

/// Options of Java's `OAuthBearerLoginModule` that are understood, and `token`, which is ours.
const OPTIONS: &[&str] = &[
    "clientId",
    "clientSecret",
    "scope",
    "token",
    "unsecuredLoginStringClaim_sub",
    "unsecuredLoginLifetimeSeconds",
];
const EXTENSION: &str = "extension_";
