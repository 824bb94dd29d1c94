//! Reads partitions from given offsets to where they end now, once. Used for the ledger, for checks and for tests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millstream_protocol::records::{DecodeLimits, RecordView, VisibleBatches};
use millstream_protocol::{IsolationLevel, TopicPartition};
use millstream_protocol_client::{
    ClientError, FetchError, FetchEvent, FetchStart, FetchedPartition, KafkaClient, OffsetSpec,
};
use thiserror::Error;

/// Reading a topic to its end failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Asking the cluster for offsets failed.
    #[error("failed to list offsets")]
    Client(#[from] ClientError),
    /// A fetch failed for good.
    #[error("failed to read {topic_partition}")]
    Fetch {
        /// Where.
        topic_partition: TopicPartition,
        /// Why.
        #[source]
        source: FetchError,
    },
    /// A batch could not be decoded.
    #[error("failed to decode {topic_partition}")]
    Records {
        /// Where.
        topic_partition: TopicPartition,
        /// Why.
        #[source]
        source: millstream_protocol::records::RecordsError,
    },
    /// The client was closed meanwhile.
    #[error("the client was closed while a topic was read")]
    Closed,
    /// The end was not reached in time.
    #[error(
        "{topic_partition} stood at offset {position} of {end} for {waited:?}; a transaction of another producer may be open before that offset, or the partition has no leader"
    )]
    Stalled {
        /// Where.
        topic_partition: TopicPartition,
        /// Next offset to read.
        position: i64,
        /// Offset that was to be reached.
        end: i64,
        /// How long nothing moved.
        waited: Duration,
    },
}

/// How far and how to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadUntil {
    /// Up to the last stable offset: never waits for an open transaction.
    LastStableOffset,
    /// Up to the high watermark, seeing committed records only: waits until transactions before it have ended.
    HighWatermark,
}

/// Reads every record of `starts` (partition → first offset) that lies below the end named by `until`, read_committed, and
/// gives them to `on_record` in offset order within each partition. Returns the next offset of each partition.
///
/// # Errors
///
/// [`ReadError`]; [`ReadError::Stalled`] when no partition moved for `patience`.
pub async fn read_topic(
    client: &KafkaClient,
    starts: &BTreeMap<TopicPartition, i64>,
    until: ReadUntil,
    patience: Duration,
    mut on_record: impl FnMut(&TopicPartition, &RecordView<'_>),
) -> Result<BTreeMap<TopicPartition, i64>, ReadError> {
    let limits = DecodeLimits::default();
    let isolation = IsolationLevel::ReadCommitted;
    read_fetches(client, starts, until, isolation, patience, |fetched, position| {
        let failed = |source| ReadError::Records {
            topic_partition: fetched.topic_partition.clone(),
            source,
        };
        for batch in visible_batches(fetched, &limits) {
            let batch = batch.map_err(failed)?;
            if let Some(block) = &batch.records {
                for record in block.iter() {
                    let record = record.map_err(failed)?;
                    if record.offset >= *position {
                        on_record(&fetched.topic_partition, &record);
                    }
                }
            }
            *position = (*position).max(batch.next_offset);
        }
        Ok(())
    })
    .await
}

/// As [`read_topic`], but hands out whole fetched partitions; `on_fetched` moves the position itself.
///
/// # Errors
///
/// As [`read_topic`], and what `on_fetched` returns.
pub async fn read_fetches(
    client: &KafkaClient,
    starts: &BTreeMap<TopicPartition, i64>,
    until: ReadUntil,
    isolation: IsolationLevel,
    patience: Duration,
    mut on_fetched: impl FnMut(&FetchedPartition, &mut i64) -> Result<(), ReadError>,
) -> Result<BTreeMap<TopicPartition, i64>, ReadError> {
    let end_isolation = match until {
        ReadUntil::LastStableOffset => IsolationLevel::ReadCommitted,
        ReadUntil::HighWatermark => IsolationLevel::ReadUncommitted,
    };
    let wanted: Vec<_> = starts.keys().map(|tp| (tp.clone(), OffsetSpec::Latest)).collect();
    let ends = client.list_offsets(&wanted, end_isolation).await?;
    let end_of = |tp: &TopicPartition| ends.get(tp).map_or(0, |listed| listed.offset);
    let mut positions = starts.clone();
    let behind: Vec<FetchStart> = positions
        .iter()
        .filter(|(tp, position)| **position < end_of(tp))
        .map(|(tp, position)| FetchStart {
            topic_partition: tp.clone(),
            offset: *position,
            leader_epoch: -1,
        })
        .collect();
    if behind.is_empty() {
        return Ok(positions);
    }
    let mut open = behind.len();
    let mut consumer = client.partition_consumer(behind, isolation, Arc::new(|| {}));
    let mut last_move = tokio::time::Instant::now();
    while open > 0 {
        let event = tokio::time::timeout_at(last_move + patience, consumer.next()).await;
        let (topic_partition, position) = match event {
            Ok(Some(FetchEvent::Records(fetched))) => {
                let tp = fetched.topic_partition.clone();
                let Some(position) = positions.get_mut(&tp) else { continue };
                let before = *position;
                on_fetched(&fetched, position)?;
                let after = *position;
                if after > before {
                    last_move = tokio::time::Instant::now();
                }
                if before < end_of(&tp) && after >= end_of(&tp) {
                    open -= 1;
                    consumer.pause(&tp);
                }
                continue;
            }
            Ok(Some(FetchEvent::Progress { .. })) => continue,
            Ok(None) => return Err(ReadError::Closed),
            Ok(Some(FetchEvent::Failed { topic_partition, error })) => {
                return Err(ReadError::Fetch { topic_partition, source: error });
            }
            Err(_) => {
                let stuck = positions.iter().find(|(tp, position)| **position < end_of(tp));
                match stuck {
                    Some((tp, position)) => (tp.clone(), *position),
                    None => break,
                }
            }
        };
        let end = end_of(&topic_partition);
        return Err(ReadError::Stalled { topic_partition, position, end, waited: patience });
    }
    Ok(positions)
}

/// What an isolation level shows of a fetched partition. The bytes are shared, not copied.
fn visible_batches(fetched: &FetchedPartition, limits: &DecodeLimits) -> VisibleBatches {
    VisibleBatches::new(
        fetched.records.clone(),
        fetched.fetch_offset,
        fetched.aborted_transactions.clone(),
        fetched.isolation_level,
        *limits,
    )
}
