//! librdkafka's properties that Kafka has no name for. Its other names are in `aliases`.

use super::properties::{Property, honoured, ignored, only, refused};

const OWN_SWITCH: &str = "librdkafka's own switch";
const OWN_QUEUE: &str = "bounds a queue of librdkafka's; see buffer.memory and fetch.max.bytes";
const NO_STATISTICS: &str = "statistics are not printed";

pub(super) const PROPERTIES: &[Property] = &[
    ignored("api.version.fallback.ms", OWN_SWITCH),
    ignored("api.version.request", OWN_SWITCH),
    ignored("api.version.request.timeout.ms", OWN_SWITCH),
    ignored("batch.num.messages", "batches are bounded by batch.size"),
    ignored("broker.address.family", "every address of a name is tried"),
    ignored("broker.address.ttl", "names are looked up for each connection"),
    ignored("broker.version.fallback", OWN_SWITCH),
    ignored("debug", "what is logged is set where logs are set up"),
    ignored("enable.auto.offset.store", "what the reader has processed is what is committed"),
    ignored(
        "enable.partition.eof",
        "a reader is told of its position and of the end with each fetch",
    ),
    ignored("fetch.error.backoff.ms", "see retry.backoff.ms"),
    ignored("fetch.queue.backoff.ms", OWN_QUEUE),
    ignored("log.connection.close", "closed connections are logged for debugging only"),
    ignored("log_level", "what is logged is set where logs are set up"),
    honoured("partitioner", |_, v| {
        // `murmur2` leaves records without a key to one partition, and those with one where Java puts them.
        only(
            v,
            &["murmur2_random", "murmur2"],
            "keys are hashed as Java's client does (murmur2_random); librdkafka's CRC-32 is not offered",
        )
    }),
    ignored("queue.buffering.backpressure.threshold", OWN_QUEUE),
    ignored("queue.buffering.max.messages", OWN_QUEUE),
    ignored("queued.max.messages.kbytes", OWN_QUEUE),
    ignored("queued.min.messages", OWN_QUEUE),
    ignored(
        "socket.keepalive.enable",
        "connections are kept busy, or closed, by connections.max.idle.ms",
    ),
    ignored("socket.nagle.disable", "small requests are never held back"),
    refused("ssl.engine.location", "TLS is rustls with ring's algorithms"),
    ignored("statistics.interval.ms", NO_STATISTICS),
    ignored("topic.metadata.refresh.fast.interval.ms", "see retry.backoff.ms"),
    ignored("topic.metadata.refresh.sparse", "metadata are kept for the topics in use"),
];
