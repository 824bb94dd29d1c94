//! SCRAM (RFC 5802, RFC 7677): both sides prove that they know the password, and neither sends it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha512};
use thiserror::Error;

use super::Secret;

/// The hash of a SCRAM mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScramHash {
    /// SCRAM-SHA-256.
    Sha256,
    /// SCRAM-SHA-512.
    Sha512,
}

/// The fewest rounds accepted: RFC 7677's minimum, which Kafka's brokers hold as well. Fewer would let a false broker have
/// a proof that is cheap to search.
pub const MIN_ITERATIONS: u32 = 4096;
/// The most rounds accepted, about half a second of one core: a false broker must not keep us busy for hours.
pub const MAX_ITERATIONS: u32 = 1_000_000;

/// What is wrong with a broker's SCRAM message.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScramError {
    /// Not of the form of RFC 5802.
    #[error("the broker's {message} message is malformed ({detail})")]
    Malformed {
        /// Which message.
        message: &'static str,
        /// What was missing.
        detail: &'static str,
    },
    /// The broker's nonce does not extend ours: the answer belongs to another exchange, or is replayed.
    #[error("the broker's nonce does not extend this client's: a replayed or mixed-up answer")]
    ForeignNonce,
    /// Too few or too many rounds.
    #[error(
        "the broker asks for {iterations} iterations; {MIN_ITERATIONS} to {MAX_ITERATIONS} are accepted"
    )]
    Iterations {
        /// What it asks for.
        iterations: u64,
    },
    /// The broker reports an error in the mechanism's own form.
    #[error("the broker reports '{text}'")]
    ServerError {
        /// RFC 5802's `server-error-value`.
        text: String,
    },
    /// The broker can not prove that it knows the password's verifier.
    #[error(
        "the broker's signature is wrong: it does not know this user's credentials, so it may not be the real one"
    )]
    WrongSignature,
    /// The hash refused its key; can not happen with HMAC.
    #[error("the message can not be signed")]
    Unsigned,
}

/// The client's side of one exchange. One per connection and attempt: nothing in it may be shared.
#[derive(Debug)]
pub struct ScramClient {
    hash: ScramHash,
    password: Secret,
    nonce: String,
    first_bare: String,
    server_signature: Option<Mac1>,
}

/// A keyed hash that waits for the broker's signature, so that it is compared in constant time.
enum Mac1 {
    Sha256(Box<Hmac<Sha256>>),
    Sha512(Box<Hmac<Sha512>>),
}

impl std::fmt::Debug for Mac1 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("…")
    }
}

impl ScramClient {
    /// An exchange for `username` with a fresh `nonce` (printable ASCII without commas).
    #[must_use]
    pub fn new(
        hash: ScramHash,
        username: &str,
        password: Secret,
        nonce: String,
        token_auth: bool,
    ) -> Self {
        // As Java's client: the bytes as they are, without SASLprep.
        let name = username.replace('=', "=3D").replace(',', "=2C");
        let mut first_bare = format!("n={name},r={nonce}");
        if token_auth {
            first_bare.push_str(",tokenauth=true");
        }
        Self { hash, password, nonce, first_bare, server_signature: None }
    }

    /// The first message, without channel binding.
    #[must_use]
    pub fn client_first(&self) -> String {
        format!("{GS2_HEADER}{}", self.first_bare)
    }

    /// Answers the broker's first message with the proof.
    ///
    /// # Errors
    ///
    /// [`ScramError`] for everything that RFC 5802 does not allow, a nonce that is not ours, and a number of rounds out
    /// of bounds.
    pub fn client_final(&mut self, server_first: &[u8]) -> Result<String, ScramError> {
        let text = text_of(server_first, "first")?;
        let first = ServerFirst::parse(text)?;
        let own = first.nonce.strip_prefix(self.nonce.as_str());
        if own.is_none_or(str::is_empty) {
            return Err(ScramError::ForeignNonce);
        }
        // "biws" is the GS2 header in base64.
        let without_proof = format!("c=biws,r={}", first.nonce);
        let message = format!("{},{text},{without_proof}", self.first_bare);
        let password = self.password.expose().as_bytes();
        let (proof, signature) = match self.hash {
            ScramHash::Sha256 => {
                let (proof, mac) = prove::<Sha256, Hmac<Sha256>>(password, &first, &message)?;
                (proof, Mac1::Sha256(Box::new(mac)))
            }
            ScramHash::Sha512 => {
                let (proof, mac) = prove::<Sha512, Hmac<Sha512>>(password, &first, &message)?;
                (proof, Mac1::Sha512(Box::new(mac)))
            }
        };
        self.server_signature = Some(signature);
        Ok(format!("{without_proof},p={}", STANDARD.encode(proof)))
    }

    /// Checks the broker's last message. Only after this the broker is known to be real.
    ///
    /// # Errors
    ///
    /// [`ScramError`] if the signature is missing or wrong, or the broker reports an error.
    pub fn verify_server_final(&mut self, server_final: &[u8]) -> Result<(), ScramError> {
        let text = text_of(server_final, "final")?;
        let malformed = |detail| ScramError::Malformed { message: "final", detail };
        let first = text.split(',').next().unwrap_or_default();
        if let Some(error) = first.strip_prefix("e=") {
            let text = error.chars().filter(|c| !c.is_control()).take(200).collect();
            return Err(ScramError::ServerError { text });
        }
        let encoded = first.strip_prefix("v=").ok_or(malformed("no signature"))?;
        let signature = STANDARD.decode(encoded).map_err(|_| malformed("not base64"))?;
        let valid = match self.server_signature.take() {
            Some(Mac1::Sha256(mac)) => mac.verify_slice(&signature).is_ok(),
            Some(Mac1::Sha512(mac)) => mac.verify_slice(&signature).is_ok(),
            None => false,
        };
        if valid { Ok(()) } else { Err(ScramError::WrongSignature) }
    }
}

/// The broker's first message.
#[derive(Debug)]
struct ServerFirst<'a> {
    nonce: &'a str,
    salt: Vec<u8>,
    iterations: u32,
}

impl<'a> ServerFirst<'a> {
    fn parse(text: &'a str) -> Result<Self, ScramError> {
        let malformed = |detail| ScramError::Malformed { message: "first", detail };
        if let Some(error) = text.strip_prefix("e=") {
            let text = error.chars().filter(|c| !c.is_control()).take(200).collect();
            return Err(ScramError::ServerError { text });
        }
        let mut attributes = text.split(',');
        let mut attribute = |name: &'static str, detail| {
            let found = attributes.next().and_then(|attribute| attribute.strip_prefix(name));
            found.ok_or(malformed(detail))
        };
        // `m=` would stand first: an extension that must be understood and is not.
        let nonce = attribute("r=", "no nonce")?;
        let salt = attribute("s=", "no salt")?;
        let iterations = attribute("i=", "no iterations")?;
        if !nonce.bytes().all(|byte| matches!(byte, 0x21..=0x7e)) {
            return Err(malformed("nonce is not printable"));
        }
        let salt = STANDARD.decode(salt).map_err(|_| malformed("salt is not base64"))?;
        if salt.is_empty() {
            return Err(malformed("empty salt"));
        }
        let count: u64 =
            iterations.parse().map_err(|_| malformed("iterations are not a number"))?;
        let iterations = u32::try_from(count)
            .ok()
            .filter(|count| (MIN_ITERATIONS..=MAX_ITERATIONS).contains(count))
            .ok_or(ScramError::Iterations { iterations: count })?;
        Ok(Self { nonce, salt, iterations })
    }
}

/// The proof, and the keyed hash that the broker's signature must equal.
fn prove<H: Digest, M: Mac + KeyInit + Clone>(
    password: &[u8],
    first: &ServerFirst<'_>,
    message: &str,
) -> Result<(Vec<u8>, M), ScramError> {
    let salted = salted_password::<M>(password, &first.salt, first.iterations)?;
    let client_key = mac::<M>(&salted, b"Client Key")?.finalize().into_bytes();
    let stored_key = H::digest(&client_key);
    let client_signature = mac::<M>(&stored_key, message.as_bytes())?.finalize().into_bytes();
    let proof = client_key.iter().zip(client_signature.iter()).map(|(a, b)| a ^ b).collect();
    let server_key = mac::<M>(&salted, b"Server Key")?.finalize().into_bytes();
    Ok((proof, mac::<M>(&server_key, message.as_bytes())?))
}

/// PBKDF2 with one block, RFC 5802's `Hi`.
fn salted_password<M: Mac + KeyInit + Clone>(
    password: &[u8],
    salt: &[u8],
    iterations: u32,
) -> Result<Vec<u8>, ScramError> {
    // The key is hashed once, not once a round.
    let keyed = mac::<M>(password, &[])?;
    let mut round = keyed.clone();
    round.update(salt);
    round.update(&1_u32.to_be_bytes());
    let mut last = round.finalize().into_bytes();
    let mut sum = last.to_vec();
    for _ in 1..iterations {
        let mut round = keyed.clone();
        round.update(&last);
        last = round.finalize().into_bytes();
        for (sum, byte) in sum.iter_mut().zip(&last) {
            *sum ^= byte;
        }
    }
    Ok(sum)
}

fn mac<M: Mac + KeyInit>(key: &[u8], data: &[u8]) -> Result<M, ScramError> {
    let mut mac = <M as KeyInit>::new_from_slice(key).map_err(|_| ScramError::Unsigned)?;
    mac.update(data);
    Ok(mac)
}

fn text_of<'a>(bytes: &'a [u8], message: &'static str) -> Result<&'a str, ScramError> {
    if bytes.len() > LONGEST_MESSAGE {
        return Err(ScramError::Malformed { message, detail: "too long" });
    }
    std::str::from_utf8(bytes).map_err(|_| ScramError::Malformed { message, detail: "not UTF-8" })
}

/// Says that there is no channel binding and no other identity.
const GS2_HEADER: &str = "n,,";
const LONGEST_MESSAGE: usize = 16 << 10;
