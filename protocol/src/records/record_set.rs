//! A partition's records as fetched: batches one after another.

use bytes::Bytes;

use super::batch_header::{BATCH_HEADER_BYTES, BatchClaim};
use super::batch_view::BatchView;
use super::error::RecordsError;

/// The record bytes of one partition of a Fetch response. Iterates over its whole batches, each
/// checked by [`BatchView::parse`].
///
/// Brokers cut at a size, so the last batch may be partial: it ends the iteration silently
/// (KIP-74). If even the first is partial, that is [`RecordsError::NoCompleteBatch`]. An error
/// ends the iteration.
#[derive(Clone, Debug)]
pub struct RecordSet {
    rest: Bytes,
    any_batch: bool,
}

impl RecordSet {
    /// A set over `records`; empty for a null field.
    #[must_use]
    pub const fn new(records: Bytes) -> Self {
        Self { rest: records, any_batch: false }
    }

    /// Bytes not yet read, a partial last batch included.
    #[must_use]
    pub const fn remaining(&self) -> &Bytes {
        &self.rest
    }

    fn next_batch(&mut self) -> Result<Option<BatchView>, RecordsError> {
        let available_bytes = self.rest.len();
        if available_bytes == 0 {
            return Ok(None);
        }
        let Some(claim) = BatchClaim::read(&self.rest) else {
            return self.partial(available_bytes, BATCH_HEADER_BYTES);
        };
        let needed_bytes = claim.batch_bytes()?;
        if available_bytes < needed_bytes {
            return self.partial(available_bytes, needed_bytes);
        }
        if !claim.is_legacy() {
            claim.check_magic()?;
        }
        let view = BatchView::parse(self.rest.split_to(needed_bytes))?;
        self.any_batch = true;
        Ok(Some(view))
    }

    /// The rest is a partial batch: harmless after a whole one.
    fn partial(
        &mut self,
        available_bytes: usize,
        needed_bytes: usize,
    ) -> Result<Option<BatchView>, RecordsError> {
        // KIP-74: the first batch comes whole, whatever the size asked for; later ones may be cut.
        if self.any_batch {
            self.rest.clear();
            return Ok(None);
        }
        Err(RecordsError::NoCompleteBatch { available_bytes, needed_bytes })
    }
}

impl Iterator for RecordSet {
    type Item = Result<BatchView, RecordsError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_batch();
        if next.is_err() {
            self.rest.clear();
        }
        next.transpose()
    }
}
