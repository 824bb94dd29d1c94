//! Private keys on elliptic curves that do not say their public half.
//!
//! Java's `keytool` writes them so (RFC 5915 lets it be left out), and the TLS library takes none without. The certificate beside
//! the key has it.

use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};
use rustls::server::ParsedCertificate;

/// The key with its public half from `certificate`; as it is if it has one, is on no curve, or of another kind than the
/// certificate: then it says by itself what is wrong with it.
pub(super) fn completed(
    key: PrivateKeyDer<'static>,
    certificate: &CertificateDer<'_>,
) -> PrivateKeyDer<'static> {
    let completed = match &key {
        PrivateKeyDer::Pkcs8(der) => with_public_pkcs8(der.secret_pkcs8_der(), certificate)
            .map(|der| PrivatePkcs8KeyDer::from(der).into()),
        PrivateKeyDer::Sec1(der) => public_half(certificate)
            .and_then(|(_, point)| with_public_sec1(der.secret_sec1_der(), &point))
            .map(|der| PrivateSec1KeyDer::from(der).into()),
        _ => None,
    };
    completed.unwrap_or(key)
}

/// PrivateKeyInfo (RFC 5208): version, algorithm with its curve, and the key of RFC 5915 in an octet string.
fn with_public_pkcs8(der: &[u8], certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    let (info, _) = expect(der, SEQUENCE)?;
    let (version, info) = expect(info, INTEGER)?;
    let (algorithm, info) = expect(info, SEQUENCE)?;
    let (key, _) = expect(info, OCTET_STRING)?;
    if !algorithm.starts_with(EC_PUBLIC_KEY) {
        return None;
    }
    let (of_certificate, point) = public_half(certificate)?;
    if of_certificate != algorithm {
        return None;
    }
    let key = with_public_sec1(key, &point)?;
    let parts =
        [element(INTEGER, version), element(SEQUENCE, algorithm), element(OCTET_STRING, &key)];
    Some(element(SEQUENCE, &parts.concat()))
}

/// ECPrivateKey (RFC 5915): version, the key, perhaps its curve, and the public half, which is added.
fn with_public_sec1(der: &[u8], point: &[u8]) -> Option<Vec<u8>> {
    let (fields, _) = expect(der, SEQUENCE)?;
    let (_, mut rest) = expect(fields, INTEGER)?;
    (_, rest) = expect(rest, OCTET_STRING)?;
    while !rest.is_empty() {
        let (tag, _, behind) = split(rest)?;
        if tag == PUBLIC_KEY {
            return None;
        }
        rest = behind;
    }
    let public = element(PUBLIC_KEY, &element(BIT_STRING, point));
    Some(element(SEQUENCE, &[fields, &public].concat()))
}

/// Algorithm and key of a certificate (SubjectPublicKeyInfo); the key with the count of unused bits before it.
fn public_half(certificate: &CertificateDer<'_>) -> Option<(Vec<u8>, Vec<u8>)> {
    let parsed = ParsedCertificate::try_from(certificate).ok()?;
    let info = parsed.subject_public_key_info();
    let (info, _) = expect(&info, SEQUENCE)?;
    let (algorithm, info) = expect(info, SEQUENCE)?;
    let (key, _) = expect(info, BIT_STRING)?;
    Some((algorithm.to_owned(), key.to_owned()))
}

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const SEQUENCE: u8 = 0x30;
/// `[1]` of ECPrivateKey.
const PUBLIC_KEY: u8 = 0xa1;
/// The object identifier id-ecPublicKey, as an element.
const EC_PUBLIC_KEY: &[u8] = &[0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];

/// The first element's tag and content, and what is behind it. Lengths up to four bytes, definite ones only.
fn split(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, der) = der.split_first()?;
    let (&first, mut der) = der.split_first()?;
    let length = if first < 0x80 {
        usize::from(first)
    } else {
        let count = usize::from(first & 0x7f);
        if !(1..=4).contains(&count) {
            return None;
        }
        let (digits, behind) = der.split_at_checked(count)?;
        der = behind;
        digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit))
    };
    let (content, behind) = der.split_at_checked(length)?;
    Some((tag, content, behind))
}

fn expect(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    split(der).filter(|(found, ..)| *found == tag).map(|(_, content, behind)| (content, behind))
}

/// An element; keys and their parts are far below 64 KiB.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let [.., high, low] = content.len().to_be_bytes();
    match content.len() {
        0..0x80 => out.push(low),
        0x80..0x100 => out.extend([0x81, low]),
        _ => out.extend([0x82, high, low]),
    }
    out.extend_from_slice(content);
    out
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384};
    use rustls::crypto::ring::sign::any_supported_type;

    use super::*;

    /// The same without its public half, in both forms.
    fn stripped(key: &KeyPair) -> [PrivateKeyDer<'static>; 2] {
        let der = key.serialize_der();
        let (info, _) = expect(&der, SEQUENCE).unwrap();
        let (version, info) = expect(info, INTEGER).unwrap();
        let (algorithm, info) = expect(info, SEQUENCE).unwrap();
        let (key, _) = expect(info, OCTET_STRING).unwrap();
        let (fields, _) = expect(key, SEQUENCE).unwrap();
        let (one, fields) = expect(fields, INTEGER).unwrap();
        let (secret, _) = expect(fields, OCTET_STRING).unwrap();
        let short = [element(INTEGER, one), element(OCTET_STRING, secret)].concat();
        let short = element(SEQUENCE, &short);
        let parts = [
            element(INTEGER, version),
            element(SEQUENCE, algorithm),
            element(OCTET_STRING, &short),
        ];
        let pkcs8 = element(SEQUENCE, &parts.concat());
        [PrivatePkcs8KeyDer::from(pkcs8).into(), PrivateSec1KeyDer::from(short).into()]
    }

    fn certificate(key: &KeyPair) -> CertificateDer<'static> {
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.self_signed(key).unwrap().der().clone()
    }

    #[test]
    fn public_half_comes_from_the_certificate() {
        for algorithm in [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384] {
            let key = KeyPair::generate_for(algorithm).unwrap();
            for without in stripped(&key) {
                assert!(any_supported_type(&without).is_err(), "the library has learned it");
                any_supported_type(&completed(without, &certificate(&key))).unwrap();
            }
        }
    }

    #[test]
    fn what_is_whole_or_belongs_to_another_is_not_mended() {
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        let whole = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        assert_eq!(completed(whole.clone_key(), &certificate(&key)), whole);
        let other = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap();
        let [without, _] = stripped(&key);
        assert_eq!(completed(without.clone_key(), &certificate(&other)), without);
        let twin = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
        let wrong = completed(without, &certificate(&twin));
        assert!(any_supported_type(&wrong).is_err(), "another's public half");
        for junk in [&b""[..], b"\x30", b"\x30\x84\xff\xff\xff\xff", b"\x30\x03\x02\x01\x00"] {
            let junk = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(junk.to_vec()));
            assert_eq!(completed(junk.clone_key(), &certificate(&key)), junk);
        }
    }
}
