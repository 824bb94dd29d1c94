//! Who owned what when, and what must hold of it.

use std::collections::{BTreeMap, BTreeSet};

/// What happened to a partition of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Gained,
    /// Revoked or lost.
    GaveUp,
}

/// A member's life as it wrote it down.
#[derive(Clone, Debug, Default)]
pub(crate) struct Life {
    pub(crate) name: String,
    /// When (milliseconds since 1970), which partition, what.
    pub(crate) changes: Vec<(u64, i32, Change)>,
    /// Partition and offset of what it read.
    pub(crate) records: BTreeSet<(i32, i64)>,
    /// Why it could not go on.
    pub(crate) failed: Option<String>,
    /// When it was killed or closed.
    pub(crate) ended_ms: Option<u64>,
}

impl Life {
    /// What it owns at its last word.
    pub(crate) fn owned(&self) -> BTreeSet<i32> {
        let mut owned = BTreeSet::new();
        for (_, partition, change) in &self.changes {
            match change {
                Change::Gained => owned.insert(*partition),
                Change::GaveUp => owned.remove(partition),
            };
        }
        owned
    }

    fn spans(&self, until: u64) -> Vec<Span> {
        let end = self.ended_ms.unwrap_or(until);
        let mut open: BTreeMap<i32, u64> = BTreeMap::new();
        let mut spans = Vec::new();
        let span = |partition, from, to| Span { member: self.name.clone(), partition, from, to };
        for (at, partition, change) in &self.changes {
            match change {
                Change::Gained => {
                    assert!(
                        open.insert(*partition, *at).is_none(),
                        "{}: {partition} twice",
                        self.name
                    );
                }
                Change::GaveUp => {
                    let from = open.remove(partition);
                    let from = from.unwrap_or_else(|| panic!("{}: gave up {partition}", self.name));
                    spans.push(span(*partition, from, *at));
                }
            }
        }
        spans
            .extend(open.into_iter().map(|(partition, from)| span(partition, from, end.max(from))));
        spans
    }
}

/// One member's ownership of one partition.
#[derive(Clone, Debug)]
struct Span {
    member: String,
    partition: i32,
    from: u64,
    to: u64,
}

/// What must hold, and what was seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) owned_twice: Vec<String>,
    /// The longest time that a partition had no owner, without the `outages`.
    pub(crate) longest_gap_ms: u64,
    /// Handovers that were compared.
    pub(crate) handovers: usize,
}

/// From `from` (when all was owned) to `to`, `outages` (when no coordinator was there) not counted.
pub(crate) fn judge(
    lives: &[Life],
    partitions: i32,
    (from, to): (u64, u64),
    outages: &[(u64, u64)],
) -> Verdict {
    let mut verdict = Verdict::default();
    let mut spans: Vec<Span> = lives.iter().flat_map(|life| life.spans(to)).collect();
    spans.sort_by_key(|span| (span.partition, span.from, span.to));
    for partition in 0..partitions {
        let mut owned_until = from;
        let mut before: Option<&Span> = None;
        for span in spans.iter().filter(|span| span.partition == partition) {
            if let Some(before) = before {
                verdict.handovers += 1;
                if before.to > span.from && before.member != span.member {
                    verdict.owned_twice.push(format!("{before:?} {span:?}"));
                }
            }
            if before.is_none_or(|before| span.to > before.to) {
                before = Some(span);
            }
            verdict.longest_gap_ms =
                verdict.longest_gap_ms.max(gap(owned_until, span.from.min(to), outages));
            owned_until = owned_until.max(span.to);
        }
        verdict.longest_gap_ms = verdict.longest_gap_ms.max(gap(owned_until, to, outages));
    }
    verdict
}

fn gap(from: u64, to: u64, outages: &[(u64, u64)]) -> u64 {
    let missing: u64 =
        outages.iter().map(|(start, end)| (*end).min(to).saturating_sub((*start).max(from))).sum();
    to.saturating_sub(from).saturating_sub(missing)
}

fn life(name: &str, changes: &[(u64, i32, Change)], ended_ms: Option<u64>) -> Life {
    Life { name: name.to_owned(), changes: changes.to_vec(), ended_ms, ..Life::default() }
}

#[test]
fn the_oracle_passes_an_orderly_handover_and_measures_its_gap() {
    use Change::{Gained, GaveUp};
    let lives = [
        life("a", &[(10, 0, Gained), (50, 0, GaveUp)], None),
        life("b", &[(80, 0, Gained)], Some(100)),
        life("c", &[(130, 0, Gained)], None),
    ];
    let verdict = judge(&lives, 1, (10, 200), &[(100, 120)]);
    assert_eq!((verdict.owned_twice.len(), verdict.longest_gap_ms, verdict.handovers), (0, 30, 2));
}

/// The mutant beside the checker: a member that keeps what another was given.
#[test]
fn the_oracle_notices_two_owners_and_none() {
    use Change::{Gained, GaveUp};
    let kept =
        [life("a", &[(10, 0, Gained), (51, 0, GaveUp)], None), life("b", &[(50, 0, Gained)], None)];
    assert_eq!(judge(&kept, 1, (10, 100), &[]).owned_twice.len(), 1);
    let never_taken = [life("a", &[(10, 0, Gained), (50, 0, GaveUp)], None)];
    assert_eq!(judge(&never_taken, 1, (10, 100), &[]).longest_gap_ms, 50);
    let never_owned = [life("a", &[], None)];
    assert_eq!(judge(&never_owned, 1, (10, 100), &[]).longest_gap_ms, 90);
}
