//! What state should hold, kept in the plainest way.

use std::collections::{BTreeMap, BTreeSet};

/// Key and namespace.
pub(super) type Cell = (u8, u8);

pub(super) const TTL_MS: i64 = 20;

/// All keyed state of an operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Model {
    pub(super) cells: BTreeMap<Cell, Contents>,
    /// Timestamp, key and namespace.
    pub(super) timers: BTreeSet<(i64, Cell)>,
    pub(super) watermark: i64,
    pub(super) processing_ms: i64,
}

/// State of one key in one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Contents {
    pub(super) value: Option<i64>,
    pub(super) list: Vec<String>,
    pub(super) map: BTreeMap<u8, i64>,
    pub(super) sum: Option<i64>,
    /// Count and sum.
    pub(super) aggregate: Option<(u64, i64)>,
    /// With expiry.
    pub(super) short_value: Option<(i64, i64)>,
    pub(super) short_list: Vec<(i64, i64)>,
    pub(super) short_map: BTreeMap<u8, (i64, i64)>,
}

impl Model {
    pub(super) fn expiry(&self) -> i64 {
        self.processing_ms + TTL_MS
    }

    /// Takes the timers up to the watermark, in order.
    pub(super) fn fire(&mut self) -> Vec<(i64, Cell)> {
        let later = self.timers.split_off(&(self.watermark + 1, (0, 0)));
        std::mem::replace(&mut self.timers, later).into_iter().collect()
    }
}
