//! PEM: certificates and private keys, encrypted ones included.

use millstream_protocol::sasl::Secret;
use pkcs8::EncryptedPrivateKeyInfoRef;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{PemObject, SectionKind};

/// A private key as DER, by its form.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum PrivateKey {
    Pkcs8(Vec<u8>),
    Pkcs1(Vec<u8>),
    Sec1(Vec<u8>),
}

/// Every certificate in `text`.
pub(super) fn certificates(text: &str) -> Result<Vec<Vec<u8>>, String> {
    let text = unfolded(text);
    CertificateDer::pem_slice_iter(text.as_bytes())
        .map(|found| found.map(|certificate| certificate.as_ref().to_vec()))
        .collect::<Result<_, _>>()
        .map_err(|error| format!("a certificate in it is not valid PEM ({error})"))
}

/// The first private key in `text`, decrypted with `password` if it is encrypted.
pub(super) fn private_key(
    text: &str,
    password: Option<&Secret>,
) -> Result<Option<PrivateKey>, String> {
    let text = unfolded(text);
    if text.contains("Proc-Type: 4,ENCRYPTED") {
        return Err("its key is encrypted in OpenSSL's old form; convert it: openssl pkcs8 -topk8"
            .to_owned());
    }
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(text.as_bytes()) {
        let (kind, der) =
            section.map_err(|error| format!("a key in it is not valid PEM ({error})"))?;
        match kind {
            SectionKind::PrivateKey => return Ok(Some(PrivateKey::Pkcs8(der))),
            SectionKind::RsaPrivateKey => return Ok(Some(PrivateKey::Pkcs1(der))),
            SectionKind::EcPrivateKey => return Ok(Some(PrivateKey::Sec1(der))),
            _ => {}
        }
    }
    match encrypted_section(&text)? {
        Some(der) => decrypt(&der, password).map(|der| Some(PrivateKey::Pkcs8(der))),
        None => Ok(None),
    }
}

/// Decrypts an EncryptedPrivateKeyInfo of PKCS#8.
pub(super) fn decrypt(der: &[u8], password: Option<&Secret>) -> Result<Vec<u8>, String> {
    let password = password.ok_or("its key is encrypted: set ssl.key.password")?;
    let encrypted = EncryptedPrivateKeyInfoRef::try_from(der)
        .map_err(|error| format!("its encrypted key can not be read ({error})"))?;
    let decrypted = encrypted.decrypt(password.expose().as_bytes()).map_err(|error| {
        format!("its key can not be decrypted: ssl.key.password may be wrong ({error})")
    })?;
    Ok(decrypted.as_bytes().to_vec())
}

/// The PEM reader of the TLS library has no name for encrypted keys.
fn encrypted_section(text: &str) -> Result<Option<Vec<u8>>, String> {
    use base64::Engine;
    const BEGIN: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
    const END: &str = "-----END ENCRYPTED PRIVATE KEY-----";
    let Some((_, rest)) = text.split_once(BEGIN) else { return Ok(None) };
    let (body, _) = rest.split_once(END).ok_or("the encrypted key in it has no end line")?;
    let body: String = body.split_whitespace().collect();
    let der = base64::engine::general_purpose::STANDARD.decode(body);
    der.map(Some).map_err(|error| format!("the encrypted key in it is not valid PEM ({error})"))
}

/// Inline PEM often stands on one line, blanks instead of line ends: Java reads that too.
fn unfolded(text: &str) -> String {
    if text.trim().lines().count() > 1 {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 64);
    for (index, part) in text.trim().split("-----").enumerate() {
        // Odd parts are the labels, even ones what stands between them.
        if index % 2 == 1 {
            out.push_str("-----");
            out.push_str(part);
            out.push_str("-----\n");
        } else {
            for word in part.split_whitespace() {
                out.push_str(word);
                out.push('\n');
            }
        }
    }
    out
}

#[cfg(test)]
mod tests;
