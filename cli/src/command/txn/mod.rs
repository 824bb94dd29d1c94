//! `millstream txn`: transactions as coordinators and partitions know them.

mod abort;
mod describe;
mod find_hanging;
mod list;

use std::time::{SystemTime, UNIX_EPOCH};

use super::CommandError;
use crate::args::txn::{TxnArguments, TxnCommand};
use crate::confirm;

pub(crate) fn run(arguments: TxnArguments) -> Result<(), CommandError> {
    let TxnArguments { cluster, command } = arguments;
    if let TxnCommand::Abort(abort) = &command {
        confirm::check(abort.yes, "aborting a transaction")?;
    }
    let output = cluster.output;
    cluster.with_client(|client| async move {
        match command {
            TxnCommand::List(arguments) => list::run(&client, &arguments, output).await,
            TxnCommand::Describe(arguments) => describe::run(&client, &arguments, output).await,
            TxnCommand::Abort(arguments) => abort::run(&client, &arguments, output).await,
            TxnCommand::FindHanging(arguments) => {
                find_hanging::run(&client, &arguments, output).await
            }
        }
    })
}

/// Milliseconds since `since_ms` (since 1970), by this machine's clock.
fn age_ms(since_ms: i64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX).saturating_sub(since_ms).max(0)
}

/// Milliseconds as people say them, to the second.
fn seconds_text(ms: i64) -> String {
    let seconds = u64::try_from(ms).unwrap_or(0) / 1000;
    humantime::format_duration(std::time::Duration::from_secs(seconds)).to_string()
}
