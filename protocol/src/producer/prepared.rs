//! What is handed to another process that ends the transaction.

use super::Producer;
use crate::transaction::PreparedTransaction;

impl Producer {
    /// What another process needs to end the open transaction; `None` if nothing was sent in it, or it can only be aborted.
    #[must_use]
    pub fn prepared_transaction(&self) -> Option<PreparedTransaction> {
        self.transactions.prepared()
    }
}
