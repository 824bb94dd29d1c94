//! Reading as a member of a group.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_protocol::TopicPartition;
use millstream_protocol_client::{ConsumerEvent, GroupConsumer, KafkaClient, OffsetSpec};
use tokio::time::timeout;

use super::printer::{Printed, Printer};
use crate::args::records::ConsumeArguments;
use crate::command::CommandError;
use crate::command::topic::existing;
use crate::exit_code;
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
        ended = read(client, &mut consumer, arguments.follow, printer) => ended,
        // Who follows has no other way to end it.
        signal = signals.next() => if arguments.follow { Ok(()) } else { Err(signal.into()) },
    };
    // Commits what was printed, and leaves.
    consumer.close().await;
    ended
}

async fn read(
    client: &KafkaClient,
    consumer: &mut GroupConsumer,
    follow: bool,
    printer: &mut Printer,
) -> Result<(), CommandError> {
    let mut ends = Ends::new();
    while !printer.has_enough() {
        let Ok(event) = timeout(LOOK_AGAIN_AFTER, consumer.next()).await else {
            // Positions move without an event where nothing is to be seen.
            if !follow && is_at_end(consumer, &ends) {
                return Ok(());
            }
            continue;
        };
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

/// Every partition that is ours was read to where it ended. A member without partitions waits for some.
fn is_at_end(consumer: &GroupConsumer, ends: &Ends) -> bool {
    !ends.is_empty()
        && ends.iter().all(|(tp, end)| consumer.position(tp).is_some_and(|at| at >= *end))
}

/// How long nothing may come before the positions are looked at.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(100);
