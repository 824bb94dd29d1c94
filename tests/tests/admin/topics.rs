//! Partitions are added, records deleted.

use std::collections::BTreeMap;

use millstream_protocol::{ErrorCode, IsolationLevel};
use millstream_protocol_client::{ClientError, OffsetSpec};

use crate::fixtures::{code, kafka, new_topic, only, partition, run, write};

#[test]
fn partitions_are_added_and_never_taken_away() {
    let Some(cluster) = kafka("partitions_are_added_and_never_taken_away") else { return };
    run(cluster, |client| async move {
        let topic = new_topic(&client, 1, &[]).await;
        client.create_partitions(&topic, 3).await.unwrap();
        let described = client.describe_topic(&topic).await.unwrap().unwrap();
        let leaders: Vec<_> = described.partitions.iter().map(|p| p.leader >= 0).collect();
        assert_eq!(leaders, [true; 3]);

        for total in [3, 2] {
            let refused = client.create_partitions(&topic, total).await;
            assert_eq!(code(&refused), ErrorCode::INVALID_PARTITIONS);
            let text = refused.unwrap_err().to_string();
            assert!(text.starts_with(&format!("add partitions to topic '{topic}': ")), "{text}");
        }
        let missing = client.create_partitions("no-such-topic", 2).await;
        assert!(matches!(missing, Err(ClientError::UnknownTopic { .. })), "{missing:?}");
    });
}

#[test]
fn records_are_deleted_before_an_offset() {
    let Some(cluster) = kafka("records_are_deleted_before_an_offset") else { return };
    run(cluster, |client| async move {
        let topic = new_topic(&client, 2, &[]).await;
        write(&client, &topic, &[1, 2, 3, 4, 5]).await;
        let first = || async {
            let asked = [(partition(&topic, 0), OffsetSpec::Earliest)];
            let listed = client.list_offsets(&asked, IsolationLevel::ReadCommitted).await;
            only(listed.unwrap()).offset
        };
        // One partition's refusal does not keep the others from being done.
        let before = BTreeMap::from([
            (partition(&topic, 0), Some(2)),
            (partition(&topic, 1), Some(1)),
            (partition(&topic, 7), Some(0)),
            (partition("no-such-topic", 0), None),
        ]);
        let results = client.delete_records(&before).await.unwrap();
        assert_eq!(results[&partition(&topic, 0)], Ok(2));
        let beyond = &results[&partition(&topic, 1)];
        assert_eq!(code(beyond), ErrorCode::OFFSET_OUT_OF_RANGE);
        let text = beyond.clone().unwrap_err().to_string();
        assert!(text.starts_with(&format!("delete records of {topic}-1: ")), "{text}");
        let no_partition = results[&partition(&topic, 7)].clone().unwrap_err().to_string();
        assert!(no_partition.contains("the topic has 2 partitions"), "{no_partition}");
        let no_topic = &results[&partition("no-such-topic", 0)];
        assert!(matches!(no_topic, Err(ClientError::UnknownTopic { .. })), "{no_topic:?}");
        assert_eq!(first().await, 2);

        let all = BTreeMap::from([(partition(&topic, 0), None)]);
        assert_eq!(only(client.delete_records(&all).await.unwrap()), Ok(5));
        assert_eq!(first().await, 5);
    });
}

#[test]
fn records_of_a_compacted_topic_are_not_deleted() {
    let Some(cluster) = kafka("records_of_a_compacted_topic_are_not_deleted") else { return };
    run(cluster, |client| async move {
        let topic = new_topic(&client, 1, &[("cleanup.policy", "compact")]).await;
        let all = BTreeMap::from([(partition(&topic, 0), None)]);
        let refused = only(client.delete_records(&all).await.unwrap());
        assert_eq!(code(&refused), ErrorCode::POLICY_VIOLATION);
    });
}
