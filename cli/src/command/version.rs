//! `millstream version`: what this binary is.

use super::CommandError;
use crate::output;

pub(crate) fn print() -> Result<(), CommandError> {
    let linking = if cfg!(target_feature = "crt-static") { "static" } else { "dynamic" };
    let text = format!(
        "millstream {}\n\
         target     {}-{}\n\
         linking    {linking}\n\
         protocol   requests of Apache Kafka 2.5 and later; tested with 4.3.1 only\n",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::ARCH,
        std::env::consts::OS,
    );
    Ok(output::print(text.as_bytes())?)
}
