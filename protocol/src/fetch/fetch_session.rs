//! Incremental fetch sessions (KIP-227): the broker remembers what we want, we send what changed.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use crate::messages::{FetchPartition, FetchResponse};
use crate::{ErrorCode, TopicPartition};

/// The session with one broker.
///
/// | `(session_id, epoch)` sent | meaning |
/// | --- | --- |
/// | (0, 0) | everything is listed; please open a session |
/// | (S, 0) | everything is listed; close S and open another |
/// | (S, n) | only changes are listed; the answer holds only what is new |
/// | (S, -1) | close S |
#[derive(Debug, Default)]
pub struct FetchSession {
    session_id: i32,
    next_epoch: i32,
    /// What the broker has, or will have once it gets the last request built.
    partitions: BTreeMap<TopicPartition, FetchPartition>,
}

/// The session's part of a fetch request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRequest {
    /// 0 for none.
    pub session_id: i32,
    /// 0: everything is listed; -1: the session ends.
    pub session_epoch: i32,
    /// Partitions to list, in the order in which the broker shall serve them.
    pub partitions: Vec<(TopicPartition, FetchPartition)>,
    /// Partitions that the broker shall drop from the session.
    pub forgotten: Vec<TopicPartition>,
}

/// What an answer means for the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionOutcome {
    /// Its partitions may be used.
    Accepted,
    /// Empty because the broker throttles us (KIP-219): it answers nothing about any partition.
    Throttled,
    /// Nothing of it may be used; the next request starts a session anew.
    Discarded(SessionViolation),
}

/// Why an answer was discarded as a whole.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SessionViolation {
    /// The broker reported an error for the whole request.
    #[error("the fetch request was refused with {0}")]
    Refused(ErrorCode),
    /// The answer holds a partition that was not asked for.
    #[error("the answer holds {0}, which was not asked for")]
    Uninvited(TopicPartition),
    /// The answer holds a partition twice.
    #[error("the answer holds {0} twice")]
    Repeated(TopicPartition),
    /// The answer to a full request lacks a partition.
    #[error("the answer lacks {0}")]
    Missing(TopicPartition),
}

impl FetchSession {
    /// No session yet: the first request lists everything.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The request that makes the broker serve exactly `wanted`, in this order.
    pub fn next_request(
        &mut self,
        wanted: Vec<(TopicPartition, FetchPartition)>,
    ) -> SessionRequest {
        let mut new: BTreeMap<TopicPartition, FetchPartition> = wanted.iter().cloned().collect();
        std::mem::swap(&mut new, &mut self.partitions);
        let old = new;
        let (partitions, forgotten) = if self.next_epoch == 0 {
            (wanted, Vec::new())
        } else {
            let forgotten =
                old.keys().filter(|key| !self.partitions.contains_key(*key)).cloned().collect();
            let changed =
                wanted.into_iter().filter(|(key, entry)| old.get(key) != Some(entry)).collect();
            (changed, forgotten)
        };
        SessionRequest {
            session_id: self.session_id,
            session_epoch: self.next_epoch,
            partitions,
            forgotten,
        }
    }

    /// Takes the answer to the last request built.
    pub fn handle_response(&mut self, response: &FetchResponse) -> SessionOutcome {
        if response.error_code != ErrorCode::NONE {
            if response.error_code == ErrorCode::FETCH_SESSION_ID_NOT_FOUND {
                // The broker has forgotten the session, so there is none to close.
                self.session_id = 0;
            }
            self.next_epoch = 0;
            return SessionOutcome::Discarded(SessionViolation::Refused(response.error_code));
        }
        let full = self.next_epoch == 0;
        let empty = response.topics.iter().all(|topic| topic.partitions.is_empty());
        if full && empty && response.throttle_time_ms > 0 && !self.partitions.is_empty() {
            self.session_id = 0;
            return SessionOutcome::Throttled;
        }
        if let Err(violation) = self.check_partitions(response, full) {
            self.next_epoch = 0;
            return SessionOutcome::Discarded(violation);
        }
        if response.session_id == 0 {
            // No slot free, or the broker closed the session: full requests go on working.
            self.session_id = 0;
            self.next_epoch = 0;
        } else {
            self.session_id = response.session_id;
            self.next_epoch = if full { 1 } else { following(self.next_epoch) };
        }
        SessionOutcome::Accepted
    }

    /// The answer is lost, so whether the broker took the request is unknown: close the session and open another.
    pub fn handle_failure(&mut self) {
        self.next_epoch = 0;
    }

    /// The request that ends the session, if there is one.
    pub fn close(&mut self) -> Option<SessionRequest> {
        let session_id = std::mem::take(&mut self.session_id);
        self.next_epoch = 0;
        self.partitions.clear();
        (session_id != 0).then(|| SessionRequest {
            session_id,
            session_epoch: -1,
            partitions: Vec::new(),
            forgotten: Vec::new(),
        })
    }

    /// True if `topic_partition` is part of what the last request asked for.
    #[must_use]
    pub fn contains(&self, topic_partition: &TopicPartition) -> bool {
        self.partitions.contains_key(topic_partition)
    }

    fn check_partitions(
        &self,
        response: &FetchResponse,
        full: bool,
    ) -> Result<(), SessionViolation> {
        let mut seen = BTreeSet::new();
        for topic in &response.topics {
            for partition in &topic.partitions {
                let key = TopicPartition::new(topic.topic.clone(), partition.partition);
                if !self.partitions.contains_key(&key) {
                    return Err(SessionViolation::Uninvited(key));
                }
                if !seen.insert(key.clone()) {
                    return Err(SessionViolation::Repeated(key));
                }
            }
        }
        if full && let Some(missing) = self.partitions.keys().find(|key| !seen.contains(*key)) {
            return Err(SessionViolation::Missing(missing.clone()));
        }
        Ok(())
    }
}

/// Epochs run 1, 2, … `i32::MAX`, 1: 0 and -1 have meanings of their own.
const fn following(epoch: i32) -> i32 {
    match epoch.checked_add(1) {
        Some(next) => next,
        None => 1,
    }
}

#[cfg(test)]
mod tests;
