//! The peer librdkafka: reads or writes a number of records and prints one line of JSON, as every peer does.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::{ClientContext, Offset, TopicPartitionList};

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    let options = Options::parse()?;
    let outcome = match options.verb.as_str() {
        "consume" => consume(&options)?,
        "produce" => produce(&options)?,
        other => return Err(format!("unknown verb '{other}'").into()),
    };
    println!("{outcome}");
    Ok(())
}

struct Options {
    verb: String,
    bootstrap_server: String,
    topic: String,
    partitions: i32,
    records: u64,
    codec: String,
    value_size: usize,
}

impl Options {
    fn parse() -> Result<Self, Failure> {
        let mut arguments = std::env::args().skip(1);
        let mut options = Self {
            verb: arguments.next().ok_or("consume or produce?")?,
            bootstrap_server: String::new(),
            topic: String::new(),
            partitions: 1,
            records: 0,
            codec: "none".to_owned(),
            value_size: 100,
        };
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--bootstrap-server" => options.bootstrap_server = value,
                "--topic" => options.topic = value,
                "--partitions" => options.partitions = value.parse()?,
                "--records" => options.records = value.parse()?,
                "--codec" => options.codec = value,
                "--value-size" => options.value_size = value.parse()?,
                other => return Err(format!("unknown option {other}").into()),
            }
        }
        Ok(options)
    }
}

/// By batches from the consumer's queue, which costs about half of a poll per message.
fn consume(options: &Options) -> Result<String, Failure> {
    const BATCH: usize = 10_000;
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &options.bootstrap_server)
        .set("group.id", "peer-librdkafka")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("fetch.max.bytes", "52428800")
        .set("max.partition.fetch.bytes", "4194304")
        .set("queued.min.messages", "1000000")
        .set("queued.max.messages.kbytes", "262144")
        .set("fetch.wait.max.ms", "100")
        .set("fetch.queue.backoff.ms", "10")
        .create()?;
    let mut partitions = TopicPartitionList::new();
    for partition in 0..options.partitions {
        partitions.add_partition_offset(&options.topic, partition, Offset::Beginning)?;
    }
    consumer.assign(&partitions)?;
    let mut tally = Tally::default();
    let mut began = None;
    let patience = Instant::now();
    // SAFETY: the handle lives as long as `consumer`, and the reference to its queue is given back below.
    let queue = unsafe {
        rdkafka::bindings::rd_kafka_queue_get_consumer(consumer.client().native_ptr())
    };
    let mut messages = vec![std::ptr::null_mut(); BATCH];
    while tally.records < options.records {
        // SAFETY: the array has room for `BATCH` pointers.
        let count = unsafe {
            rdkafka::bindings::rd_kafka_consume_batch_queue(
                queue,
                200,
                messages.as_mut_ptr(),
                BATCH,
            )
        };
        let count = usize::try_from(count).map_err(|_| "the queue can not be read")?;
        if count > 0 {
            began.get_or_insert_with(Instant::now);
        } else if patience.elapsed() > Duration::from_secs(120) {
            return Err("no more records come".into());
        }
        for &message in &messages[..count] {
            // SAFETY: the first `count` pointers are messages of ours, each destroyed once, here.
            unsafe {
                let failed = (*message).err as i32 != 0;
                if !failed && !(*message).payload.is_null() {
                    let payload = (*message).payload.cast::<u8>();
                    tally.add(std::slice::from_raw_parts(payload, (*message).len));
                }
                rdkafka::bindings::rd_kafka_message_destroy(message);
                if failed {
                    return Err("a message is an error".into());
                }
            }
        }
    }
    let took = began.map_or(Duration::ZERO, |began| began.elapsed());
    // SAFETY: taken above, and not used any more.
    unsafe { rdkafka::bindings::rd_kafka_queue_destroy(queue) };
    Ok(tally.outcome(took))
}

/// Counts delivery reports, one a record.
#[derive(Clone, Default)]
struct Reports {
    acknowledged: Arc<AtomicU64>,
    failed: Arc<AtomicU64>,
}

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let counter = if result.is_ok() { &self.acknowledged } else { &self.failed };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

fn produce(options: &Options) -> Result<String, Failure> {
    let reports = Reports::default();
    let producer: BaseProducer<Reports> = ClientConfig::new()
        .set("bootstrap.servers", &options.bootstrap_server)
        .set("enable.idempotence", "true")
        .set("acks", "all")
        .set("linger.ms", "5")
        .set("batch.size", "1000000")
        .set("batch.num.messages", "10000")
        .set("queue.buffering.max.messages", "1000000")
        .set("queue.buffering.max.kbytes", "524288")
        .set("compression.type", &options.codec)
        .create_with_context(reports.clone())?;
    let values = Values::new(options.value_size);
    let mut tally = Tally::default();
    let began = Instant::now();
    for n in 0..options.records {
        let value = values.at(n);
        tally.add(value);
        let mut record = BaseRecord::<(), [u8]>::to(&options.topic).payload(value);
        loop {
            match producer.send(record) {
                Ok(()) => break,
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                    producer.poll(Duration::from_millis(10));
                    record = back;
                }
                Err((error, _)) => return Err(error.into()),
            }
        }
        if n % 1000 == 0 {
            producer.poll(Duration::ZERO);
        }
    }
    producer.flush(Duration::from_secs(120))?;
    let took = began.elapsed();
    let (acknowledged, failed) =
        (reports.acknowledged.load(Ordering::Relaxed), reports.failed.load(Ordering::Relaxed));
    if acknowledged != options.records {
        return Err(format!("{acknowledged} records acknowledged, {failed} failed").into());
    }
    Ok(tally.outcome(took))
}

/// Counts what was seen.
#[derive(Default)]
struct Tally {
    records: u64,
    bytes: u64,
    checksum: u64,
}

impl Tally {
    fn add(&mut self, value: &[u8]) {
        self.records += 1;
        self.bytes += value.len() as u64;
        let word = |bytes: Option<&[u8; 8]>| bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let (first, last) = (word(value.first_chunk()), word(value.last_chunk()));
        self.checksum = self.checksum.wrapping_add(first).wrapping_add(last.wrapping_mul(31));
    }

    fn outcome(&self, took: Duration) -> String {
        let Self { records, bytes, checksum } = self;
        let seconds = took.as_secs_f64();
        format!(
            r#"{{"records":{records},"bytes":{bytes},"checksum":"{checksum:016x}","seconds":{seconds}}}"#
        )
    }
}

/// The same values in the same order as every peer writes.
struct Values {
    bytes: Vec<u8>,
    size: usize,
}

impl Values {
    const COUNT: usize = 8192;
    const TEMPLATES: u64 = 64;

    fn new(size: usize) -> Self {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        let mut bytes = Vec::with_capacity(Self::COUNT * size);
        for _ in 0..Self::COUNT {
            let mut digits = 0;
            for at in 0..size / 2 {
                if at % 16 == 0 {
                    digits = next();
                }
                bytes.push(b"0123456789abcdef"[(digits & 15) as usize]);
                digits >>= 4;
            }
            let template = next() % Self::TEMPLATES;
            bytes.extend((0..(size - size / 2) as u64).map(|at| {
                b'a' + ((template * 31 + at * 17 + at * at % 13) % 26) as u8
            }));
        }
        Self { bytes, size }
    }

    fn at(&self, n: u64) -> &[u8] {
        let at = (n % Self::COUNT as u64) as usize * self.size;
        &self.bytes[at..at + self.size]
    }
}
