//! Connectors: what jobs read from and write to.
