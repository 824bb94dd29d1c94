//! `millstream produce`: lines into a topic.

mod reader;
mod settle;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use millstream_protocol_client::{Delivery, KafkaClient, ProducerRecord, RecordProducer};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use self::reader::Records;
use self::settle::{Written, lock, settle};
use super::CommandError;
use super::topic::existing;
use crate::args::records::{InputFormat, ProduceArguments};
use crate::cluster::with_signals;
use crate::exit_code;
use crate::output;
use crate::output::OutputFormat;
use crate::signals::{Interrupted, Signals};

/// How long a commit may take to reach the partitions before that is left to itself.
const SEEN_WITHIN: Duration = Duration::from_secs(10);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(5);

/// Records that may wait for their acknowledgement; bytes are bounded by `buffer.memory`.
const UNDER_WAY: usize = 1 << 17;

pub(crate) fn run(arguments: ProduceArguments) -> Result<(), CommandError> {
    let config = arguments.cluster.config()?;
    let idle = match arguments.format {
        InputFormat::Json if arguments.key_separator.is_some() => {
            Some("--key-separator is for lines, and the input is JSON: its objects have keys")
        }
        InputFormat::Lines if arguments.keep_partitions => {
            Some("--keep-partitions is for JSON: lines name no partition")
        }
        _ => None,
    };
    if let Some(text) = idle {
        return Err(CommandError::says(exit_code::USAGE, text));
    }
    // Before anything else: a file that is missing should not cost a connection.
    let records = Records::open(&arguments)?;
    with_signals(config, |client, signals| async move {
        produce(&client, signals, &arguments, records).await
    })
}

async fn produce(
    client: &KafkaClient,
    mut signals: Signals,
    arguments: &ProduceArguments,
    mut records: Records,
) -> Result<(), CommandError> {
    let topic = arguments.topic.as_str();
    existing(client, topic, &format!("write to topic '{topic}'")).await?;
    let id = arguments.transactional.as_deref().map(transactional_id);
    let producer = client.record_producer(id.as_deref());
    if id.is_some() {
        producer.init_transactions().await?;
        producer.begin_transaction().await?;
    }
    let output = arguments.cluster.output;
    let (deliveries, acknowledged) = mpsc::channel(UNDER_WAY);
    let written = Arc::new(Mutex::new(Written::default()));
    let settle = settle(acknowledged, output, Arc::clone(&written), id.is_none());
    let mut settling = tokio::spawn(settle);
    let write = async {
        send_all(&producer, topic, &mut records, deliveries).await?;
        (&mut settling).await??;
        if id.is_some() {
            producer.commit_transaction().await?;
        }
        Ok::<_, CommandError>(())
    };
    let ended = tokio::select! {
        written = write => written,
        signal = signals.next() => Err(signal.into()),
    };
    if let Err(error) = ended {
        if error.cause.is::<Interrupted>() {
            output::note("ending what is under way; another signal ends at once");
        }
        let give_up = async {
            let error = give_up(&producer, error, id.is_some()).await;
            if !settling.is_finished() {
                // Its failure would be the one that is known.
                let _ = (&mut settling).await;
            }
            error
        };
        let error = tokio::select! {
            error = give_up => error,
            signal = signals.next() => signal.into(),
        };
        if id.is_none() {
            output::note(lock(&written).text(topic).trim_end());
        }
        return Err(error);
    }
    if let Some(id) = &id {
        wait_until_seen(client, id).await;
    }
    if output == OutputFormat::Text {
        output::print(lock(&written).text(topic).as_bytes())?;
    }
    Ok(())
}

/// Ends with the input, or early where a record has failed: which, the other side says.
async fn send_all(
    producer: &RecordProducer,
    topic: &str,
    records: &mut Records,
    deliveries: mpsc::Sender<Delivery>,
) -> Result<(), CommandError> {
    let mut number = 0_u64;
    loop {
        let record = tokio::select! {
            record = records.next() => record,
            () = deliveries.closed() => return Ok(()),
        };
        let Some(record) = record else { return Ok(()) };
        let record = record?;
        number += 1;
        let headers: Vec<_> =
            record.headers.iter().map(|(name, value)| (&name[..], value.as_deref())).collect();
        let sent = ProducerRecord {
            topic,
            partition: record.partition,
            timestamp: record.timestamp,
            key: record.key.as_deref(),
            value: record.value.as_deref(),
            headers: &headers,
        };
        let delivery = producer.send(&sent).await.map_err(|error| {
            let cause = CommandError::from(error);
            let text = format!("failed to send record {number}: {}", cause.cause);
            CommandError::says(cause.exit_code, text)
        })?;
        if deliveries.send(delivery).await.is_err() {
            return Ok(());
        }
    }
}

/// A commit is certain before the partitions know of it; who reads right after this command expects to find its records.
async fn wait_until_seen(client: &KafkaClient, id: &str) {
    let deadline = Instant::now() + SEEN_WITHIN;
    while Instant::now() < deadline {
        let described = client.describe_transactions(&[id]).await.remove(id);
        // Brokers that can not be asked have committed all the same.
        let Some(Ok(description)) = described else { return };
        if description.state != "PrepareCommit" {
            return;
        }
        sleep(LOOK_AGAIN_AFTER).await;
    }
}

/// Ends what was begun: an open transaction is aborted, and records outside of one are sent as far as they were taken.
async fn give_up(
    producer: &RecordProducer,
    error: CommandError,
    in_transaction: bool,
) -> CommandError {
    let ended =
        if in_transaction { producer.abort_transaction().await } else { producer.flush().await };
    match ended {
        Ok(()) if in_transaction => {
            output::note("the transaction is aborted: nothing of it will be seen");
        }
        Ok(()) if error.cause.is::<Interrupted>() => {
            output::note("what was read so far is written");
        }
        Ok(()) => {}
        // The same failure is not told twice.
        Err(also) if error.cause.to_string().contains(&also.to_string()) => {}
        Err(also) => output::note(&format!("warning: ending it failed as well: {also}")),
    }
    error
}

/// The id that was given, else one that nobody else has.
fn transactional_id(given: &str) -> String {
    use std::hash::{BuildHasher, RandomState};
    if given.is_empty() {
        let random = RandomState::new().hash_one(std::process::id());
        return format!("millstream-produce-{random:016x}");
    }
    given.to_owned()
}
