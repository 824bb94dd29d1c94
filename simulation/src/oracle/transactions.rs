//! No transaction is left open once the job has ended and its markers have had their time.

use super::{Oracle, Violation};
use crate::network::Network;

/// Asks the brokers.
///
/// # Errors
///
/// What is open.
pub fn check(network: &Network) -> Result<(), Violation> {
    let open = network.unfinished_transactions();
    if open.is_empty() {
        Ok(())
    } else {
        Err(Violation::new(Oracle::Transactions, open.join("; ")))
    }
}
