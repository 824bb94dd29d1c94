//! Names of other clients: librdkafka's, and the OAuth names of Confluent's Java classes.

use super::value::integer;
use crate::bounded_file;

/// Another client's name for one of Kafka's properties. Where both are set, Kafka's name wins. Values in another unit are
/// converted: `queue.buffering.max.kbytes` counts KiB, `queue.buffering.max.ms` takes fractions.
#[derive(Clone, Copy, Debug)]
pub struct PropertyAlias {
    /// The other client's name.
    pub name: &'static str,
    /// Kafka's name.
    pub property: &'static str,
    convert: Convert,
}

/// From the other client's values and units to Kafka's; the error says what was expected.
type Convert = fn(&str) -> Result<String, String>;

impl PropertyAlias {
    pub(super) fn convert(&self, value: &str) -> Result<String, String> {
        (self.convert)(value)
    }
}

/// Every alias, sorted by name.
#[must_use]
pub fn property_aliases() -> &'static [PropertyAlias] {
    ALIASES
}

pub(super) fn find(name: &str) -> Option<&'static PropertyAlias> {
    ALIASES.iter().find(|alias| alias.name == name)
}

const fn same(name: &'static str, property: &'static str) -> PropertyAlias {
    PropertyAlias { name, property, convert: |value| Ok(value.to_owned()) }
}

const fn converted(name: &'static str, property: &'static str, convert: Convert) -> PropertyAlias {
    PropertyAlias { name, property, convert }
}

fn content(value: &str) -> Result<String, String> {
    bounded_file::read_text(value.trim().as_ref())
        .map_err(|error| format!("a file that can be read ({error})"))
}

/// librdkafka leaves the size to the system with 0, Kafka with -1.
fn socket_buffer(value: &str) -> Result<String, String> {
    let bytes = integer(value, 0, i64::from(i32::MAX))?;
    Ok(if bytes == 0 { -1 } else { bytes }.to_string())
}

fn kilobytes(value: &str) -> Result<String, String> {
    Ok((integer(value, 1, i64::from(i32::MAX))? * 1024).to_string())
}

/// librdkafka takes fractions of a millisecond; Kafka counts in whole ones.
fn whole_milliseconds(value: &str) -> Result<String, String> {
    let expected = || "a number from 0 to 900000 (milliseconds)".to_owned();
    let number: f64 = value.trim().parse().map_err(|_| expected())?;
    if (0.0..=900_000.0).contains(&number) {
        Ok(format!("{:.0}", number.ceil()))
    } else {
        Err(expected())
    }
}

/// Any number of repetitions above none is bounded by time here.
fn retries(value: &str) -> Result<String, String> {
    Ok(integer(value, 0, i64::from(i32::MAX))?.to_string())
}

const ALIASES: &[PropertyAlias] = &[
    same("compression.codec", "compression.type"),
    same("fetch.message.max.bytes", "max.partition.fetch.bytes"),
    same("fetch.wait.max.ms", "fetch.max.wait.ms"),
    same("max.in.flight", "max.in.flight.requests.per.connection"),
    same("message.max.bytes", "max.request.size"),
    converted("message.send.max.retries", "retries", retries),
    same("message.timeout.ms", "delivery.timeout.ms"),
    same("metadata.broker.list", "bootstrap.servers"),
    same("oauth.client.id", "sasl.oauthbearer.client.credentials.client.id"),
    same("oauth.client.secret", "sasl.oauthbearer.client.credentials.client.secret"),
    same("oauth.scope", "sasl.oauthbearer.scope"),
    same("oauth.token.endpoint.uri", "sasl.oauthbearer.token.endpoint.url"),
    converted("queue.buffering.max.kbytes", "buffer.memory", kilobytes),
    converted("queue.buffering.max.ms", "linger.ms", whole_milliseconds),
    same("request.required.acks", "acks"),
    same("sasl.mechanisms", "sasl.mechanism"),
    same("sasl.oauthbearer.client.id", "sasl.oauthbearer.client.credentials.client.id"),
    same("sasl.oauthbearer.client.secret", "sasl.oauthbearer.client.credentials.client.secret"),
    converted("socket.receive.buffer.bytes", "receive.buffer.bytes", socket_buffer),
    converted("socket.send.buffer.bytes", "send.buffer.bytes", socket_buffer),
    same("socket.timeout.ms", "request.timeout.ms"),
    same("ssl.ca.location", "ssl.truststore.location"),
    same("ssl.ca.pem", "ssl.truststore.certificates"),
    converted("ssl.certificate.location", "ssl.keystore.certificate.chain", content),
    same("ssl.certificate.pem", "ssl.keystore.certificate.chain"),
    converted("ssl.key.location", "ssl.keystore.key", content),
    same("ssl.key.pem", "ssl.keystore.key"),
    same("topic.metadata.refresh.interval.ms", "metadata.max.age.ms"),
];
