//! Reading partitions from here to there, without a group.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_protocol::TopicPartition;
use millstream_protocol_client::{FetchEvent, FetchStart, KafkaClient};
use tokio::time::{Instant, timeout_at};

use super::bounds::{self, Bounds};
use super::failed;
use super::printer::{Printed, Printer};
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
    while !open.is_empty() {
        let event = if arguments.follow {
            consumer.next().await
        } else {
            match timeout_at(last_move + patience, consumer.next()).await {
                Ok(event) => event,
                Err(_) => return Err(stalled(&open, patience)),
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

fn stalled(open: &BTreeMap<TopicPartition, Bounds>, patience: std::time::Duration) -> CommandError {
    let places = open.iter().map(|(tp, bounds)| {
        let end = bounds.end.map_or("-".to_owned(), |end| end.to_string());
        format!("{tp} at offset {} of {end}", bounds.start)
    });
    let places: Vec<_> = places.collect();
    let text = format!(
        "nothing came for {} s: {}; `millstream topic describe` shows whether the partitions have leaders",
        patience.as_secs(),
        places.join(", ")
    );
    CommandError::says(exit_code::UNAVAILABLE, text)
}
