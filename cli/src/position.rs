//! Places in a topic, as the command line names them.

use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A place in each partition of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// The first record that still exists.
    Beginning,
    /// Behind the last record.
    End,
    /// So many records before the end.
    BeforeEnd(i64),
    /// An offset.
    Offset(i64),
    /// The first record whose timestamp is at least this, in milliseconds since 1970.
    Time(i64),
}

impl FromStr for Position {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "beginning" | "earliest" => return Ok(Self::Beginning),
            "end" | "latest" => return Ok(Self::End),
            _ => {}
        }
        let number = |digits: &str| digits.parse::<i64>().ok().filter(|number| *number >= 0);
        if let Some(number) = text.strip_prefix("end-").and_then(number) {
            return Ok(Self::BeforeEnd(number));
        }
        if let Some(ms) = text.strip_prefix('@').and_then(number) {
            return Ok(Self::Time(ms));
        }
        if let Some(offset) = number(text) {
            return Ok(Self::Offset(offset));
        }
        if let Ok(time) = humantime::parse_rfc3339_weak(text) {
            return Ok(Self::Time(milliseconds(time)));
        }
        if let Ok(ago) = humantime::parse_duration(text) {
            let time = SystemTime::now().checked_sub(ago).unwrap_or(UNIX_EPOCH);
            return Ok(Self::Time(milliseconds(time)));
        }
        Err("beginning, end, end-N, an offset, a time as 2026-01-31T12:00:00Z or @1769860800000 (milliseconds), or a time ago as 15m".to_owned())
    }
}

fn milliseconds(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_name_a_place_is_understood() {
        for (text, expected) in [
            ("beginning", Position::Beginning),
            ("earliest", Position::Beginning),
            ("end", Position::End),
            ("end-10", Position::BeforeEnd(10)),
            ("17", Position::Offset(17)),
            ("@17", Position::Time(17)),
            ("1970-01-01T00:00:01Z", Position::Time(1000)),
            ("1970-01-01 00:01:00", Position::Time(60_000)),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        let Ok(Position::Time(ago)) = "1h".parse() else { panic!("a time ago") };
        let now = milliseconds(SystemTime::now());
        assert!((now - 3_660_000..now - 3_540_000).contains(&ago), "{ago} of {now}");
        for wrong in ["", "-1", "end-", "end--1", "@", "yesterday", "1.5", "99999999999999999999"] {
            assert!(wrong.parse::<Position>().is_err(), "{wrong}");
        }
    }
}
