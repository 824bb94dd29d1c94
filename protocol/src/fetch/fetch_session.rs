//! Incremental fetch sessions (KIP-227): the broker remembers what we want, we send what changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thiserror::Error;

use crate::messages::{FetchPartition, FetchResponse};
use crate::{ErrorCode, NO_TOPIC_ID, TopicPartition};

/// The session with one broker.
///
/// | `(session_id, epoch)` sent | meaning |
/// | --- | --- |
/// | (0, 0) | everything is listed; please open a session |
/// | (S, 0) | everything is listed; close S and open another |
/// | (S, n) | only changes are listed; the answer holds only what is new |
/// | (S, -1) | close S |
///
/// Topics go by their ids (KIP-516) where all of them are known, so that no record of a topic that was deleted and created
/// again is taken for one of the first: the broker knows no such id any more. A session goes by ids or by names for all its
/// life; where that changes, or an id, another is opened.
#[derive(Debug, Default)]
pub struct FetchSession {
    session_id: i32,
    next_epoch: i32,
    /// What the broker has, or will have once it gets the last request built.
    partitions: BTreeMap<TopicPartition, FetchPartition>,
    by_ids: bool,
    /// Topics of `partitions`, if they go by ids.
    topic_ids: BTreeMap<Arc<str>, [u8; 16]>,
    topic_names: BTreeMap<[u8; 16], Arc<str>>,
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
    /// Topics go by ids: in version 13 or later. If not, only versions below will do.
    pub by_ids: bool,
    /// Ids of the topics listed and forgotten, if they go by ids.
    pub topic_ids: BTreeMap<Arc<str>, [u8; 16]>,
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
    /// The answer holds a topic of an id that was not asked for.
    #[error("the answer holds topic id {}, which was not asked for", uuid::Uuid::from_bytes(*.0))]
    UninvitedId([u8; 16]),
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

    /// The request that makes the broker serve exactly `wanted`, in this order. `topic_id` knows the ids of topics.
    pub fn next_request(
        &mut self,
        wanted: Vec<(TopicPartition, FetchPartition)>,
        topic_id: impl Fn(&str) -> Option<[u8; 16]>,
    ) -> SessionRequest {
        let mut topic_ids = self.take_ids(&wanted, topic_id);
        let mut new: BTreeMap<TopicPartition, FetchPartition> = wanted.iter().cloned().collect();
        std::mem::swap(&mut new, &mut self.partitions);
        let old = new;
        let (partitions, forgotten) = if self.next_epoch == 0 {
            (wanted, Vec::new())
        } else {
            let forgotten: Vec<TopicPartition> =
                old.keys().filter(|key| !self.partitions.contains_key(*key)).cloned().collect();
            for key in &forgotten {
                if let Some(id) = topic_ids.old.remove(&key.topic) {
                    topic_ids.named.insert(Arc::clone(&key.topic), id);
                }
            }
            let changed =
                wanted.into_iter().filter(|(key, entry)| old.get(key) != Some(entry)).collect();
            (changed, forgotten)
        };
        SessionRequest {
            session_id: self.session_id,
            session_epoch: self.next_epoch,
            partitions,
            forgotten,
            by_ids: self.by_ids,
            topic_ids: topic_ids.named,
        }
    }

    /// Takes the answer to the last request built. Topics that it holds by id get their names.
    pub fn handle_response(&mut self, response: &mut FetchResponse) -> SessionOutcome {
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
        let checked =
            self.name_topics(response).and_then(|()| self.check_partitions(response, full));
        if let Err(violation) = checked {
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
            by_ids: self.by_ids,
            topic_ids: BTreeMap::new(),
        })
    }

    /// True if `topic_partition` is part of what the last request asked for.
    #[must_use]
    pub fn contains(&self, topic_partition: &TopicPartition) -> bool {
        self.partitions.contains_key(topic_partition)
    }

    /// Decides whether topics go by ids from now on, and opens another session if that can not go on in this one.
    fn take_ids(
        &mut self,
        wanted: &[(TopicPartition, FetchPartition)],
        topic_id: impl Fn(&str) -> Option<[u8; 16]>,
    ) -> Ids {
        let topics: BTreeSet<&Arc<str>> = wanted.iter().map(|(key, _)| &key.topic).collect();
        let new: Option<BTreeMap<Arc<str>, [u8; 16]>> =
            topics.iter().map(|topic| Some((Arc::clone(topic), topic_id(topic)?))).collect();
        let by_ids = if wanted.is_empty() { self.by_ids } else { new.is_some() };
        let new = new.filter(|_| by_ids).unwrap_or_default();
        let replaced =
            new.iter().any(|(topic, id)| self.topic_ids.get(topic).is_some_and(|old| old != id));
        if by_ids != self.by_ids || replaced {
            self.next_epoch = 0;
        }
        self.by_ids = by_ids;
        self.topic_names = new.iter().map(|(topic, id)| (*id, Arc::clone(topic))).collect();
        let old = std::mem::replace(&mut self.topic_ids, new.clone());
        Ids { old, named: new }
    }

    fn name_topics(&self, response: &mut FetchResponse) -> Result<(), SessionViolation> {
        for topic in response.topics.iter_mut().filter(|topic| topic.topic_id != NO_TOPIC_ID) {
            let name = self.topic_names.get(&topic.topic_id);
            let name = name.ok_or(SessionViolation::UninvitedId(topic.topic_id))?;
            topic.topic = Arc::clone(name);
        }
        Ok(())
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

/// Ids of topics, about a request.
struct Ids {
    /// Of the session before it.
    old: BTreeMap<Arc<str>, [u8; 16]>,
    /// Of those that it names.
    named: BTreeMap<Arc<str>, [u8; 16]>,
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
