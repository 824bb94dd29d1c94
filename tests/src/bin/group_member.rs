//! A member of a consumer group as a process of its own, so that tests can kill it.
//!
//! `group-member <bootstrap servers> <topic> <log file> [property=value …]`. Writes what happens to the log as Java's member
//! of the tests does, each line a JSON list: `["assigned", ms, partition]`, `["revoked", …]`, `["lost", …]`,
//! `["record", partition, offset]`, `["failed", text]`. SIGTERM closes it in an orderly way.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "fails as the tests that use it do")]

use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use millstream_protocol_client::{ClientConfig, ConsumerEvent, GroupConsumer, KafkaClient};
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let (servers, topic) = (arguments.next().unwrap(), arguments.next().unwrap());
    let mut log = Log { file: File::create(arguments.next().unwrap()).unwrap() };
    let config = ClientConfig::new(servers).with(arguments).unwrap();
    let client = KafkaClient::connect(config).await.unwrap();
    let mut consumer = client.group_consumer().unwrap();
    consumer.subscribe([topic]);
    let mut terminated = signal(SignalKind::terminate()).unwrap();
    loop {
        let event = tokio::select! {
            event = consumer.next() => event,
            _ = terminated.recv() => break,
        };
        match event {
            Ok(event) => log.event(event, &consumer),
            Err(error) => {
                log.line(&format!("[\"failed\",{:?}]", error.to_string()));
                eprintln!("{error}");
                std::process::exit(1);
            }
        }
    }
    consumer.close().await.unwrap();
    client.close().await;
}

struct Log {
    file: File,
}

impl Log {
    fn event(&mut self, event: ConsumerEvent, consumer: &GroupConsumer) {
        match event {
            ConsumerEvent::Assigned(starts) => {
                self.partitions("assigned", starts.iter().map(|s| s.topic_partition.partition));
            }
            ConsumerEvent::Revoked(partitions) => {
                self.partitions("revoked", partitions.iter().map(|tp| tp.partition));
            }
            ConsumerEvent::Lost(partitions) => {
                self.partitions("lost", partitions.iter().map(|tp| tp.partition));
            }
            ConsumerEvent::Records(fetched) => {
                let partition = fetched.topic_partition.partition;
                assert!(consumer.assignment().contains(&fetched.topic_partition));
                let mut lines = String::new();
                for batch in fetched.visible_batches(Default::default()) {
                    let Some(records) = batch.unwrap().records else { continue };
                    for record in records.iter() {
                        let offset = record.unwrap().offset;
                        lines.push_str(&format!("[\"record\",{partition},{offset}]\n"));
                    }
                }
                self.file.write_all(lines.as_bytes()).unwrap();
            }
            other => self.line(&format!("[\"failed\",{:?}]", format!("{other:?}"))),
        }
    }

    fn partitions(&mut self, what: &str, partitions: impl Iterator<Item = i32>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        for partition in partitions {
            self.line(&format!("[{what:?},{now},{partition}]"));
        }
    }

    /// One write, so that a kill leaves whole lines.
    fn line(&mut self, line: &dyn Display) {
        self.file.write_all(format!("{line}\n").as_bytes()).unwrap();
    }
}
