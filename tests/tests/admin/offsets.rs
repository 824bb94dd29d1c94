//! Offsets of groups that have no members: planned, moved, measured.

use millstream_protocol::IsolationLevel;
use millstream_protocol_client::{PartitionLag, ResetTarget};

use crate::fixtures::{eventually, kafka, new_topic, partition, run, unique, write};

#[test]
fn offsets_are_planned_within_what_exists() {
    let Some(cluster) = kafka("offsets_are_planned_within_what_exists") else { return };
    run(cluster, |client| async move {
        let topic = new_topic(&client, 2, &[]).await;
        let group = unique("group");
        write(&client, &topic, &[1000, 2000, 3000, 4000, 5000]).await;
        let all = [partition(&topic, 0), partition(&topic, 1)];
        let before = [(all[0].clone(), Some(1))].into();
        client.delete_records(&before).await.unwrap()[&all[0]].clone().unwrap();
        client.alter_group_offsets(&group, &[(all[0].clone(), 2, -1)]).await.unwrap();

        let plan = async |target| {
            let moves = client.plan_offset_reset(&group, &all, target).await.unwrap();
            all.each_ref().map(|tp| moves.get(tp).map(|planned| (planned.from, planned.to)))
        };
        let (some, none) = (Some(2), None);
        let expect = |first, second| [Some((some, first)), Some((none, second))];
        assert_eq!(plan(ResetTarget::Earliest).await, expect(1, 0));
        assert_eq!(plan(ResetTarget::Latest).await, expect(5, 0));
        assert_eq!(plan(ResetTarget::Timestamp(2500)).await, expect(2, 0));
        assert_eq!(plan(ResetTarget::Timestamp(9000)).await, expect(5, 0));
        assert_eq!(plan(ResetTarget::Offset(3)).await, expect(3, 0));
        assert_eq!(plan(ResetTarget::Offset(99)).await, expect(5, 0));
        assert_eq!(plan(ResetTarget::Shift(2)).await, [Some((some, 4)), None]);
        assert_eq!(plan(ResetTarget::Shift(-9)).await, [Some((some, 1)), None]);
        // Planning has changed nothing.
        assert_eq!(plan(ResetTarget::Shift(0)).await, [Some((some, 2)), None]);
    });
}

#[test]
fn lag_of_a_deleted_topic_is_unknown() {
    let Some(cluster) = kafka("lag_of_a_deleted_topic_is_unknown") else { return };
    run(cluster, |client| async move {
        let [kept, gone] = [new_topic(&client, 1, &[]).await, new_topic(&client, 1, &[]).await];
        let group = unique("group");
        write(&client, &kept, &[1, 2, 3]).await;
        let offsets = [(partition(&kept, 0), 1, -1), (partition(&gone, 0), 0, -1)];
        client.alter_group_offsets(&group, &offsets).await.unwrap();
        client.delete_topic(&gone).await.unwrap();
        // The coordinator forgets what was committed for a deleted topic, sooner or later.
        let lag = eventually("the lag of what is left", || async {
            let lag = client.group_lag(&group, IsolationLevel::ReadCommitted).await.unwrap();
            let gone = lag.get(&partition(&gone, 0)).map(PartitionLag::offsets_behind);
            assert!(gone.is_none_or(|behind| behind.is_none()), "{lag:?}");
            Some(lag)
        })
        .await;
        assert_eq!(lag[&partition(&kept, 0)].offsets_behind(), Some(2));
    });
}

#[test]
fn commit_into_an_open_transaction_is_waited_for_by_nobody_else() {
    let name = "commit_into_an_open_transaction_is_waited_for_by_nobody_else";
    let Some(cluster) = kafka(name) else { return };
    run(cluster, |client| async move {
        let topic = new_topic(&client, 1, &[]).await;
        write(&client, &topic, &[1, 2, 3]).await;
        let producer = client.producer(Some(&unique("id")));
        producer.init_transactions().await.unwrap();
        producer.begin_transaction(1).unwrap();
        let record = millstream_testcontainers::JavaRecord::default();
        let compression = millstream_protocol::records::Compression::None;
        millstream_tests::records::send(&producer, &topic, compression, &[record], 1).await;
        let group = unique("group");
        client.alter_group_offsets(&group, &[(partition(&topic, 0), 1, -1)]).await.unwrap();
        let behind = async |isolation| {
            let lag = client.group_lag(&group, isolation).await.unwrap();
            lag[&partition(&topic, 0)].offsets_behind()
        };
        assert_eq!(behind(IsolationLevel::ReadCommitted).await, Some(2), "up to the open one");
        assert_eq!(behind(IsolationLevel::ReadUncommitted).await, Some(3));
        producer.abort_transaction().await.unwrap();
    });
}
