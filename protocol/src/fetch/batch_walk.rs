//! Where a fetched record set ends, from batch headers alone: the fetcher needs the next offset, not the records.

/// What a walk over the headers of a record set found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BatchWalk {
    /// Bytes of the whole, well-formed batches at the front.
    pub(super) whole_bytes: usize,
    /// The offset after the last of them; never below the position the walk started from.
    pub(super) next_offset: i64,
    /// Leader epoch of the last of them; -1 without any.
    pub(super) leader_epoch: i32,
    /// What stands behind them, if it is neither the end nor a batch cut off by the broker's size limits.
    pub(super) defect: Option<Defect>,
}

/// Bytes where a batch should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Defect {
    /// Fields that no batch can have.
    Corrupt {
        /// The offset field as it stands.
        offset: i64,
        /// What is wrong.
        detail: &'static str,
    },
}

/// Walks `records`, which were fetched from `position`.
pub(super) fn walk(records: &[u8], position: i64) -> BatchWalk {
    let mut walk =
        BatchWalk { whole_bytes: 0, next_offset: position, leader_epoch: -1, defect: None };
    while let Some(rest) = records.get(walk.whole_bytes..) {
        // A batch that does not fit into the size asked for is cut anywhere.
        let Some(header) = Header::read(rest) else { break };
        if let Some(defect) = header.defect() {
            walk.defect = Some(defect);
            break;
        }
        let Ok(length) = usize::try_from(header.batch_length) else { break };
        if rest.len() - LENGTH_END < length {
            break;
        }
        // A message of format 0 or 1 (KIP-724) bears the offset of its only record, or of the last one that it wraps.
        let is_message = matches!(header.magic, 0 | 1);
        let delta = if is_message { Some(0) } else { be_i32(rest, LAST_OFFSET_DELTA) };
        let Some(delta) = delta.filter(|delta| *delta >= 0) else {
            walk.defect = Some(header.corrupt("negative last offset delta"));
            break;
        };
        let Some(next) = header.base_offset.checked_add(i64::from(delta) + 1) else {
            walk.defect = Some(header.corrupt("offset beyond the largest one"));
            break;
        };
        walk.whole_bytes += LENGTH_END + length;
        walk.next_offset = walk.next_offset.max(next);
        walk.leader_epoch = if is_message { -1 } else { header.leader_epoch };
    }
    walk
}

struct Header {
    base_offset: i64,
    batch_length: i32,
    leader_epoch: i32,
    magic: i8,
}

impl Header {
    fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            base_offset: i64::from_be_bytes(*bytes.first_chunk::<8>()?),
            batch_length: be_i32(bytes, 8)?,
            leader_epoch: be_i32(bytes, LENGTH_END)?,
            magic: i8::from_be_bytes([*bytes.get(MAGIC)?]),
        })
    }

    fn defect(&self) -> Option<Defect> {
        match self.magic {
            0..=2 if self.base_offset < 0 => Some(self.corrupt("negative base offset")),
            0 | 1 if self.batch_length < MIN_MESSAGE_LENGTH => {
                Some(self.corrupt("impossible length"))
            }
            2 if self.batch_length < MIN_BATCH_LENGTH => Some(self.corrupt("impossible length")),
            0..=2 => None,
            _ => Some(self.corrupt("unknown magic")),
        }
    }

    fn corrupt(&self, detail: &'static str) -> Defect {
        Defect::Corrupt { offset: self.base_offset, detail }
    }
}

fn be_i32(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_be_bytes(*bytes.get(at..)?.first_chunk::<4>()?))
}

/// Where the length field ends, and the bytes it counts begin.
const LENGTH_END: usize = 12;
const MAGIC: usize = 16;
const LAST_OFFSET_DELTA: usize = 23;
/// The header's bytes behind the length field.
const MIN_BATCH_LENGTH: i32 = 49;
/// The same of a message of format 0.
const MIN_MESSAGE_LENGTH: i32 = 14;

#[cfg(test)]
pub(super) mod tests;
