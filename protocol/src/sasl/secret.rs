//! A text that must not be seen.

use std::fmt;
use std::sync::Arc;

/// A password, token or key. Formatting shows only that there is one; [`expose`](Self::expose) is the only way to its text.
/// Cheap to clone: all clones share one text.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Keeps `text` from being seen.
    #[must_use]
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The text, for the one place that sends or computes with it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// True if there is nothing to hide.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}
