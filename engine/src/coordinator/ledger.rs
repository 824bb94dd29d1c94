//! The ledger topic of a job: one compacted partition whose last record says which checkpoint counts.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use millstream_checkpoint::{
    Facts, FormatError, LedgerFact, LedgerPlace, LedgerRecord, OwnerId, TopicId,
};
use millstream_protocol::TopicPartition;
use millstream_protocol::records::{BatchBuilder, Compression};
use millstream_protocol_client::{
    ClientError, ConfigResource, KafkaClient, NewTopic, OffsetSpec, Producer,
};
use thiserror::Error;

use crate::connector::kafka::topic_reader::{ReadError, ReadUntil, read_topic};

/// Partition of the ledger topic that this process owns. One process a job today; a slot each later.
pub(crate) const SLOT: i32 = 0;

/// How long a read of the ledger may stand still. Longer than a broker takes to write markers or move a leader.
pub(crate) const READ_PATIENCE: Duration = Duration::from_secs(30);

/// Large enough for the positions of tens of thousands of splits.
const RECORD_BYTES_MAX: usize = 1024 * 1024;

/// The ledger can not be used as it stands.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LedgerTopicError {
    /// The cluster did not answer.
    #[error("failed to reach the ledger topic {topic:?}")]
    Client {
        /// Ledger topic.
        topic: String,
        /// Why.
        #[source]
        source: ClientError,
    },
    /// The ledger could not be read.
    #[error("failed to read the ledger topic {topic:?}")]
    Read {
        /// Ledger topic.
        topic: String,
        /// Why.
        #[source]
        source: ReadError,
    },
    /// The topic is gone although the state directory remembers it.
    #[error(
        "ledger topic {topic:?} does not exist, but the state directory holds files up to checkpoint {checkpoint}; the topic was deleted or the bootstrap address leads to another cluster; restore the topic; or start once with --adopt-local, which takes the state directory as the truth; or start with an empty state directory and another job name"
    )]
    Missing {
        /// Ledger topic.
        topic: String,
        /// Newest checkpoint in the state directory.
        checkpoint: u64,
    },
    /// The topic would lose records.
    #[error(
        "ledger topic {topic:?} has cleanup.policy={policy:?}, it must be 'compact': with any other policy the broker deletes the record that proves what was committed. Alter the topic with `millstream topic alter {topic} --config cleanup.policy=compact -b HOST:PORT` and start the job again"
    )]
    WrongPolicy {
        /// Ledger topic.
        topic: String,
        /// Its policy now.
        policy: String,
    },
    /// A record that this job did not write.
    #[error(
        "ledger partition {partition} offset {offset} holds {what}; no one but this job may write there: use another job name or clean the topic"
    )]
    Foreign {
        /// Ledger partition.
        partition: TopicPartition,
        /// Offset of the record.
        offset: i64,
        /// What is wrong with it.
        what: String,
    },
    /// A record that can not be decoded.
    #[error("ledger partition {partition} offset {offset} is damaged")]
    Damaged {
        /// Ledger partition.
        partition: TopicPartition,
        /// Offset of the record.
        offset: i64,
        /// Why.
        #[source]
        source: FormatError,
    },
    /// The record of a checkpoint is larger than a Kafka record should be.
    #[error(
        "the ledger record of checkpoint {checkpoint} does not fit into {limit} bytes; the job reads too many partitions for one ledger record"
    )]
    TooLarge {
        /// Checkpoint.
        checkpoint: u64,
        /// Bound in bytes.
        limit: usize,
    },
}

/// What this process knows of the ledger: everything below `next_offset`.
#[derive(Debug)]
pub(crate) struct Ledger {
    client: KafkaClient,
    partition: TopicPartition,
    place: LedgerPlace,
    transactional_id: String,
    owner: OwnerId,
    topic_id: TopicId,
    next_offset: i64,
    last: Option<LedgerFact>,
}

impl Ledger {
    /// Name of the ledger topic of `job`.
    pub(crate) fn topic_name(job: &str) -> String {
        format!("{job}.millstream-ledger")
    }

    /// Checks the ledger topic of `job`, creating it if `known` says that no checkpoint can exist yet.
    ///
    /// `known` is what META says: the topic id and the confirmed checkpoint.
    pub(crate) async fn open(
        client: KafkaClient,
        job: &str,
        transactional_id: String,
        owner: OwnerId,
        known: Option<(TopicId, u64)>,
        from_offset: Option<i64>,
    ) -> Result<Self, LedgerTopicError> {
        let topic = Self::topic_name(job);
        let failed = |source| LedgerTopicError::Client { topic: topic.clone(), source };
        let known = known.filter(|(topic_id, newest)| *newest > 0 || *topic_id != TopicId::UNKNOWN);
        // Where META knows of the topic, a broker that does not is asked again before the topic is called missing. Where it does
        // not, a broker that lags costs nothing but a CreateTopics that finds the topic there.
        let mut description = match known {
            Some(_) => client.describe_topic(&topic).await,
            None => client.describe_topic_once(&topic).await,
        }
        .map_err(failed)?;
        if description.is_none() {
            if let Some((_, checkpoint)) = known {
                return Err(LedgerTopicError::Missing { topic, checkpoint });
            }
            let brokers = i16::try_from(client.broker_count()).unwrap_or(i16::MAX);
            let replication_factor = brokers.clamp(1, 3);
            let new_topic = NewTopic {
                name: topic.clone(),
                partitions: 1,
                replication_factor,
                configs: BTreeMap::from([
                    ("cleanup.policy".to_owned(), "compact".to_owned()),
                    ("min.insync.replicas".to_owned(), (replication_factor - 1).max(1).to_string()),
                ]),
            };
            let created = client.create_topic(new_topic).await;
            description = client.describe_topic(&topic).await.map_err(failed)?;
            // Who may not create topics needs one that is there, and finds it although the first broker asked did not know it yet.
            if let (Err(source), None) = (created, &description) {
                return Err(failed(source));
            }
        }
        let topic_id = description.map_or(TopicId::UNKNOWN, |found| TopicId(found.topic_id));
        let configs = client
            .describe_configs(ConfigResource::Topic(topic.clone()), &["cleanup.policy"])
            .await
            .map_err(failed)?;
        if let Some(policy) = configs.get("cleanup.policy")
            && policy != "compact"
        {
            return Err(LedgerTopicError::WrongPolicy { topic, policy: policy.clone() });
        }
        Ok(Self {
            client,
            place: LedgerPlace { topic: topic.as_str().into(), partition: SLOT },
            partition: TopicPartition::new(topic, SLOT),
            transactional_id,
            owner,
            topic_id,
            next_offset: from_offset.unwrap_or(0),
            last: None,
        })
    }

    /// Id of the topic as of the last look, unknown if the brokers give none.
    pub(crate) fn topic_id(&self) -> TopicId {
        self.topic_id
    }

    /// Topic and partition, for messages.
    pub(crate) fn place(&self) -> &LedgerPlace {
        &self.place
    }

    /// The last record that this process read or wrote.
    pub(crate) fn last(&self) -> Option<&LedgerFact> {
        self.last.as_ref()
    }

    /// Reads what was committed since the last look. `true`: a record of another owner is among it.
    pub(crate) async fn look(&mut self, until: ReadUntil) -> Result<bool, LedgerTopicError> {
        let mut records: Vec<LedgerFact> = Vec::new();
        let mut found: Vec<(i64, Option<Bytes>, Option<Bytes>)> = Vec::new();
        let start = self.start_offset().await?;
        self.next_offset = start;
        let starts = BTreeMap::from([(self.partition.clone(), start)]);
        let ends = read_topic(&self.client, &starts, until, READ_PATIENCE, |_, record| {
            found.push((
                record.offset,
                record.key.map(Bytes::copy_from_slice),
                record.value.map(Bytes::copy_from_slice),
            ));
        })
        .await
        .map_err(|source| LedgerTopicError::Read {
            topic: self.partition.topic.to_string(),
            source,
        })?;
        // The topic may have been made anew since it was opened. Asked after the read: what was read is of this topic or an older
        // one, never of a newer one that looks like the one META knows.
        let topic = &*self.partition.topic;
        let described = self
            .client
            .describe_topic(topic)
            .await
            .map_err(|source| LedgerTopicError::Client { topic: topic.to_owned(), source })?;
        if let Some(described) = described {
            self.topic_id = TopicId(described.topic_id);
        }
        for (offset, key, value) in found {
            let foreign = |what: String| LedgerTopicError::Foreign {
                partition: self.partition.clone(),
                offset,
                what,
            };
            if key.as_deref() != Some(self.transactional_id.as_bytes()) {
                let shown = key.as_deref().map(|key| String::from_utf8_lossy(key).into_owned());
                return Err(foreign(format!(
                    "a record with key {shown:?}, expected {:?}",
                    self.transactional_id
                )));
            }
            let Some(value) = value else { return Err(foreign("a null value".to_owned())) };
            let record = LedgerRecord::decode(&value).map_err(|source| {
                LedgerTopicError::Damaged { partition: self.partition.clone(), offset, source }
            })?;
            records.push(LedgerFact { offset, record });
        }
        let other_owner =
            Facts::is_newer_owner(self.owner, records.iter().map(|fact| &fact.record));
        if let Some(last) = records.pop() {
            self.last = Some(last);
        }
        if let Some(end) = ends.get(&self.partition) {
            self.next_offset = self.next_offset.max(*end);
        }
        Ok(other_owner)
    }

    /// Queues `record` into the transaction of checkpoint `tag`.
    pub(crate) fn append(
        &self,
        producer: &Producer,
        record: &LedgerRecord,
        tag: u64,
    ) -> Result<(), LedgerTopicError> {
        let too_large = || LedgerTopicError::TooLarge {
            checkpoint: record.checkpoint.0,
            limit: RECORD_BYTES_MAX,
        };
        let value = record.encode().map_err(|_| too_large())?;
        let mut builder = BatchBuilder::new(Compression::None, RECORD_BYTES_MAX);
        let key = self.transactional_id.as_bytes();
        builder
            .append(record.wall_time_ms, Some(key), Some(&value), &[])
            .map_err(|_| too_large())?;
        if let Some(batch) = builder.build().map_err(|_| too_large())? {
            producer.send_batch(self.partition.clone(), batch, tag);
        }
        Ok(())
    }

    /// Remembers that `record` was committed at `offset`: what lies behind it is newer than us.
    pub(crate) fn committed(&mut self, record: LedgerRecord, offset: i64) {
        self.next_offset = self.next_offset.max(offset + 1);
        self.last = Some(LedgerFact { offset, record });
    }

    /// The partition, as it appears in the producer's acknowledgements.
    pub(crate) fn partition(&self) -> &TopicPartition {
        &self.partition
    }

    /// Where to go on reading: compaction or a restored META may have left our position below the log's start. A ledger that was
    /// restored or made anew may end before it; a process that has read nothing yet then begins at its start.
    async fn start_offset(&self) -> Result<i64, LedgerTopicError> {
        let topic = self.partition.topic.to_string();
        let failed = |source| LedgerTopicError::Client { topic: topic.clone(), source };
        let earliest = [(self.partition.clone(), OffsetSpec::Earliest)];
        let listed = self
            .client
            .list_offsets(&earliest, millstream_protocol::IsolationLevel::ReadUncommitted)
            .await
            .map_err(failed)?;
        let earliest = listed.get(&self.partition).map_or(0, |found| found.offset);
        if self.last.is_none() && self.next_offset > earliest {
            let latest = [(self.partition.clone(), OffsetSpec::Latest)];
            let isolation = millstream_protocol::IsolationLevel::ReadUncommitted;
            let listed = self.client.list_offsets(&latest, isolation).await.map_err(failed)?;
            let end = listed.get(&self.partition).map_or(0, |found| found.offset);
            if end < self.next_offset {
                return Ok(earliest);
            }
        }
        Ok(self.next_offset.max(earliest))
    }
}
