//! Where an assigned partition is read from: its committed offset, or what `auto.offset.reset` says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millstream_protocol::fetch::FetchStart;
use millstream_protocol::group::offsets::{self, OffsetAndMetadata, Verdict};
use millstream_protocol::network::Destination;
use millstream_protocol::{IsolationLevel, Request, Response, TopicPartition};

use crate::client::Ask;
use crate::surroundings::wall_time;
use crate::{ClientError, KafkaClient, OffsetReset, OffsetSpec};

/// Start positions; partitions without any (`auto.offset.reset=none`) are absent.
pub(super) async fn start_positions(
    client: &KafkaClient,
    group: &Arc<str>,
    partitions: &BTreeSet<TopicPartition>,
) -> Result<Vec<FetchStart>, ClientError> {
    let committed = committed(client, group, partitions).await?;
    let missing: BTreeSet<_> =
        partitions.iter().filter(|tp| !committed.contains_key(tp)).cloned().collect();
    let mut starts: Vec<_> = committed
        .into_iter()
        .map(|(topic_partition, committed)| FetchStart {
            topic_partition,
            offset: committed.offset,
            leader_epoch: committed.leader_epoch,
        })
        .collect();
    starts.extend(reset_positions(client, &missing).await?);
    Ok(starts)
}

/// Where `auto.offset.reset` says; none for `none`.
pub(super) async fn reset_positions(
    client: &KafkaClient,
    partitions: &BTreeSet<TopicPartition>,
) -> Result<Vec<FetchStart>, ClientError> {
    let spec = match client.config().auto_offset_reset {
        OffsetReset::Earliest => OffsetSpec::Earliest,
        OffsetReset::Latest => OffsetSpec::Latest,
        OffsetReset::ByDuration(age) => {
            let since = wall_time().saturating_sub(age).as_millis();
            OffsetSpec::Timestamp(i64::try_from(since).unwrap_or(i64::MAX))
        }
        OffsetReset::None => return Ok(Vec::new()),
    };
    if partitions.is_empty() {
        return Ok(Vec::new());
    }
    let asked: Vec<_> = partitions.iter().map(|tp| (tp.clone(), spec)).collect();
    let isolation: IsolationLevel = client.config().isolation_level;
    let mut listed = client.list_offsets(&asked, isolation).await?;
    // A partition without a record so young is read from its end on.
    let empty: Vec<_> =
        listed.iter().filter(|(_, listed)| listed.offset < 0).map(|(tp, _)| tp.clone()).collect();
    if !empty.is_empty() {
        let ends: Vec<_> = empty.into_iter().map(|tp| (tp, OffsetSpec::Latest)).collect();
        listed.extend(client.list_offsets(&ends, isolation).await?);
    }
    let start = |(topic_partition, listed): (TopicPartition, crate::ListedOffset)| FetchStart {
        topic_partition,
        offset: listed.offset,
        // The record before is not known, so there is nothing to validate.
        leader_epoch: -1,
    };
    Ok(listed.into_iter().map(start).collect())
}

/// Committed offsets; the answer waits for transactions that are about to commit some (KIP-447), where brokers can.
pub(super) async fn committed(
    client: &KafkaClient,
    group: &Arc<str>,
    partitions: &BTreeSet<TopicPartition>,
) -> Result<BTreeMap<TopicPartition, OffsetAndMetadata>, ClientError> {
    let mut attempts = client.attempts(format!("fetch offsets of group '{group}'"));
    let destination = Destination::GroupCoordinator(Arc::clone(group));
    loop {
        let request = offsets::fetch_request(group, partitions, true);
        // Version 8 asks for several groups in another shape.
        let ask = Ask::new(destination.clone(), Request::OffsetFetch(request)).up_to(7);
        let response = match client.request(ask, attempts.remaining()).await {
            Ok(Response::OffsetFetch(response)) => response,
            Ok(_) => continue,
            Err(error) => {
                attempts.after(error).await?;
                continue;
            }
        };
        let (verdict, found) = offsets::fetched(&response, partitions);
        match verdict {
            Verdict::Done => return Ok(found),
            Verdict::Retry(code) | Verdict::RetryForAWhile(code) => {
                attempts.pause(&code.to_string()).await?;
            }
            Verdict::NotInGeneration(code) | Verdict::Failed(code) => {
                return Err(ClientError::of_code(attempts.operation(), code, None::<&str>));
            }
        }
    }
}
