//! Connectors: what jobs read from and write to.

pub mod collection;
pub mod kafka;
