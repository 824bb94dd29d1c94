//! `millstream version`: what this binary is.

use std::io::Write;

use super::CommandError;

pub(crate) fn print() -> Result<(), CommandError> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "millstream {}", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "target     {}-{}", std::env::consts::ARCH, std::env::consts::OS)?;
    writeln!(
        out,
        "linking    {}",
        if cfg!(target_feature = "crt-static") { "static" } else { "dynamic" }
    )?;
    writeln!(out, "protocol   Apache Kafka 2.5 to 4.4, tested against 4.3.1")?;
    Ok(())
}
