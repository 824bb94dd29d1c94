//! How much of a checkpoint a worker encodes at once.

/// What one slice may still encode. Slices are short beside a unit of input, so that processing is never held up for long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SealBudget(usize);

/// Values of one slice; a few hundred microseconds.
const SLICE_VALUES: usize = 1024;

/// A value counts once more for every so many bytes.
const BYTES_PER_VALUE: usize = 512;

impl SealBudget {
    /// For one slice.
    pub(crate) fn slice() -> Self {
        Self(SLICE_VALUES)
    }

    /// For everything at once.
    #[cfg(test)]
    pub(crate) fn unlimited() -> Self {
        Self(usize::MAX)
    }

    /// For about so many values.
    #[cfg(test)]
    pub(crate) fn of(values: usize) -> Self {
        Self(values)
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.0 == 0
    }

    /// A value of `bytes` was encoded.
    pub(crate) fn spend(&mut self, bytes: usize) {
        self.0 = self.0.saturating_sub(1 + bytes / BYTES_PER_VALUE);
    }
}
