//! Commits and aborts: the batches before them first, then EndTxn.

use std::time::Duration;

use super::{Producer, ProducerEvent};
use crate::Timestamp;
use crate::transaction::ProduceError;

/// A commit or abort that waits for the batches before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndingVerb {
    pub(super) committed: bool,
    pub(super) started: Timestamp,
    pub(super) deadline: Timestamp,
}

impl Producer {
    pub(super) fn end(&mut self, now: Timestamp, committed: bool, limit: Duration) {
        let refused = if self.open.is_none() || self.ending.is_some() {
            let state = "not in a transaction, or ending it";
            Some(
                self.transactions
                    .error()
                    .cloned()
                    .unwrap_or(ProduceError::InvalidState { verb: "end a transaction", state }),
            )
        } else if committed {
            self.transactions.error().cloned()
        } else {
            None
        };
        if let Some(error) = refused {
            // One that is under way goes on.
            self.events.push_back(ended(committed, Err(error)));
            return;
        }
        self.ending = Some(EndingVerb { committed, started: now, deadline: now.after(limit) });
        self.advance(now);
    }

    /// Ends a commit or abort that was asked for, with `error` or the state's.
    pub(super) fn finish_verb(&mut self, committed: bool, error: Option<ProduceError>) {
        self.ending = None;
        let error = error.or_else(|| self.transactions.error().cloned());
        let result = error.map_or(Ok(()), Err);
        self.events.push_back(ended(committed, result));
    }

    pub(super) fn advance_ending(&mut self, now: Timestamp) {
        let (Some(ending), Some(open)) = (self.ending, self.open) else { return };
        if ending.committed && self.transactions.error().is_some() {
            self.finish_verb(true, None);
            return;
        }
        let outstanding = self.accumulator.tags.get(&open).map_or(0, |tag| tag.outstanding);
        let settled = if ending.committed {
            outstanding == 0 && !self.transactions.is_sending_offsets()
        } else {
            self.in_flight.is_empty()
        };
        if settled {
            self.ending = None;
            let limit = ending.deadline.since(now);
            if let Err(error) = self.transactions.end(now, ending.committed, limit) {
                self.finish_verb(ending.committed, Some(error));
            }
        }
    }
}

fn ended(committed: bool, result: Result<(), ProduceError>) -> ProducerEvent {
    if committed { ProducerEvent::Committed(result) } else { ProducerEvent::Aborted(result) }
}
