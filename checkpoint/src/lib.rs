//! Ledger checkpoints: delta files, META, the state store and the pure recovery decision.
