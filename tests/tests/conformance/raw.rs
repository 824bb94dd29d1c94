//! Requests of one's own, in a version of one's own, and batches as they lie in the log.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use millstream_protocol::messages::kp::{
    AddPartitionsToTxnRequest, DescribeTransactionsRequest, EndTxnRequest, InitProducerIdRequest,
    TopicName, TransactionalId, add_partitions_to_txn_request as add,
};
use millstream_protocol::messages::{ProducePartition, ProduceRequest, ProduceTopic, str_bytes};
use millstream_protocol::records::{BatchBuilder, BatchHeader, Compression, SealedBatch};
use millstream_protocol::{
    ErrorCode, IsolationLevel, ProducerIdAndEpoch, Request, Response, TopicPartition,
};
use millstream_protocol_client::{FetchEvent, FetchStart, KafkaClient, OffsetSpec};
use millstream_tests::wire::{self, WireClient};

use crate::clusters::{Arena, LIMIT};

/// A transactional id, by single requests to its coordinator.
pub(crate) struct RawTransaction {
    pub(crate) id: String,
    pub(crate) coordinator: WireClient,
}

impl RawTransaction {
    pub(crate) fn new(servers: &str, id: &str) -> Self {
        Self { id: id.to_owned(), coordinator: WireClient::of_coordinator(servers, id, true) }
    }

    fn wire_id(&self) -> TransactionalId {
        TransactionalId(str_bytes(&self.id))
    }

    /// Becomes the newest owner.
    pub(crate) fn init(&mut self) -> ProducerIdAndEpoch {
        let deadline = Instant::now() + LIMIT;
        loop {
            let request = InitProducerIdRequest::default()
                .with_transactional_id(Some(self.wire_id()))
                .with_transaction_timeout_ms(60_000)
                .with_producer_id((-1).into())
                .with_producer_epoch(-1);
            let answer = self.coordinator.ask(Request::InitProducerId(request), 4);
            let Response::InitProducerId(answer) = answer else { panic!("{answer:?}") };
            if answer.error_code == 0 {
                return ProducerIdAndEpoch {
                    producer_id: answer.producer_id.0,
                    producer_epoch: answer.producer_epoch,
                };
            }
            let code = ErrorCode(answer.error_code);
            assert!(code.is_retriable() && Instant::now() < deadline, "{code}");
        }
    }

    /// Opens a transaction of `identity` with one partition, by the request of old clients.
    pub(crate) fn add_partition(&mut self, identity: ProducerIdAndEpoch, to: &TopicPartition) {
        let deadline = Instant::now() + LIMIT;
        loop {
            let topic = add::AddPartitionsToTxnTopic::default()
                .with_name(TopicName(str_bytes(&to.topic)))
                .with_partitions(vec![to.partition]);
            let request = AddPartitionsToTxnRequest::default()
                .with_v3_and_below_transactional_id(self.wire_id())
                .with_v3_and_below_producer_id(identity.producer_id.into())
                .with_v3_and_below_producer_epoch(identity.producer_epoch)
                .with_v3_and_below_topics(vec![topic]);
            let answer = self.coordinator.ask(Request::AddPartitionsToTxn(request), 3);
            let Response::AddPartitionsToTxn(answer) = answer else { panic!("{answer:?}") };
            let partition = &answer.results_by_topic_v3_and_below[0].results_by_partition[0];
            match ErrorCode(partition.partition_error_code) {
                ErrorCode::NONE => return,
                code => assert!(code.is_retriable() && Instant::now() < deadline, "{code}"),
            }
        }
    }

    /// One EndTxn, and its answer.
    pub(crate) fn end(
        &mut self,
        version: i16,
        identity: ProducerIdAndEpoch,
        commit: bool,
    ) -> ErrorCode {
        let request = EndTxnRequest::default()
            .with_transactional_id(self.wire_id())
            .with_producer_id(identity.producer_id.into())
            .with_producer_epoch(identity.producer_epoch)
            .with_committed(commit);
        let answer = self.coordinator.ask(Request::EndTxn(request), version);
        let Response::EndTxn(answer) = answer else { panic!("{answer:?}") };
        ErrorCode(answer.error_code)
    }

    /// State and owner, as the coordinator describes them.
    pub(crate) fn describe(&mut self) -> (String, ProducerIdAndEpoch) {
        let request =
            DescribeTransactionsRequest::default().with_transactional_ids(vec![self.wire_id()]);
        let answer = self.coordinator.ask(Request::DescribeTransactions(request), 0);
        let Response::DescribeTransactions(answer) = answer else { panic!("{answer:?}") };
        let state = &answer.transaction_states[0];
        let identity = ProducerIdAndEpoch {
            producer_id: state.producer_id.0,
            producer_epoch: state.producer_epoch,
        };
        (state.transaction_state.to_string(), identity)
    }

    /// Waits for a state; gives the owner.
    pub(crate) fn wait_for(&mut self, state: &str) -> ProducerIdAndEpoch {
        let mut owner = ProducerIdAndEpoch::NONE;
        millstream_tests::wait::wait_until(state, LIMIT, || {
            let (found, identity) = self.describe();
            owner = identity;
            found == state
        });
        owner
    }
}

/// A batch of so many small records.
pub(crate) fn batch(records: usize) -> SealedBatch {
    let mut builder = BatchBuilder::new(Compression::None, 1 << 16);
    for _ in 0..records {
        builder.append(1000, None, Some(b"raw"), &[]).unwrap();
    }
    builder.build().unwrap().unwrap()
}

/// Writes a batch as an idempotent producer of this identity would, in a version from before brokers insisted on a known
/// producer or sequence 0. A partition that is on its way to its leader is waited for.
pub(crate) fn produce(arena: &Arena, to: &TopicPartition, batch: SealedBatch) -> ErrorCode {
    let records = batch.into_bytes();
    let mut code = ErrorCode::LEADER_NOT_AVAILABLE;
    millstream_tests::wait::wait_until("the leader takes a batch", LIMIT, || {
        code = produce_once(arena, to, records.clone());
        !ON_ITS_WAY.contains(&code)
    });
    code
}

/// What is answered between the creation of a topic and the last broker's knowing of it.
const ON_ITS_WAY: [ErrorCode; 4] = [
    ErrorCode::LEADER_NOT_AVAILABLE,
    ErrorCode::NOT_LEADER_OR_FOLLOWER,
    ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode::NOT_ENOUGH_REPLICAS,
];

fn produce_once(arena: &Arena, to: &TopicPartition, records: Bytes) -> ErrorCode {
    let found = wire::metadata(&arena.servers(), &to.topic);
    let known = found.topics[0].partitions.iter().find(|p| p.partition_index == to.partition);
    let leader =
        known.and_then(|known| found.brokers.iter().find(|b| b.node_id == known.leader_id));
    let Some(broker) = leader else { return ErrorCode::LEADER_NOT_AVAILABLE };
    let request = ProduceRequest {
        transactional_id: None,
        acks: -1,
        timeout_ms: 30_000,
        topics: vec![ProduceTopic {
            topic: Arc::clone(&to.topic),
            partitions: vec![ProducePartition { partition: to.partition, records }],
        }],
    };
    let mut leader = WireClient::connect(&format!("{}:{}", broker.host, broker.port));
    let answer = leader.ask(Request::Produce(request), 9);
    let Response::Produce(answer) = answer else { panic!("{answer:?}") };
    answer.topics[0].partitions[0].error_code
}

/// The record sets of a partition from `offset` to its end, as fetched.
pub(crate) async fn fetch_raw(client: &KafkaClient, from: &TopicPartition) -> Vec<Bytes> {
    let isolation = IsolationLevel::ReadUncommitted;
    let asked = [(from.clone(), OffsetSpec::Latest)];
    let end = client.list_offsets(&asked, isolation).await.unwrap()[from].offset;
    let start = FetchStart { topic_partition: from.clone(), offset: 0, leader_epoch: -1 };
    let mut consumer = client.partition_consumer(vec![start], isolation, Arc::new(|| {}));
    let (mut sets, mut position) = (Vec::new(), 0);
    while position < end {
        match consumer.next().await.expect("the client is open") {
            FetchEvent::Records(fetched) => {
                position = fetched.next_offset;
                sets.push(fetched.records);
            }
            FetchEvent::Progress { position: at, .. } => position = at,
            FetchEvent::Failed { error, .. } => panic!("{from}: {error}"),
        }
    }
    sets
}

/// The headers of all batches of a partition, control batches too.
pub(crate) async fn batches(client: &KafkaClient, of: &TopicPartition) -> Vec<BatchHeader> {
    let mut headers = Vec::new();
    for mut set in fetch_raw(client, of).await {
        while !set.is_empty() {
            let header = BatchHeader::parse(&set).unwrap();
            let size = 12 + usize::try_from(header.batch_length).unwrap();
            let _ = set.split_to(size);
            headers.push(header);
        }
    }
    headers
}
