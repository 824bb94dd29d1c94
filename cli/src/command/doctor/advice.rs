//! What to change when a step fails. Where the error itself does not know, the port is asked in another way.

use millstream_protocol::network::{DisconnectReason, TlsProblem};
use millstream_protocol::sasl::SaslError;
use millstream_protocol_client::{
    BrokerProbe, ClientConfig, ConfigError, ProbeStep, SecurityProtocol, offered_mechanisms,
    probe_broker,
};

/// For an address of `bootstrap.servers`.
pub(super) async fn for_bootstrap(
    config: &ClientConfig,
    probe: &BrokerProbe,
) -> Result<Option<String>, ConfigError> {
    match probe.failure() {
        Some((_, reason)) => advice(config, &probe.address, reason).await.map(Some),
        None => Ok(None),
    }
}

/// For an address that a broker tells its clients.
pub(super) async fn for_advertised(
    config: &ClientConfig,
    probe: &BrokerProbe,
    broker: i32,
) -> Result<Option<String>, ConfigError> {
    let Some((step, reason)) = probe.failure() else { return Ok(None) };
    if matches!(step, ProbeStep::Resolve | ProbeStep::Connect) {
        let text = format!(
            "clients are sent to this address for everything but the first question: set advertised.listeners of broker {broker} to one that works from here, or make this one work (hosts file, network, firewall)"
        );
        return Ok(Some(text));
    }
    advice(config, &probe.address, reason).await.map(Some)
}

async fn advice(
    config: &ClientConfig,
    address: &str,
    reason: &DisconnectReason,
) -> Result<String, ConfigError> {
    let has_sasl = config.security_protocol.uses_sasl();
    let text = match reason {
        DisconnectReason::Unresolved { .. } => {
            "check the spelling of the host; a name that exists only inside a container network or a cluster has no address here"
        }
        DisconnectReason::Refused => {
            "check that the broker runs and that this is its port (listeners in its properties)"
        }
        DisconnectReason::ConnectTimedOut { .. } => {
            "check that the host is up, and that no firewall or security group stands between"
        }
        DisconnectReason::Http => {
            "use the port of a Kafka listener (listeners in the broker's properties)"
        }
        DisconnectReason::Tls
        | DisconnectReason::ClosedInHandshake
        | DisconnectReason::Silent { .. }
        | DisconnectReason::Protocol { .. } => {
            if speaks_tls(config, address).await? {
                let protocol = if has_sasl { "SASL_SSL" } else { "SSL" };
                return Ok(format!(
                    "the port speaks TLS: set security.protocol={protocol}{}, and ssl.truststore.location if its CA is not a public one",
                    if has_sasl { "" } else { " (SASL_SSL if it wants a user)" }
                ));
            }
            "check that this is the port of a Kafka listener, and its security.protocol"
        }
        DisconnectReason::ClosedOnFirstRequest => {
            if let Some(offered) = offered_mechanisms(config, address).await? {
                let protocol = match config.security_protocol {
                    SecurityProtocol::Ssl | SecurityProtocol::SaslSsl => "SASL_SSL",
                    _ => "SASL_PLAINTEXT",
                };
                return Ok(format!(
                    "the listener wants to know who asks: set security.protocol={protocol}, sasl.mechanism to one that it offers ({}), and sasl.jaas.config",
                    offered.join(", ")
                ));
            }
            "check security.protocol and what the broker's log says of the connection"
        }
        DisconnectReason::TlsFailed(problem) => {
            return for_tls(config, address, problem).await;
        }
        DisconnectReason::AuthenticationFailed(error) => return Ok(for_sasl(error)),
        DisconnectReason::LoginFailed { .. } => {
            "check what the credentials come from: sasl.jaas.config, a file, the token endpoint"
        }
        DisconnectReason::ClosedInAuthentication => {
            "check sasl.mechanism and the credentials; the broker's log says why it closed"
        }
        DisconnectReason::RequestTimedOut { .. } => {
            "the broker takes connections and does not answer: look at its load and its log"
        }
        _ => "the broker's log may say more of the connection",
    };
    Ok(text.to_owned())
}

async fn for_tls(
    config: &ClientConfig,
    address: &str,
    problem: &TlsProblem,
) -> Result<String, ConfigError> {
    let text = match problem {
        TlsProblem::PeerSpeaksPlaintext | TlsProblem::ClosedInHandshake | TlsProblem::Silent => {
            if speaks_plaintext(config, address).await? {
                let protocol = match config.security_protocol {
                    SecurityProtocol::SaslSsl => "SASL_PLAINTEXT",
                    _ => "PLAINTEXT",
                };
                return Ok(format!(
                    "the port speaks Kafka without TLS: set security.protocol={protocol}, or use the port of a TLS listener"
                ));
            }
            "check that this is the port of a TLS listener, and ssl.enabled.protocols"
        }
        TlsProblem::UnknownCa => {
            "set ssl.truststore.location to a file with the CA's certificate (PEM with ssl.truststore.type=PEM, JKS or PKCS12)"
        }
        TlsProblem::WrongHostName { .. } => {
            "connect by a name that the certificate has, or have one issued with this name"
        }
        TlsProblem::Expired => {
            "the broker needs a new certificate; compare this machine's clock too"
        }
        TlsProblem::NotYetValid => "set this machine's clock",
        TlsProblem::ClientCertificateRequired { .. } => {
            "set ssl.keystore.location (PEM with ssl.keystore.type=PEM, JKS or PKCS12) and its password"
        }
        TlsProblem::ClientCertificateRefused { .. } => {
            "use a client certificate of a CA that the broker trusts (its ssl.truststore.location)"
        }
        _ => "compare ssl.enabled.protocols and ssl.cipher.suites with the broker's",
    };
    Ok(text.to_owned())
}

fn for_sasl(error: &SaslError) -> String {
    let text = match error {
        SaslError::MechanismNotOffered { .. } => "set sasl.mechanism to one that is offered",
        SaslError::NotASaslListener => {
            "set security.protocol without SASL, or use the port of a SASL listener"
        }
        SaslError::Refused { .. } | SaslError::Scram { .. } => {
            "check user and password in sasl.jaas.config; a SCRAM user has to be made on the cluster first (kafka-configs)"
        }
        SaslError::TokenRefused { .. } => {
            "check the token's issuer, audience and scope against the broker's sasl.oauthbearer.expected.*"
        }
        SaslError::BrokerTooOld => "upgrade the brokers",
        _ => "check sasl.mechanism and sasl.jaas.config; the broker's log may say more",
    };
    text.to_owned()
}

/// A handshake that fails for a certificate is one all the same.
async fn speaks_tls(config: &ClientConfig, address: &str) -> Result<bool, ConfigError> {
    if config.security_protocol.uses_tls() {
        return Ok(false);
    }
    let mut asked = config.clone();
    asked.security_protocol = SecurityProtocol::Ssl;
    let probe = probe_broker(&asked, address).await?;
    let handshake = probe.steps.iter().find(|step| step.step == ProbeStep::TlsHandshake);
    Ok(handshake.is_some_and(|step| match &step.result {
        Ok(_) => true,
        Err(DisconnectReason::TlsFailed(problem)) => !matches!(
            problem,
            TlsProblem::PeerSpeaksPlaintext
                | TlsProblem::ClosedInHandshake
                | TlsProblem::Silent
                | TlsProblem::Other { .. }
        ),
        Err(_) => false,
    }))
}

async fn speaks_plaintext(config: &ClientConfig, address: &str) -> Result<bool, ConfigError> {
    let mut asked = config.clone();
    asked.security_protocol = SecurityProtocol::Plaintext;
    Ok(probe_broker(&asked, address).await?.api_versions.is_some())
}
