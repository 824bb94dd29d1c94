//! Calls of the client that send each API.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use millstream_protocol::group::offsets::OffsetAndMetadata;
use millstream_protocol::records::DecodeLimits;
use millstream_protocol::{ApiKey, IsolationLevel, TopicPartition};
use millstream_protocol_client::{
    AbortTransaction, AclFilter, ClientConfig, ConfigChange, ConfigResource, ConsumerEvent,
    FetchEvent, FetchStart, GroupProtocol, KafkaClient, NewTopic, OffsetReset, OffsetSpec,
    ProducerRecord, TransactionFilter,
};

/// Every API that the client sends: all that it speaks but OffsetForLeaderEpoch, for Fetch 12 itself tells of truncations.
pub(super) const SENT: [ApiKey; 37] = {
    let mut sent = [ApiKey::Produce; 37];
    let (mut from, mut to) = (0, 0);
    while from < ApiKey::ALL.len() {
        if !matches!(ApiKey::ALL[from], ApiKey::OffsetForLeaderEpoch) {
            sent[to] = ApiKey::ALL[from];
            to += 1;
        }
        from += 1;
    }
    sent
};

/// One round of calls that send `api` among others. They may fail; they must end.
pub(super) async fn call(api: ApiKey, config: ClientConfig) {
    // Time enough to get through the lies about what comes before.
    let Some(Ok(client)) = in_time("connect", KafkaClient::connect(config.clone())).await else {
        return;
    };
    match api {
        ApiKey::ApiVersions
        | ApiKey::Metadata
        | ApiKey::SaslHandshake
        | ApiKey::SaslAuthenticate => {
            in_time("describe a topic", client.describe_topic("t")).await;
            in_time("describe a topic once", client.describe_topic_once("t")).await;
        }
        ApiKey::Produce
        | ApiKey::InitProducerId
        | ApiKey::AddPartitionsToTxn
        | ApiKey::AddOffsetsToTxn
        | ApiKey::TxnOffsetCommit
        | ApiKey::EndTxn
        | ApiKey::FindCoordinator => produce(&client, api == ApiKey::Produce).await,
        ApiKey::Fetch => read(&client).await,
        ApiKey::JoinGroup
        | ApiKey::SyncGroup
        | ApiKey::Heartbeat
        | ApiKey::LeaveGroup
        | ApiKey::OffsetCommit
        | ApiKey::OffsetFetch => {
            client.close().await;
            join(config, GroupProtocol::Classic).await;
            return;
        }
        ApiKey::ConsumerGroupHeartbeat => {
            client.close().await;
            join(config, GroupProtocol::Consumer).await;
            return;
        }
        _ => administer(&client, api).await,
    }
    in_time("close", client.close()).await;
}

/// A call that takes longer hangs: each is bounded by 200 ms, or a few of those.
async fn in_time<T>(what: &str, call: impl Future<Output = T>) -> Option<T> {
    match tokio::time::timeout(DEADLINE, call).await {
        Ok(outcome) => Some(outcome),
        Err(_) => panic!("{what} takes longer than {DEADLINE:?}"),
    }
}

async fn produce(client: &KafkaClient, plainly: bool) {
    let record = ProducerRecord::to("t", b"value").key(b"key");
    if plainly {
        let producer = client.record_producer(None);
        for _ in 0..20 {
            let _ = in_time("send", producer.send(&record)).await;
            let _ = in_time("flush", producer.flush()).await;
        }
        let _ = in_time("close the producer", producer.close()).await;
        return;
    }
    let producer = client.record_producer(Some("tx"));
    let raw = client.producer(Some("raw"));
    let group = millstream_protocol_client::ConsumerGroupMetadata {
        group_id: Arc::from("g"),
        generation_id: 1,
        member_id: Arc::from("m"),
        group_instance_id: None,
    };
    for tag in 0..4 {
        let _ = in_time("init", producer.init_transactions()).await;
        for commit in [true, false] {
            if in_time("begin", producer.begin_transaction())
                .await
                .is_none_or(|began| began.is_err())
            {
                continue;
            }
            let _ = in_time("send", producer.send(&record)).await;
            let _ = if commit {
                in_time("commit", producer.commit_transaction()).await
            } else {
                in_time("abort", producer.abort_transaction()).await
            };
        }
        let _ = in_time("init", raw.init_transactions()).await;
        if raw.begin_transaction(tag).is_ok() {
            let offsets: BTreeMap<_, _> = [(key(0), OffsetAndMetadata::new(3, -1))].into();
            let sent = raw.send_offsets_to_transaction(&group, offsets);
            let _ = in_time("send offsets", sent).await;
            let _ = in_time("commit", raw.commit_transaction(Duration::from_millis(200))).await;
        }
    }
}

async fn read(client: &KafkaClient) {
    let starts = (0..2)
        .map(|index| FetchStart { topic_partition: key(index), offset: 10, leader_epoch: -1 })
        .collect();
    let mut consumer =
        client.partition_consumer(starts, IsolationLevel::ReadCommitted, Arc::new(|| {}));
    let limits = DecodeLimits { max_decompressed_batch_bytes: 4 << 20 };
    for _ in 0..200 {
        let Ok(Some(event)) = tokio::time::timeout(PATIENCE, consumer.next()).await else { break };
        match event {
            FetchEvent::Records(fetched) => {
                for batch in fetched.visible_batches(limits) {
                    let Ok(batch) = batch else { break };
                    batch.records.iter().flatten().take_while(Result::is_ok).for_each(drop);
                }
            }
            FetchEvent::Progress { .. } => {}
            FetchEvent::Failed { topic_partition, .. } => {
                consumer.assign(FetchStart { topic_partition, offset: 20, leader_epoch: -1 });
            }
        }
    }
}

async fn join(mut config: ClientConfig, protocol: GroupProtocol) {
    config.group_protocol = protocol;
    config.auto_offset_reset = OffsetReset::Earliest;
    let Some(Ok(client)) = in_time("connect", KafkaClient::connect(config)).await else { return };
    let mut consumer = client.group_consumer().expect("a configuration that fits");
    consumer.subscribe(["t"]);
    for _ in 0..8 {
        match tokio::time::timeout(PATIENCE, consumer.next()).await {
            Ok(Ok(ConsumerEvent::Records(_))) => {
                let _ = in_time("commit", consumer.commit()).await;
            }
            Ok(Ok(_)) | Err(_) => {}
            Ok(Err(_)) => break,
        }
    }
    in_time("leave", consumer.close()).await;
    in_time("close", client.close()).await;
}

async fn administer(client: &KafkaClient, api: ApiKey) {
    for _ in 0..5 {
        administer_once(client, api).await;
    }
}

async fn administer_once(client: &KafkaClient, api: ApiKey) {
    let topic = || ConfigResource::Topic("t".to_owned());
    match api {
        ApiKey::CreateTopics => {
            in_time("create", client.create_topic(NewTopic::new("t", 2, 1))).await;
        }
        ApiKey::DeleteTopics => drop(in_time("delete", client.delete_topic("t")).await),
        ApiKey::CreatePartitions => {
            in_time("grow", client.create_partitions("t", 3)).await;
        }
        ApiKey::DeleteRecords => {
            in_time("delete records", client.delete_records(&[(key(0), Some(3))].into())).await;
        }
        ApiKey::ListOffsets => {
            let asked = [(key(0), OffsetSpec::Earliest), (key(1), OffsetSpec::Latest)];
            in_time("offsets", client.list_offsets(&asked, IsolationLevel::ReadCommitted)).await;
        }
        ApiKey::DescribeConfigs => {
            in_time("configs", client.describe_configs(topic(), &["retention.ms"])).await;
        }
        ApiKey::IncrementalAlterConfigs => {
            let change = ConfigChange::Delete { name: "retention.ms".to_owned() };
            in_time("alter", client.alter_configs(&[(topic(), vec![change])].into(), false)).await;
        }
        ApiKey::DescribeAcls => {
            in_time("permissions", client.list_acls(&AclFilter::default())).await;
        }
        ApiKey::DescribeCluster => drop(in_time("cluster", client.describe_cluster()).await),
        ApiKey::ListGroups => drop(in_time("groups", client.list_groups()).await),
        ApiKey::DescribeGroups | ApiKey::ConsumerGroupDescribe => {
            in_time("describe groups", client.describe_groups(&["g", "modern"])).await;
        }
        ApiKey::DeleteGroups => drop(in_time("delete groups", client.delete_groups(&["g"])).await),
        ApiKey::OffsetDelete => {
            in_time("delete offsets", client.delete_group_offsets("g", &[key(0)])).await;
        }
        ApiKey::ListTransactions => {
            in_time("list", client.list_transactions(&TransactionFilter::default())).await;
        }
        ApiKey::DescribeTransactions => {
            in_time("describe", client.describe_transactions(&["tx"])).await;
        }
        ApiKey::DescribeProducers => {
            in_time("producers", client.describe_producers(&[key(0), key(1)])).await;
        }
        ApiKey::WriteTxnMarkers => {
            let abort = AbortTransaction {
                partition: key(0),
                producer_id: 4000,
                producer_epoch: 0,
                coordinator_epoch: 0,
            };
            in_time("abort", client.abort_transaction(&abort)).await;
        }
        other => panic!("no call sends {other}"),
    }
}

fn key(partition: i32) -> TopicPartition {
    TopicPartition::new("t", partition)
}

const DEADLINE: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_millis(40);
