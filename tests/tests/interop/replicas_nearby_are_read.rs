//! `client.rack` (KIP-392): the leader names a replica in the reader's rack, and that is read.

use std::collections::BTreeSet;
use std::time::Duration;

use millstream_protocol::fetch::{FetchEvent, FetchStart};
use millstream_protocol::records::DecodeLimits;
use millstream_protocol::{IsolationLevel, NodeId, TopicPartition};
use millstream_protocol_client::{ClientConfig, KafkaClient, NewTopic, PartitionConsumer};
use millstream_testcontainers::{Cluster, JavaRecord, KafkaCluster, real_kafka_or_skip};
use millstream_tests::records::send;
use tokio::time::timeout;

use crate::fixtures::{our_client, runtime};

const LIMIT: Duration = Duration::from_secs(120);

/// Reads on to `end`; gives the brokers that records came from.
async fn read_to(
    consumer: &mut PartitionConsumer,
    end: i64,
    values: &mut Vec<u8>,
) -> BTreeSet<NodeId> {
    let mut nodes = BTreeSet::new();
    let mut position = 0;
    while position < end {
        match timeout(LIMIT, consumer.next()).await.expect("it goes on") {
            Some(FetchEvent::Records(fetched)) => {
                nodes.insert(fetched.node);
                for batch in fetched.visible_batches(DecodeLimits::default()) {
                    for record in batch.unwrap().records.iter().flatten() {
                        values.extend(record.unwrap().value.unwrap());
                    }
                }
                position = fetched.next_offset;
            }
            Some(FetchEvent::Progress { position: at, .. }) => position = at,
            other => panic!("{other:?}"),
        }
    }
    nodes
}

#[test]
fn a_replica_in_the_readers_rack_is_read_and_the_leader_if_it_is_gone() {
    if !real_kafka_or_skip("a_replica_in_the_readers_rack_is_read_and_the_leader_if_it_is_gone") {
        return;
    }
    let selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector";
    let cluster = KafkaCluster::builder()
        .brokers(3)
        .property("replica.selector.class", selector)
        .start()
        .unwrap();
    let cluster = Cluster::Kafka(cluster);
    let Cluster::Kafka(kafka) = &cluster else { unreachable!() };
    runtime().block_on(async {
        let writer = our_client(&cluster).await;
        assert!(writer.create_topic(NewTopic::new("near", 1, 3)).await.unwrap());
        let partition = TopicPartition::new("near", 0);
        let record = |digit: u8| JavaRecord {
            partition: Some(0),
            value: Some(vec![digit]),
            ..JavaRecord::default()
        };
        let batch = [record(b'1'), record(b'2'), record(b'3')];
        let none = millstream_protocol::records::Compression::None;
        send(&writer.producer(None), "near", none, &batch, 1).await;
        let topic = writer.describe_topic("near").await.unwrap().unwrap();
        let leader = NodeId(topic.partitions[0].leader);
        // Someone in each of the racks.
        for rack in 1..=3 {
            let config = ClientConfig::builder(cluster.bootstrap_servers())
                .client_rack(format!("rack-{rack}"))
                .build()
                .unwrap();
            let reader = KafkaClient::connect(config).await.unwrap();
            let start =
                FetchStart { topic_partition: partition.clone(), offset: 0, leader_epoch: -1 };
            let isolation = IsolationLevel::ReadCommitted;
            let mut consumer =
                reader.partition_consumer(vec![start], isolation, std::sync::Arc::new(|| {}));
            let mut values = Vec::new();
            let nodes = read_to(&mut consumer, 3, &mut values).await;
            assert_eq!(
                (nodes, values.as_slice()),
                ([NodeId(rack)].into(), &b"123"[..]),
                "leader {leader}"
            );
            reader.close().await;
        }
        // The replica goes away under the reader.
        let near = (1..=3).map(NodeId).find(|node| *node != leader).unwrap();
        let config = ClientConfig::builder(cluster.bootstrap_servers())
            .client_rack(format!("rack-{}", near.0))
            .build()
            .unwrap();
        let reader = KafkaClient::connect(config).await.unwrap();
        let start = FetchStart { topic_partition: partition.clone(), offset: 0, leader_epoch: -1 };
        let mut consumer = reader.partition_consumer(
            vec![start],
            IsolationLevel::ReadCommitted,
            std::sync::Arc::new(|| {}),
        );
        let mut values = Vec::new();
        assert_eq!(read_to(&mut consumer, 3, &mut values).await, [near].into());
        tokio::task::block_in_place(|| kafka.kill_broker(near.0 as usize - 1)).unwrap();
        send(&writer.producer(None), "near", none, &[record(b'4'), record(b'5')], 1).await;
        let nodes = read_to(&mut consumer, 5, &mut values).await;
        assert_eq!(values, b"12345");
        assert!(!nodes.contains(&near), "it is dead");
    });
}
