//! Offsets committed in a transaction as the witness of its fate: fence, then read with `require_stable` (KIP-447). What that
//! rests on, and where it ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millstream_protocol::TopicPartition;
use millstream_protocol_client::{
    ClientError, ConsumerGroupMetadata, KafkaClient, NewTopic, OffsetAndMetadata, ProduceError,
    Producer,
};

use crate::clusters::{Arena, LIMIT, eventually, partition, unique};

/// Offsets are committed as nobody's member, which any group without members takes.
async fn note(
    producer: &Producer,
    group: &str,
    tp: &TopicPartition,
    number: i64,
    metadata: &str,
) -> Result<(), ProduceError> {
    let group = ConsumerGroupMetadata {
        group_id: Arc::from(group),
        generation_id: -1,
        member_id: Arc::from(""),
        group_instance_id: None,
    };
    let noted =
        OffsetAndMetadata { metadata: Arc::from(metadata), ..OffsetAndMetadata::new(number, -1) };
    producer.send_offsets_to_transaction(&group, BTreeMap::from([(tp.clone(), noted)])).await
}

async fn owner(client: &KafkaClient, id: &str) -> Producer {
    let producer = client.producer(Some(id));
    eventually("a fence", || async {
        match producer.init_transactions().await {
            Ok(_) => Some(()),
            Err(ProduceError::ConcurrentTransactions { .. }) => None,
            Err(error) => panic!("{error}"),
        }
    })
    .await;
    producer
}

async fn begin(producer: &Producer, tag: u64) {
    if producer.needs_bump() {
        producer.bump_epoch().await.unwrap();
    }
    producer.begin_transaction(tag).unwrap();
}

/// A transaction that notes a number and commits.
async fn commit_noting(
    producer: &Producer,
    group: &str,
    tp: &TopicPartition,
    number: i64,
    metadata: &str,
) {
    begin(producer, 1).await;
    note(producer, group, tp, number, metadata).await.unwrap();
    producer.commit_transaction(LIMIT).await.unwrap();
}

/// The number noted last by a transaction that counts.
async fn noted(
    client: &KafkaClient,
    group: &str,
    tp: &TopicPartition,
) -> Result<Option<i64>, ClientError> {
    let found = client.fetch_offsets(group, std::slice::from_ref(tp), true).await?;
    Ok(found[tp])
}

async fn stage(arena: &Arena) -> (KafkaClient, String, TopicPartition) {
    let id = unique("oracle");
    let client = arena.client(&id, &[]).await;
    let topic = arena.topic(&client, 1, &[]).await;
    (client, id, partition(&topic, 0))
}

/// While a transaction is open nobody can say: the question waits.
pub(crate) async fn oracle_waits_before_the_fence(arena: &'static Arena) {
    let (client, id, tp) = stage(arena).await;
    let producer = owner(&client, &id).await;
    commit_noting(&producer, &id, &tp, 1, "").await;
    assert_eq!(noted(&client, &id, &tp).await.unwrap(), Some(1));
    begin(&producer, 2).await;
    note(&producer, &id, &tp, 2, "").await.unwrap();
    let hasty = arena.client(&unique("oracle"), &["default.api.timeout.ms=3000"]).await;
    let unstable = hasty.fetch_offsets(&id, std::slice::from_ref(&tp), false).await.unwrap();
    assert_eq!(unstable[&tp], Some(1), "without require_stable, what was before");
    let unanswered = noted(&hasty, &id, &tp).await.unwrap_err().to_string();
    assert!(unanswered.contains("UNSTABLE_OFFSET_COMMIT"), "{unanswered}");
    producer.commit_transaction(LIMIT).await.unwrap();
    assert_eq!(noted(&client, &id, &tp).await.unwrap(), Some(2));
}

/// After the next owner's fence the answer is final: committed ones count, the open one does not.
pub(crate) async fn oracle_after_the_fence(arena: &'static Arena) {
    let (client, id, tp) = stage(arena).await;
    for (number, commit) in [(1, true), (2, false), (3, true), (4, false)] {
        let producer = owner(&client, &id).await;
        let expected = (number > 1).then_some(if number == 4 { 3 } else { 1 });
        assert_eq!(noted(&client, &id, &tp).await.unwrap(), expected, "before {number}");
        begin(&producer, 1).await;
        note(&producer, &id, &tp, number, "").await.unwrap();
        if commit {
            producer.commit_transaction(LIMIT).await.unwrap();
        }
        // Else it is left open, as by a crash.
    }
    owner(&client, &id).await;
    assert_eq!(noted(&client, &id, &tp).await.unwrap(), Some(3));
}

/// The key is group and partition: two transactional ids need two groups.
pub(crate) async fn oracle_last_commit_wins(arena: &'static Arena) {
    let (client, id, tp) = stage(arena).await;
    for (number, owner_of) in [(7, "a"), (3, "b")] {
        let producer = owner(&client, &format!("{id}-{owner_of}")).await;
        commit_noting(&producer, &id, &tp, number, "").await;
    }
    assert_eq!(noted(&client, &id, &tp).await.unwrap(), Some(3));
}

/// A plain commit that comes between overrides the transaction's, although that commits later.
pub(crate) async fn oracle_plain_commit_overrides(arena: &'static Arena) {
    let (client, id, tp) = stage(arena).await;
    let producer = owner(&client, &id).await;
    begin(&producer, 1).await;
    note(&producer, &id, &tp, 1, "").await.unwrap();
    client.commit_offsets(&id, &[(tp.clone(), 99, -1)]).await.unwrap();
    producer.commit_transaction(LIMIT).await.unwrap();
    assert_eq!(noted(&client, &id, &tp).await.unwrap(), Some(99));
}

/// Whoever may delete groups can delete the witness: none is not "not committed".
pub(crate) async fn oracle_group_deleted(arena: &'static Arena) {
    let (client, id, tp) = stage(arena).await;
    let producer = owner(&client, &id).await;
    commit_noting(&producer, &id, &tp, 1, "").await;
    assert_eq!(noted(&client, &id, &tp).await.unwrap(), Some(1));
    client.delete_groups(&[&id]).await.remove(&id).unwrap().unwrap();
    assert_eq!(noted(&client, &id, &tp).await.unwrap(), None);
}

/// Deleting the topic deletes what was noted for it.
pub(crate) async fn oracle_topic_recreate(arena: &'static Arena) {
    let (client, id, tp) = stage(arena).await;
    let producer = owner(&client, &id).await;
    commit_noting(&producer, &id, &tp, 1, "").await;
    client.delete_topic(&tp.topic).await.unwrap();
    eventually("the topic can be made anew", || async {
        let anew = NewTopic::new(&*tp.topic, 1, 1);
        client.create_topic(anew).await.is_ok_and(|made| made).then_some(())
    })
    .await;
    eventually("the offset of the deleted topic is gone", || async {
        noted(&client, &id, &tp).await.is_ok_and(|found| found.is_none()).then_some(())
    })
    .await;
}

pub(crate) async fn oracle_partition_must_exist(arena: &'static Arena) {
    let id = unique("oracle");
    let client = arena.client(&id, &["max.block.ms=2000"]).await;
    let topic = arena.topic(&client, 1, &[]).await;
    let producer = owner(&client, &id).await;
    begin(&producer, 1).await;
    let refused = note(&producer, &id, &partition(&topic, 7), 1, "").await;
    assert!(refused.is_err(), "{refused:?}");
    producer.abort_transaction().await.unwrap();
}

/// `offset.metadata.max.bytes`, 4096 unless set.
pub(crate) async fn oracle_metadata_limit(arena: &'static Arena) {
    let (client, id, tp) = stage(arena).await;
    let producer = owner(&client, &id).await;
    begin(&producer, 1).await;
    note(&producer, &id, &tp, 1, &"m".repeat(4096)).await.unwrap();
    producer.commit_transaction(LIMIT).await.unwrap();
    // Without names only what is committed already is told, stable or not: the question by name waits.
    assert_eq!(noted(&client, &id, &tp).await.unwrap(), Some(1));
    let found = client.fetch_all_offsets(&id, true).await.unwrap();
    assert_eq!(found[&tp].metadata.len(), 4096);
    begin(&producer, 2).await;
    let refused = note(&producer, &id, &tp, 2, &"m".repeat(4097)).await;
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("OFFSET_METADATA_TOO_LARGE"), "{text}");
    producer.abort_transaction().await.unwrap();
    assert_eq!(noted(&client, &id, &tp).await.unwrap(), Some(1));
}

/// A group without members forgets each offset `offsets.retention.minutes` after it was committed. The shortest time is a
/// minute: `cargo test -p millstream-tests --test conformance -- --ignored oracle_expires`
#[test]
#[ignore = "takes two minutes"]
fn oracle_expires() {
    use millstream_protocol_client::ClientConfig;
    use millstream_testcontainers::{KafkaCluster, real_kafka_or_skip};
    if !real_kafka_or_skip("oracle_expires") {
        return;
    }
    let kafka = KafkaCluster::builder()
        .property("offsets.retention.minutes", "1")
        .property("offsets.retention.check.interval.ms", "1000")
        .start()
        .unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let config = ClientConfig::new(kafka.bootstrap_servers());
        let client = KafkaClient::connect(config).await.unwrap();
        client.create_topic(NewTopic::new("topic", 1, 1)).await.unwrap();
        let tp = partition("topic", 0);
        let producer = owner(&client, "id").await;
        begin(&producer, 1).await;
        note(&producer, "id", &tp, 1, "").await.unwrap();
        producer.commit_transaction(LIMIT).await.unwrap();
        assert_eq!(noted(&client, "id", &tp).await.unwrap(), Some(1));
        let committed_at = tokio::time::Instant::now();
        eventually("the offset expires", || async {
            noted(&client, "id", &tp).await.unwrap().is_none().then_some(())
        })
        .await;
        assert!(committed_at.elapsed() > Duration::from_secs(55), "not before its time");
    });
}
