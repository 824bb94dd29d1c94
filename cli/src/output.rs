//! What a person sees: results on standard output; logs, notes and errors on standard error.

use std::io::{self, ErrorKind, IsTerminal, Write};

use tracing_subscriber::EnvFilter;

/// Standard output takes nothing.
#[derive(Debug, thiserror::Error)]
#[error("failed to write to standard output: {0}")]
pub(crate) struct OutputError(io::Error);

/// Writes a result to standard output.
///
/// A reader that went away has what it wanted (`| head -1`), so a closed pipe is no error; a full disk is.
pub(crate) fn print(bytes: &[u8]) -> Result<(), OutputError> {
    print_to(&mut io::stdout().lock(), bytes)
}

fn print_to(out: &mut impl Write, bytes: &[u8]) -> Result<(), OutputError> {
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(OutputError(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

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
