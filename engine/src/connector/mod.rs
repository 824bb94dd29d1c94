//! Connectors: what jobs read from and write to.

pub mod collection;
