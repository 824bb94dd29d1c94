//! What goes on while the cluster is struck: numbered records written and read, transactions committed and aborted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use millstream_protocol::fetch::FetchedPartition;
use millstream_protocol::{IsolationLevel, TopicPartition};
use millstream_protocol_client::{
    ClientConfig, CommitError, ConsumerEvent, Delivery, FetchEvent, FetchStart, KafkaClient,
    ProduceError, ProducerRecord, RecordProducer, SendError,
};
use tokio::sync::oneshot::{Receiver, error::TryRecvError};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, interval, timeout};

use super::numbered::Reading;

/// Topic of the numbered records.
pub(crate) const NUMBERED: &str = "numbered";
/// Topic of the transactions.
pub(crate) const TRANSACTIONS: &str = "transactions";
/// Who writes them.
pub(crate) const TRANSACTIONAL: &str = "teller";
/// Who reads the numbered records as a member.
pub(crate) const GROUP: &str = "readers";

/// Records of one transaction.
pub(crate) const IN_TRANSACTION: u64 = 10;

/// Without any progress for so long something hangs.
const LIMIT: Duration = Duration::from_secs(180);
/// Between two looks at the clock of whoever paces.
const TICK: Duration = Duration::from_millis(10);

/// Positions that are being committed, and the answer to come.
type Committing = (Vec<i64>, Receiver<Result<(), CommitError>>);

/// How much is written, where, and how quickly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) records: u64,
    pub(crate) partitions: i32,
    pub(crate) per_second: u64,
}

impl Plan {
    /// Numbers of one partition.
    pub(crate) fn per_partition(&self) -> u64 {
        self.records / self.lanes()
    }

    fn lanes(&self) -> u64 {
        u64::try_from(self.partitions).unwrap()
    }
}

/// A client that gives up on silent brokers after `request_timeout`, and on nothing else before the test does.
pub(crate) async fn client(servers: &str, request_timeout: Duration, more: &[&str]) -> KafkaClient {
    let timeout = format!("request.timeout.ms={}", request_timeout.as_millis());
    let patience = LIMIT.as_millis();
    let patient = [
        format!("delivery.timeout.ms={patience}"),
        format!("default.api.timeout.ms={patience}"),
        format!("max.block.ms={patience}"),
    ];
    let config = ClientConfig::new(servers).with([timeout]).unwrap().with(patient).unwrap();
    KafkaClient::connect(config.with(more).unwrap()).await.unwrap()
}

/// Writes the numbered records, at the plan's pace and no further than `allowed`, until `hurry`. Gives the offsets acknowledged, by
/// partition and number.
pub(crate) async fn produce(
    client: KafkaClient,
    plan: Plan,
    hurry: Arc<AtomicBool>,
    allowed: Arc<AtomicU64>,
    sent_so_far: Arc<AtomicU64>,
) -> Vec<Vec<Option<i64>>> {
    let producer = client.record_producer(None);
    let (sent, mut deliveries) = mpsc::unbounded_channel::<Delivery>();
    let lanes = usize::try_from(plan.partitions).unwrap();
    let collecting = tokio::spawn(async move {
        let mut offsets = vec![Vec::new(); lanes];
        while let Some(delivery) = deliveries.recv().await {
            let partition = usize::try_from(delivery.topic_partition().partition).unwrap();
            let written = delivery.wait().await.expect("every record is acknowledged");
            offsets[partition].push(written.offset);
        }
        offsets
    });
    let per_tick = (plan.per_second / 100).max(1);
    let mut ticks = interval(TICK);
    for number in 0..plan.per_partition() * plan.lanes() {
        if number % per_tick == 0 && !hurry.load(Ordering::Relaxed) {
            ticks.tick().await;
            while number >= allowed.load(Ordering::Relaxed) && !hurry.load(Ordering::Relaxed) {
                ticks.tick().await;
            }
        }
        let partition = i32::try_from(number % plan.lanes()).unwrap();
        let mut value = [b'.'; 40];
        value[..8].copy_from_slice(&(number / plan.lanes()).to_be_bytes());
        let record = ProducerRecord::to(NUMBERED, &value).partition(partition);
        sent.send(producer.send(&record).await.expect("there is room")).unwrap();
        sent_so_far.store(number + 1, Ordering::Relaxed);
    }
    producer.flush().await.expect("everything is acknowledged");
    drop(sent);
    collecting.await.unwrap()
}

/// The ends of all partitions, once everything is written.
pub(crate) type Ends = watch::Receiver<Option<Vec<i64>>>;

/// What one reader read.
#[derive(Debug)]
struct Readings {
    by_partition: Vec<Reading>,
    positions: Vec<i64>,
}

impl Readings {
    fn new(plan: Plan) -> Self {
        let lanes = usize::try_from(plan.partitions).unwrap();
        Self { by_partition: vec![Reading::default(); lanes], positions: vec![0; lanes] }
    }

    fn take(&mut self, fetched: &FetchedPartition) {
        let partition = index(&fetched.topic_partition);
        for batch in fetched.visible_batches(Default::default()) {
            let Some(block) = batch.unwrap().records else { continue };
            for view in block.iter() {
                let view = view.unwrap();
                let number = view.value.and_then(|value| value.first_chunk()).expect("a number");
                self.by_partition[partition].push(view.offset, u64::from_be_bytes(*number));
            }
        }
        self.positions[partition] = fetched.next_offset;
    }

    fn is_at(&self, ends: &Ends) -> bool {
        let ends = ends.borrow();
        ends.as_ref().is_some_and(|ends| self.positions.iter().zip(ends).all(|(at, end)| at >= end))
    }
}

fn index(partition: &TopicPartition) -> usize {
    usize::try_from(partition.partition).unwrap()
}

/// Reads all partitions from their beginning to the ends.
pub(crate) async fn read(client: KafkaClient, plan: Plan, mut ends: Ends) -> Vec<Reading> {
    let starts = (0..plan.partitions).map(|partition| FetchStart {
        topic_partition: TopicPartition::new(NUMBERED, partition),
        offset: 0,
        leader_epoch: -1,
    });
    let isolation = IsolationLevel::ReadCommitted;
    let mut consumer = client.partition_consumer(starts.collect(), isolation, Arc::new(|| {}));
    let mut readings = Readings::new(plan);
    while !readings.is_at(&ends) {
        let event = tokio::select! {
            event = timeout(LIMIT, consumer.next()) => event.expect("the reader gets on"),
            _ = ends.changed() => continue,
        };
        match event.expect("the client is open") {
            FetchEvent::Records(fetched) => readings.take(&fetched),
            FetchEvent::Progress { topic_partition, position, .. } => {
                readings.positions[index(&topic_partition)] = position;
            }
            FetchEvent::Failed { topic_partition, error } => panic!("{topic_partition}: {error}"),
        }
    }
    readings.by_partition
}

/// Reads as the member of a group that commits as it goes. What it was assigned after a commit never lies before that.
pub(crate) async fn read_as_member(
    client: KafkaClient,
    plan: Plan,
    mut ends: Ends,
) -> Vec<Reading> {
    let mut consumer = client.group_consumer().unwrap();
    consumer.subscribe([NUMBERED]);
    let mut readings = Readings::new(plan);
    let mut committed = readings.positions.clone();
    let mut committing: Option<Committing> = None;
    while !readings.is_at(&ends) {
        let event = tokio::select! {
            event = timeout(LIMIT, consumer.next()) => event.expect("the member gets on"),
            _ = ends.changed() => continue,
        };
        match event.expect("a membership") {
            ConsumerEvent::Records(fetched) => readings.take(&fetched),
            ConsumerEvent::Assigned(starts) => {
                for FetchStart { topic_partition, offset, .. } in starts {
                    let partition = index(&topic_partition);
                    let at_least = committed[partition];
                    assert!(offset >= at_least, "{topic_partition}: {offset} after {at_least}");
                    readings.by_partition[partition].rewind(offset);
                    readings.positions[partition] = offset;
                }
            }
            ConsumerEvent::Failed { topic_partition, error } => {
                panic!("{topic_partition}: {error}")
            }
            _ => {}
        }
        // One commit at a time. One that failed may have been carried out all the same.
        match committing.as_mut().map(|(_, answer)| answer.try_recv()) {
            Some(Err(TryRecvError::Empty)) => continue,
            Some(Ok(Ok(()))) => committed = committing.take().expect("it was just answered").0,
            _ => {}
        }
        committing = Some((readings.positions.clone(), consumer.commit_async()));
    }
    // Its offsets do not matter any more.
    let _ = consumer.close().await;
    readings.by_partition
}

/// What the producer was told of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Committed,
    Aborted,
    /// No definite answer: whole or not at all.
    Unknown,
}

/// Commits three of four transactions and aborts the fourth, until `stop`. Gives what it was told of each.
pub(crate) async fn transact(client: KafkaClient, stop: Arc<AtomicBool>) -> Vec<Fate> {
    let producer = client.record_producer(Some(TRANSACTIONAL));
    initialize(&producer).await;
    let mut fates = Vec::new();
    let mut ticks = interval(TICK * 3);
    while !stop.load(Ordering::Relaxed) {
        ticks.tick().await;
        let number = u64::try_from(fates.len()).unwrap();
        let fate = transaction(&producer, number).await;
        fates.push(fate.unwrap_or_else(|fate| fate));
        if fate.is_err() {
            initialize(&producer).await;
        }
    }
    fates
}

/// One transaction; `Err` if the producer must begin anew, which aborts what is open.
async fn transaction(producer: &RecordProducer, number: u64) -> Result<Fate, Fate> {
    producer.begin_transaction().await.map_err(|_| Fate::Aborted)?;
    for index in 0..IN_TRANSACTION {
        let mut value = [0; 16];
        value[..8].copy_from_slice(&number.to_be_bytes());
        value[8..].copy_from_slice(&index.to_be_bytes());
        let partition = i32::try_from(index % 2).unwrap();
        let record = ProducerRecord::to(TRANSACTIONS, &value).partition(partition);
        producer.send(&record).await.map_err(|_| Fate::Aborted)?;
    }
    if number % 4 == 3 {
        return producer
            .abort_transaction()
            .await
            .map(|()| Fate::Aborted)
            .map_err(|_| Fate::Aborted);
    }
    match producer.commit_transaction().await {
        Ok(()) => Ok(Fate::Committed),
        Err(SendError::Producer(ProduceError::Abortable { .. })) => Err(Fate::Aborted),
        Err(_) => Err(Fate::Unknown),
    }
}

async fn initialize(producer: &RecordProducer) {
    let deadline = Instant::now() + LIMIT;
    while let Err(error) = producer.init_transactions().await {
        assert!(Instant::now() < deadline, "{error}");
    }
}

/// What is wrong with the transactions that a reader of committed records saw: number and index of each record, by
/// partition, in order.
pub(crate) fn broken(fates: &[Fate], read: &[(i32, u64, u64)]) -> Vec<String> {
    let mut seen: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut last: BTreeMap<i32, (u64, u64)> = BTreeMap::new();
    let mut broken = Vec::new();
    for (partition, number, index) in read {
        seen.entry(*number).or_default().push(*index);
        let before = last.insert(*partition, (*number, *index));
        if before.is_some_and(|before| before >= (*number, *index)) {
            broken.push(format!("partition {partition}: {number}/{index} after {before:?}"));
        }
    }
    let whole: Vec<u64> = (0..IN_TRANSACTION).collect();
    for (number, fate) in (0..).zip(fates) {
        let mut indexes = seen.remove(&number).unwrap_or_default();
        indexes.sort_unstable();
        let right = match fate {
            Fate::Committed => indexes == whole,
            Fate::Aborted => indexes.is_empty(),
            Fate::Unknown => indexes.is_empty() || indexes == whole,
        };
        if !right {
            broken.push(format!("transaction {number} is {fate:?}, but has {indexes:?}"));
        }
    }
    broken.extend(seen.into_keys().map(|number| format!("nobody wrote transaction {number}")));
    broken
}

#[cfg(test)]
mod mutants {
    use super::*;

    fn whole(number: u64) -> Vec<(i32, u64, u64)> {
        (0..IN_TRANSACTION)
            .map(|index| (i32::try_from(index % 2).unwrap(), number, index))
            .collect()
    }

    #[test]
    fn the_judge_of_transactions_passes_whole_and_absent_ones() {
        let fates = [Fate::Committed, Fate::Aborted, Fate::Unknown, Fate::Unknown];
        assert_eq!(broken(&fates, &[whole(0), whole(2)].concat()), [""; 0]);
    }

    #[test]
    fn the_judge_of_transactions_notices_parts_and_lies() {
        let part = &whole(0)[1..];
        let committed = [Fate::Committed];
        assert_eq!(broken(&committed, part).len(), 1, "a record is missing");
        assert_eq!(broken(&[Fate::Unknown], part).len(), 1, "a part is visible");
        assert_eq!(broken(&committed, &[]).len(), 1, "committed, but not there");
        assert_eq!(broken(&[Fate::Aborted], &whole(0)).len(), 1, "aborted, but there");
        assert!(!broken(&committed, &[whole(0), whole(0)].concat()).is_empty(), "twice");
        let reversed = [whole(1), whole(0)].concat();
        assert!(!broken(&[Fate::Committed; 2], &reversed).is_empty(), "in another order");
    }
}
