//! Which batches go to which broker now.

use std::collections::BTreeSet;

use super::partition_window::{Next, PartitionWindow, Status};
use super::producer::{ProduceInFlight, Producer};
use crate::messages::{ProducePartition, ProduceRequest, ProduceTopic, Request};
use crate::network::{ConnectionClass, Destination, Metadata, OutgoingRequest, RequestToken};
use crate::transaction::TransactionMode;
use crate::{NodeId, ProducerIdAndEpoch, StaleMetadata, Timestamp, TopicPartition};

impl Producer {
    pub(super) fn poll_produce(
        &mut self,
        now: Timestamp,
        metadata: &Metadata,
    ) -> Option<OutgoingRequest> {
        let identity = self.transactions.identity()?;
        let mode = self.transactions.mode();
        if self.is_transactional() && (mode.is_none() || self.open.is_none()) {
            return None;
        }
        let brokers = metadata.brokers();
        if !brokers.is_empty() && brokers.keys().all(|node| self.is_busy(*node)) {
            return None;
        }
        let mut node: Option<NodeId> = None;
        let mut chosen: Vec<(TopicPartition, bool)> = Vec::new();
        let mut bytes = 0;
        for key in self.candidates() {
            let Some((leader, again, size)) = self.sendable(now, metadata, &key, identity, mode)
            else {
                continue;
            };
            if node.is_some_and(|node| node != leader) || self.is_busy(leader) {
                continue;
            }
            if !chosen.is_empty() && bytes + size > self.config.max_request_size {
                continue;
            }
            node = Some(leader);
            bytes += size;
            chosen.push((key, again));
        }
        let node = node?;
        // The next request begins behind this one's last partition, so that none is always first.
        self.cursor = chosen.last().map(|(key, _)| key.clone());
        let token = RequestToken(self.next_token);
        self.next_token += 1;
        let mut topics: Vec<ProduceTopic> = Vec::new();
        let mut partitions = Vec::new();
        chosen.sort();
        for (key, again) in chosen {
            let Some(records) = self.take(&key, again, token, node) else { continue };
            let entry = ProducePartition { partition: key.partition, records };
            match topics.last_mut() {
                Some(last) if last.topic == key.topic => last.partitions.push(entry),
                _ => {
                    topics.push(ProduceTopic { topic: key.topic.clone(), partitions: vec![entry] })
                }
            }
            partitions.push(key);
        }
        self.transactions.handle_written();
        self.in_flight.insert(token, ProduceInFlight { node, partitions });
        let timeout = self.config.request_timeout;
        Some(OutgoingRequest {
            token,
            destination: Destination::Node(node),
            class: ConnectionClass::Produce,
            request: Request::Produce(ProduceRequest {
                transactional_id: self.transactional_id().map(|id| id.to_string()),
                acks: -1,
                timeout_ms: i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX),
                topics,
            }),
            // KIP-890: from version 12 on a batch adds its partition to the transaction.
            max_version: (mode == Some(TransactionMode::Tv1)).then_some(11),
            timeout,
        })
    }

    /// Partitions with anything to send, starting behind the last one served.
    fn candidates(&mut self) -> Vec<TopicPartition> {
        let open = self.open.unwrap_or_default();
        let waits = |window: &PartitionWindow| {
            window.batches.iter().any(|sent| sent.status == Status::Waiting)
        };
        let windows = &self.windows;
        self.held.retain(|key| {
            windows.get(key).is_some_and(|window| window.retry_at.is_some() || waits(window))
        });
        let waiting = self.held.iter().filter(|key| windows.get(*key).is_some_and(waits));
        let mut keys: BTreeSet<TopicPartition> = waiting.cloned().collect();
        if let Some(queues) = self.accumulator.sendable(open) {
            queues.retain(|_, queue| !queue.is_empty());
            keys.extend(queues.keys().cloned());
        }
        let Some(cursor) = &self.cursor else { return keys.into_iter().collect() };
        let (before, behind): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| key <= cursor);
        behind.into_iter().chain(before).collect()
    }

    /// The leader to send to, whether it is for a retry, and how many bytes.
    fn sendable(
        &mut self,
        now: Timestamp,
        metadata: &Metadata,
        key: &TopicPartition,
        identity: ProducerIdAndEpoch,
        mode: Option<TransactionMode>,
    ) -> Option<(NodeId, bool, usize)> {
        let window =
            self.windows.entry(key.clone()).or_insert_with(|| PartitionWindow::new(identity));
        window.adopt(identity);
        if window.retry_at.is_some_and(|at| now < at) {
            return None;
        }
        let Some(leader) = metadata.leader(key) else {
            window.failures = window.failures.saturating_add(1);
            let delay = self.config.retry_backoff.delay(window.failures, &mut self.jitter);
            window.retry_at = Some(now.after(delay));
            self.held.insert(key.clone());
            let topic_partition = key.clone();
            self.stale.push_back(StaleMetadata::Leader { topic_partition, hint: None });
            return None;
        };
        // A leader that knows nothing of the producer takes whatever sequence comes first. Were several batches under way and the
        // first one refused (a partition that was just created has no leader yet), a later one would take its place.
        // KIP-890: under TV2 the first batch also makes the leader register the partition, and others are out of order until then.
        // To a leader that wrote the transaction before they go all the same: it serves a connection in order, and to one
        // that knows the producer a new epoch begins with its first sequence and no other.
        let known = window.acked_by.is_some()
            || self.known_by.get(key) == Some(&(leader.node, identity.producer_id));
        let limit = if known { MAX_UNACKNOWLEDGED } else { 1 };
        let next = window.next(leader.node, limit, now);
        // A partition with another identity waits for what it has in flight.
        if next == Next::New && window.identity != identity {
            return None;
        }
        if next != Next::Nothing && mode.is_some() && !self.transactions.may_write(now, key) {
            return None;
        }
        match next {
            Next::Nothing => None,
            Next::Retry => {
                let front = self.windows.get(key)?.batches.front()?;
                Some((leader.node, true, front.batch.size_bytes()))
            }
            Next::New => {
                let queues = self.accumulator.sendable(self.open.unwrap_or_default())?;
                let front = queues.get(key)?.front()?;
                Some((leader.node, false, front.batch.size_bytes()))
            }
        }
    }

    /// Marks the batch as in flight. Its bytes.
    fn take(
        &mut self,
        key: &TopicPartition,
        again: bool,
        token: RequestToken,
        node: NodeId,
    ) -> Option<bytes::Bytes> {
        let transactional = self.is_transactional();
        let window = self.windows.get_mut(key)?;
        let sent = if again {
            window.batches.front_mut()?
        } else {
            let queues = self.accumulator.sendable(self.open.unwrap_or_default())?;
            let queued = queues.get_mut(key)?.pop_front()?;
            window.push(queued, transactional)
        };
        sent.status = Status::InFlight(token, node);
        sent.attempts = sent.attempts.saturating_add(1);
        Some(sent.batch.bytes())
    }

    fn is_busy(&self, node: NodeId) -> bool {
        let in_flight = self.in_flight.values().filter(|request| request.node == node).count();
        in_flight >= self.config.max_in_flight
    }
}

/// A broker remembers the last five batches of a producer per partition, and knows them again (KIP-98).
const MAX_UNACKNOWLEDGED: usize = 5;
