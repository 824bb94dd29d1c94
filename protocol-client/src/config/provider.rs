//! `${env:NAME}` and `${file:PATH:KEY}` in values: secrets that stand elsewhere.
//!
//! As Kafka's `EnvVarConfigProvider` and `FileConfigProvider`, without `config.providers`: both are always there. What names
//! another provider stays as it is, as with Kafka: a password may well contain `${`.

use std::borrow::Cow;

use super::ConfigError;
use super::properties_file::parse_properties;
use crate::bounded_file;

/// `value` with everything in its place.
pub(super) fn resolve<'a>(name: &str, value: &'a str) -> Result<Cow<'a, str>, ConfigError> {
    if !value.contains("${") {
        return Ok(Cow::Borrowed(value));
    }
    let failed = |reason: String| ConfigError::Unresolved { name: name.to_owned(), reason };
    let mut out = String::with_capacity(value.len());
    let mut rest = value;
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        let known = ["env:", "file:"].iter().any(|provider| after.starts_with(provider));
        match after.split_once('}') {
            Some((variable, following)) if known => {
                out.push_str(&look_up(variable).map_err(failed)?);
                rest = following;
            }
            _ => {
                out.push_str("${");
                rest = after;
            }
        }
    }
    out.push_str(rest);
    Ok(Cow::Owned(out))
}

/// The value of `env:NAME` or `file:PATH:KEY`. Errors name the place, never a value.
fn look_up(variable: &str) -> Result<String, String> {
    if let Some(name) = variable.strip_prefix("env:") {
        return std::env::var(name)
            .map_err(|_| format!("the environment variable {name} is not set (or not UTF-8)"));
    }
    let place = variable.strip_prefix("file:").unwrap_or(variable);
    let (path, key) = place
        .rsplit_once(':')
        .ok_or_else(|| format!("'{place}' must be a path, a colon, and a key in that file"))?;
    let text =
        bounded_file::read_text(path.as_ref()).map_err(|error| format!("{path}: {error}"))?;
    let properties = parse_properties(&text);
    // As in Java, the last one counts.
    let found = properties.into_iter().rev().find(|(name, _)| name == key);
    found.map(|(_, value)| value).ok_or_else(|| format!("{path} has no property '{key}'"))
}
