//! What a person sees: results on standard output; logs, notes and errors on standard error.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::time::{Duration, UNIX_EPOCH};

use clap::ValueEnum;
use serde::Serialize;
use tracing_subscriber::EnvFilter;

mod table;

pub(crate) use table::{Column, Table};

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

/// Standard output takes nothing.
#[derive(Debug, thiserror::Error)]
#[error("failed to write to standard output: {0}")]
pub(crate) struct OutputError(io::Error);

/// Writes a result to standard output.
///
/// A reader that went away has what it wanted (`| head -1`), so a closed pipe is no error; a full disk is.
pub(crate) fn print(bytes: &[u8]) -> Result<(), OutputError> {
    print_while_read(bytes).map(|_| ())
}

/// As [`print()`], and tells whether the reader is still there: a command that goes on and on ends with it.
pub(crate) fn print_while_read(bytes: &[u8]) -> Result<bool, OutputError> {
    print_to(&mut io::stdout().lock(), bytes)
}

fn print_to(out: &mut impl Write, bytes: &[u8]) -> Result<bool, OutputError> {
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(OutputError(error)),
    }
}

/// `1 partition`, `4 partitions`, `2 entries`.
pub(crate) fn count<N: std::fmt::Display>(number: N, noun: &str) -> String {
    let number = number.to_string();
    if number == "1" {
        return format!("{number} {noun}");
    }
    match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{number} {stem}ies"),
        _ => format!("{number} {noun}s"),
    }
}

/// Writes each of `rows` as one line of JSON.
pub(crate) fn print_json<T: Serialize>(
    rows: impl IntoIterator<Item = T>,
) -> Result<(), OutputError> {
    let mut lines = Vec::new();
    for row in rows {
        serde_json::to_writer(&mut lines, &row)
            .map_err(|error| OutputError(io::Error::other(error)))?;
        lines.push(b'\n');
    }
    print(&lines)
}

/// A time in milliseconds since 1970 as people read it; empty if it is none.
pub(crate) fn time_text(ms: i64) -> String {
    let Ok(ms) = u64::try_from(ms) else { return String::new() };
    // Beyond the year 9999 there is no such text.
    if ms > LATEST_MS {
        return format!("{ms} ms");
    }
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(ms)).to_string()
}

const LATEST_MS: u64 = 253_402_300_799_999;

/// Says something to the person at the terminal; where standard error is closed or full, nobody is there to be told.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Logs to standard error; `MILLSTREAM_LOG` (or `RUST_LOG`) overrides the level that `-v` chose.
pub(crate) fn start_logging(verbose: u8) {
    let level = match verbose {
        0 => "warn",
        1 => "info",
        _ => "debug",
    };
    let filter = EnvFilter::try_from_env("MILLSTREAM_LOG")
        .or_else(|_| EnvFilter::try_from_default_env())
        .unwrap_or_else(|_| EnvFilter::new(level));
    let ansi = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(ansi)
        // Else a log line that can not be written is reported by a macro that panics.
        .log_internal_errors(false)
        .init();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_has_its_ending() {
        let counted = [
            count(0, "file"),
            count(1, "file"),
            count(16, "entry"),
            count(1, "entry"),
            count(2, "property"),
            count(2, "key"),
        ];
        assert_eq!(
            counted.join(", "),
            "0 files, 1 file, 16 entries, 1 entry, 2 properties, 2 keys"
        );
    }
}
