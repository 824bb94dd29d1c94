//! The table of property names: what each does here.

use std::sync::LazyLock;

use millstream_protocol::IsolationLevel;
use millstream_protocol::group::assignor::Assignor;
use millstream_protocol::records::Compression;

use super::value::{
    address, boolean, bytes, integer, iso_duration, list, milliseconds, socket_buffer,
};
use super::{
    ClientConfig, ConfigError, GroupProtocol, OffsetReset, aliases, librdkafka_properties,
    provider, security_properties,
};

/// A property name that Kafka's clients know, and what it does here.
#[derive(Clone, Copy, Debug)]
pub struct Property {
    /// Kafka's name, or librdkafka's where Kafka has none, or ours.
    pub name: &'static str,
    /// What it does here.
    pub effect: PropertyEffect,
    set: Setter,
}

/// What a known property does here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PropertyEffect {
    /// It means what it means in Kafka's clients. Single values may be refused all the same, as `acks=1`.
    Honoured,
    /// It is accepted and does nothing, for this reason ([`ClientConfig::ignored`]).
    Ignored(&'static str),
    /// It is refused, for this reason ([`ConfigError::NotSupported`]).
    Refused(&'static str),
}

/// Every property that Kafka's clients or librdkafka know, sorted by name; librdkafka's other names are
/// [`property_aliases`](crate::property_aliases).
#[must_use]
pub fn properties() -> &'static [Property] {
    static ALL: LazyLock<Vec<Property>> = LazyLock::new(|| {
        let mut all =
            [PROPERTIES, security_properties::PROPERTIES, librdkafka_properties::PROPERTIES]
                .concat();
        all.sort_by_key(|property| property.name);
        all
    });
    &ALL
}

pub(super) fn set(config: &mut ClientConfig, name: &str, value: &str) -> Result<(), ConfigError> {
    let name = name.trim();
    let alias = aliases::find(name);
    let kafkas = alias.map_or(name, |alias| alias.property);
    let Some(property) = properties().iter().find(|property| property.name == kafkas) else {
        return Err(unknown(name, value));
    };
    if let PropertyEffect::Refused(reason) = property.effect {
        return Err(not_supported(name, value, reason));
    }
    // What the user wrote is what errors name, with the value as it was given: what a provider puts in is often a secret.
    let written = alias.map_or(property.name, |alias| alias.name);
    let refused = |refusal| match refusal {
        Refusal::Expected(expected) => {
            let value = shown(written, value).to_owned();
            ConfigError::Invalid { name: written, value, expected }
        }
        Refusal::Unsupported(reason) => not_supported(written, value, reason),
    };
    let mut resolved = provider::resolve(written, value)?;
    if let Some(alias) = alias {
        let converted = alias.convert(&resolved);
        resolved = converted.map_err(|expected| refused(expected.into()))?.into();
        if config.explicit.contains(alias.property) && !config.by_alias.contains(alias.property) {
            config.overruled.insert(alias.name);
            return Ok(());
        }
    }
    (property.set)(config, &resolved).map_err(refused)?;
    if matches!(property.effect, PropertyEffect::Ignored(_)) {
        config.ignored.insert(property.name);
    }
    config.explicit.insert(property.name);
    match alias {
        Some(alias) => config.by_alias.insert(alias.property),
        None => config.by_alias.remove(property.name),
    };
    Ok(())
}

fn unknown(name: &str, value: &str) -> ConfigError {
    // Families that a later version will read: better named than guessed at.
    for (prefix, reason) in security_properties::REFUSED_FAMILIES {
        if let Some(rest) = name.strip_prefix(prefix)
            && !rest.is_empty()
        {
            return not_supported(name, value, reason);
        }
    }
    // Looking for what it may mean takes its length times all names.
    if name.len() > LONGEST_NAME {
        return ConfigError::NotAName;
    }
    let kafkas = properties().iter().map(|property| property.name);
    let nearest = kafkas
        .chain(aliases::property_aliases().iter().map(|alias| alias.name))
        .map(|known| (strsim::damerau_levenshtein(name, known), known))
        .min()
        .filter(|(distance, known)| *distance <= 2 + known.len() / 5)
        .map(|(_, known)| known);
    if nearest.is_none() && !is_like_a_name(name) {
        return ConfigError::NotAName;
    }
    ConfigError::Unknown { name: name.to_owned(), nearest }
}

/// Whether a text may be shown as a name: those of properties are lower case with dots. Anything else may be a secret that got there by
/// mistake.
pub(super) fn is_like_a_name(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_lowercase() || c == '.' || c == '-' || c == '_';
    text.len() <= LONGEST_NAME && text.chars().all(is_part)
}

/// Longer than any property's, also with the prefix of a listener.
const LONGEST_NAME: usize = 80;

fn not_supported(name: &str, value: &str, reason: &'static str) -> ConfigError {
    let value = shown(name, value).to_owned();
    ConfigError::NotSupported { name: name.to_owned(), value, reason }
}

/// The value, unless it may be a secret.
fn shown<'a>(name: &str, value: &'a str) -> &'a str {
    let secret = ["password", "jaas", "secret", "key", "token", "extensions"]
        .iter()
        .any(|part| name.contains(part));
    // An address with a password in it is none that Kafka knows, and is not repeated either.
    if secret || (name == "bootstrap.servers" && value.contains('@')) { "…" } else { value }
}

type Setter = fn(&mut ClientConfig, &str) -> Result<(), Refusal>;

pub(super) enum Refusal {
    Expected(String),
    Unsupported(&'static str),
}

impl From<String> for Refusal {
    fn from(expected: String) -> Self {
        Self::Expected(expected)
    }
}

pub(super) const fn honoured(name: &'static str, set: Setter) -> Property {
    Property { name, effect: PropertyEffect::Honoured, set }
}

pub(super) const fn ignored(name: &'static str, reason: &'static str) -> Property {
    Property { name, effect: PropertyEffect::Ignored(reason), set: |_, _| Ok(()) }
}

pub(super) const fn refused(name: &'static str, reason: &'static str) -> Property {
    Property { name, effect: PropertyEffect::Refused(reason), set: |_, _| Ok(()) }
}

pub(super) fn put<T>(field: &mut T, value: Result<T, String>) -> Result<(), Refusal> {
    *field = value?;
    Ok(())
}

/// Accepts one value and explains the refusal of every other.
pub(super) fn only(value: &str, accepted: &[&str], reason: &'static str) -> Result<(), Refusal> {
    let value = value.trim();
    let matches = accepted.iter().any(|accepted| accepted.eq_ignore_ascii_case(value));
    if matches { Ok(()) } else { Err(Refusal::Unsupported(reason)) }
}

fn level(level: i64) -> Option<i32> {
    i32::try_from(level).ok().filter(|level| *level >= 0)
}

fn milliseconds_i64(text: &str) -> Result<std::time::Duration, String> {
    let number = integer(text, 0, i64::MAX / 1_000_000)?;
    Ok(std::time::Duration::from_millis(number.unsigned_abs()))
}

const NO_METRICS_PUSH: &str = "metrics are not pushed to brokers or reporters";
const NO_JAVA: &str = "Java classes can not be loaded";
const FORMAT: &str = "the format decides how bytes are read and written";
const PARTITIONER: &str = "the caller names the partition of each batch";
const LZ4_LEVEL: &str = "lz4 is always written at its quickest level";

const PROPERTIES: &[Property] = &[
    honoured("acks", |_, v| {
        only(v, &["all", "-1"], "exactly-once and idempotent writing need acks=all (KIP-98)")
    }),
    ignored("allow.auto.create.topics", "reading never creates a topic"),
    honoured("auto.commit.interval.ms", |c, v| {
        put(&mut c.auto_commit_interval, milliseconds(v, 0))
    }),
    honoured("auto.offset.reset", |c, v| {
        c.auto_offset_reset = match v.trim() {
            // The other spellings are librdkafka's.
            "earliest" | "beginning" | "smallest" => OffsetReset::Earliest,
            "latest" | "end" | "largest" => OffsetReset::Latest,
            "none" | "error" => OffsetReset::None,
            by_duration => {
                let age = by_duration.strip_prefix("by_duration:").and_then(iso_duration);
                let expected = "earliest, latest, none or by_duration:PnDTnHnMnS";
                OffsetReset::ByDuration(age.ok_or_else(|| expected.to_owned())?)
            }
        };
        Ok(())
    }),
    honoured("batch.size", |c, v| put(&mut c.batch_size, bytes(v, 0))),
    honoured("bootstrap.servers", |c, v| {
        let addresses = list(v);
        if addresses.is_empty() {
            return Err("at least one address host:port".to_owned().into());
        }
        for text in &addresses {
            address(text)?;
        }
        c.bootstrap_servers = addresses;
        Ok(())
    }),
    honoured("buffer.memory", |c, v| {
        let number = integer(v, 1, i64::MAX)?;
        c.buffer_memory = usize::try_from(number).map_err(|error| error.to_string())?;
        Ok(())
    }),
    ignored("check.crcs", "checksums are always checked"),
    honoured("client.dns.lookup", |_, v| {
        only(
            v,
            &["use_all_dns_ips"],
            "every address of a name is tried; canonical names are only needed for Kerberos",
        )
    }),
    honoured("client.id", |c, v| {
        v.clone_into(&mut c.client_id);
        Ok(())
    }),
    honoured("client.rack", |c, v| {
        c.client_rack = (!v.trim().is_empty()).then(|| v.trim().to_owned());
        Ok(())
    }),
    honoured("compression.gzip.level", |c, v| {
        // -1 is the codec's own default.
        put(&mut c.compression_gzip_level, integer(v, -1, 9).map(level))
    }),
    ignored("compression.lz4.level", LZ4_LEVEL),
    honoured("compression.type", |c, v| {
        let parsed: Result<Compression, _> = v.trim().parse();
        c.compression_type = parsed.map_err(|_| "none, gzip, snappy, lz4 or zstd".to_owned())?;
        Ok(())
    }),
    honoured("compression.zstd.level", |c, v| {
        put(
            &mut c.compression_zstd_level,
            integer(v, -131_072, 22).map(|level| i32::try_from(level).ok()),
        )
    }),
    honoured("config.providers", |_, v| {
        let known = list(v).iter().all(|name| matches!(name.as_str(), "env" | "file"));
        let reason = "the providers are env and file, and always there";
        if known { Ok(()) } else { Err(Refusal::Unsupported(reason)) }
    }),
    ignored("config.providers.env.class", "the provider is built in"),
    ignored("config.providers.file.class", "the provider is built in"),
    honoured("connections.max.idle.ms", |c, v| {
        put(&mut c.connections_max_idle, milliseconds_i64(v))
    }),
    honoured("default.api.timeout.ms", |c, v| put(&mut c.default_api_timeout, milliseconds(v, 1))),
    honoured("delivery.timeout.ms", |c, v| put(&mut c.delivery_timeout, milliseconds(v, 1))),
    honoured("enable.auto.commit", |c, v| put(&mut c.enable_auto_commit, boolean(v))),
    honoured("enable.idempotence", |_, v| {
        only(
            v,
            &["true"],
            "writing is always idempotent: without it a retry duplicates or reorders records",
        )
    }),
    ignored("enable.metrics.push", NO_METRICS_PUSH),
    honoured("exclude.internal.topics", |c, v| put(&mut c.exclude_internal_topics, boolean(v))),
    honoured("fetch.max.bytes", |c, v| put(&mut c.fetch_max_bytes, bytes(v, 1))),
    honoured("fetch.max.wait.ms", |c, v| put(&mut c.fetch_max_wait, milliseconds(v, 0))),
    honoured("fetch.min.bytes", |c, v| put(&mut c.fetch_min_bytes, bytes(v, 0))),
    honoured("group.id", |c, v| {
        c.group_id = (!v.trim().is_empty()).then(|| v.trim().to_owned());
        Ok(())
    }),
    honoured("group.instance.id", |c, v| {
        c.group_instance_id = (!v.trim().is_empty()).then(|| v.trim().to_owned());
        Ok(())
    }),
    honoured("group.protocol", |c, v| {
        c.group_protocol = match v.trim().to_ascii_lowercase().as_str() {
            "classic" => GroupProtocol::Classic,
            "consumer" => GroupProtocol::Consumer,
            _ => return Err("classic or consumer".to_owned().into()),
        };
        Ok(())
    }),
    honoured("group.remote.assignor", |c, v| {
        c.group_remote_assignor = (!v.trim().is_empty()).then(|| v.trim().to_owned());
        Ok(())
    }),
    honoured("heartbeat.interval.ms", |c, v| put(&mut c.heartbeat_interval, milliseconds(v, 1))),
    ignored("interceptor.classes", NO_JAVA),
    honoured("isolation.level", |c, v| {
        c.isolation_level = match v.trim() {
            "read_committed" => IsolationLevel::ReadCommitted,
            "read_uncommitted" => IsolationLevel::ReadUncommitted,
            _ => return Err("read_committed or read_uncommitted".to_owned().into()),
        };
        Ok(())
    }),
    ignored("key.deserializer", FORMAT),
    ignored("key.serializer", FORMAT),
    honoured("linger.ms", |c, v| put(&mut c.linger, milliseconds(v, 0))),
    honoured("max.block.ms", |c, v| put(&mut c.max_block, milliseconds_i64(v))),
    honoured("max.in.flight.requests.per.connection", |c, v| {
        let number = integer(v, 1, 5).map_err(|expected| {
            format!("{expected}: a broker remembers five batches of an idempotent producer")
        })?;
        c.max_in_flight = u32::try_from(number).map_err(|error| error.to_string())?;
        Ok(())
    }),
    honoured("max.partition.fetch.bytes", |c, v| {
        put(&mut c.max_partition_fetch_bytes, bytes(v, 1))
    }),
    honoured("max.poll.interval.ms", |c, v| put(&mut c.max_poll_interval, milliseconds(v, 1))),
    ignored("max.poll.records", "records come in whole batches"),
    honoured("max.request.size", |c, v| put(&mut c.max_request_size, bytes(v, 1))),
    honoured("max.response.frame.bytes", |c, v| {
        let number = bytes(v, 1024)?;
        c.max_response_frame_bytes = usize::try_from(number).map_err(|error| error.to_string())?;
        Ok(())
    }),
    honoured("metadata.max.age.ms", |c, v| put(&mut c.metadata_max_age, milliseconds_i64(v))),
    ignored("metadata.max.idle.ms", "metadata are kept for the topics in use"),
    ignored(
        "metadata.recovery.rebootstrap.trigger.ms",
        "the bootstrap servers are tried as soon as no known broker answers",
    ),
    honoured("metadata.recovery.strategy", |_, v| {
        only(v, &["rebootstrap"], "the bootstrap servers are always the last resort")
    }),
    ignored("metric.reporters", NO_METRICS_PUSH),
    ignored("metrics.num.samples", NO_METRICS_PUSH),
    ignored("metrics.recording.level", NO_METRICS_PUSH),
    ignored("metrics.sample.window.ms", NO_METRICS_PUSH),
    honoured("partition.assignment.strategy", |c, v| {
        let assignors: Result<Vec<Assignor>, _> = list(v).iter().map(|name| name.parse()).collect();
        let assignors = assignors.map_err(|error| {
            format!("a list of range, roundrobin, sticky, cooperative-sticky (or Java's classes): {error}")
        })?;
        if assignors.is_empty() {
            return Err("at least one assignor".to_owned().into());
        }
        c.partition_assignment_strategy = assignors;
        Ok(())
    }),
    ignored("partitioner.adaptive.partitioning.enable", PARTITIONER),
    ignored("partitioner.availability.timeout.ms", PARTITIONER),
    refused(
        "partitioner.class",
        "custom partitioners are Java classes; keys are hashed as Kafka's own clients hash them",
    ),
    honoured("partitioner.ignore.keys", |c, v| put(&mut c.partitioner_ignore_keys, boolean(v))),
    honoured("receive.buffer.bytes", |c, v| put(&mut c.receive_buffer_bytes, socket_buffer(v))),
    honoured("reconnect.backoff.max.ms", |c, v| {
        put(&mut c.reconnect_backoff_max, milliseconds(v, 0))
    }),
    honoured("reconnect.backoff.ms", |c, v| put(&mut c.reconnect_backoff, milliseconds(v, 0))),
    honoured("request.timeout.ms", |c, v| put(&mut c.request_timeout, milliseconds(v, 1))),
    Property {
        name: "retries",
        effect: PropertyEffect::Ignored("requests are repeated until delivery.timeout.ms"),
        set: |_, v| {
            if integer(v, 0, i64::from(i32::MAX))? == 0 {
                return Err(Refusal::Unsupported(
                    "without a repetition, any move of a leader loses records",
                ));
            }
            Ok(())
        },
    },
    honoured("retry.backoff.max.ms", |c, v| put(&mut c.retry_backoff_max, milliseconds(v, 0))),
    honoured("retry.backoff.ms", |c, v| put(&mut c.retry_backoff, milliseconds(v, 0))),
    honoured("send.buffer.bytes", |c, v| put(&mut c.send_buffer_bytes, socket_buffer(v))),
    honoured("session.timeout.ms", |c, v| put(&mut c.session_timeout, milliseconds(v, 1))),
    honoured("socket.connection.setup.timeout.max.ms", |c, v| {
        put(&mut c.connection_setup_timeout_max, milliseconds(v, 1))
    }),
    honoured("socket.connection.setup.timeout.ms", |c, v| {
        put(&mut c.connection_setup_timeout, milliseconds(v, 1))
    }),
    honoured("transaction.timeout.ms", |c, v| put(&mut c.transaction_timeout, milliseconds(v, 1))),
    honoured("transaction.two.phase.commit.enable", |_, v| {
        only(v, &["false"], "no released broker implements KIP-939 as a whole")
    }),
    refused(
        "transactional.id",
        "whoever opens a producer names its id: a job by its own name, `produce` by --transactional=ID",
    ),
    ignored("value.deserializer", FORMAT),
    ignored("value.serializer", FORMAT),
];
