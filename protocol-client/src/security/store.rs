//! Files of certificates and keys, of whichever type they are.

use std::path::Path;

use millstream_protocol::sasl::Secret;
use p12_keystore::{KeyStore, KeyStoreEntry, Pkcs12ImportPolicy};

use super::{jks, pem};
use crate::{ConfigError, bounded_file};

/// Types of stores (`ssl.truststore.type`, `ssl.keystore.type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreType {
    /// Java's own, of `keytool -storetype JKS`. JCEKS is not read.
    Jks,
    /// PKCS#12, what `keytool` makes today; also named P12 and PFX.
    Pkcs12,
    /// PEM (KIP-651): certificates, and for a client its key, in text.
    Pem,
}

impl StoreType {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text.trim().to_ascii_uppercase().as_str() {
            "JKS" => Some(Self::Jks),
            "PKCS12" | "P12" | "PFX" => Some(Self::Pkcs12),
            "PEM" => Some(Self::Pem),
            _ => None,
        }
    }

    /// The type that a file's first bytes show.
    fn of(content: &[u8]) -> Option<Self> {
        match content {
            [0xfe, 0xed, 0xfe, 0xed, ..] => Some(Self::Jks),
            // A sequence that begins with its version: a bare certificate begins with another sequence.
            [0x30, length, rest @ ..] if rest.get(length_bytes(*length)) == Some(&0x02) => {
                Some(Self::Pkcs12)
            }
            _ if content.windows(11).any(|window| window == b"-----BEGIN ") => Some(Self::Pem),
            _ => None,
        }
    }
}

/// Bytes of a DER length after its first.
fn length_bytes(first: u8) -> usize {
    if first < 0x80 { 0 } else { usize::from(first & 0x7f) }
}

/// A store's content, certificates as DER.
#[derive(Debug, Default)]
pub(super) struct Store {
    /// Certificates that are trusted.
    pub(super) trusted: Vec<Vec<u8>>,
    /// The first key with its chain.
    pub(super) identity: Option<StoredIdentity>,
}

/// A key, and the certificates that go with it, the client's own first.
pub(super) struct StoredIdentity {
    /// PKCS#8 (or PKCS#1, SEC1 from PEM), with the type found by the reader.
    pub(super) key: pem::PrivateKey,
    pub(super) chain: Vec<Vec<u8>>,
}

impl std::fmt::Debug for StoredIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredIdentity").finish_non_exhaustive()
    }
}

/// Names the properties that a store came from, for errors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names {
    pub(super) location: &'static str,
    pub(super) password: &'static str,
}

/// Reads a store. `password` opens it, `key_password` the key inside (if `None`, the store's does).
pub(super) fn read(
    names: Names,
    path: &Path,
    configured: Option<StoreType>,
    password: Option<&Secret>,
    key_password: Option<&Secret>,
) -> Result<Store, ConfigError> {
    let unreadable = |detail: String| ConfigError::Store {
        name: names.location,
        path: path.display().to_string(),
        detail,
    };
    let content = bounded_file::read(path, bounded_file::STORE);
    let content = content.map_err(|error| unreadable(error.to_string()))?;
    if content.starts_with(&[0xce, 0xce, 0xce, 0xce]) {
        return Err(unreadable(
            "JCEKS stores are not supported; convert it: keytool -importkeystore -srckeystore … -destkeystore … -deststoretype PKCS12".to_owned(),
        ));
    }
    let found = StoreType::of(&content)
        .ok_or_else(|| unreadable("it is neither JKS nor PKCS12 nor PEM".to_owned()))?;
    if let Some(configured) = configured.filter(|configured| *configured != found) {
        tracing::warn!(
            property = names.location,
            ?configured,
            ?found,
            "the store has another type than configured"
        );
    }
    match found {
        StoreType::Jks => jks::read(&content, password, key_password)
            .map_err(|error| unreadable(error.text(names.password))),
        StoreType::Pkcs12 => read_pkcs12(&content, password, names).map_err(unreadable),
        StoreType::Pem => {
            let key_password = key_password.or(password);
            let content = String::from_utf8_lossy(&content);
            read_pem(&content, key_password).map_err(unreadable)
        }
    }
}

fn read_pem(content: &str, key_password: Option<&Secret>) -> Result<Store, String> {
    let chain = pem::certificates(content)?;
    let key = pem::private_key(content, key_password)?;
    let identity = key.map(|key| StoredIdentity { key, chain: chain.clone() });
    Ok(Store { trusted: chain, identity })
}

fn read_pkcs12(content: &[u8], password: Option<&Secret>, names: Names) -> Result<Store, String> {
    let text = password.map_or("", Secret::expose);
    let opened = KeyStore::from_pkcs12(content, text, Pkcs12ImportPolicy::Relaxed);
    let opened = opened.map_err(|error| match password {
        None => format!("it can not be opened without {} ({error})", names.password),
        Some(_) => format!("it can not be opened: {} may be wrong ({error})", names.password),
    })?;
    let mut store = Store::default();
    for (_, entry) in opened.entries() {
        match entry {
            KeyStoreEntry::Certificate(certificate) => {
                store.trusted.push(certificate.as_der().to_vec());
            }
            KeyStoreEntry::PrivateKeyChain(chain) => {
                let certificates: Vec<_> =
                    chain.certs().iter().map(|certificate| certificate.as_der().to_vec()).collect();
                if store.identity.is_none() {
                    store.identity = Some(StoredIdentity {
                        key: pem::PrivateKey::Pkcs8(chain.key().as_der().to_vec()),
                        chain: certificates,
                    });
                }
            }
            _ => {}
        }
    }
    Ok(store)
}
