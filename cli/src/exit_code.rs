//! What the process tells its parent when it ends. Documented in the README and kept stable.

/// Finished, stopped on request, or a clean verdict.
pub(crate) const OK: u8 = 0;
/// The job or the demo's verdict failed.
pub(crate) const FAILED: u8 = 1;
