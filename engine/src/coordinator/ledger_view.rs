//! A look at a job's ledger from outside: what Kafka says, and what recovery would make of it with a given directory. Nothing
//! is created, fenced or written.

use std::collections::BTreeMap;

use millstream_checkpoint::{
    Decision, Facts, Fingerprint, JobName, LedgerFact, LedgerPlace, LedgerRecord, LocalState, Look,
    OwnershipPhase, TopicId, decide, look_before_fence,
};
use millstream_protocol::{IsolationLevel, TopicPartition};
use millstream_protocol_client::{ConfigResource, KafkaClient, OffsetSpec};

use super::ledger::{Ledger, LedgerTopicError, READ_PATIENCE, SLOT};
use crate::connector::kafka::topic_reader::{ReadUntil, read_topic};

/// What the ledger topic of a job holds.
#[derive(Clone, Debug)]
pub struct LedgerView {
    /// Topic and partition.
    pub place: LedgerPlace,
    /// Id of the topic, unknown if the brokers give none.
    pub topic_id: TopicId,
    /// Its `cleanup.policy`, which has to be `compact`.
    pub cleanup_policy: Option<String>,
    /// The last committed record.
    pub last: Option<LedgerFact>,
    /// Committed records that are still there; compaction leaves the last one for certain.
    pub records: usize,
    /// End of what is committed for certain.
    pub last_stable_offset: i64,
    /// End of the partition. Beyond the last stable offset a transaction is open, or its markers are being written.
    pub high_watermark: i64,
}

/// Looks at the ledger of `job`; `None` if there is no such topic.
///
/// # Errors
///
/// [`LedgerTopicError`] if the cluster does not answer or a record is not the job's.
pub async fn view_ledger(
    client: &KafkaClient,
    job: &JobName,
) -> Result<Option<LedgerView>, LedgerTopicError> {
    let topic = Ledger::topic_name(job.as_str());
    let failed = |source| LedgerTopicError::Client { topic: topic.clone(), source };
    let Some(found) = client.describe_topic(&topic).await.map_err(failed)? else { return Ok(None) };
    let resource = ConfigResource::Topic(topic.clone());
    let configs = client.describe_configs(resource, &["cleanup.policy"]).await.map_err(failed)?;
    let partition = TopicPartition::new(topic.as_str(), SLOT);
    let offset = async |spec, isolation| {
        let listed = client.list_offsets(&[(partition.clone(), spec)], isolation).await;
        let listed = listed.map_err(failed)?;
        Ok::<_, LedgerTopicError>(listed.get(&partition).map_or(0, |found| found.offset))
    };
    let start = offset(OffsetSpec::Earliest, IsolationLevel::ReadUncommitted).await?;
    let high_watermark = offset(OffsetSpec::Latest, IsolationLevel::ReadUncommitted).await?;
    let last_stable_offset = offset(OffsetSpec::Latest, IsolationLevel::ReadCommitted).await?;
    let mut values = Vec::new();
    let starts = BTreeMap::from([(partition.clone(), start)]);
    read_topic(client, &starts, ReadUntil::LastStableOffset, READ_PATIENCE, |_, record| {
        values.push((record.offset, record.value.map(<[u8]>::to_vec)));
    })
    .await
    .map_err(|source| LedgerTopicError::Read { topic: topic.clone(), source })?;
    let mut last = None;
    let records = values.len();
    if let Some((offset, value)) = values.pop() {
        let place = partition.clone();
        let Some(value) = value else {
            let what = "a null value".to_owned();
            return Err(LedgerTopicError::Foreign { partition: place, offset, what });
        };
        let record = LedgerRecord::decode(&value);
        let record = record.map_err(|source| LedgerTopicError::Damaged {
            partition: place,
            offset,
            source,
        })?;
        last = Some(LedgerFact { record, offset });
    }
    Ok(Some(LedgerView {
        place: LedgerPlace { topic: topic.as_str().into(), partition: SLOT },
        topic_id: TopicId(found.topic_id),
        cleanup_policy: configs.get("cleanup.policy").cloned(),
        last,
        records,
        last_stable_offset,
        high_watermark,
    }))
}

/// What a start of the job on `local` would do if the ledger stays as it is. `Err`: it would stop before it fences anybody.
/// `fingerprint` is that of the program that would start.
///
/// # Errors
///
/// The decision that is no decision to go on, as [`Look`].
pub fn preview_recovery(
    job: &JobName,
    fingerprint: Fingerprint,
    local: &LocalState,
    ledger: Option<&LedgerView>,
) -> Result<Decision, Look> {
    let nowhere = LedgerPlace { topic: Ledger::topic_name(job.as_str()).into(), partition: SLOT };
    let facts = Facts {
        job,
        fingerprint,
        local,
        ledger: ledger.and_then(|ledger| ledger.last.as_ref()),
        ledger_place: ledger.map_or(&nowhere, |ledger| &ledger.place),
        ledger_topic_id: ledger.map_or(TopicId::UNKNOWN, |ledger| ledger.topic_id),
        phase: OwnershipPhase::Starter,
        newer_owner: false,
        failed_takeovers: 0,
    };
    match look_before_fence(&facts) {
        Look::Continue => Ok(decide(&facts)),
        stop => Err(stop),
    }
}
