//! A stretch of a partition's log: whole batches in one piece of memory, with an index of where each begins.

use bytes::{Bytes, BytesMut};

use super::batch::{BatchInfo, NONE};

/// Where one batch lies in its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchEntry {
    pub(crate) base_offset: i64,
    pub(crate) last_offset: i64,
    /// Of its records; -1 for a control batch, which no search by time may find.
    pub(crate) max_timestamp: i64,
    pub(crate) position: usize,
    pub(crate) size: usize,
}

/// Batches of a log in offset order. Only the last segment of a log is appended to.
#[derive(Debug, Default)]
pub(crate) struct Segment {
    entries: Vec<BatchEntry>,
    data: Data,
}

#[derive(Debug)]
enum Data {
    /// Still growing; a reader gets a copy.
    Active(BytesMut),
    /// Complete; a reader gets a slice.
    Sealed(Bytes),
}

impl Default for Data {
    fn default() -> Self {
        Self::Active(BytesMut::new())
    }
}

impl Segment {
    /// A sealed segment of the whole batches in `bytes`; a torn batch at the end is left out.
    pub(crate) fn sealed(bytes: Bytes) -> Self {
        let mut entries = Vec::new();
        let mut position = 0;
        while let Some(info) = bytes.get(position..).and_then(BatchInfo::parse) {
            entries.push(entry(&info, position));
            position += info.size;
        }
        let mut data = bytes;
        data.truncate(position);
        Self { entries, data: Data::Sealed(data) }
    }

    pub(crate) fn bytes(&self) -> usize {
        match &self.data {
            Data::Active(data) => data.len(),
            Data::Sealed(data) => data.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn entries(&self) -> &[BatchEntry] {
        &self.entries
    }

    pub(crate) fn last_offset(&self) -> Option<i64> {
        self.entries.last().map(|entry| entry.last_offset)
    }

    /// Adds a stamped batch at the end. A sealed segment is reopened by copying, which no caller does.
    pub(crate) fn append(&mut self, batch: &[u8], info: &BatchInfo) {
        self.entries.push(entry(info, self.bytes()));
        match &mut self.data {
            Data::Active(data) => data.extend_from_slice(batch),
            Data::Sealed(sealed) => {
                let mut data = BytesMut::from(&sealed[..]);
                data.extend_from_slice(batch);
                self.data = Data::Active(data);
            }
        }
    }

    /// Ends the segment's growth; from now on readers share its memory.
    pub(crate) fn seal(&mut self) {
        if let Data::Active(data) = &mut self.data {
            self.data = Data::Sealed(std::mem::take(data).freeze());
        }
    }

    /// Index of the first batch that ends at or after `offset`.
    pub(crate) fn entry_at(&self, offset: i64) -> usize {
        self.entries.partition_point(|entry| entry.last_offset < offset)
    }

    /// `length` bytes from `position`, as far as they exist.
    pub(crate) fn slice(&self, position: usize, length: usize) -> Bytes {
        let end = position.saturating_add(length).min(self.bytes());
        let position = position.min(end);
        match &self.data {
            Data::Active(data) => Bytes::copy_from_slice(&data[position..end]),
            Data::Sealed(data) => data.slice(position..end),
        }
    }

    /// The bytes of one batch.
    pub(crate) fn batch(&self, entry: &BatchEntry) -> &[u8] {
        let range = entry.position..entry.position + entry.size;
        match &self.data {
            Data::Active(data) => data.get(range).unwrap_or_default(),
            Data::Sealed(data) => data.get(range).unwrap_or_default(),
        }
    }
}

fn entry(info: &BatchInfo, position: usize) -> BatchEntry {
    BatchEntry {
        base_offset: info.base_offset,
        last_offset: info.last_offset(),
        max_timestamp: if info.is_control() { NONE } else { info.max_timestamp },
        position,
        size: info.size,
    }
}
