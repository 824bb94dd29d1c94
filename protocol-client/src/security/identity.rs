//! What this client shows to a broker that asks for a certificate.

use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::store::{self, Names};
use super::{KeyStoreConfig, ec_key, pem};
use crate::ConfigError;

/// A certificate with its chain, and its key.
pub(super) struct Identity {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) key: PrivateKeyDer<'static>,
}

impl Identity {
    /// `certificates` begins with that of the key.
    fn new(certificates: Vec<Vec<u8>>, private_key: pem::PrivateKey) -> Self {
        let chain: Vec<_> = certificates.into_iter().map(CertificateDer::from).collect();
        let mut key = key(private_key);
        if let Some(own) = chain.first() {
            key = ec_key::completed(key, own);
        }
        Self { chain, key }
    }
}

/// The identity of `ssl.keystore.*`; `None` if nothing is set.
pub(super) fn configured(config: &KeyStoreConfig) -> Result<Option<Identity>, ConfigError> {
    match (&config.location, &config.key, &config.certificate_chain) {
        (None, None, None) => Ok(None),
        (Some(path), None, None) => {
            let names =
                Names { location: "ssl.keystore.location", password: "ssl.keystore.password" };
            let (password, key_password) = (config.password.as_ref(), config.key_password.as_ref());
            let read = store::read(names, path, config.store_type, password, key_password)?;
            let identity = read.identity.filter(|identity| !identity.chain.is_empty());
            let identity = identity.ok_or_else(|| {
                invalid("ssl.keystore.location", "a private key and its certificate in it")
            })?;
            Ok(Some(Identity::new(identity.chain, identity.key)))
        }
        (None, Some(text), Some(certificates)) => {
            let found = pem::certificates(certificates)
                .map_err(|detail| invalid("ssl.keystore.certificate.chain", &detail))?;
            if found.is_empty() {
                return Err(invalid("ssl.keystore.certificate.chain", "a certificate in PEM"));
            }
            let private_key = pem::private_key(text.expose(), config.key_password.as_ref())
                .map_err(|detail| invalid("ssl.keystore.key", &detail))?
                .ok_or_else(|| invalid("ssl.keystore.key", "a private key in PEM"))?;
            Ok(Some(Identity::new(found, private_key)))
        }
        (Some(_), ..) => Err(invalid(
            "ssl.keystore.location",
            "either it, or ssl.keystore.key and ssl.keystore.certificate.chain, not both",
        )),
        (None, None, Some(_)) => {
            Err(invalid("ssl.keystore.certificate.chain", "ssl.keystore.key beside it"))
        }
        (None, Some(_), None) => {
            Err(invalid("ssl.keystore.key", "ssl.keystore.certificate.chain beside it"))
        }
    }
}

fn key(key: pem::PrivateKey) -> PrivateKeyDer<'static> {
    match key {
        pem::PrivateKey::Pkcs8(der) => PrivateKeyDer::Pkcs8(der.into()),
        pem::PrivateKey::Pkcs1(der) => PrivateKeyDer::Pkcs1(der.into()),
        pem::PrivateKey::Sec1(der) => PrivateKeyDer::Sec1(der.into()),
    }
}

fn invalid(name: &'static str, expected: &str) -> ConfigError {
    ConfigError::Invalid { name, value: "…".to_owned(), expected: expected.to_owned() }
}
