//! The names of `ssl.*` and `sasl.*`.

use std::path::PathBuf;
use std::time::Duration;

use millstream_protocol::sasl::jaas::JaasModule;
use millstream_protocol::sasl::{SaslMechanism, Secret};

use super::properties::{Property, Refusal, honoured, ignored, only, put, refused};
use super::value::{boolean, integer, list, milliseconds};
use crate::SecurityProtocol;
use crate::security::{StoreType, TlsVersion, mechanism_names};

const NO_JAVA: &str = "Java classes can not be loaded";
const TLS_LIBRARY: &str = "TLS is rustls with ring's algorithms";
const BROKER_SIDE: &str = "the broker checks tokens";

/// Prefixes of names that are refused as a whole.
pub(super) const REFUSED_FAMILIES: &[(&str, &str)] = &[
    ("sasl.kerberos.", KERBEROS),
    (
        "sasl.oauthbearer.assertion.",
        "tokens are asked for with client credentials, or read from a file",
    ),
];

const KERBEROS: &str =
    "GSSAPI (Kerberos) needs a C library; use SCRAM, OAUTHBEARER or client certificates";

fn secret(text: &str) -> Option<Secret> {
    (!text.is_empty()).then(|| Secret::from(text))
}

fn text(value: &str) -> Option<String> {
    (!value.trim().is_empty()).then(|| value.trim().to_owned())
}

fn path(value: &str) -> Option<PathBuf> {
    text(value).map(PathBuf::from)
}

fn store_type(value: &str) -> Result<Option<StoreType>, String> {
    StoreType::parse(value).map(Some).ok_or_else(|| "JKS, PKCS12 or PEM".to_owned())
}

fn seconds(value: &str, max: i64) -> Result<Duration, String> {
    integer(value, 0, max).map(|seconds| Duration::from_secs(seconds.unsigned_abs()))
}

fn part(value: &str, min: f64, max: f64) -> Result<f64, String> {
    let expected = || format!("a number from {min} to {max}");
    let number: f64 = value.trim().parse().map_err(|_| expected())?;
    if (min..=max).contains(&number) { Ok(number) } else { Err(expected()) }
}

fn mechanism(value: &str) -> Result<Option<SaslMechanism>, Refusal> {
    let value = value.trim().to_ascii_uppercase();
    if value == "GSSAPI" {
        return Err(Refusal::Unsupported(KERBEROS));
    }
    let parsed: Result<SaslMechanism, ()> = value.parse();
    parsed.map(Some).map_err(|()| format!("one of {}", mechanism_names()).into())
}

fn jaas(value: &str) -> Result<Option<JaasModule>, Refusal> {
    let module =
        JaasModule::parse(value).map_err(|error| format!("one login module; at {error}"))?;
    if module.simple_class() == "Krb5LoginModule" {
        return Err(Refusal::Unsupported(KERBEROS));
    }
    Ok(Some(module))
}

fn tls_versions(value: &str) -> Result<Vec<TlsVersion>, Refusal> {
    const OLD: &str =
        "versions below TLSv1.2 are broken, and no longer spoken by any current broker";
    let mut versions = Vec::new();
    for name in list(value) {
        let version = match name.as_str() {
            "TLSv1.2" => TlsVersion::V1_2,
            "TLSv1.3" => TlsVersion::V1_3,
            "TLSv1" | "TLSv1.1" | "SSLv3" | "SSLv2" | "SSLv2Hello" => continue,
            _ => return Err("TLSv1.2 and TLSv1.3".to_owned().into()),
        };
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    if versions.is_empty() { Err(Refusal::Unsupported(OLD)) } else { Ok(versions) }
}

/// Accepts the classes named by their last part.
fn class(value: &str, accepted: &[&str]) -> Result<(), Refusal> {
    let last = value.trim().rsplit(['.', '$']).next().unwrap_or_default();
    only(last, accepted, NO_JAVA)
}

fn extensions(value: &str) -> Result<std::collections::BTreeMap<String, String>, Refusal> {
    let pair = |pair: &String| {
        let (name, value) = pair.split_once('=')?;
        Some((name.trim().to_owned(), value.trim().to_owned()))
    };
    let pairs: Option<_> = list(value).iter().map(pair).collect();
    pairs.ok_or_else(|| "pairs name=value with commas between".to_owned().into())
}

pub(super) const PROPERTIES: &[Property] = &[
    honoured("enable.ssl.certificate.verification", |_, v| {
        only(v, &["true"], "certificates are always verified; add the CA to ssl.truststore instead")
    }),
    honoured("sasl.client.callback.handler.class", |_, v| class(v, &["IAMClientCallbackHandler"])),
    honoured("sasl.jaas.config", |c, v| {
        c.sasl.jaas = jaas(v)?;
        Ok(())
    }),
    honoured("sasl.login.callback.handler.class", |c, v| {
        class(v, &["OAuthBearerLoginCallbackHandler", "IAMOAuthBearerLoginCallbackHandler"])?;
        c.sasl.aws_bearer_token = v.trim().ends_with("IAMOAuthBearerLoginCallbackHandler");
        Ok(())
    }),
    refused("sasl.login.class", NO_JAVA),
    honoured("sasl.login.connect.timeout.ms", |c, v| {
        put(&mut c.sasl.login_connect_timeout, milliseconds(v, 1))
    }),
    honoured("sasl.login.read.timeout.ms", |c, v| {
        put(&mut c.sasl.login_read_timeout, milliseconds(v, 1))
    }),
    honoured("sasl.login.refresh.buffer.seconds", |c, v| {
        put(&mut c.sasl.refresh_buffer, seconds(v, 3600))
    }),
    honoured("sasl.login.refresh.min.period.seconds", |c, v| {
        put(&mut c.sasl.refresh_min_period, seconds(v, 900))
    }),
    honoured("sasl.login.refresh.window.factor", |c, v| {
        put(&mut c.sasl.refresh_window_factor, part(v, 0.5, 1.0))
    }),
    honoured("sasl.login.refresh.window.jitter", |c, v| {
        put(&mut c.sasl.refresh_window_jitter, part(v, 0.0, 0.25))
    }),
    honoured("sasl.login.retry.backoff.max.ms", |c, v| {
        put(&mut c.sasl.login_retry_backoff_max, milliseconds(v, 1))
    }),
    honoured("sasl.login.retry.backoff.ms", |c, v| {
        put(&mut c.sasl.login_retry_backoff, milliseconds(v, 1))
    }),
    honoured("sasl.mechanism", |c, v| {
        c.sasl.mechanism = mechanism(v)?;
        Ok(())
    }),
    ignored("sasl.oauthbearer.clock.skew.seconds", BROKER_SIDE),
    honoured("sasl.oauthbearer.client.credentials.client.id", |c, v| {
        c.sasl.client_id = text(v);
        Ok(())
    }),
    honoured("sasl.oauthbearer.client.credentials.client.secret", |c, v| {
        c.sasl.client_secret = secret(v);
        Ok(())
    }),
    ignored("sasl.oauthbearer.expected.audience", BROKER_SIDE),
    ignored("sasl.oauthbearer.expected.issuer", BROKER_SIDE),
    honoured("sasl.oauthbearer.extensions", |c, v| {
        c.sasl.extensions = extensions(v)?;
        Ok(())
    }),
    honoured("sasl.oauthbearer.header.urlencode", |c, v| {
        put(&mut c.sasl.header_urlencode, boolean(v))
    }),
    ignored("sasl.oauthbearer.jwks.endpoint.refresh.ms", BROKER_SIDE),
    ignored("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", BROKER_SIDE),
    ignored("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", BROKER_SIDE),
    ignored("sasl.oauthbearer.jwks.endpoint.url", BROKER_SIDE),
    honoured("sasl.oauthbearer.jwt.retriever.class", |_, v| {
        class(v, &["DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "FileJwtRetriever"])
    }),
    ignored("sasl.oauthbearer.jwt.validator.class", BROKER_SIDE),
    honoured("sasl.oauthbearer.method", |_, v| {
        only(v, &["oidc", "default"], "the methods are oidc and default")
    }),
    honoured("sasl.oauthbearer.scope", |c, v| {
        c.sasl.scope = text(v);
        Ok(())
    }),
    ignored("sasl.oauthbearer.scope.claim.name", BROKER_SIDE),
    ignored("sasl.oauthbearer.sub.claim.name", BROKER_SIDE),
    honoured("sasl.oauthbearer.token", |c, v| {
        c.sasl.token = secret(v.trim());
        Ok(())
    }),
    honoured("sasl.oauthbearer.token.endpoint.url", |c, v| {
        c.sasl.token_endpoint_url = text(v);
        Ok(())
    }),
    honoured("oauth.identity.pool.id", |c, v| {
        c.sasl.extensions.insert("identityPoolId".to_owned(), v.trim().to_owned());
        Ok(())
    }),
    honoured("oauth.logical.cluster", |c, v| {
        c.sasl.extensions.insert("logicalCluster".to_owned(), v.trim().to_owned());
        Ok(())
    }),
    honoured("sasl.password", |c, v| {
        c.sasl.password = secret(v);
        Ok(())
    }),
    honoured("sasl.username", |c, v| {
        c.sasl.username = (!v.is_empty()).then(|| v.to_owned());
        Ok(())
    }),
    honoured("security.protocol", |c, v| {
        let expected = "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL";
        put(&mut c.security_protocol, SecurityProtocol::parse(v).ok_or(expected.to_owned()))
    }),
    refused("security.providers", NO_JAVA),
    honoured("ssl.cipher.suites", |c, v| {
        c.tls.cipher_suites = list(v);
        Ok(())
    }),
    honoured("ssl.enabled.protocols", |c, v| {
        c.tls.enabled_versions = tls_versions(v)?;
        Ok(())
    }),
    honoured("ssl.endpoint.identification.algorithm", |c, v| {
        c.tls.endpoint_identification = match v.trim() {
            "" | "none" => false,
            name if name.eq_ignore_ascii_case("https") => true,
            _ => return Err("https, or nothing to leave names unchecked".to_owned().into()),
        };
        Ok(())
    }),
    ignored("ssl.engine.factory.class", TLS_LIBRARY),
    honoured("ssl.key.password", |c, v| {
        c.tls.keystore.key_password = secret(v);
        Ok(())
    }),
    ignored("ssl.keymanager.algorithm", TLS_LIBRARY),
    honoured("ssl.keystore.certificate.chain", |c, v| {
        c.tls.keystore.certificate_chain = text(v);
        Ok(())
    }),
    honoured("ssl.keystore.key", |c, v| {
        c.tls.keystore.key = secret(v.trim());
        Ok(())
    }),
    honoured("ssl.keystore.location", |c, v| {
        c.tls.keystore.location = path(v);
        Ok(())
    }),
    honoured("ssl.keystore.password", |c, v| {
        c.tls.keystore.password = secret(v);
        Ok(())
    }),
    honoured("ssl.keystore.type", |c, v| put(&mut c.tls.keystore.store_type, store_type(v))),
    honoured("ssl.protocol", |c, v| {
        // Java's default names the newest; only the older one says something about what is allowed.
        match v.trim() {
            "TLSv1.2" => c.tls.enabled_versions = vec![TlsVersion::V1_2],
            "TLS" => {}
            other => drop(tls_versions(other)?),
        }
        Ok(())
    }),
    ignored("ssl.provider", TLS_LIBRARY),
    ignored("ssl.secure.random.implementation", TLS_LIBRARY),
    ignored("ssl.trustmanager.algorithm", TLS_LIBRARY),
    honoured("ssl.truststore.certificates", |c, v| {
        c.tls.truststore.certificates = text(v);
        Ok(())
    }),
    honoured("ssl.truststore.location", |c, v| {
        c.tls.truststore.location = path(v);
        Ok(())
    }),
    honoured("ssl.truststore.password", |c, v| {
        c.tls.truststore.password = secret(v);
        Ok(())
    }),
    honoured("ssl.truststore.type", |c, v| put(&mut c.tls.truststore.store_type, store_type(v))),
];
