//! What one authentication needs.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::Secret;
use super::scram::ScramHash;

/// A mechanism this client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SaslMechanism {
    /// Name and password as they are (RFC 4616): only over TLS.
    Plain,
    /// RFC 7677.
    ScramSha256,
    /// RFC 7677's construction with SHA-512.
    ScramSha512,
    /// RFC 7628, a bearer token.
    OAuthBearer,
    /// Amazon's signature over the broker's name.
    AwsMskIam,
}

impl SaslMechanism {
    /// Every mechanism.
    pub const ALL: [Self; 5] =
        [Self::Plain, Self::ScramSha256, Self::ScramSha512, Self::OAuthBearer, Self::AwsMskIam];

    /// Its registered name, as `sasl.mechanism` has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
            Self::OAuthBearer => "OAUTHBEARER",
            Self::AwsMskIam => "AWS_MSK_IAM",
        }
    }

    /// True if who listens on an unencrypted connection learns something that logs him in.
    #[must_use]
    pub const fn reveals_secret(self) -> bool {
        matches!(self, Self::Plain | Self::OAuthBearer)
    }
}

impl fmt::Display for SaslMechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SaslMechanism {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|mechanism| mechanism.name() == text).ok_or(())
    }
}

/// What one authentication needs. Made anew for each: nonces, tokens and signatures do not last.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SaslLogin {
    /// PLAIN.
    Plain {
        /// The user.
        username: String,
        /// The password.
        password: Secret,
    },
    /// SCRAM.
    Scram {
        /// Which hash.
        hash: ScramHash,
        /// The user, or the id of a delegation token.
        username: String,
        /// The password, or the HMAC of a delegation token.
        password: Secret,
        /// True for a delegation token (KIP-48).
        token_auth: bool,
        /// Fresh random text of printable ASCII without commas, at least 18 bytes of entropy.
        nonce: String,
    },
    /// OAUTHBEARER.
    OAuthBearer {
        /// The token, usually a JWT.
        token: Secret,
        /// SASL extensions (KIP-342).
        extensions: BTreeMap<String, String>,
    },
    /// AWS_MSK_IAM.
    AwsMskIam {
        /// The signed payload of [`aws_msk_iam`](super::aws_msk_iam), JSON.
        payload: Secret,
    },
}

impl SaslLogin {
    /// Its mechanism.
    #[must_use]
    pub const fn mechanism(&self) -> SaslMechanism {
        match self {
            Self::Plain { .. } => SaslMechanism::Plain,
            Self::Scram { hash: ScramHash::Sha256, .. } => SaslMechanism::ScramSha256,
            Self::Scram { hash: ScramHash::Sha512, .. } => SaslMechanism::ScramSha512,
            Self::OAuthBearer { .. } => SaslMechanism::OAuthBearer,
            Self::AwsMskIam { .. } => SaslMechanism::AwsMskIam,
        }
    }
}
