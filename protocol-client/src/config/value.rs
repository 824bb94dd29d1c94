//! Reading a property's text.

use std::sync::Arc;
use std::time::Duration;

/// Comma-separated, blanks around items dropped, empty items dropped.
pub(super) fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

/// `host:port`, `[v6]:port`, with or without `PLAINTEXT://` or another protocol of Kafka's in front; `security.protocol` counts.
pub(super) fn address(text: &str) -> Result<(Arc<str>, u16), String> {
    let bare = ["PLAINTEXT://", "SSL://", "SASL_PLAINTEXT://", "SASL_SSL://"]
        .iter()
        .find_map(|protocol| text.strip_prefix(protocol))
        .unwrap_or(text);
    // What has an @ may hold a password.
    let shown = if text.contains('@') { "…" } else { text };
    let expected = || format!("addresses of the form host:port, which '{shown}' is not");
    if bare.contains("://") {
        return Err(expected());
    }
    let (host, port) = bare.rsplit_once(':').ok_or_else(expected)?;
    let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(v6) => v6,
        // Without brackets it can not be told where an IPv6 address ends.
        None if host.contains(':') => return Err(expected()),
        None => host,
    };
    let port: u16 = port.parse().map_err(|_| expected())?;
    if host.is_empty() || port == 0 || host.contains(|c: char| c.is_whitespace() || c == '/') {
        return Err(expected());
    }
    Ok((Arc::from(host), port))
}

/// A whole number of at least `min` and at most `max`.
pub(super) fn integer(text: &str, min: i64, max: i64) -> Result<i64, String> {
    let expected = || format!("a whole number from {min} to {max}");
    let number: i64 = text.trim().parse().map_err(|_| expected())?;
    if (min..=max).contains(&number) { Ok(number) } else { Err(expected()) }
}

/// Milliseconds from `min` to Kafka's largest (2^31 - 1).
pub(super) fn milliseconds(text: &str, min: i64) -> Result<Duration, String> {
    let number = integer(text, min, i64::from(i32::MAX))
        .map_err(|expected| format!("{expected} (milliseconds)"))?;
    Ok(Duration::from_millis(number.unsigned_abs()))
}

/// Bytes from `min` to Kafka's largest (2^31 - 1).
pub(super) fn bytes(text: &str, min: i64) -> Result<u32, String> {
    let number = integer(text, min, i64::from(i32::MAX))
        .map_err(|expected| format!("{expected} (bytes)"))?;
    u32::try_from(number).map_err(|error| error.to_string())
}

/// Bytes of a socket buffer; -1 leaves it to the system.
pub(super) fn socket_buffer(text: &str) -> Result<Option<u32>, String> {
    let number = integer(text, -1, i64::from(i32::MAX))?;
    Ok(u32::try_from(number).ok())
}

/// `true` or `false`, in any case, as Java reads it.
pub(super) fn boolean(text: &str) -> Result<bool, String> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("true or false".to_owned()),
    }
}

/// A duration as ISO 8601 writes it for days and shorter: `PnDTnHnMnS`, any part left out, seconds with a fraction.
pub(super) fn iso_duration(text: &str) -> Option<Duration> {
    let rest = text.trim().strip_prefix('P')?;
    let (days, time) = match rest.split_once('T') {
        Some((_, "")) => return None,
        Some((days, time)) => (days, time),
        None => (rest, ""),
    };
    if days.is_empty() && time.is_empty() {
        return None;
    }
    let mut total = Duration::ZERO;
    let mut parts = |mut text: &str, units: &[(char, u64)]| {
        for &(unit, seconds) in units {
            let Some((number, rest)) = text.split_once(unit) else { continue };
            text = rest;
            if !number.bytes().all(|byte| byte.is_ascii_digit() || (unit == 'S' && byte == b'.')) {
                return None;
            }
            let part = match number.parse::<u64>() {
                Ok(number) => Duration::from_secs(number.checked_mul(seconds)?),
                Err(_) => Duration::try_from_secs_f64(number.parse().ok()?).ok()?,
            };
            total = total.checked_add(part)?;
        }
        text.is_empty().then_some(())
    };
    parts(days, &[('D', 86_400)])?;
    parts(time, &[('H', 3600), ('M', 60), ('S', 1)])?;
    Some(total)
}
