//! Each call goes to the broker that can answer it, also after one is gone.

use std::collections::{BTreeMap, BTreeSet};

use millstream_protocol::IsolationLevel;
use millstream_protocol::records::Compression;
use millstream_protocol_client::{KafkaClient, NewTopic, OffsetSpec, TransactionFilter};
use millstream_testcontainers::{JavaRecord, KafkaCluster, real_kafka_or_skip};
use millstream_tests::records::send;

use crate::fixtures::{eventually, partition, run};

const TOPIC: &str = "spread";
const PARTITIONS: i32 = 6;

/// Deletes one more record of every partition, each at its leader.
async fn delete_up_to(client: &KafkaClient, offset: i64) {
    let partitions: Vec<_> = (0..PARTITIONS).map(|index| partition(TOPIC, index)).collect();
    let before: BTreeMap<_, _> = partitions.iter().map(|tp| (tp.clone(), Some(offset))).collect();
    let results = client.delete_records(&before).await.unwrap();
    assert!(results.values().all(|result| *result == Ok(offset)), "{results:?}");
    assert_eq!(results.len(), partitions.len());
    let asked: Vec<_> = partitions.into_iter().map(|tp| (tp, OffsetSpec::Earliest)).collect();
    let starts = client.list_offsets(&asked, IsolationLevel::ReadCommitted).await.unwrap();
    assert!(starts.values().all(|start| start.offset == offset), "{starts:?}");
}

#[test]
fn calls_find_leaders_and_coordinators_among_brokers() {
    if !real_kafka_or_skip("calls_find_leaders_and_coordinators_among_brokers") {
        return;
    }
    let cluster = KafkaCluster::builder().brokers(3).heap("384m").start().unwrap();
    run(&cluster, async |client| {
        client.create_topic(NewTopic::new(TOPIC, PARTITIONS - 1, 3)).await.unwrap();
        client.create_partitions(TOPIC, PARTITIONS).await.unwrap();
        let described = client.describe_topic(TOPIC).await.unwrap().unwrap();
        let leaders: BTreeSet<_> = described.partitions.iter().map(|p| p.leader).collect();
        assert_eq!(leaders, [1, 2, 3].into());
        let records: Vec<_> = (0..3 * PARTITIONS)
            .map(|n| JavaRecord {
                partition: Some(n % PARTITIONS),
                value: Some(vec![1]),
                ..JavaRecord::default()
            })
            .collect();
        send(&client.producer(None), TOPIC, Compression::None, &records, 1).await;
        delete_up_to(&client, 1).await;

        // So many that every broker coordinates some.
        let names: Vec<_> = (0..12).map(|n| format!("name-{n}")).collect();
        for name in &names {
            client.alter_group_offsets(name, &[(partition(TOPIC, 0), 1, -1)]).await.unwrap();
            client.producer(Some(name)).init_transactions().await.unwrap();
        }
        let listed = client.list_groups().await.unwrap();
        let ids: BTreeSet<_> = listed.iter().map(|listed| listed.group_id.clone()).collect();
        assert_eq!(ids, names.iter().cloned().collect());
        let coordinators: BTreeSet<_> = listed.iter().map(|listed| listed.coordinator).collect();
        assert!(coordinators.len() > 1, "{coordinators:?}");
        let listed = client.list_transactions(&TransactionFilter::default()).await.unwrap();
        let ids: BTreeSet<_> = listed.iter().map(|l| l.transactional_id.clone()).collect();
        assert_eq!(ids, names.iter().cloned().collect());

        cluster.kill_broker(0).unwrap();
        delete_up_to(&client, 2).await;
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let described = client.describe_groups(&names).await.unwrap();
        assert!(described.values().all(Result::is_ok), "{described:?}");
        let described = client.describe_transactions(&names).await;
        assert!(described.values().all(Result::is_ok), "{described:?}");
        let deleted = client.delete_groups(&names).await;
        assert!(deleted.values().all(Result::is_ok), "{deleted:?}");
        assert_eq!(client.list_groups().await.unwrap(), []);
        let brokers = eventually("the fencing of the broker that is gone", || async {
            let brokers = client.describe_cluster().await.unwrap().brokers;
            brokers.iter().any(|broker| broker.is_fenced).then_some(brokers)
        })
        .await;
        let brokers: Vec<_> = brokers.iter().map(|broker| (broker.id, broker.is_fenced)).collect();
        assert_eq!(brokers, [(1, true), (2, false), (3, false)]);
    });
}
