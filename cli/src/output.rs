//! What a person sees: logs and errors on standard error.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

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
    let ansi = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(ansi)
        .init();
}
