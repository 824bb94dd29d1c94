//! The ledger goes on by one checkpoint at a time, and ends where the machine's disk does.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream_checkpoint::{
    CheckpointRef, LedgerRecord, SimulatedDisk, StateDirectory, StateError,
};

use super::rewinds::{Join, begins_history, goes_back, join_of, positions_of};
use super::{CommittedLog, Oracle, Violation};

/// The last committed record, after all were looked at. `joins`: the savepoints that the job was started from.
///
/// # Errors
///
/// A record that neither repeats the one before it nor follows it, nor begins the history of one of those savepoints; positions that
/// go back without anybody's word.
pub fn check_chain(
    log: &CommittedLog,
    ledger: &str,
    joins: &[Join],
) -> Result<Option<LedgerRecord>, Violation> {
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
            let begins = !repeats && begins_history(&decoded);
            let join = if begins { join_of(&decoded, joins) } else { None };
            if begins && join.is_none() {
                return Err(wrong(format!("{at} begins the history of no savepoint")));
            }
            let (from, to) = (positions_of(&last.positions), positions_of(&decoded.positions));
            if goes_back(&from, &to) && !join.is_some_and(|join| join.rewinds) {
                return Err(wrong(format!("{at} goes back from {from:?} to {to:?}")));
            }
            let lost = join.is_some_and(|join| join.lost_ledger);
            let follows = decoded.parent == Some(before);
            if !repeats && !follows && !lost {
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

/// Compares the last record with the disk of a job that has ended in order. `flipped`: files of which the history flipped a bit. If
/// nobody has read one since, the next start is the one that is refused.
///
/// # Errors
///
/// If the disk stands elsewhere.
pub fn check_disk(
    last: Option<&LedgerRecord>,
    disk: &SimulatedDisk,
    directory: &Path,
    flipped: &BTreeSet<PathBuf>,
) -> Result<(), Violation> {
    let wrong = |text: String| Violation::new(Oracle::Ledger, text);
    let Some(last) = last else { return Err(wrong("the ledger is empty".to_owned())) };
    let opened =
        StateDirectory::open(Arc::new(disk.copy()), directory, &last.job, last.fingerprint);
    let local = match opened {
        Ok(opened) => opened.local(),
        Err(StateError::MetaDamaged { path, .. } | StateError::Damaged { path, .. })
            if flipped.contains(&path) =>
        {
            return Ok(());
        }
        Err(error) => return Err(wrong(format!("the state directory: {error}"))),
    };
    let confirmed: Option<CheckpointRef> = local.confirmed();
    if confirmed == Some(last.at()) {
        Ok(())
    } else {
        Err(wrong(format!("the ledger ends with {}, the disk stands at {confirmed:?}", last.at())))
    }
}
