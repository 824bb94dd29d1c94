//! What a history needs of the cluster before and after: topics, input, and what lies in the logs.

use bytes::Bytes;
use millstream_dev_broker::core::Outgoing;
use millstream_protocol::messages::{ProducePartition, ProduceRequest, ProduceTopic, StrBytes, kp};
use millstream_protocol::records::{BatchBuilder, Compression};
use millstream_protocol::wire::ResponseHeader;
use millstream_protocol::{ApiKey, Request, Response, TopicPartition};

use crate::network::{Network, World};

/// The connection of whoever sets the stage.
const STAGE: u64 = u64::MAX;

const BATCH_BYTES: usize = 1 << 20;

/// One record of the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputRecord {
    /// Milliseconds since 1970.
    pub timestamp_ms: i64,
    /// Key.
    pub key: Bytes,
    /// Value.
    pub value: Bytes,
}

impl World {
    fn ask(
        &mut self,
        node: i32,
        version: i16,
        request: &Request,
        now: u64,
    ) -> Result<Response, String> {
        let api = request.api_key();
        let frame = request.encode(version, 1, "stage").map_err(|error| error.to_string())?;
        let frame = frame.to_bytes().slice(4..);
        let (time, wall_clock_ms) = self.brokers.clock(now);
        self.brokers.core.handle_request_at(node, time, wall_clock_ms, STAGE, frame);
        self.brokers.keep();
        let mut mine = None;
        let mut others = Vec::new();
        while let Some(outgoing) = self.brokers.core.poll_outgoing() {
            match outgoing {
                Outgoing::Response { connection: STAGE, frame } => mine = Some(frame.to_bytes()),
                Outgoing::Response { connection, frame } => {
                    others.push((connection, Some(frame.to_bytes())))
                }
                Outgoing::Done { connection } | Outgoing::Close { connection } => {
                    others.push((connection, None));
                }
            }
        }
        // Fetches that waited for what was just written.
        for (id, frame) in others {
            if let Some(frame) = frame {
                self.note_answer(id, &frame);
                self.broker_writes(id, frame, now);
            }
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.port.busy = false;
            }
            self.serve(id, now);
        }
        self.pump(now);
        let frame = mine.ok_or("the broker gave no answer")?;
        let (_, body) = ResponseHeader::decode(api, version, frame.slice(4..))
            .map_err(|error| error.to_string())?;
        Response::decode(api, version, body).map_err(|error| error.to_string())
    }

    fn leader(&self, place: &TopicPartition) -> Option<i32> {
        self.brokers.core.leaders().find(|(at, _)| at == place).and_then(|(_, node)| node)
    }
}

impl Network {
    /// Makes a topic, replicated on all brokers.
    ///
    /// # Errors
    ///
    /// What the broker says.
    pub fn create_topic(
        &self,
        name: &str,
        partitions: i32,
        configs: &[(&str, &str)],
    ) -> Result<(), String> {
        let configs = configs
            .iter()
            .map(|(name, value)| {
                kp::create_topics_request::CreatableTopicConfig::default()
                    .with_name(text(name))
                    .with_value(Some(text(value)))
            })
            .collect();
        let topic = kp::create_topics_request::CreatableTopic::default()
            .with_name(kp::TopicName(text(name)))
            .with_num_partitions(partitions)
            .with_replication_factor(-1)
            .with_configs(configs);
        let request = kp::CreateTopicsRequest::default().with_topics(vec![topic]).into();
        match self.with(|world, now| world.ask(1, 7, &request, now))? {
            Response::CreateTopics(response) => match response.topics.first() {
                Some(created) if created.error_code == 0 => Ok(()),
                other => Err(format!("topic {name} was not created: {other:?}")),
            },
            other => Err(format!("CreateTopics was answered by {other:?}")),
        }
    }

    /// Deletes a topic.
    ///
    /// # Errors
    ///
    /// What the broker says.
    pub fn delete_topic(&self, name: &str) -> Result<(), String> {
        let topic = kp::delete_topics_request::DeleteTopicState::default()
            .with_name(Some(kp::TopicName(text(name))));
        let request = kp::DeleteTopicsRequest::default().with_topics(vec![topic]).into();
        match self.with(|world, now| world.ask(1, 6, &request, now))? {
            Response::DeleteTopics(response) => match response.responses.first() {
                Some(deleted) if deleted.error_code == 0 => {
                    self.with(|world, _| world.brokers.was_deleted(name));
                    Ok(())
                }
                other => Err(format!("topic {name} was not deleted: {other:?}")),
            },
            other => Err(format!("DeleteTopics was answered by {other:?}")),
        }
    }

    /// Loses the end of a partition although it was acknowledged, from an offset that `choice` chooses; all of it for 0.
    pub fn lose_end(&self, place: &TopicPartition, choice: u64) {
        self.with(|world, now| {
            let end = world.brokers.core.log_end_offset(place).unwrap_or(0);
            let offset = i64::try_from(choice % end.max(1).unsigned_abs()).unwrap_or(0);
            world.brokers.core.lose_from(place, offset);
            world.core_timeout(now);
        });
    }

    /// Appends input to a partition, past all faults. False if nobody leads it now.
    ///
    /// # Errors
    ///
    /// What the broker says.
    pub fn append_input(
        &self,
        place: &TopicPartition,
        records: &[InputRecord],
    ) -> Result<bool, String> {
        let mut builder = BatchBuilder::new(Compression::None, BATCH_BYTES);
        for record in records {
            builder
                .append(record.timestamp_ms, Some(&record.key), Some(&record.value), &[])
                .map_err(|error| format!("{error:?}"))?;
        }
        let built = builder.build().map_err(|error| format!("{error:?}"))?;
        let Some(mut batch) = built else { return Ok(true) };
        batch.stamp(millstream_protocol::ProducerIdAndEpoch::NONE, -1, false);
        let request: Request = ProduceRequest {
            transactional_id: None,
            acks: -1,
            timeout_ms: 1000,
            topics: vec![ProduceTopic {
                topic: place.topic.clone(),
                partitions: vec![ProducePartition {
                    partition: place.partition,
                    records: batch.bytes(),
                }],
            }],
        }
        .into();
        let answer = self.with(|world, now| {
            let Some(leader) = world.leader(place) else { return Ok(None) };
            world.ask(leader, 9, &request, now).map(Some)
        })?;
        match answer {
            None => Ok(false),
            Some(Response::Produce(response)) => {
                let first = response.topics.first().and_then(|topic| topic.partitions.first());
                match first {
                    Some(partition) if partition.error_code.0 == 0 => Ok(true),
                    other => Err(format!("input was not taken: {other:?}")),
                }
            }
            Some(other) => Err(format!("Produce was answered by {other:?}")),
        }
    }

    /// Asks for a transactional id as a program that begins does: whoever had it is fenced, and its transaction aborted.
    pub fn take_transactional_id(&self, id: &str) {
        let request: Request = kp::InitProducerIdRequest::default()
            .with_transactional_id(Some(kp::TransactionalId(text(id))))
            .with_transaction_timeout_ms(1000)
            .with_producer_id((-1).into())
            .with_producer_epoch(-1)
            .into();
        self.with(|world, now| {
            for node in 1..=i32::from(world.brokers.settings.brokers) {
                // One of them is its coordinator; an answer that is late or an error is as good as any.
                let _ = world.ask(node, 4, &request, now);
            }
        });
    }

    /// `bootstrap.servers` of the cluster.
    #[must_use]
    pub fn bootstrap(&self) -> String {
        self.with(|world, _| world.brokers.bootstrap())
    }

    /// Every batch ever written, by topic and partition, in order of offsets, whether compacted away since or not.
    #[must_use]
    pub fn appended(&self) -> Vec<(TopicPartition, Vec<Bytes>)> {
        self.with(|world, _| {
            let all = world.brokers.appended();
            all.map(|(topic, partition, batches)| {
                (TopicPartition::new(topic, partition), batches.to_vec())
            })
            .collect()
        })
    }

    /// Transactions that are not over, in words.
    #[must_use]
    pub fn unfinished_transactions(&self) -> Vec<String> {
        self.with(|world, _| world.brokers.core.unfinished_transactions())
    }

    /// Milliseconds since 1970 by the brokers' clock.
    #[must_use]
    pub fn broker_time_ms(&self) -> i64 {
        self.with(|world, now| world.brokers.clock(now).1)
    }
}

/// A node's answer can be read by its API and version alone.
pub(super) fn decode(api: ApiKey, version: i16, frame: &Bytes) -> Option<Response> {
    if frame.len() < 4 {
        return None;
    }
    let (_, body) = ResponseHeader::decode(api, version, frame.slice(4..)).ok()?;
    Response::decode(api, version, body).ok()
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}
