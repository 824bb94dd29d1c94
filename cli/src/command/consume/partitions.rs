//! Reading partitions from here to there, without a group.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millstream_protocol::TopicPartition;
use millstream_protocol_client::{FetchEvent, FetchStart, KafkaClient, ListedOffset, OffsetSpec};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::bounds::{self, Bounds};
use super::printer::{Printed, Printer};
use super::{failed, stalled};
use crate::args::records::ConsumeArguments;
use crate::command::CommandError;
use crate::exit_code;

pub(super) async fn consume(
    client: &KafkaClient,
    arguments: &ConsumeArguments,
    printer: &mut Printer,
) -> Result<(), CommandError> {
    let mut open = bounds::of(client, arguments).await?;
    open.retain(|_, bounds| bounds.end.is_none_or(|end| bounds.start < end));
    if open.is_empty() || printer.has_enough() {
        return Ok(());
    }
    let starts = open.iter().map(|(tp, bounds)| FetchStart {
        topic_partition: tp.clone(),
        offset: bounds.start,
        leader_epoch: -1,
    });
    let isolation = client.config().isolation_level;
    let mut consumer = client.partition_consumer(starts.collect(), isolation, Arc::new(|| {}));
    let patience = client.config().default_api_timeout;
    let mut last_move = Instant::now();
    let mut known: BTreeSet<TopicPartition> = open.keys().cloned().collect();
    let mut look_at = last_move + client.config().metadata_max_age;
    while !open.is_empty() {
        let event = if arguments.follow {
            tokio::select! {
                event = consumer.next() => event,
                () = sleep_until(look_at) => {
                    look_at = Instant::now() + client.config().metadata_max_age;
                    // Brokers that can not be asked now may be the next time.
                    for start in added(client, arguments, &known).await.unwrap_or_default() {
                        known.insert(start.topic_partition.clone());
                        let bounds = Bounds { start: start.offset, end: None };
                        open.insert(start.topic_partition.clone(), bounds);
                        consumer.assign(start);
                    }
                    continue;
                }
            }
        } else {
            match timeout_at(last_move + patience, consumer.next()).await {
                Ok(event) => event,
                Err(_) => return Err(stalled(&places(&open), patience)),
            }
        };
        let (tp, position) = match event {
            None => return Err(CommandError::says(exit_code::UNAVAILABLE, "the client is closed")),
            Some(FetchEvent::Failed { topic_partition, error }) => {
                return Err(failed(&topic_partition, error));
            }
            Some(FetchEvent::Progress { topic_partition, position, .. }) => {
                (topic_partition, position)
            }
            Some(FetchEvent::Records(fetched)) => {
                // It was read to its end already, and the answer was under way.
                let Some(bounds) = open.get(&fetched.topic_partition) else { continue };
                match printer.print(&fetched, bounds.end)? {
                    Printed::All(next) => (fetched.topic_partition, next),
                    Printed::Enough(_) | Printed::ReaderGone => return Ok(()),
                }
            }
        };
        let Some(bounds) = open.get_mut(&tp) else { continue };
        if position > bounds.start {
            bounds.start = position;
            last_move = Instant::now();
        }
        if bounds.end.is_some_and(|end| position >= end) {
            consumer.unassign(&tp);
            open.remove(&tp);
        }
    }
    Ok(())
}

/// Partitions that the topic has got meanwhile, from their beginning. None, where certain ones were asked for, or all there is to
/// see of them ends before an offset.
async fn added(
    client: &KafkaClient,
    arguments: &ConsumeArguments,
    known: &BTreeSet<TopicPartition>,
) -> Result<Vec<FetchStart>, CommandError> {
    if !arguments.partitions.is_empty() || arguments.to.is_some() {
        return Ok(Vec::new());
    }
    // A topic that is gone ends the reader by its own error.
    let Some(topic) = client.describe_topic(&arguments.topic).await? else { return Ok(Vec::new()) };
    let all = topic.partitions.iter().map(|p| TopicPartition::new(&*arguments.topic, p.partition));
    let asked: Vec<_> =
        all.filter(|tp| !known.contains(tp)).map(|tp| (tp, OffsetSpec::Earliest)).collect();
    let listed = client.list_offsets(&asked, client.config().isolation_level).await?;
    let start = |(topic_partition, listed): (_, ListedOffset)| FetchStart {
        topic_partition,
        offset: listed.offset,
        leader_epoch: -1,
    };
    Ok(listed.into_iter().map(start).collect())
}

fn places(open: &BTreeMap<TopicPartition, Bounds>) -> Vec<String> {
    let places = open.iter().map(|(tp, bounds)| {
        let end = bounds.end.map_or("-".to_owned(), |end| end.to_string());
        format!("{tp} at offset {} of {end}", bounds.start)
    });
    places.collect()
}
