//! Whom to trust.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

use super::store::{self, Names};
use super::{TrustStoreConfig, pem};
use crate::ConfigError;

/// The certificates of `ssl.truststore.*`; `None` if nothing is set.
pub(super) fn configured(config: &TrustStoreConfig) -> Result<Option<Vec<Vec<u8>>>, ConfigError> {
    let certificates = match (&config.certificates, &config.location) {
        (Some(_), Some(_)) => {
            return Err(ConfigError::Invalid {
                name: "ssl.truststore.certificates",
                value: "…".to_owned(),
                expected: "either it or ssl.truststore.location, not both".to_owned(),
            });
        }
        (Some(text), None) => {
            let found = pem::certificates(text);
            found.map_err(|detail| invalid("ssl.truststore.certificates", detail))?
        }
        (None, Some(path)) => {
            let names =
                Names { location: "ssl.truststore.location", password: "ssl.truststore.password" };
            let store =
                store::read(names, path, config.store_type, config.password.as_ref(), None)?;
            let mut trusted = store.trusted;
            if let Some(identity) = store.identity {
                // Java does not trust the chain of a key either, but who gives such a file means it.
                trusted.extend(identity.chain);
            }
            trusted
        }
        (None, None) => return Ok(None),
    };
    if certificates.is_empty() {
        return Err(invalid(
            if config.location.is_some() {
                "ssl.truststore.location"
            } else {
                "ssl.truststore.certificates"
            },
            "at least one certificate in it".to_owned(),
        ));
    }
    Ok(Some(certificates))
}

/// A root store of these certificates.
pub(super) fn store_of(certificates: &[Vec<u8>]) -> Result<RootCertStore, ConfigError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(CertificateDer::from(certificate.clone())).map_err(|error| {
            invalid("ssl.truststore.location", format!("valid certificates ({error})"))
        })?;
    }
    Ok(roots)
}

/// The system's certificates, else Mozilla's, which are built in. Never empty.
pub(super) fn system() -> Arc<RootCertStore> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::debug!(%error, "a certificate of the system can not be read");
    }
    let (added, _) = roots.add_parsable_certificates(found.certs);
    if added == 0 {
        tracing::debug!("this system has no certificates: Mozilla's, built in, are trusted");
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    Arc::new(roots)
}

fn invalid(name: &'static str, expected: String) -> ConfigError {
    ConfigError::Invalid { name, value: "…".to_owned(), expected }
}
