//! Fetch sessions: a client names its partitions once, then only what changed (KIP-227).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millstream_protocol::messages::{
    FIRST_FETCH_BY_ID, FetchPartition, FetchPartitionResponse, FetchRequest,
};
use millstream_protocol::{ErrorCode, NO_TOPIC_ID, Timestamp, TopicPartition};

use super::random::Random;

/// Epoch of a request that starts a session.
const INITIAL_EPOCH: i32 = 0;

/// Epoch of a request that wants none.
const FINAL_EPOCH: i32 = -1;

/// A partition that is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) partition: FetchPartition,
    /// Of its topic, if it was asked for by that.
    pub(crate) topic_id: [u8; 16],
}

/// What a request's session fields came to.
#[derive(Clone, Debug)]
pub(crate) enum FetchContext {
    /// Answer every partition, keep nothing.
    Sessionless,
    /// Answer every partition, open a session with the answer.
    Full,
    /// Answer what has news.
    Incremental(i32),
}

#[derive(Clone, Debug)]
struct SessionPartition {
    /// Place in the order of service; a partition that gave data goes to the end.
    order: u64,
    request: Wanted,
    high_watermark: i64,
    log_start_offset: i64,
}

#[derive(Debug)]
struct FetchSession {
    /// Topics go by ids.
    by_ids: bool,
    /// The epoch the next request must carry.
    epoch: i32,
    created: Timestamp,
    last_used: Timestamp,
    next_order: u64,
    partitions: BTreeMap<TopicPartition, SessionPartition>,
    order: BTreeMap<u64, TopicPartition>,
}

impl FetchSession {
    fn new(now: Timestamp, by_ids: bool) -> Self {
        Self {
            by_ids,
            epoch: 1,
            created: now,
            last_used: now,
            next_order: 0,
            partitions: BTreeMap::new(),
            order: BTreeMap::new(),
        }
    }

    fn set(&mut self, topic_partition: TopicPartition, request: Wanted) {
        if let Some(known) = self.partitions.get_mut(&topic_partition) {
            known.request = request;
            return;
        }
        let order = self.take_order();
        self.order.insert(order, topic_partition.clone());
        let partition =
            SessionPartition { order, request, high_watermark: -1, log_start_offset: -1 };
        self.partitions.insert(topic_partition, partition);
    }

    fn forget(&mut self, topic_partition: &TopicPartition) {
        if let Some(partition) = self.partitions.remove(topic_partition) {
            self.order.remove(&partition.order);
        }
    }

    fn move_to_end(&mut self, topic_partition: &TopicPartition) {
        let order = self.take_order();
        if let Some(partition) = self.partitions.get_mut(topic_partition) {
            self.order.remove(&partition.order);
            partition.order = order;
            self.order.insert(order, topic_partition.clone());
        }
    }

    fn take_order(&mut self) -> u64 {
        self.next_order += 1;
        self.next_order
    }

    /// Notes an answer; whether it is news to the client.
    fn note(&mut self, topic_partition: &TopicPartition, answer: &FetchPartitionResponse) -> bool {
        let Some(known) = self.partitions.get_mut(topic_partition) else { return true };
        let failed = answer.error_code != ErrorCode::NONE;
        let news = !answer.records.is_empty()
            || known.high_watermark != answer.high_watermark
            || known.log_start_offset != answer.log_start_offset
            || failed;
        known.high_watermark = if failed { -1 } else { answer.high_watermark };
        known.log_start_offset = answer.log_start_offset;
        if !answer.records.is_empty() {
            self.move_to_end(topic_partition);
        }
        news
    }
}

/// All sessions of a broker.
#[derive(Debug)]
pub(crate) struct FetchSessions {
    slots: usize,
    eviction: Duration,
    sessions: BTreeMap<i32, FetchSession>,
}

impl FetchSessions {
    pub(crate) fn new(slots: usize, eviction: Duration) -> Self {
        Self { slots, eviction, sessions: BTreeMap::new() }
    }

    /// Applies a request's session fields.
    ///
    /// # Errors
    ///
    /// FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or FETCH_SESSION_TOPIC_ID_ERROR, for the whole request.
    pub(crate) fn begin(
        &mut self,
        now: Timestamp,
        version: i16,
        request: &FetchRequest,
    ) -> Result<FetchContext, ErrorCode> {
        // Before version 7 there are no sessions.
        if version < 7 {
            return Ok(FetchContext::Sessionless);
        }
        match request.session_epoch {
            FINAL_EPOCH => {
                self.sessions.remove(&request.session_id);
                Ok(FetchContext::Sessionless)
            }
            INITIAL_EPOCH => {
                self.sessions.remove(&request.session_id);
                Ok(FetchContext::Full)
            }
            epoch => self.continued(now, epoch, version >= FIRST_FETCH_BY_ID, request),
        }
    }

    fn continued(
        &mut self,
        now: Timestamp,
        epoch: i32,
        by_ids: bool,
        request: &FetchRequest,
    ) -> Result<FetchContext, ErrorCode> {
        let id = request.session_id;
        let Some(session) = self.sessions.get_mut(&id) else {
            return Err(ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
        };
        if session.epoch != epoch {
            return Err(ErrorCode::INVALID_FETCH_SESSION_EPOCH);
        }
        if session.by_ids != by_ids {
            return Err(ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR);
        }
        for (topic_partition, partition) in requested(request) {
            session.set(topic_partition, partition);
        }
        for topic in &request.forgotten_topics {
            for partition in &topic.partitions {
                session
                    .forget(&TopicPartition { topic: topic.topic.clone(), partition: *partition });
            }
        }
        // After the largest epoch comes 1; 0 and -1 have meanings of their own.
        session.epoch = session.epoch.checked_add(1).unwrap_or(1);
        session.last_used = now;
        if session.partitions.is_empty() {
            self.sessions.remove(&id);
            return Ok(FetchContext::Sessionless);
        }
        Ok(FetchContext::Incremental(id))
    }

    /// The partitions to answer, in the order of service.
    pub(crate) fn partitions(
        &self,
        context: &FetchContext,
        request: &FetchRequest,
    ) -> Vec<(TopicPartition, Wanted)> {
        let FetchContext::Incremental(id) = context else { return requested(request).collect() };
        let Some(session) = self.sessions.get(id) else { return Vec::new() };
        session
            .order
            .values()
            .filter_map(|place| Some((place.clone(), session.partitions.get(place)?.request)))
            .collect()
    }

    /// Ends an answer: opens the session a full request asked for, or leaves out what is no news.
    ///
    /// Returns the session id to answer; 0 if there was no room.
    pub(crate) fn finish(
        &mut self,
        now: Timestamp,
        context: &FetchContext,
        random: &mut Random,
        by_ids: bool,
        requests: &[(TopicPartition, Wanted)],
        answers: &mut Vec<(TopicPartition, FetchPartitionResponse)>,
    ) -> i32 {
        match context {
            FetchContext::Sessionless => 0,
            FetchContext::Incremental(id) => {
                if let Some(session) = self.sessions.get_mut(id) {
                    answers.retain(|(place, answer)| session.note(place, answer));
                }
                *id
            }
            FetchContext::Full => {
                if !self.make_room(now, requests.len()) {
                    return 0;
                }
                let mut session = FetchSession::new(now, by_ids);
                for (place, request) in requests {
                    session.set(place.clone(), *request);
                }
                for (place, answer) in answers.iter() {
                    session.note(place, answer);
                }
                let id = loop {
                    let id = random.positive_i32();
                    if !self.sessions.contains_key(&id) {
                        break id;
                    }
                };
                self.sessions.insert(id, session);
                id
            }
        }
    }

    /// Whether a session of `size` partitions fits, after throwing out one that is stale or smaller.
    fn make_room(&mut self, now: Timestamp, size: usize) -> bool {
        if size == 0 {
            return false;
        }
        if self.sessions.len() < self.slots {
            return true;
        }
        let stale = self.sessions.iter().min_by_key(|(_, session)| session.last_used);
        let stale = stale
            .filter(|(_, session)| now.since(session.last_used) > self.eviction)
            .map(|(id, _)| *id);
        let smallest = || {
            let smallest =
                self.sessions.iter().min_by_key(|(_, s)| (s.partitions.len(), s.created));
            smallest
                .filter(|(_, s)| s.partitions.len() < size && now.since(s.created) > self.eviction)
                .map(|(id, _)| *id)
        };
        match stale.or_else(smallest) {
            Some(id) => {
                self.sessions.remove(&id);
                true
            }
            None => false,
        }
    }
}

fn requested(request: &FetchRequest) -> impl Iterator<Item = (TopicPartition, Wanted)> + '_ {
    request.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| {
            (
                TopicPartition { topic: topic.topic.clone(), partition: partition.partition },
                Wanted { partition: *partition, topic_id: topic.topic_id },
            )
        })
    })
}

/// Gives topics that are asked for by id a name: that of the topic, or if there is none, one that no topic has.
pub(crate) fn name_topics(request: &mut FetchRequest, name: impl Fn([u8; 16]) -> Option<Arc<str>>) {
    let name = |id: [u8; 16]| {
        let nameless = || format!("\0{}", uuid::Uuid::from_bytes(id)).into();
        name(id).unwrap_or_else(nameless)
    };
    for topic in request.topics.iter_mut().filter(|topic| topic.topic_id != NO_TOPIC_ID) {
        topic.topic = name(topic.topic_id);
    }
    for topic in request.forgotten_topics.iter_mut().filter(|topic| topic.topic_id != NO_TOPIC_ID) {
        topic.topic = name(topic.topic_id);
    }
}
