//! What a reader of committed records sees of transactions.

use millstream_protocol::IsolationLevel;
use millstream_protocol::records::Compression;
use millstream_protocol_client::{KafkaClient, Producer};
use millstream_testcontainers::JavaRecord;
use millstream_tests::random::Random;
use millstream_tests::records::{consume_all, send, send_in_transaction};

use crate::clusters::{Arena, LIMIT, partition, settled, unique};
use crate::raw::batches;

fn record(value: &str) -> JavaRecord {
    JavaRecord {
        partition: Some(0),
        value: Some(value.as_bytes().to_vec()),
        ..JavaRecord::default()
    }
}

async fn read(client: &KafkaClient, topic: &str, isolation: IsolationLevel) -> Vec<String> {
    settled(client, &partition(topic, 0)).await;
    let read = consume_all(client, topic, isolation).await;
    read.into_iter().map(|record| String::from_utf8(record.value.unwrap()).unwrap()).collect()
}

async fn begin(producer: &Producer, tag: u64) {
    if producer.needs_bump() {
        producer.bump_epoch().await.unwrap();
    }
    producer.begin_transaction(tag).unwrap();
}

async fn end(producer: &Producer, commit: bool) {
    match commit {
        true => producer.commit_transaction(LIMIT).await.unwrap(),
        false => producer.abort_transaction().await.unwrap(),
    }
}

/// Transactions of three producers and records outside of any, batch by batch in a random order.
pub(crate) async fn read_committed_interleaved_pids(arena: &'static Arena) {
    let id = unique("read-committed");
    let mut random = Random::from_environment(&id);
    let client = arena.client(&id, &[]).await;
    let topic = arena.topic(&client, 1, &[]).await;
    let producers: Vec<_> = (0..3).map(|n| client.producer(Some(&format!("{id}-{n}")))).collect();
    for producer in &producers {
        producer.init_transactions().await.unwrap();
    }
    let plain = client.producer(None);
    let mut open: [Option<u64>; 3] = [None; 3];
    // In the order of the log: a value, and the transaction it belongs to.
    let mut log: Vec<(String, Option<(usize, u64)>)> = Vec::new();
    let mut committed = std::collections::BTreeSet::new();
    for (number, tag) in (0..60).zip(1_u64..) {
        let value = number.to_string();
        let chosen = usize::try_from(random.number(0..4)).unwrap();
        let Some(producer) = producers.get(chosen) else {
            send(&plain, &topic, Compression::None, &[record(&value)], 0).await;
            log.push((value, None));
            continue;
        };
        let of = match open[chosen] {
            Some(open) => open,
            None => {
                begin(producer, tag).await;
                tag
            }
        };
        open[chosen] = Some(of);
        send(producer, &topic, Compression::None, &[record(&value)], of).await;
        log.push((value, Some((chosen, of))));
        if random.number(0..3) == 0 {
            let commit = random.number(0..2) == 0;
            end(producer, commit).await;
            open[chosen] = None;
            if commit {
                committed.insert((chosen, of));
            }
        }
    }
    for (chosen, producer) in producers.iter().enumerate() {
        if let Some(of) = open[chosen] {
            end(producer, true).await;
            committed.insert((chosen, of));
        }
    }
    let all: Vec<_> = log.iter().map(|(value, _)| value.clone()).collect();
    assert_eq!(read(&client, &topic, IsolationLevel::ReadUncommitted).await, all);
    let visible = log.into_iter().filter(|(_, of)| of.is_none_or(|of| committed.contains(&of)));
    let visible: Vec<_> = visible.map(|(value, _)| value).collect();
    assert_eq!(read(&client, &topic, IsolationLevel::ReadCommitted).await, visible);
}

/// Each answer holds a part of the aborted transaction only; the list of aborted ones is that of the answer.
pub(crate) async fn read_committed_aborted_txn_spanning_fetches(arena: &'static Arena) {
    let id = unique("read-committed");
    let client = arena.client(&id, &["max.partition.fetch.bytes=2000"]).await;
    let topic = arena.topic(&client, 1, &[]).await;
    let producer = client.producer(Some(&id));
    producer.init_transactions().await.unwrap();
    let plain = client.producer(None);
    let mut expected = Vec::new();
    for (tag, commit) in [(1, false), (2, true), (3, false)] {
        begin(&producer, tag).await;
        for number in 0..20 {
            let value = format!("{tag}/{number}/{}", "x".repeat(600));
            send(&producer, &topic, Compression::None, &[record(&value)], tag).await;
            if commit {
                expected.push(value);
            }
            if number % 7 == 0 {
                let between = format!("between {tag} and {number}");
                send(&plain, &topic, Compression::None, &[record(&between)], 0).await;
                expected.push(between);
            }
        }
        end(&producer, commit).await;
    }
    assert_eq!(read(&client, &topic, IsolationLevel::ReadCommitted).await, expected);
}

/// Under version 2 a marker bears the next epoch, and still ends the transaction of the one before (KIP-890).
pub(crate) async fn read_committed_marker_epoch(arena: &'static Arena) {
    let id = unique("read-committed");
    let client = arena.client(&id, &[]).await;
    let topic = arena.topic(&client, 1, &[]).await;
    for commit in [false, true] {
        let records = [record(if commit { "committed" } else { "aborted" })];
        send_in_transaction(&client, &id, &topic, Compression::None, &records, commit).await;
    }
    let tp = partition(&topic, 0);
    settled(&client, &tp).await;
    let batches = batches(&client, &tp).await;
    let control = |attributes: i16| attributes & (1 << 5) != 0;
    let epochs: Vec<_> =
        batches.iter().map(|batch| (control(batch.attributes), batch.producer_epoch)).collect();
    let [(false, aborted), (true, abort), (false, committed), (true, commit)] = epochs[..] else {
        panic!("{epochs:?}")
    };
    let step = i16::from(arena.transaction_version() == 2);
    assert_eq!((abort - aborted, commit - committed), (step, step), "{epochs:?}");
    assert_eq!(read(&client, &topic, IsolationLevel::ReadCommitted).await, ["committed"]);
}
