//! The ledger goes on by one checkpoint at a time, and ends where the machine's disk does.

use std::path::Path;
use std::sync::Arc;

use millstream_checkpoint::{CheckpointRef, LedgerRecord, SimulatedDisk, StateDirectory};

use super::{CommittedLog, Oracle, Violation};

/// The last committed record, after all were looked at.
///
/// # Errors
///
/// A record that neither repeats the one before it nor follows it.
pub fn check_chain(log: &CommittedLog, ledger: &str) -> Result<Option<LedgerRecord>, Violation> {
    let mut last: Option<LedgerRecord> = None;
    for record in log.of_topic(ledger) {
        let wrong = |text: String| {
            Violation::new(Oracle::Ledger, format!("ledger offset {}: {text}", record.offset))
        };
        let decoded =
            LedgerRecord::decode(&record.value).map_err(|error| wrong(error.to_string()))?;
        if let Some(last) = &last {
            let (before, at) = (last.at(), decoded.at());
            let repeats = before == at;
            let follows = decoded.parent == Some(before);
            if !repeats && !follows {
                return Err(wrong(format!(
                    "checkpoint {at} with parent {:?} comes after {before}",
                    decoded.parent
                )));
            }
        }
        last = Some(decoded);
    }
    Ok(last)
}

/// Compares the last record with the disk of a job that has ended in order.
///
/// # Errors
///
/// If the disk stands elsewhere.
pub fn check_disk(
    last: Option<&LedgerRecord>,
    disk: &SimulatedDisk,
    directory: &Path,
) -> Result<(), Violation> {
    let wrong = |text: String| Violation::new(Oracle::Ledger, text);
    let Some(last) = last else { return Err(wrong("the ledger is empty".to_owned())) };
    let opened =
        StateDirectory::open(Arc::new(disk.copy()), directory, &last.job, last.fingerprint);
    let local = opened.map_err(|error| wrong(format!("the state directory: {error}")))?.local();
    let confirmed: Option<CheckpointRef> = local.confirmed();
    if confirmed == Some(last.at()) {
        Ok(())
    } else {
        Err(wrong(format!("the ledger ends with {}, the disk stands at {confirmed:?}", last.at())))
    }
}
