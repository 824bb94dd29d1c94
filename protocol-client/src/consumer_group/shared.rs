//! What the reader's end and the task share.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millstream_protocol::fetch::FetchStart;
use millstream_protocol::group::MemberIdentity;
use millstream_protocol::{Timestamp, TopicPartition};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::{GroupConsumerError, PositionError};

/// A position to commit: the next offset, and the leader epoch of the record before.
pub(super) type Position = (i64, i32);

/// News from the task, in order.
#[derive(Debug)]
pub(super) enum GroupNews {
    Assigned(Vec<FetchStart>),
    /// `revocation` comes back with the acknowledgement.
    Revoked {
        partitions: BTreeSet<TopicPartition>,
        revocation: u64,
    },
    Lost(BTreeSet<TopicPartition>),
    /// A partition is read from here on, after its position was outside the log.
    Reset(FetchStart),
    Failed(TopicPartition, PositionError),
}

#[derive(Debug)]
pub(super) struct GroupShared {
    state: Mutex<State>,
    /// The reader waits for it: news, records, the end.
    pub(super) arrived: Notify,
    /// How often the reader has asked for an event.
    polls: AtomicU64,
    /// Microseconds since `started` at which the reader was given an event; 0 while it waits for one.
    busy_since: AtomicU64,
    /// The member has left because the reader was too slow; its next poll is awaited.
    pub(super) awaits_poll: AtomicBool,
    started: Instant,
}

/// What the lock guards; held for one map operation.
#[derive(Debug)]
pub(super) struct State {
    pub(super) news: VecDeque<GroupNews>,
    /// What the reader has been told that it owns.
    pub(super) assignment: BTreeSet<TopicPartition>,
    /// Behind everything that the reader is done with.
    pub(super) processed: BTreeMap<TopicPartition, Position>,
    pub(super) identity: MemberIdentity,
    pub(super) ended: Option<GroupConsumerError>,
}

impl GroupShared {
    pub(super) fn new(identity: MemberIdentity) -> Self {
        Self {
            state: Mutex::new(State {
                news: VecDeque::new(),
                assignment: BTreeSet::new(),
                processed: BTreeMap::new(),
                identity,
                ended: None,
            }),
            arrived: Notify::new(),
            polls: AtomicU64::new(0),
            busy_since: AtomicU64::new(0),
            awaits_poll: AtomicBool::new(false),
            started: Instant::now(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // Whole maps are consistent whatever their holder panicked of.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn push(&self, news: GroupNews) {
        self.lock().news.push_back(news);
        self.arrived.notify_one();
    }

    pub(super) fn now(&self) -> Timestamp {
        // Never 0, which means that nobody is busy.
        Timestamp::from_micros(1).after(self.started.elapsed())
    }

    pub(super) fn instant(&self, at: Timestamp) -> Instant {
        self.started + at.since(Timestamp::ZERO) + Duration::from_millis(1)
    }

    /// The reader asks for an event.
    pub(super) fn poll(&self) {
        self.busy_since.store(0, Ordering::Release);
        self.polls.fetch_add(1, Ordering::AcqRel);
    }

    /// The reader was given one, or stopped waiting.
    pub(super) fn busy(&self) {
        self.busy_since.store(self.now().as_micros(), Ordering::Release);
    }

    /// Polls so far, and since when the reader is busy.
    pub(super) fn activity(&self) -> (u64, Option<Timestamp>) {
        let busy_since = self.busy_since.load(Ordering::Acquire);
        let busy_since = (busy_since > 0).then(|| Timestamp::from_micros(busy_since));
        (self.polls.load(Ordering::Acquire), busy_since)
    }
}
