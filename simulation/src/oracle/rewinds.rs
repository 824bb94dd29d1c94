//! Where the job went back to an older state because somebody said so: from then on it writes again what is behind that.
//!
//! What it has to write follows from the savepoint's positions and from those of the last checkpoint that was committed before
//! the savepoint was joined to the ledger, and from nothing else.

use std::collections::BTreeMap;
use std::path::PathBuf;

use millstream_checkpoint::{CheckpointId, CheckpointRef, LedgerRecord, Positions};

use super::CommittedLog;
use crate::job::Event;

/// Next offset of each partition of the input.
pub type Offsets = BTreeMap<i32, i64>;

/// A savepoint that the job was started from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// Where it is.
    pub folder: PathBuf,
    /// Its checkpoint.
    pub at: CheckpointRef,
    /// Its positions.
    pub positions: Offsets,
    /// Somebody has agreed that output behind it is written again.
    pub rewinds: bool,
    /// The ledger has lost records, so that its next one is behind another.
    pub lost_ledger: bool,
}

/// A stretch of the job's history in which it did not go back. What it read are the offsets from `from` up to `to`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// Where it began.
    pub from: Offsets,
    /// Where it ended; the last run may go on from there.
    pub to: Offsets,
}

/// The positions of the one source.
#[must_use]
pub fn positions_of(positions: &Positions) -> Offsets {
    positions.iter().map(|(_, position)| (position.partition, position.offset)).collect()
}

/// Whether `to` is behind `from` in some partition.
#[must_use]
pub fn goes_back(from: &Offsets, to: &Offsets) -> bool {
    from.iter().any(|(partition, offset)| to.get(partition).copied().unwrap_or(0) < *offset)
}

/// Whether a record begins a history behind that of another: every checkpoint but the very first has a delta file.
#[must_use]
pub fn begins_history(record: &LedgerRecord) -> bool {
    record.delta_digest.is_none() && record.checkpoint > CheckpointId::ZERO
}

/// The savepoint whose history a record begins.
#[must_use]
pub fn join_of<'a>(record: &LedgerRecord, joins: &'a [Join]) -> Option<&'a Join> {
    let positions = positions_of(&record.positions);
    let mut found = joins.iter().filter(|join| join.positions == positions);
    let any = found.clone().next();
    found.find(|join| join.rewinds).or(any)
}

/// The stretches of the history on the ledger. It goes back only to savepoints of which somebody has agreed to that.
#[must_use]
pub fn runs(log: &CommittedLog, ledger: &str, joins: &[Join]) -> Vec<Run> {
    let mut runs = vec![Run::default()];
    for record in log.of_topic(ledger) {
        let Ok(record) = LedgerRecord::decode(&record.value) else { continue };
        let positions = positions_of(&record.positions);
        let Some(last) = runs.last_mut() else { continue };
        let rewinds = begins_history(&record)
            && goes_back(&last.to, &positions)
            && join_of(&record, joins).is_some_and(|join| join.rewinds);
        if rewinds {
            runs.push(Run { from: positions.clone(), to: positions });
        } else {
            last.to = positions;
        }
    }
    runs
}

/// The input in the order in which the job has to have counted it, over all its runs. `partition` says where an event is. `ended`: the
/// last run goes no further than the ledger says.
#[must_use]
pub fn read_in_order<'a>(
    input: &'a [Event],
    partition: impl Fn(&Event) -> i32,
    runs: &[Run],
    ended: bool,
) -> Vec<&'a Event> {
    let mut read: Vec<&Event> = Vec::new();
    // Once for each event, so that what no run has read is missed.
    let mut unread: Vec<bool> = vec![true; input.len()];
    for (number, run) in runs.iter().enumerate() {
        let open = number + 1 == runs.len() && (number == 0 || !ended);
        let mut next: Offsets = BTreeMap::new();
        for (event, unread) in input.iter().zip(&mut unread) {
            let partition = partition(event);
            let offset = next.entry(partition).or_default();
            let of = |offsets: &Offsets| offsets.get(&partition).copied().unwrap_or(0);
            if *offset >= of(&run.from) && (open || *offset < of(&run.to)) {
                read.push(event);
                *unread = false;
            }
            *offset += 1;
        }
    }
    read.extend(input.iter().zip(unread).filter(|(_, unread)| *unread).map(|(event, _)| event));
    read
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{events, expected};
    use crate::oracle::{CommittedRecord, Oracle, order, output};
    use bytes::Bytes;
    use millstream_protocol::TopicPartition;

    /// Eight events of two keys, one partition each: offsets 0 to 3 in both.
    const KEYS: u32 = 2;

    fn offsets(of_0: i64, of_1: i64) -> Offsets {
        BTreeMap::from([(0, of_0), (1, of_1)])
    }

    fn partition(event: &Event) -> i32 {
        i32::try_from(event.key % KEYS).unwrap()
    }

    fn numbers(input: &[Event], runs: &[Run], ended: bool, key: u32) -> Vec<u32> {
        let read = read_in_order(input, partition, runs, ended);
        read.iter().filter(|event| event.key == key).map(|event| event.number).collect()
    }

    fn record(key: u32, number: u32, offset: i64) -> CommittedRecord {
        CommittedRecord {
            place: TopicPartition::new("out", 0),
            offset,
            key: Bytes::from(key.to_string()),
            value: Bytes::from(format!("{key}:{number}:{number}")),
            transaction: (1, 0),
        }
    }

    #[test]
    fn a_rewind_reads_again_exactly_what_lies_between_savepoint_and_last_commit() {
        let input = events(8, KEYS);
        let whole = [Run { from: offsets(0, 0), to: offsets(3, 2) }];
        assert_eq!(numbers(&input, &whole, true, 0), [1, 2, 3, 4]);
        let rewound = [whole[0].clone(), Run { from: offsets(1, 2), to: offsets(4, 4) }];
        assert_eq!(numbers(&input, &rewound, true, 0), [1, 2, 3, 2, 3, 4]);
        assert_eq!(numbers(&input, &rewound, true, 1), [1, 2, 3, 4]);
        // Stopped before it has written all of that again; what no run has read is not forgiven.
        let stopped = [whole[0].clone(), Run { from: offsets(1, 2), to: offsets(2, 3) }];
        assert_eq!(numbers(&input, &stopped, true, 0), [1, 2, 3, 2, 4]);
        assert_eq!(numbers(&input, &stopped, false, 0), [1, 2, 3, 2, 3, 4]);
    }

    #[test]
    fn one_line_more_or_one_step_back_more_than_the_rewind_allows_is_noticed() {
        let input = events(8, KEYS);
        let runs = [
            Run { from: offsets(0, 0), to: offsets(3, 4) },
            Run { from: offsets(1, 4), to: offsets(4, 4) },
        ];
        let expected = expected(read_in_order(&input, partition, &runs, true));
        let written = |numbers: &[u32]| -> Vec<CommittedRecord> {
            let of_0 = numbers.iter().map(|number| (0, *number));
            let all = of_0.chain((1..=4).map(|number| (1, number)));
            all.zip(0..).map(|((key, number), offset)| record(key, number, offset)).collect()
        };
        let judge = |numbers: &[u32]| {
            let log = written(numbers);
            let ordered = order::check(log.iter(), &expected);
            let right = output::check(log.iter(), &expected, true, false);
            ordered.and(right).err().map(|violation| violation.oracle)
        };
        assert_eq!(judge(&[1, 2, 3, 2, 3, 4]), None);
        assert_eq!(judge(&[1, 2, 3, 3, 4]), Some(Oracle::Output));
        assert_eq!(judge(&[1, 2, 3, 2, 3, 3, 4]), Some(Oracle::Output));
        assert_eq!(judge(&[1, 2, 3, 1, 2, 3, 4]), Some(Oracle::Order));
        assert_eq!(judge(&[1, 2, 3, 2, 3, 2, 3, 4]), Some(Oracle::Order));
    }
}
