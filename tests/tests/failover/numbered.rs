//! The judge: numbered records of a partition, in the order they were read, and what is wrong with them.

use std::fmt;

/// What must not happen to the numbers of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    /// A number that was acknowledged is not there.
    Missing(u64),
    /// A number is there more than once.
    Doubled(u64),
    /// A number comes behind a larger one.
    OutOfOrder {
        /// The number.
        number: u64,
        /// The larger one before it.
        after: u64,
    },
    /// A number that nobody wrote.
    Unknown(u64),
    /// Offsets do not grow.
    OffsetNotHigher {
        /// The offset.
        offset: i64,
        /// The one read before it.
        after: i64,
    },
    /// A record lies elsewhere than its acknowledgement said.
    OtherOffset {
        /// Its number.
        number: u64,
        /// Where it was acknowledged.
        acknowledged: i64,
        /// Where it lies.
        found: i64,
    },
}

/// What was read of one partition: offset and number of each record, in the order of reading.
#[derive(Clone, Default)]
pub(crate) struct Reading {
    records: Vec<(i64, u64)>,
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} records to {:?}", self.records.len(), self.records.last())
    }
}

impl Reading {
    pub(crate) fn push(&mut self, offset: i64, number: u64) {
        self.records.push((offset, number));
    }

    /// The reader begins anew at `offset`: what it read from there on will come again.
    pub(crate) fn rewind(&mut self, offset: i64) {
        let kept = self.records.partition_point(|(read, _)| *read < offset);
        self.records.truncate(kept);
    }

    /// Everything that is wrong, if the numbers 0 to `count` were written in this order.
    pub(crate) fn defects(&self, count: u64) -> Vec<Defect> {
        let mut defects = Vec::new();
        let mut seen = vec![0_u32; usize::try_from(count).unwrap()];
        let (mut highest, mut last_offset) = (None, -1);
        for (offset, number) in &self.records {
            if *offset <= last_offset {
                defects.push(Defect::OffsetNotHigher { offset: *offset, after: last_offset });
            }
            last_offset = *offset;
            match seen.get_mut(usize::try_from(*number).unwrap_or(usize::MAX)) {
                None => defects.push(Defect::Unknown(*number)),
                Some(times) => *times += 1,
            }
            if let Some(after) = highest.filter(|highest| highest > number) {
                defects.push(Defect::OutOfOrder { number: *number, after });
            }
            highest = highest.max(Some(*number));
        }
        for (number, times) in (0..).zip(seen) {
            match times {
                0 => defects.push(Defect::Missing(number)),
                1 => {}
                _ => defects.push(Defect::Doubled(number)),
            }
        }
        defects
    }

    /// Records that lie elsewhere than they were acknowledged at, by number.
    pub(crate) fn misplaced(&self, acknowledged: &[Option<i64>]) -> Vec<Defect> {
        let misplaced = self.records.iter().filter_map(|(found, number)| {
            let at = acknowledged.get(usize::try_from(*number).ok()?).copied().flatten()?;
            (at != *found).then_some(Defect::OtherOffset {
                number: *number,
                acknowledged: at,
                found: *found,
            })
        });
        misplaced.collect()
    }
}

/// Panics with the first defects, if there are any.
#[track_caller]
pub(crate) fn assert_sound(defects: &[Defect], what: &str) {
    let first = defects.get(..defects.len().min(10)).unwrap_or_default();
    assert!(defects.is_empty(), "{what}: {} defects, the first: {first:?}", defects.len());
}

#[cfg(test)]
mod mutants {
    use super::*;

    fn reading(records: &[(i64, u64)]) -> Reading {
        Reading { records: records.to_vec() }
    }

    #[test]
    fn the_judge_passes_what_is_sound_also_over_gaps_of_offsets() {
        assert_eq!(reading(&[(0, 0), (1, 1), (5, 2)]).defects(3), []);
    }

    #[test]
    fn the_judge_notices_a_gap() {
        assert_eq!(reading(&[(0, 0), (1, 2)]).defects(3), [Defect::Missing(1)]);
        assert_eq!(reading(&[(0, 0), (1, 1)]).defects(3), [Defect::Missing(2)]);
    }

    #[test]
    fn the_judge_notices_a_duplicate() {
        let defects = reading(&[(0, 0), (1, 1), (2, 1), (3, 2)]).defects(3);
        assert_eq!(defects, [Defect::Doubled(1)]);
        let block_again = reading(&[(0, 0), (1, 1), (2, 0), (3, 1)]).defects(2);
        assert_eq!(
            block_again,
            [Defect::OutOfOrder { number: 0, after: 1 }, Defect::Doubled(0), Defect::Doubled(1)]
        );
    }

    #[test]
    fn the_judge_notices_another_order() {
        let defects = reading(&[(0, 0), (1, 2), (2, 1)]).defects(3);
        assert_eq!(defects, [Defect::OutOfOrder { number: 1, after: 2 }]);
    }

    #[test]
    fn the_judge_notices_what_nobody_wrote_and_offsets_that_stand_still() {
        let defects = reading(&[(0, 0), (0, 7)]).defects(1);
        assert_eq!(defects, [Defect::OffsetNotHigher { offset: 0, after: 0 }, Defect::Unknown(7)]);
    }

    #[test]
    fn the_judge_notices_a_record_that_is_not_where_it_was_acknowledged() {
        let misplaced = reading(&[(0, 0), (2, 1)]).misplaced(&[Some(0), Some(1)]);
        assert_eq!(misplaced, [Defect::OtherOffset { number: 1, acknowledged: 1, found: 2 }]);
        assert_eq!(reading(&[(0, 0), (2, 1)]).misplaced(&[None, Some(2)]), []);
    }

    #[test]
    fn a_rewound_reading_is_judged_by_what_comes_after() {
        let mut again = reading(&[(0, 0), (1, 1), (2, 2)]);
        again.rewind(1);
        again.push(1, 1);
        assert_eq!(again.defects(2), []);
        // A reader that comes back behind what it had not read yet has lost records.
        let mut behind = reading(&[(0, 0)]);
        behind.rewind(2);
        behind.push(2, 2);
        assert_eq!(behind.defects(3), [Defect::Missing(1)]);
    }
}
