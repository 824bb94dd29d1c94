//! What one transaction wrote is committed everywhere or nowhere, and output only together with one ledger record.

use std::collections::BTreeMap;

use super::{CommittedLog, Oracle, Violation};

/// Looks at every transaction in the logs.
///
/// # Errors
///
/// The first transaction that was torn, or that committed output without its ledger record.
pub fn check(log: &CommittedLog, output: &str, ledger: &str) -> Result<(), Violation> {
    let mut outputs: BTreeMap<(i64, i16), usize> = BTreeMap::new();
    let mut ledgers: BTreeMap<(i64, i16), usize> = BTreeMap::new();
    for record in log.of_topic(output) {
        *outputs.entry(record.transaction).or_default() += 1;
    }
    for record in log.of_topic(ledger) {
        *ledgers.entry(record.transaction).or_default() += 1;
    }
    for (id, transaction) in &log.transactions {
        let (producer, epoch) = id;
        let wrong = |text: String| {
            Err(Violation::new(Oracle::Atomic, format!("transaction {producer}/{epoch} {text}")))
        };
        if !transaction.committed.is_empty() && !transaction.aborted.is_empty() {
            return wrong(format!(
                "was committed in {:?} and aborted in {:?}",
                transaction.committed, transaction.aborted
            ));
        }
        let written = outputs.get(id).copied().unwrap_or(0);
        let recorded = ledgers.get(id).copied().unwrap_or(0);
        if recorded > 1 || (written > 0 && recorded == 0) {
            return wrong(format!("committed {written} outputs with {recorded} ledger records"));
        }
    }
    Ok(())
}
