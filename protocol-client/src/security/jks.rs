//! Java's own key stores (`keytool -storetype JKS`).
//!
//! The format: magic, version, entries, SHA-1 over password and everything before. Keys are hidden by an XOR with a chain of
//! SHA-1 digests of the password; weak, and what the files have. JCEKS, its successor, is not read.

use millstream_protocol::sasl::Secret;
use sha1::{Digest, Sha1};

use super::pem::PrivateKey;
use super::store::{Store, StoredIdentity};

/// What is wrong with a store. Texts are made by [`text`](Self::text).
#[derive(Debug, PartialEq, Eq)]
pub(super) enum JksError {
    Truncated,
    Version(u32),
    Entry(u32),
    WrongPassword,
    NoPassword,
    WrongKeyPassword,
    KeyAlgorithm,
}

impl JksError {
    pub(super) fn text(&self, password: &str) -> String {
        match self {
            Self::Truncated => "the JKS store is cut off or damaged".to_owned(),
            Self::Version(version) => format!("JKS version {version} is not supported"),
            Self::Entry(kind) => format!("the JKS store has an entry of unknown kind {kind}"),
            Self::WrongPassword => {
                format!("{password} is wrong, or the JKS store was changed without it")
            }
            Self::NoPassword => format!("its key needs a password: set {password}"),
            Self::WrongKeyPassword => {
                "the key in the JKS store can not be opened: ssl.key.password is wrong".to_owned()
            }
            Self::KeyAlgorithm => {
                "the key in the JKS store is protected in an unknown way; convert the store to PKCS12".to_owned()
            }
        }
    }
}

/// Reads a store. Without `password` its integrity is not checked, as Java does for truststores.
pub(super) fn read(
    content: &[u8],
    password: Option<&Secret>,
    key_password: Option<&Secret>,
) -> Result<Store, JksError> {
    let body_len = content.len().checked_sub(DIGEST).ok_or(JksError::Truncated)?;
    let (body, digest) = content.split_at(body_len);
    if let Some(password) = password {
        let mut hash = Sha1::new();
        hash.update(utf16(password));
        hash.update(b"Mighty Aphrodite");
        hash.update(body);
        if hash.finalize().as_slice() != digest {
            return Err(JksError::WrongPassword);
        }
    }
    let mut input = Input(body);
    input.u32()?;
    let version = input.u32()?;
    if version != 1 && version != 2 {
        return Err(JksError::Version(version));
    }
    let mut store = Store::default();
    let entries = input.u32()?;
    for _ in 0..entries {
        let kind = input.u32()?;
        input.string()?;
        input.take(8)?;
        match kind {
            PRIVATE_KEY => {
                let protected = input.counted()?;
                let count = input.u32()?;
                let mut chain = Vec::new();
                for _ in 0..count {
                    chain.push(input.certificate(version)?.to_vec());
                }
                if store.identity.is_none() {
                    let password = key_password.or(password).ok_or(JksError::NoPassword)?;
                    let key = PrivateKey::Pkcs8(reveal(protected, password)?);
                    store.identity = Some(StoredIdentity { key, chain });
                }
            }
            TRUSTED_CERTIFICATE => store.trusted.push(input.certificate(version)?.to_vec()),
            other => return Err(JksError::Entry(other)),
        }
    }
    Ok(store)
}

/// Takes the key out of its EncryptedPrivateKeyInfo: salt, hidden bytes, check digest.
fn reveal(info: &[u8], password: &Secret) -> Result<Vec<u8>, JksError> {
    if !info.windows(JAVA_KEY_PROTECTOR.len()).any(|window| window == JAVA_KEY_PROTECTOR) {
        return Err(JksError::KeyAlgorithm);
    }
    let hidden = octet_string(info).ok_or(JksError::KeyAlgorithm)?;
    let (salt, rest) = hidden.split_at_checked(DIGEST).ok_or(JksError::Truncated)?;
    let key_len = rest.len().checked_sub(DIGEST).ok_or(JksError::Truncated)?;
    let (hidden, check) = rest.split_at(key_len);
    let password = utf16(password);
    let mut key = Vec::with_capacity(hidden.len());
    let mut last = salt.to_vec();
    for block in hidden.chunks(DIGEST) {
        let mut hash = Sha1::new();
        hash.update(&password);
        hash.update(&last);
        last = hash.finalize().to_vec();
        key.extend(block.iter().zip(&last).map(|(byte, mask)| byte ^ mask));
    }
    let mut hash = Sha1::new();
    hash.update(&password);
    hash.update(&key);
    if hash.finalize().as_slice() == check { Ok(key) } else { Err(JksError::WrongKeyPassword) }
}

/// The last element of the outer sequence: `SEQUENCE { AlgorithmIdentifier, OCTET STRING }`.
fn octet_string(info: &[u8]) -> Option<&[u8]> {
    let (_, inside, _) = element(info)?;
    let (_, _, rest) = element(inside)?;
    let (tag, content, _) = element(rest)?;
    (tag == 4).then_some(content)
}

/// Tag, content, and what follows, of the first DER element.
fn element(input: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = input.split_first()?;
    let (first, mut rest) = rest.split_first()?;
    let length = if *first < 0x80 {
        usize::from(*first)
    } else {
        let (bytes, after) = rest.split_at_checked(usize::from(*first & 0x7f))?;
        rest = after;
        if bytes.len() > 4 {
            return None;
        }
        bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte))
    };
    let (content, after) = rest.split_at_checked(length)?;
    Some((*tag, content, after))
}

/// What Java hashes of a password: UTF-16, big-endian.
fn utf16(password: &Secret) -> Vec<u8> {
    password.expose().encode_utf16().flat_map(u16::to_be_bytes).collect()
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], JksError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(JksError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    fn u32(&mut self) -> Result<u32, JksError> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(JksError::Truncated)?;
        self.0 = rest;
        Ok(u32::from_be_bytes(*bytes))
    }

    fn counted(&mut self) -> Result<&'a [u8], JksError> {
        let count = usize::try_from(self.u32()?).map_err(|_| JksError::Truncated)?;
        self.take(count)
    }

    fn string(&mut self) -> Result<&'a [u8], JksError> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(JksError::Truncated)?;
        self.0 = rest;
        self.take(usize::from(u16::from_be_bytes(*bytes)))
    }

    fn certificate(&mut self, version: u32) -> Result<&'a [u8], JksError> {
        if version == 2 {
            // Its type, always "X.509".
            self.string()?;
        }
        self.counted()
    }
}

const PRIVATE_KEY: u32 = 1;
const TRUSTED_CERTIFICATE: u32 = 2;
/// Bytes of a SHA-1 digest, and of the salt.
const DIGEST: usize = 20;
/// Object identifier 1.3.6.1.4.1.42.2.17.1.1, DER content.
const JAVA_KEY_PROTECTOR: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x2a, 0x02, 0x11, 0x01, 0x01];

#[cfg(test)]
mod tests {
    use super::*;

    /// A store of one trusted certificate (its bytes are not looked at here).
    fn store(password: &str) -> Vec<u8> {
        let mut body = vec![0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2];
        body.extend([0, 1, b'a']);
        body.extend([0; 8]);
        body.extend([0, 5]);
        body.extend(b"X.509");
        body.extend([0, 0, 0, 3, 1, 2, 3]);
        let mut hash = Sha1::new();
        hash.update(utf16(&password.into()));
        hash.update(b"Mighty Aphrodite");
        hash.update(&body);
        body.extend(hash.finalize());
        body
    }

    #[test]
    fn a_store_opens_with_its_password_or_without_one() {
        let content = store("secret");
        for password in [Some("secret".into()), None] {
            let read = read(&content, password.as_ref(), None).unwrap();
            assert_eq!(read.trusted, [vec![1, 2, 3]]);
        }
        let wrong = Secret::from("wrong");
        assert_eq!(read(&content, Some(&wrong), None).unwrap_err(), JksError::WrongPassword);
    }

    #[test]
    fn damaged_stores_are_refused_and_allocate_nothing() {
        let content = store("secret");
        for end in 0..content.len() - DIGEST {
            let mut cut = content[..end].to_vec();
            cut.extend([0; DIGEST]);
            assert!(read(&cut, None, None).is_err(), "cut at {end}");
        }
        for index in 0..content.len() - DIGEST {
            let mut bomb = content.clone();
            bomb[index] = 0xff;
            // Whatever it is, it ends.
            let _ = read(&bomb, None, None);
        }
    }
}
