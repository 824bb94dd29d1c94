//! What can be wrong with a property.

use thiserror::Error;

/// A property can not be used. The text names it, says why, and what to write instead. Values that may be secret are shown
/// as `…`.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// No Kafka client knows this name.
    #[error("unknown property '{name}'{}", nearest.map(|n| format!(": did you mean '{n}'?")).unwrap_or_default())]
    Unknown {
        /// The name as given.
        name: String,
        /// The known name that looks most like it, if any does (a few letters apart).
        nearest: Option<&'static str>,
    },
    /// The name is not like any property's. It is not shown: a line of a key or of a certificate whose line before does not end with a
    /// backslash looks like this.
    #[error(
        "a name that no property has (not shown, it may be part of a secret); a value goes on in the next line only behind a backslash"
    )]
    NotAName,
    /// A file of properties can not be read: missing, larger than 1 MiB, no UTF-8.
    #[error("{path}: {reason}; it should be a file of properties, key=value a line")]
    File {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// A line of a file of properties can not be used.
    #[error("{path}, line {line}: {source}")]
    Line {
        /// The file.
        path: String,
        /// The number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        source: Box<ConfigError>,
    },
    /// Kafka knows the property, this client does not support it (or not this value).
    #[error("property '{name}' = '{value}' is not supported: {reason}")]
    NotSupported {
        /// The property.
        name: String,
        /// Its value; `…` if it may hold a secret.
        value: String,
        /// Why, and what to do instead.
        reason: &'static str,
    },
    /// The value is not of the property's type or out of its range.
    #[error("property '{name}' = '{value}' is not valid: expected {expected}")]
    Invalid {
        /// The property.
        name: &'static str,
        /// The value as given; `…` if it may hold a secret.
        value: String,
        /// What would be valid, with range and unit.
        expected: String,
    },
    /// A file of certificates or keys can not be used: missing, above 16 MiB, not JKS, PKCS#12 or PEM, or closed by another
    /// password.
    #[error("property '{name}': {path}: {detail}")]
    Store {
        /// The property that names the file.
        name: &'static str,
        /// The file.
        path: String,
        /// What is wrong with it.
        detail: String,
    },
    /// `${env:…}` or `${file:…}` in a value leads nowhere: no such variable, file or key.
    #[error("property '{name}': {reason}")]
    Unresolved {
        /// The property.
        name: String,
        /// What is missing.
        reason: String,
    },
    /// The text is no property: it has no `=`.
    #[error("'{text}' is no property: write key=value, as in transaction.timeout.ms=60000")]
    NotKeyValue {
        /// The text as given; `…` if it is not like the name of a property.
        text: String,
    },
}
