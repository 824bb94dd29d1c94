//! Another process ends what the first has prepared, or is told what became of it.

use millstream_protocol::records::Compression;
use millstream_protocol::{IsolationLevel, ProducerIdAndEpoch};
use millstream_protocol_client::{
    KafkaClient, PreparedTransaction, Producer, TransactionMode, TransactionOutcome,
};
use millstream_testcontainers::{FaultRule, JavaRecord, api_key};
use millstream_tests::records::{consume_all, send};

use crate::clusters::{Arena, LIMIT, eventually, matched, partition, settled, unique};

/// The first process: it writes, flushes, tells what another needs, and is gone.
async fn prepare(arena: &Arena, topic: &str, id: &str, properties: &[&str]) -> PreparedTransaction {
    let client = arena.client(&unique("first"), properties).await;
    let producer = client.producer(Some(id));
    producer.init_transactions().await.unwrap();
    producer.begin_transaction(1).unwrap();
    assert_eq!(producer.prepared_transaction(), None, "nothing is sent yet");
    let record = JavaRecord { value: Some(id.as_bytes().to_vec()), ..JavaRecord::default() };
    send(&producer, topic, Compression::None, &[record], 1).await;
    let prepared = producer.prepared_transaction().expect("something is sent");
    let mode = match arena.transaction_version() {
        2 => TransactionMode::Tv2,
        _ => TransactionMode::Tv1,
    };
    assert_eq!((&*prepared.transactional_id, prepared.mode), (id, mode));
    client.close().await;
    prepared
}

async fn stage(arena: &Arena) -> (KafkaClient, String, String) {
    let id = unique("resume");
    let second = arena.client(&id, &[]).await;
    let topic = arena.topic(&second, 1, &[]).await;
    (second, topic, id)
}

/// What a reader of committed records sees.
async fn visible(client: &KafkaClient, topic: &str) -> usize {
    settled(client, &partition(topic, 0)).await;
    consume_all(client, topic, IsolationLevel::ReadCommitted).await.len()
}

async fn owner(client: &KafkaClient, id: &str) -> Producer {
    let producer = client.producer(Some(id));
    eventually("a fence", || async { producer.init_transactions().await.ok() }).await;
    producer
}

/// It is open: whoever comes commits it, or aborts it. A lost answer is asked for again.
pub(crate) async fn resume_open_transaction(arena: &'static Arena) {
    for (commit, outcome, count) in
        [(true, TransactionOutcome::Committed, 1), (false, TransactionOutcome::Aborted, 0)]
    {
        let (second, topic, id) = stage(arena).await;
        let prepared = prepare(arena, &topic, &id, &[]).await;
        let lost = FaultRule::requests(api_key::END_TXN).of_client(&id).times(1).cut_after();
        let rules = arena.rule(&lost);
        assert_eq!(second.finish_transaction(&prepared, commit).await.unwrap(), outcome);
        assert!(matched(&rules) > 0);
        assert_eq!(visible(&second, &topic).await, count);
    }
}

/// It was ended before: the same answer as the first time, whichever end is asked for.
pub(crate) async fn resume_ended_transaction(arena: &'static Arena) {
    for (first, outcome) in
        [(true, TransactionOutcome::Committed), (false, TransactionOutcome::Aborted)]
    {
        let (second, topic, id) = stage(arena).await;
        let prepared = prepare(arena, &topic, &id, &[]).await;
        for _ in 0..2 {
            assert_eq!(second.finish_transaction(&prepared, first).await.unwrap(), outcome);
        }
        let other = second.finish_transaction(&prepared, !first).await.unwrap();
        assert_eq!(other, outcome, "ended with commit {first}, then asked for {}", !first);
    }
}

/// The coordinator has aborted it by itself.
pub(crate) async fn resume_timed_out_transaction(arena: &'static Arena) {
    let (second, topic, id) = stage(arena).await;
    let prepared = prepare(arena, &topic, &id, &["transaction.timeout.ms=3000"]).await;
    let found = eventually("the transaction times out", || async {
        let found = second.describe_transactions(&[&id]).await.remove(&id).unwrap().unwrap();
        (found.state == "CompleteAbort").then_some(found)
    })
    .await;
    let outcome = second.finish_transaction(&prepared, true).await.unwrap();
    let next_epoch = ProducerIdAndEpoch {
        producer_epoch: prepared.producer.producer_epoch + 1,
        ..prepared.producer
    };
    assert_eq!(found.producer, next_epoch);
    let expected = match prepared.mode {
        TransactionMode::Tv2 => TransactionOutcome::Aborted,
        // It could be of a later owner, for all that the coordinator knows.
        TransactionMode::Tv1 => {
            TransactionOutcome::Superseded { state: found.state, owner: next_epoch }
        }
    };
    assert_eq!(outcome, expected);
    assert_eq!(visible(&second, &topic).await, 0);
}

/// Somebody initialized the id and went on: what became of the one before can not be told.
pub(crate) async fn resume_superseded_transaction(arena: &'static Arena) {
    let (second, topic, id) = stage(arena).await;
    let prepared = prepare(arena, &topic, &id, &[]).await;
    let later = owner(&second, &id).await;
    later.begin_transaction(1).unwrap();
    let record = JavaRecord { value: Some(b"later".to_vec()), ..JavaRecord::default() };
    send(&later, &topic, Compression::None, &[record], 1).await;
    let outcome = second.finish_transaction(&prepared, true).await.unwrap();
    assert!(
        matches!(&outcome, TransactionOutcome::Superseded { state, .. } if state == "Ongoing"),
        "{outcome:?}"
    );
    later.commit_transaction(LIMIT).await.unwrap();
    let outcome = second.finish_transaction(&prepared, true).await.unwrap();
    assert!(matches!(outcome, TransactionOutcome::Superseded { .. }), "{outcome:?}");
    assert_eq!(visible(&second, &topic).await, 1, "the later one's record alone");
}

/// The coordinator does not know the id.
pub(crate) async fn resume_expired_id(arena: &'static Arena) {
    let (second, _, id) = stage(arena).await;
    let prepared = PreparedTransaction {
        transactional_id: id.into(),
        producer: ProducerIdAndEpoch { producer_id: 4711, producer_epoch: 3 },
        mode: TransactionMode::Tv1,
    };
    let outcome = second.finish_transaction(&prepared, true).await.unwrap();
    assert_eq!(outcome, TransactionOutcome::Expired);
}
