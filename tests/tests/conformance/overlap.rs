//! Commits that writers do not wait for: what is sent while one is under way belongs to the next transaction, and shares
//! the fate of the one before only if that fails.

use millstream_protocol::{IsolationLevel, TopicPartition};
use millstream_protocol_client::{
    Delivery, KafkaClient, ProduceError, ProducerRecord, RecordProducer, SendError,
};
use millstream_testcontainers::{FaultHandle, FaultRule, api_key};
use millstream_tests::records::consume_all;

use crate::clusters::{Arena, LIMIT, eventually, matched, partition, settled, unique};

/// A transactional producer that has begun, and where it writes.
struct Writer {
    id: String,
    client: KafkaClient,
    tp: TopicPartition,
    producer: RecordProducer,
}

impl Writer {
    async fn new(arena: &Arena) -> Self {
        let id = unique("overlap");
        let client = arena.client(&id, &[]).await;
        let tp = partition(&arena.topic(&client, 1, &[]).await, 0);
        let producer = client.record_producer(Some(&id));
        producer.init_transactions().await.unwrap();
        producer.begin_transaction().await.unwrap();
        Self { id, client, tp, producer }
    }

    async fn send(&self, values: std::ops::Range<u32>) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        for value in values {
            let value = value.to_string();
            let record = ProducerRecord::to(&self.tp.topic, value.as_bytes()).partition(0);
            deliveries.push(self.producer.send(&record).await.unwrap());
        }
        deliveries
    }

    async fn visible(&self) -> Vec<u32> {
        settled(&self.client, &self.tp).await;
        let read = consume_all(&self.client, &self.tp.topic, IsolationLevel::ReadCommitted).await;
        let number = |value: Vec<u8>| String::from_utf8(value).unwrap().parse().unwrap();
        read.into_iter().map(|record| number(record.value.unwrap())).collect()
    }

    /// The next EndTxn of this client gets no further than to the proxy.
    fn hold_end(&self, arena: &Arena) -> Vec<FaultHandle> {
        arena.rule(&FaultRule::requests(api_key::END_TXN).of_client(&self.id).times(1).hold())
    }
}

async fn until_held(held: &[FaultHandle]) {
    eventually("EndTxn", async || (matched(held) > 0).then_some(())).await;
}

/// Writers go on while a commit is under way, and each record is visible with the transaction that it was sent in.
pub(crate) async fn overlap_records_sent_during_a_commit_are_of_the_next(arena: &'static Arena) {
    let writer = Writer::new(arena).await;
    let producer = &writer.producer;
    writer.send(0..10).await;
    let held = writer.hold_end(arena);
    let committing = producer.commit_and_begin_transaction().unwrap();
    until_held(&held).await;
    let during = writer.send(10..20).await;
    let again = producer.commit_and_begin_transaction();
    assert!(
        matches!(again, Err(SendError::Producer(ProduceError::InvalidState { .. }))),
        "one commit at a time: {again:?}"
    );
    assert!(!committing.is_ended());
    held.iter().for_each(FaultHandle::release);
    // A flush waits for the commit, and then for what was sent meanwhile.
    tokio::time::timeout(LIMIT, producer.flush()).await.unwrap().unwrap();
    assert!(committing.is_ended());
    committing.wait().await.unwrap();
    for delivery in during {
        delivery.wait().await.unwrap();
    }
    // Nobody waits for this one but the next verb; nothing of it may mix with what is aborted.
    drop(producer.commit_and_begin_transaction().unwrap());
    writer.send(20..30).await;
    producer.abort_transaction().await.unwrap();
    assert_eq!(writer.visible().await, (0..20).collect::<Vec<_>>());

    producer.begin_transaction().await.unwrap();
    writer.send(30..40).await;
    for round in 4..8 {
        let committing = producer.commit_and_begin_transaction().unwrap();
        writer.send(round * 10..(round + 1) * 10).await;
        committing.wait().await.unwrap();
    }
    producer.commit_transaction().await.unwrap();
    let expected: Vec<u32> = (0..20).chain(30..80).collect();
    assert_eq!(writer.visible().await, expected);
}

/// Another producer takes over while a commit is under way: neither the transaction nor anything behind it is visible, and
/// everybody is told.
pub(crate) async fn overlap_what_follows_a_failed_commit_fails_with_it(arena: &'static Arena) {
    let writer = Writer::new(arena).await;
    let producer = &writer.producer;
    writer.send(0..10).await;
    let held = writer.hold_end(arena);
    let committing = producer.commit_and_begin_transaction().unwrap();
    until_held(&held).await;
    let during = writer.send(10..20).await;

    let other_client = arena.client(&unique("overlap-other"), &[]).await;
    let other = other_client.record_producer(Some(&writer.id));
    other.init_transactions().await.unwrap();
    held.iter().for_each(FaultHandle::release);

    let ended = tokio::time::timeout(LIMIT, committing.wait()).await.unwrap();
    let is_lost = |error: &ProduceError| {
        matches!(error, ProduceError::Fenced { .. } | ProduceError::Abortable { .. })
    };
    assert!(ended.as_ref().is_err_and(is_lost), "{ended:?}");
    // Also those that wait for their batch to be sent.
    for delivery in during {
        let told = tokio::time::timeout(LIMIT, delivery.wait()).await.unwrap();
        assert!(told.as_ref().is_err_and(is_lost), "{told:?}");
    }
    let more = producer.try_send(&ProducerRecord::to(&writer.tp.topic, b"late").partition(0));
    let told = |result: &Result<(), SendError>| matches!(result, Err(SendError::Producer(error)) if is_lost(error));
    let more = more.map(|_| ());
    assert!(told(&more), "{more:?}");
    let next = producer.commit_transaction().await;
    assert!(told(&next), "{next:?}");
    assert_eq!(writer.visible().await, Vec::<u32>::new());
    other_client.close().await;

    // The way on is the same as ever.
    producer.init_transactions().await.unwrap();
    producer.begin_transaction().await.unwrap();
    writer.send(20..30).await;
    producer.commit_transaction().await.unwrap();
    assert_eq!(writer.visible().await, (20..30).collect::<Vec<_>>());
}
