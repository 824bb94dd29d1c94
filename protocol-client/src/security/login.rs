//! From the configuration to what one authentication needs.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use millstream_protocol::network::DisconnectReason;
use millstream_protocol::sasl::jaas::JaasModule;
use millstream_protocol::sasl::scram::ScramHash;
use millstream_protocol::sasl::{SaslLogin, SaslMechanism, Secret};

use super::aws::AwsSource;
use super::oauth::TokenSource;
use super::{SaslConfig, TlsConfig};
use crate::ConfigError;

/// Where logins come from.
#[derive(Debug)]
pub(super) enum LoginSource {
    Plain { username: String, password: Secret },
    Scram { hash: ScramHash, username: String, password: Secret, token_auth: bool },
    OAuthBearer(Box<TokenSource>),
    AwsMskIam(AwsSource),
}

impl LoginSource {
    pub(super) fn new(config: &SaslConfig, tls: &TlsConfig) -> Result<Self, ConfigError> {
        let mechanism = mechanism(config)?;
        let jaas = config.jaas.as_ref();
        match mechanism {
            SaslMechanism::Plain => {
                check_module(jaas, mechanism, "PlainLoginModule", &["username", "password"])?;
                let (username, password) = name_and_password(config)?;
                Ok(Self::Plain { username, password })
            }
            SaslMechanism::ScramSha256 | SaslMechanism::ScramSha512 => {
                let options = ["username", "password", "tokenauth"];
                check_module(jaas, mechanism, "ScramLoginModule", &options)?;
                let (username, password) = name_and_password(config)?;
                let token_auth = jaas
                    .and_then(|module| module.option("tokenauth"))
                    .is_some_and(|value| value.expose().eq_ignore_ascii_case("true"));
                let hash = match mechanism {
                    SaslMechanism::ScramSha256 => ScramHash::Sha256,
                    _ => ScramHash::Sha512,
                };
                Ok(Self::Scram { hash, username, password, token_auth })
            }
            SaslMechanism::OAuthBearer => {
                Ok(Self::OAuthBearer(Box::new(TokenSource::new(config, tls)?)))
            }
            SaslMechanism::AwsMskIam => {
                check_module(jaas, mechanism, "IAMLoginModule", AwsSource::OPTIONS)?;
                AwsSource::new(jaas).map(Self::AwsMskIam)
            }
        }
    }

    pub(super) fn mechanism(&self) -> SaslMechanism {
        match self {
            Self::Plain { .. } => SaslMechanism::Plain,
            Self::Scram { hash: ScramHash::Sha256, .. } => SaslMechanism::ScramSha256,
            Self::Scram { hash: ScramHash::Sha512, .. } => SaslMechanism::ScramSha512,
            Self::OAuthBearer(_) => SaslMechanism::OAuthBearer,
            Self::AwsMskIam(_) => SaslMechanism::AwsMskIam,
        }
    }

    /// What one authentication with `host` needs.
    pub(super) async fn login(&self, host: &str) -> Result<SaslLogin, DisconnectReason> {
        match self {
            Self::Plain { username, password } => {
                Ok(SaslLogin::Plain { username: username.clone(), password: password.clone() })
            }
            Self::Scram { hash, username, password, token_auth } => Ok(SaslLogin::Scram {
                hash: *hash,
                username: username.clone(),
                password: password.clone(),
                token_auth: *token_auth,
                nonce: nonce()?,
            }),
            Self::OAuthBearer(source) => source.login().await,
            Self::AwsMskIam(source) => source.payload(host),
        }
    }
}

/// The mechanism named, or the only one that the login module serves.
fn mechanism(config: &SaslConfig) -> Result<SaslMechanism, ConfigError> {
    if let Some(mechanism) = config.mechanism {
        return Ok(mechanism);
    }
    let class = config.jaas.as_ref().map(JaasModule::simple_class);
    match class {
        Some("PlainLoginModule") => Ok(SaslMechanism::Plain),
        Some("OAuthBearerLoginModule") => Ok(SaslMechanism::OAuthBearer),
        Some("IAMLoginModule") => Ok(SaslMechanism::AwsMskIam),
        _ => Err(ConfigError::Invalid {
            name: "sasl.mechanism",
            value: String::new(),
            expected: format!("one of {}", names()),
        }),
    }
}

/// Names of all mechanisms.
pub(crate) fn names() -> String {
    SaslMechanism::ALL.map(SaslMechanism::name).join(", ")
}

/// The login module must be the mechanism's, and every option one that is understood: an option that is read past could have
/// been the one that matters.
pub(super) fn check_module(
    module: Option<&JaasModule>,
    mechanism: SaslMechanism,
    class: &str,
    options: &[&str],
) -> Result<(), ConfigError> {
    let Some(module) = module else { return Ok(()) };
    if module.simple_class() != class {
        return Err(jaas_error(format!(
            "the login module of {mechanism}, {class}, not {}",
            module.simple_class()
        )));
    }
    let unknown = module.options.iter().find(|(name, _)| !options.contains(&name.as_str()));
    match unknown {
        Some((name, _)) => Err(jaas_error(format!(
            "options that {class} has here ({}), not {name}",
            options.join(", ")
        ))),
        None => Ok(()),
    }
}

pub(super) fn jaas_error(expected: String) -> ConfigError {
    ConfigError::Invalid { name: "sasl.jaas.config", value: "…".to_owned(), expected }
}

fn name_and_password(config: &SaslConfig) -> Result<(String, Secret), ConfigError> {
    let option = |name: &str| config.jaas.as_ref().and_then(|module| module.option(name)).cloned();
    let username =
        config.username.clone().or_else(|| option("username").map(|text| text.expose().to_owned()));
    let password = config.password.clone().or_else(|| option("password"));
    match (username, password) {
        (Some(username), Some(password)) if !username.is_empty() => Ok((username, password)),
        _ => Err(jaas_error("a login module with username and password".to_owned())),
    }
}

/// 24 random bytes as text without commas.
fn nonce() -> Result<String, DisconnectReason> {
    let mut bytes = [0_u8; 24];
    getrandom::fill(&mut bytes).map_err(|error| DisconnectReason::LoginFailed {
        detail: format!("the system gives no random numbers ({error})"),
        retriable: true,
    })?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}
