//! The reader's end: events in order per partition, without a lock held longer than a queue operation.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millstream_protocol::TopicPartition;
use millstream_protocol::fetch::{FetchEvent, FetchStart};
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use crate::driver::{Command, ConsumerAction};

/// Reads some partitions from explicit positions (Fetch 4 to 12, in sessions by KIP-227), from the leader or a replica
/// nearby (`client.rack`, KIP-392). Commits nothing. Events come in order per partition. Dropping it ends the fetching.
///
/// [`try_next`](Self::try_next) is for worker threads without a runtime, [`next`](Self::next) for tasks.
///
/// A partition is not asked for while `max.partition.fetch.bytes` of it are not taken, and while 64 MiB of all are not
/// taken only partitions without any are; a batch that is larger comes whole all the same. One request per broker is under
/// way.
#[derive(Debug)]
pub struct PartitionConsumer {
    consumer: u32,
    shared: Arc<ConsumerShared>,
    commands: mpsc::UnboundedSender<Command>,
}

impl PartitionConsumer {
    pub(crate) fn new(
        consumer: u32,
        shared: Arc<ConsumerShared>,
        commands: mpsc::UnboundedSender<Command>,
    ) -> Self {
        Self { consumer, shared, commands }
    }

    /// The next event, if one is there. Never blocks, never waits for the driver; may be called without a runtime. Taking
    /// records lets the driver fetch more of their partition; it is woken for that only if it may be waiting for it.
    pub fn try_next(&mut self) -> Option<FetchEvent> {
        let (event, tell) = {
            let mut queue = self.shared.queue();
            let event = queue.events.pop_front()?;
            let tell = queue.release(&event);
            (event, tell)
        };
        if tell {
            // Without a driver nothing more is fetched.
            let _ = self.commands.send(Command::Wake);
        }
        Some(event)
    }

    /// The next event, however long it takes. `None` once the client is closed and everything fetched is read. Can be
    /// dropped and called again: nothing is lost.
    pub async fn next(&mut self) -> Option<FetchEvent> {
        loop {
            let closed = self.shared.closed.load(Ordering::Acquire);
            if let Some(event) = self.try_next() {
                return Some(event);
            }
            if closed {
                return None;
            }
            self.shared.arrived.notified().await;
        }
    }

    /// True once the client is closed: no event will come beside those that are queued.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }

    /// Starts a partition, or moves it to another position, also after [`FetchEvent::Failed`]. Events of its old position
    /// that are not read are dropped. A paused partition stays paused. The position is not checked here: one outside the
    /// log comes back as a failed partition.
    pub fn assign(&self, start: FetchStart) {
        self.supersede(&start.topic_partition);
        self.act(ConsumerAction::Assign(start));
    }

    /// Ends reading of a partition. Its unread events are dropped. Without effect for one that is not read.
    pub fn unassign(&self, partition: &TopicPartition) {
        self.supersede(partition);
        self.act(ConsumerAction::Unassign(partition.clone()));
    }

    /// Stops fetching a partition until [`resume`](Self::resume). What is fetched already, or asked for, still comes.
    pub fn pause(&self, partition: &TopicPartition) {
        self.act(ConsumerAction::Pause(partition.clone()));
    }

    /// Goes on fetching a paused partition.
    pub fn resume(&self, partition: &TopicPartition) {
        self.act(ConsumerAction::Resume(partition.clone()));
    }

    /// Says that until `until` the reader is in no hurry: brokers may wait for `min_bytes` of all partitions, `max_wait` at
    /// most, before they answer. From then on every byte is worth an answer again (`fetch.min.bytes`). It counts from the
    /// next request on; a later call takes the place of an earlier one.
    pub fn pace(&self, until: Instant, min_bytes: i32, max_wait: Duration) {
        self.shared.queue().pace = Some(Pace { until, min_bytes, max_wait });
    }

    fn act(&self, action: ConsumerAction) {
        // Without a driver there is nothing to act on; `next` tells.
        let _ = self.commands.send(Command::Consumer { consumer: self.consumer, action });
    }

    /// Drops the partition's events, also those that the driver queues before it takes the next command.
    fn supersede(&self, partition: &TopicPartition) {
        let mut queue = self.shared.queue();
        queue.events.retain(|event| event.topic_partition() != partition);
        *queue.superseded.entry(partition.clone()).or_insert(0) += 1;
    }
}

impl Drop for PartitionConsumer {
    fn drop(&mut self) {
        self.act(ConsumerAction::Close);
    }
}

/// How a reader wants to be served until some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    pub(crate) until: Instant,
    pub(crate) min_bytes: i32,
    pub(crate) max_wait: Duration,
}

/// What driver and reader share: the queue. The lock is held for one push or pop of whole fetched partitions, far apart.
pub(crate) struct ConsumerShared {
    queue: Mutex<Queue>,
    arrived: Notify,
    notify: Arc<dyn Fn() + Send + Sync>,
    closed: AtomicBool,
}

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<FetchEvent>,
    /// Partitions whose position the reader has changed and the driver has not yet: how often.
    superseded: BTreeMap<TopicPartition, u32>,
    /// Bytes that the reader has taken and the driver does not know of, and how many they are together.
    released: Vec<(TopicPartition, usize)>,
    released_bytes: usize,
    /// The driver is woken for so many of them; fewer it finds when something else wakes it.
    tell_bytes: usize,
    /// What the reader has said of it since the driver looked last.
    pace: Option<Pace>,
}

impl Queue {
    /// Notes that the reader has taken `event`. True if the driver should be told.
    fn release(&mut self, event: &FetchEvent) -> bool {
        let FetchEvent::Records(fetched) = event else { return false };
        let bytes = fetched.records.len();
        match self.released.last_mut() {
            Some((partition, released)) if *partition == fetched.topic_partition => {
                *released += bytes;
            }
            _ => self.released.push((fetched.topic_partition.clone(), bytes)),
        }
        let before = self.released_bytes;
        self.released_bytes += bytes;
        before < self.tell_bytes.max(1) && self.released_bytes >= self.tell_bytes
    }
}

impl fmt::Debug for ConsumerShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsumerShared").field("closed", &self.closed).finish_non_exhaustive()
    }
}

impl ConsumerShared {
    pub(crate) fn new(notify: Arc<dyn Fn() + Send + Sync>) -> Self {
        Self {
            queue: Mutex::new(Queue::default()),
            arrived: Notify::new(),
            notify,
            closed: AtomicBool::new(false),
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // A queue of whole events is consistent whatever its holder panicked of.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The driver holds a partition back from `bytes` unread bytes on. It need not know of half as many: a reader that has
    /// taken everything has told of all but those, so nothing is held back for long.
    pub(crate) fn hold_back_from(&self, bytes: usize) {
        self.queue().tell_bytes = bytes / 2;
    }

    /// What the reader has taken since the last call, and how it wants to be served if it has said so.
    pub(crate) fn take_released(&self, into: &mut Vec<(TopicPartition, usize)>) -> Option<Pace> {
        let mut queue = self.queue();
        into.append(&mut queue.released);
        queue.released_bytes = 0;
        queue.pace.take()
    }

    /// Queues an event. Only the newest of several progress reports in a row is kept, so a reader that sleeps finds a
    /// queue no longer than its partitions.
    pub(crate) fn push(&self, event: FetchEvent) {
        let mut queue = self.queue();
        if queue.superseded.contains_key(event.topic_partition()) {
            return;
        }
        if matches!(event, FetchEvent::Progress { .. }) {
            let partition = event.topic_partition();
            let mut newest = queue.events.iter_mut().rev();
            let last = newest.find(|queued| queued.topic_partition() == partition);
            if let Some(last @ FetchEvent::Progress { .. }) = last {
                *last = event;
                return;
            }
        }
        queue.events.push_back(event);
    }

    /// The driver has taken a change of the partition's position: events from here on are of the new one.
    pub(crate) fn settle(&self, partition: &TopicPartition) {
        let mut queue = self.queue();
        if let Some(count) = queue.superseded.get_mut(partition) {
            *count -= 1;
            if *count == 0 {
                queue.superseded.remove(partition);
            }
        }
    }

    pub(crate) fn wake(&self) {
        self.arrived.notify_one();
        (self.notify)();
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.wake();
    }
}

#[cfg(test)]
mod tests;
