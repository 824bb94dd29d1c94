//! The targets. The first bytes of an input choose what a target varies: API, version, chunk size.

mod abort_filter;
mod compression;
mod fetcher;
mod frame;
mod messages;
mod network;
mod record_set;
mod sasl;
mod texts;

use millstream_protocol::records::Compression;

/// One target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: of the libFuzzer binary and of the file with its inputs.
    pub name: &'static str,
    /// Runs it on one input; panics if a promise is broken.
    pub run: fn(&[u8]),
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "frame", run: frame::frame },
    Target { name: "request", run: messages::request },
    Target { name: "response", run: messages::response },
    Target { name: "consumer_protocol", run: messages::consumer_protocol },
    Target { name: "network", run: network::network },
    Target { name: "fetcher", run: fetcher::fetcher },
    Target { name: "record_set", run: record_set::record_set },
    Target { name: "abort_filter", run: abort_filter::abort_filter },
    Target { name: "codec_gzip", run: |input| compression::codec(Compression::Gzip, input) },
    Target { name: "codec_snappy", run: |input| compression::codec(Compression::Snappy, input) },
    Target { name: "codec_lz4", run: |input| compression::codec(Compression::Lz4, input) },
    Target { name: "codec_zstd", run: |input| compression::codec(Compression::Zstd, input) },
    Target { name: "scram", run: sasl::scram },
    Target { name: "sasl_exchange", run: sasl::exchange },
    Target { name: "jaas", run: texts::jaas },
    Target { name: "properties", run: texts::properties },
];

/// The target of this name.
///
/// # Panics
///
/// If there is none: a name is written in a source file.
#[must_use]
pub fn target(name: &str) -> &'static Target {
    TARGETS.iter().find(|target| target.name == name).expect("the name of a target")
}
