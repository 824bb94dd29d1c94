//! A client made of plain functions: one request in, one response out.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use millstream_protocol::messages::{
    FetchPartition, FetchPartitionResponse, FetchRequest, FetchTopic, ProducePartition,
    ProducePartitionResponse, ProduceRequest, ProduceTopic, StrBytes, kp,
};
use millstream_protocol::records::{BatchBuilder, Compression};
use millstream_protocol::wire::ResponseHeader;
use millstream_protocol::{
    ApiKey, ErrorCode, IsolationLevel, ProducerIdAndEpoch, Request, Response, Timestamp,
};

use crate::core::{Cluster, ClusterConfig, Outgoing, StorageEffect, Stored};

pub(super) const WALL_CLOCK_MS: i64 = 1_700_000_000_000;

/// A cluster, its time, and a log of what it asked to keep.
pub(super) struct TestCluster {
    pub(super) cluster: Cluster,
    pub(super) now: Timestamp,
    /// The state log as it was when the cluster began.
    pub(super) snapshot: Vec<Bytes>,
    pub(super) effects: Vec<StorageEffect>,
    correlation_id: i32,
}

impl TestCluster {
    pub(super) fn new(config: ClusterConfig) -> Self {
        Self::of(Cluster::new(config, 7))
    }

    pub(super) fn of(cluster: Cluster) -> Self {
        let snapshot = cluster.state_snapshot();
        Self { cluster, now: Timestamp::ZERO, snapshot, effects: Vec::new(), correlation_id: 0 }
    }

    /// With a topic `t` of `partitions` partitions.
    pub(super) fn with_topic(config: ClusterConfig, partitions: i32) -> Self {
        let mut test = Self::new(config);
        assert_eq!(test.create_topic("t", partitions, &[]), ErrorCode::NONE);
        test
    }

    pub(super) fn wall_clock_ms(&self) -> i64 {
        WALL_CLOCK_MS + i64::try_from(self.now.as_micros() / 1000).expect("small")
    }

    /// Moves time on and does what falls due on the way.
    pub(super) fn advance(&mut self, by: Duration) {
        let target = self.now.after(by);
        while let Some(due) = self.cluster.poll_timeout().filter(|due| *due <= target) {
            self.now = self.now.max(due);
            let wall_clock_ms = self.wall_clock_ms();
            self.cluster.handle_timeout(self.now, wall_clock_ms);
            self.collect();
        }
        self.now = target;
    }

    /// Lets markers be written.
    pub(super) fn settle(&mut self) {
        let delay = self.cluster.config().transaction_marker_delay;
        self.advance(delay);
    }

    /// Effects that make the logs of `stored` again.
    pub(super) fn log_effects(&self, stored: &Stored) -> Vec<StorageEffect> {
        stored
            .logs
            .iter()
            .map(|((topic_id, partition), log)| StorageEffect::Rewrite {
                topic_id: *topic_id,
                partition: *partition,
                content: vec![log.clone()],
            })
            .collect()
    }

    pub(super) fn drain_effects(&mut self) {
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(effect) = self.cluster.poll_storage() {
            self.effects.push(effect);
        }
    }

    pub(super) fn frame(&mut self, version: i16, request: &Request) -> Bytes {
        self.correlation_id += 1;
        let frame = request.encode(version, self.correlation_id, "test").expect("encodable");
        frame.to_bytes().slice(4..)
    }

    /// Sends a request and leaves its answer where it is.
    pub(super) fn send(&mut self, connection: u64, version: i16, request: impl Into<Request>) {
        let frame = self.frame(version, &request.into());
        let wall_clock_ms = self.wall_clock_ms();
        self.cluster.handle_request(self.now, wall_clock_ms, connection, frame);
        self.collect();
    }

    /// The next answer, whosever it is.
    pub(super) fn receive(&mut self, api_key: ApiKey, version: i16) -> Option<(u64, Response)> {
        match self.cluster.poll_outgoing()? {
            Outgoing::Response { connection, frame } => {
                let bytes = frame.to_bytes();
                let (_, body) =
                    ResponseHeader::decode(api_key, version, bytes.slice(4..)).expect("header");
                Some((connection, Response::decode(api_key, version, body).expect("body")))
            }
            other => panic!("no response but {other:?}"),
        }
    }

    pub(super) fn call(&mut self, version: i16, request: impl Into<Request>) -> Response {
        let request = request.into();
        let api_key = request.api_key();
        self.send(1, version, request);
        self.receive(api_key, version).expect("an answer").1
    }

    pub(super) fn create_topic(
        &mut self,
        name: &str,
        partitions: i32,
        configs: &[(&str, &str)],
    ) -> ErrorCode {
        let configs = configs
            .iter()
            .map(|(name, value)| {
                kp::create_topics_request::CreatableTopicConfig::default()
                    .with_name(str_bytes(name))
                    .with_value(Some(str_bytes(value)))
            })
            .collect();
        let topic = kp::create_topics_request::CreatableTopic::default()
            .with_name(kp::TopicName(str_bytes(name)))
            .with_num_partitions(partitions)
            .with_replication_factor(1)
            .with_configs(configs);
        let request = kp::CreateTopicsRequest::default().with_topics(vec![topic]);
        let Response::CreateTopics(response) = self.call(7, request) else {
            panic!("wrong answer")
        };
        ErrorCode(response.topics[0].error_code)
    }

    pub(super) fn init(
        &mut self,
        version: i16,
        id: Option<&str>,
        claimed: ProducerIdAndEpoch,
    ) -> Result<ProducerIdAndEpoch, ErrorCode> {
        let request = kp::InitProducerIdRequest::default()
            .with_transactional_id(id.map(|id| kp::TransactionalId(str_bytes(id))))
            .with_transaction_timeout_ms(60_000)
            .with_producer_id(claimed.producer_id.into())
            .with_producer_epoch(claimed.producer_epoch);
        let Response::InitProducerId(response) = self.call(version, request) else {
            panic!("wrong answer")
        };
        outcome(response.error_code, response.producer_id.0, response.producer_epoch)
    }

    /// A fresh identity for `id`, however long an open transaction takes to be aborted.
    pub(super) fn fence(&mut self, id: &str) -> ProducerIdAndEpoch {
        loop {
            match self.init(5, Some(id), ProducerIdAndEpoch::NONE) {
                Ok(identity) => return identity,
                Err(ErrorCode::CONCURRENT_TRANSACTIONS) => self.settle(),
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub(super) fn end(
        &mut self,
        version: i16,
        id: &str,
        identity: ProducerIdAndEpoch,
        commit: bool,
    ) -> Result<ProducerIdAndEpoch, ErrorCode> {
        let request = kp::EndTxnRequest::default()
            .with_transactional_id(kp::TransactionalId(str_bytes(id)))
            .with_producer_id(identity.producer_id.into())
            .with_producer_epoch(identity.producer_epoch)
            .with_committed(commit);
        let Response::EndTxn(response) = self.call(version, request) else {
            panic!("wrong answer")
        };
        outcome(response.error_code, response.producer_id.0, response.producer_epoch)
    }

    pub(super) fn add_partition(
        &mut self,
        version: i16,
        id: &str,
        identity: ProducerIdAndEpoch,
        topic: &str,
        partition: i32,
    ) -> ErrorCode {
        let topic = kp::add_partitions_to_txn_request::AddPartitionsToTxnTopic::default()
            .with_name(kp::TopicName(str_bytes(topic)))
            .with_partitions(vec![partition]);
        let request = kp::AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(kp::TransactionalId(str_bytes(id)))
            .with_v3_and_below_producer_id(identity.producer_id.into())
            .with_v3_and_below_producer_epoch(identity.producer_epoch)
            .with_v3_and_below_topics(vec![topic]);
        let Response::AddPartitionsToTxn(response) = self.call(version, request) else {
            panic!("wrong answer")
        };
        let result = &response.results_by_topic_v3_and_below[0].results_by_partition[0];
        ErrorCode(result.partition_error_code)
    }

    /// Writes one batch to a partition of `t`.
    pub(super) fn produce(&mut self, version: i16, write: &Write) -> ProducePartitionResponse {
        let Response::Produce(mut response) = self.call(version, write.request()) else {
            panic!("wrong answer")
        };
        response.topics.remove(0).partitions.remove(0)
    }

    /// Reads partition `partition` of `t` from `offset`.
    pub(super) fn fetch(
        &mut self,
        partition: i32,
        offset: i64,
        isolation_level: IsolationLevel,
    ) -> FetchPartitionResponse {
        let request = fetch_request(&[(partition, offset)], isolation_level);
        let Response::Fetch(mut response) = self.call(12, request) else { panic!("wrong answer") };
        assert_eq!(response.error_code, ErrorCode::NONE);
        response.topics.remove(0).partitions.remove(0)
    }
}

/// One batch to write to topic `t`.
#[derive(Clone)]
pub(super) struct Write {
    pub(super) topic: &'static str,
    pub(super) partition: i32,
    pub(super) records: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    pub(super) identity: ProducerIdAndEpoch,
    pub(super) sequence: i32,
    pub(super) transactional_id: Option<String>,
}

impl Write {
    pub(super) fn plain(partition: i32, values: &[&str]) -> Self {
        Self {
            topic: "t",
            partition,
            records: values
                .iter()
                .map(|value| (b"k".to_vec(), Some(value.as_bytes().to_vec())))
                .collect(),
            identity: ProducerIdAndEpoch::NONE,
            sequence: -1,
            transactional_id: None,
        }
    }

    pub(super) fn idempotent(mut self, identity: ProducerIdAndEpoch, sequence: i32) -> Self {
        self.identity = identity;
        self.sequence = sequence;
        self
    }

    pub(super) fn transactional(mut self, id: &str) -> Self {
        self.transactional_id = Some(id.to_owned());
        self
    }

    pub(super) fn batch(&self) -> Bytes {
        let mut builder = BatchBuilder::new(Compression::None, 1 << 20);
        for (key, value) in &self.records {
            builder.append(WALL_CLOCK_MS, Some(key), value.as_deref(), &[]).expect("fits");
        }
        let mut batch = builder.build().expect("built").expect("not empty");
        batch.stamp(self.identity, self.sequence, self.transactional_id.is_some());
        batch.bytes()
    }

    pub(super) fn request(&self) -> ProduceRequest {
        self.request_with(self.batch())
    }

    pub(super) fn request_with(&self, records: Bytes) -> ProduceRequest {
        ProduceRequest {
            transactional_id: self.transactional_id.clone(),
            acks: -1,
            timeout_ms: 1000,
            topics: vec![ProduceTopic {
                topic: Arc::from(self.topic),
                partitions: vec![ProducePartition { partition: self.partition, records }],
            }],
        }
    }
}

/// A Fetch of partitions of `t` that does not wait and has no session.
pub(super) fn fetch_request(
    partitions: &[(i32, i64)],
    isolation_level: IsolationLevel,
) -> FetchRequest {
    FetchRequest {
        max_wait_ms: 0,
        min_bytes: 1,
        max_bytes: 50 << 20,
        isolation_level,
        session_id: 0,
        session_epoch: -1,
        topics: vec![FetchTopic::by_name(
            "t",
            partitions
                .iter()
                .map(|(partition, fetch_offset)| FetchPartition {
                    partition: *partition,
                    fetch_offset: *fetch_offset,
                    partition_max_bytes: 1 << 20,
                    ..FetchPartition::default()
                })
                .collect(),
        )],
        ..FetchRequest::default()
    }
}

/// The batch with other bytes at `at`, and the right checksum again.
pub(super) fn patched(batch: &Bytes, at: usize, bytes: &[u8]) -> Bytes {
    let mut batch = BytesMut::from(&batch[..]);
    batch[at..at + bytes.len()].copy_from_slice(bytes);
    let crc = crc32c::crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
    batch.freeze()
}

pub(super) fn str_bytes(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn outcome(
    error_code: i16,
    producer_id: i64,
    producer_epoch: i16,
) -> Result<ProducerIdAndEpoch, ErrorCode> {
    match ErrorCode(error_code) {
        ErrorCode::NONE => Ok(ProducerIdAndEpoch { producer_id, producer_epoch }),
        error => Err(error),
    }
}
