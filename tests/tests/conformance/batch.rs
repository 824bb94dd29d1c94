//! Batches as brokers store and cut them.

use std::time::{SystemTime, UNIX_EPOCH};

use millstream_protocol::IsolationLevel;
use millstream_protocol::records::Compression;
use millstream_protocol_client::ProducerRecord;
use millstream_testcontainers::JavaRecord;
use millstream_tests::records::{consume_all, send};

use crate::clusters::{Arena, unique};

/// Every record of such a topic has the time at which its batch was appended, as the acknowledgement told.
pub(crate) async fn batch_log_append_time(arena: &'static Arena) {
    let client = arena.client(&unique("batch"), &[]).await;
    let topic = arena.topic(&client, 1, &[("message.timestamp.type", "LogAppendTime")]).await;
    let producer = client.record_producer(None);
    let mut deliveries = Vec::new();
    for timestamp in [1_000, 500, 2_000] {
        let record = ProducerRecord::to(&topic, b"value").timestamp(timestamp);
        deliveries.push(producer.send(&record).await.unwrap());
    }
    producer.flush().await.unwrap();
    let mut told = Vec::new();
    for delivery in deliveries {
        told.push(delivery.wait().await.unwrap().log_append_time_ms.expect("a time"));
    }
    let read = consume_all(&client, &topic, IsolationLevel::ReadCommitted).await;
    let read: Vec<i64> = read.iter().map(|record| record.timestamp).collect();
    assert_eq!(read, told);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    assert!(read.iter().all(|time| i128::from(*time).abs_diff(now as i128) < 300_000), "{read:?}");
}

/// Answers are cut at a size in the middle of a batch: what is cut off comes with the next.
pub(crate) async fn batch_partial_tail(arena: &'static Arena) {
    let id = unique("batch");
    let bounds = ["max.partition.fetch.bytes=5000"];
    let client = arena.client(&id, &bounds).await;
    let topic = arena.topic(&client, 1, &[]).await;
    let producer = client.producer(None);
    // The last is larger than an answer may be, and comes all the same (KIP-74).
    for number in 0..40_usize {
        let value = vec![b'v'; if number == 39 { 12_000 } else { 700 + 31 * number }];
        let record = JavaRecord {
            key: Some(number.to_string().into_bytes()),
            value: Some(value),
            ..JavaRecord::default()
        };
        send(&producer, &topic, Compression::None, &[record], 0).await;
    }
    let read = consume_all(&client, &topic, IsolationLevel::ReadCommitted).await;
    let keys: Vec<_> = read.into_iter().map(|record| record.key.unwrap()).collect();
    let sent: Vec<_> = (0..40).map(|number: usize| number.to_string().into_bytes()).collect();
    assert_eq!(keys, sent);
}
