//! What the cleaner of a real broker leaves behind.

use millstream_protocol::IsolationLevel;
use millstream_protocol::records::{BatchHeader, Compression};
use millstream_protocol_client::KafkaClient;
use millstream_testcontainers::{JavaRecord, ProducedRecord};
use millstream_tests::records::{consume_all, send, send_in_transaction};

use crate::clusters::{Arena, eventually, partition, settled, unique};
use crate::raw::batches;

/// The time of the records. What comes much later closes the segment before it.
const TIME: i64 = 1_357_017_420_000;
/// Set in the attributes of a batch whose base timestamp is the time at which its tombstones may go (KIP-534).
const DELETE_HORIZON: i16 = 1 << 6;

const COMPACTED: [(&str, &str); 4] = [
    ("cleanup.policy", "compact"),
    ("segment.ms", "100"),
    ("min.cleanable.dirty.ratio", "0.01"),
    ("delete.retention.ms", "86400000"),
];

/// Records of these keys and values; timestamps count up from `TIME`.
fn records(pairs: &[(&str, Option<&str>)]) -> Vec<JavaRecord> {
    let record = |(index, (key, value)): (i64, &(&str, Option<&str>))| JavaRecord {
        partition: Some(0),
        timestamp: Some(TIME + index),
        key: Some(key.as_bytes().to_vec()),
        value: value.map(|value| value.as_bytes().to_vec()),
        ..JavaRecord::default()
    };
    (0..).zip(pairs).map(record).collect()
}

/// One batch, of a producer of its own: the cleaner keeps the last batch of each, if only empty.
async fn write(client: &KafkaClient, topic: &str, pairs: &[(&str, Option<&str>)]) {
    send(&client.producer(None), topic, Compression::None, &records(pairs), 0).await;
}

/// Begins the next segment, so that the cleaner may have everything before it.
async fn roll(client: &KafkaClient, topic: &str) {
    let record =
        JavaRecord { timestamp: Some(TIME + 100_000), ..records(&[("roll", None)])[0].clone() };
    send(&client.producer(None), topic, Compression::None, &[record], 0).await;
}

async fn wait_until(
    client: &KafkaClient,
    topic: &str,
    what: &str,
    is_clean: impl Fn(&[BatchHeader]) -> bool,
) {
    let tp = partition(topic, 0);
    eventually(what, || async { is_clean(&batches(client, &tp).await).then_some(()) }).await;
}

fn seen(records: &[ProducedRecord]) -> Vec<(i64, i64, &str, Option<&str>)> {
    records
        .iter()
        .map(|record| {
            let key = str::from_utf8(record.key.as_deref().unwrap()).unwrap();
            let value = record.value.as_deref().map(|value| str::from_utf8(value).unwrap());
            (record.offset, record.timestamp - TIME, key, value)
        })
        .collect()
}

pub(crate) async fn batch_compacted_tail_emptied_batch_and_delete_horizon(arena: &'static Arena) {
    let client = arena.client(&unique("compacted"), &[]).await;
    let topic = arena.topic(&client, 1, &COMPACTED).await;
    write(&client, &topic, &[("a", Some("1")), ("b", Some("1")), ("c", Some("1"))]).await;
    write(&client, &topic, &[("b", Some("2")), ("c", None), ("d", Some("1"))]).await;
    write(&client, &topic, &[("e", Some("1")), ("f", Some("1"))]).await;
    write(&client, &topic, &[("e", Some("2")), ("f", Some("2"))]).await;
    roll(&client, &topic).await;
    // The first batch loses its tail, the third all it has; the second keeps a tombstone for a while.
    wait_until(&client, &topic, "the cleaner has been here", |batches| {
        let [first, second, third, ..] = batches else { return false };
        (first.record_count, first.last_offset_delta) == (1, 2)
            && second.attributes & DELETE_HORIZON != 0
            && third.record_count == 0
    })
    .await;
    let read = consume_all(&client, &topic, IsolationLevel::ReadCommitted).await;
    assert_eq!(
        seen(&read),
        [
            (0, 0, "a", Some("1")),
            (3, 0, "b", Some("2")),
            (4, 1, "c", None),
            (5, 2, "d", Some("1")),
            (8, 0, "e", Some("2")),
            (9, 1, "f", Some("2")),
            (10, 100_000, "roll", None),
        ]
    );
}

/// The marker of an aborted transaction stays after its records are gone.
pub(crate) async fn read_committed_compacted_marker(arena: &'static Arena) {
    let id = unique("compacted");
    let client = arena.client(&id, &[]).await;
    let topic = arena.topic(&client, 1, &COMPACTED).await;
    let aborted = records(&[("a", Some("aborted")), ("b", Some("aborted"))]);
    send_in_transaction(&client, &id, &topic, Compression::None, &aborted, false).await;
    let committed = records(&[("a", Some("1"))]);
    send_in_transaction(&client, &id, &topic, Compression::None, &committed, true).await;
    settled(&client, &partition(&topic, 0)).await;
    roll(&client, &topic).await;
    wait_until(&client, &topic, "the aborted records are gone", |batches| {
        batches.iter().take_while(|batch| batch.base_offset < 2).all(|b| b.record_count == 0)
            && batches.iter().any(|batch| (batch.base_offset, batch.record_count) == (2, 1))
    })
    .await;
    let read = consume_all(&client, &topic, IsolationLevel::ReadCommitted).await;
    assert_eq!(seen(&read), [(3, 0, "a", Some("1")), (5, 100_000, "roll", None)]);
}
