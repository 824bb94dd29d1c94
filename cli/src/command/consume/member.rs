//! Reading as a member of a group.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::{Duration, Instant};

use millstream_protocol::TopicPartition;
use millstream_protocol_client::{ConsumerEvent, GroupConsumer, KafkaClient, OffsetSpec};
use tokio::time::timeout;

use super::printer::{Printed, Printer};
use super::stalled;
use crate::args::records::ConsumeArguments;
use crate::command::CommandError;
use crate::command::topic::existing;
use crate::exit_code;
use crate::output;
use crate::signals::Signals;

/// Where each of our partitions ended when we got it. Not kept by who follows.
type Ends = BTreeMap<TopicPartition, i64>;

pub(super) async fn consume(
    client: &KafkaClient,
    mut signals: Signals,
    arguments: &ConsumeArguments,
    printer: &mut Printer,
) -> Result<(), CommandError> {
    let operation = format!("read topic '{}'", arguments.topic);
    existing(client, &arguments.topic, &operation).await?;
    let mut consumer = client.group_consumer()?;
    consumer.subscribe([arguments.topic.as_str()]);
    let ended = tokio::select! {
        ended = read(client, &arguments.topic, &mut consumer, arguments.follow, printer) => ended,
        // Who follows has no other way to end it.
        signal = signals.next() => if arguments.follow { Ok(()) } else { Err(signal.into()) },
    };
    let closing = async {
        let mut closing = pin!(consumer.close());
        match timeout(LONG, &mut closing).await {
            Ok(left) => left,
            Err(_) => {
                output::note(
                    "committing what was printed, and leaving the group; a signal ends at once",
                );
                closing.await
            }
        }
    };
    let left = tokio::select! {
        left = closing => left,
        signal = signals.next() => return Err(signal.into()),
    };
    // What stopped the reading counts more.
    ended?;
    left.map_err(|error| {
        let text = format!("{error}; the records printed last will be read again by the group");
        CommandError::says(exit_code::UNAVAILABLE, text)
    })
}

async fn read(
    client: &KafkaClient,
    topic: &str,
    consumer: &mut GroupConsumer,
    follow: bool,
    printer: &mut Printer,
) -> Result<(), CommandError> {
    let mut ends = Ends::new();
    let patience = client.config().default_api_timeout;
    let mut last_move = Instant::now();
    while !printer.has_enough() {
        let Ok(event) = timeout(LOOK_AGAIN_AFTER, consumer.next()).await else {
            // Positions move without an event where nothing is to be seen.
            if !follow && is_at_end(consumer, &ends) {
                return Ok(());
            }
            if !follow && last_move.elapsed() >= patience {
                check_progress(client, topic, consumer, &ends, patience).await?;
                last_move = Instant::now();
            }
            continue;
        };
        last_move = Instant::now();
        match event? {
            ConsumerEvent::Assigned(starts) if !follow => {
                let asked: Vec<_> =
                    starts.into_iter().map(|s| (s.topic_partition, OffsetSpec::Latest)).collect();
                let listed = client.list_offsets(&asked, client.config().isolation_level).await?;
                ends.extend(listed.into_iter().map(|(tp, listed)| (tp, listed.offset)));
            }
            ConsumerEvent::Revoked(partitions) | ConsumerEvent::Lost(partitions) => {
                ends.retain(|tp, _| !partitions.contains(tp));
            }
            // Only what was printed is committed.
            ConsumerEvent::Records(fetched) => match printer.print(&fetched, None) {
                Ok(Printed::All(_)) => {}
                Ok(Printed::Enough(next)) => consumer.seek(&fetched.topic_partition, next),
                unprinted => {
                    consumer.seek(&fetched.topic_partition, fetched.fetch_offset);
                    return unprinted.map(|_| ());
                }
            },
            ConsumerEvent::Failed { topic_partition, error } => {
                let code = exit_code::of(&error);
                let text = format!("failed to read {topic_partition}: {error}");
                return Err(CommandError::says(code, text));
            }
            _ => {}
        }
        if !follow && is_at_end(consumer, &ends) {
            return Ok(());
        }
    }
    Ok(())
}

/// Nothing has come for a time. With partitions that is a failure; without any the member waits for those of others, as long as there
/// are brokers and the topic.
async fn check_progress(
    client: &KafkaClient,
    topic: &str,
    consumer: &GroupConsumer,
    ends: &Ends,
    patience: Duration,
) -> Result<(), CommandError> {
    if ends.is_empty() {
        existing(client, topic, &format!("read topic '{topic}'")).await?;
        return Ok(());
    }
    let behind = ends.iter().filter_map(|(tp, end)| match consumer.position(tp) {
        Some(at) if at >= *end => None,
        Some(at) => Some(format!("{tp} at offset {at} of {end}")),
        None => Some(format!("{tp} at no offset yet of {end}")),
    });
    let behind: Vec<_> = behind.collect();
    Err(stalled(&behind, patience))
}

/// Every partition that is ours was read to where it ended. A member without partitions waits for some.
fn is_at_end(consumer: &GroupConsumer, ends: &Ends) -> bool {
    !ends.is_empty()
        && ends.iter().all(|(tp, end)| consumer.position(tp).is_some_and(|at| at >= *end))
}

/// How long nothing may come before the positions are looked at.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Whoever waits for so long wants to know for what.
const LONG: Duration = Duration::from_millis(500);
