//! What is compared, and what must come out of it.

use clap::ValueEnum;

/// One comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// Read 100-byte values
    #[value(name = "consume-100")]
    Consume100,
    /// The same, compressed by lz4
    #[value(name = "consume-100-lz4")]
    Consume100Lz4,
    /// Read values of 1 KiB
    #[value(name = "consume-1k")]
    Consume1k,
    /// The same, compressed by lz4
    #[value(name = "consume-1k-lz4")]
    Consume1kLz4,
    /// Write 100-byte values, acknowledged by all replicas, idempotent
    #[value(name = "produce-100")]
    Produce100,
    /// The same, compressed by lz4
    #[value(name = "produce-100-lz4")]
    Produce100Lz4,
    /// Write in transactions of 100 ms against writing without any
    #[value(name = "transactions")]
    Transactions,
    /// Read 1,000 partitions against reading one
    #[value(name = "partitions")]
    Partitions,
}

/// What clients are told to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) title: &'static str,
    pub(crate) consume: bool,
    pub(crate) value_size: usize,
    pub(crate) codec: &'static str,
    /// Share of the records that were asked for: large values are fewer.
    pub(crate) records_divisor: u64,
}

/// What our client must not miss.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Targets {
    /// CPU-seconds per million records of the plain client.
    pub(crate) cpu: f64,
    /// And of the batch API.
    pub(crate) batch_cpu: Option<f64>,
    /// Times that the best peer takes more.
    pub(crate) best_peer: Option<f64>,
    /// Times that peers of a name take more.
    pub(crate) peers: &'static [(&'static str, f64)],
    pub(crate) peak_rss_mib: Option<f64>,
}

/// Partitions of topics, if there is nothing to say about their number.
pub(crate) const PARTITIONS: i32 = 4;
/// Partitions of the topic with many.
pub(crate) const MANY_PARTITIONS: i32 = 1000;
/// How much of the throughput without transactions must be left with them.
pub(crate) const TRANSACTIONS_KEEP: f64 = 0.9;
/// How much more a record of the topic with many partitions may cost.
pub(crate) const MANY_PARTITIONS_COST: f64 = 1.2;

impl Workload {
    pub(crate) fn shape(self) -> Shape {
        let (title, consume, value_size, codec) = match self {
            Self::Consume100 => ("consume, 100-byte values", true, 100, "none"),
            Self::Consume100Lz4 => ("consume, 100-byte values, lz4", true, 100, "lz4"),
            Self::Consume1k => ("consume, 1 KiB values", true, 1024, "none"),
            Self::Consume1kLz4 => ("consume, 1 KiB values, lz4", true, 1024, "lz4"),
            Self::Produce100 => ("produce, 100-byte values", false, 100, "none"),
            Self::Produce100Lz4 => ("produce, 100-byte values, lz4", false, 100, "lz4"),
            Self::Transactions => {
                ("produce, a transaction each 100 ms against none", false, 100, "none")
            }
            Self::Partitions => ("consume, 1,000 partitions against one", true, 100, "none"),
        };
        let records_divisor = if value_size > 100 { 2 } else { 1 };
        Shape { title, consume, value_size, codec, records_divisor }
    }

    /// What it must come to.
    pub(crate) fn targets(self) -> Targets {
        let small = Targets {
            best_peer: Some(2.0),
            peers: &[("librdkafka", 5.0), ("kafka-clients", 3.5)],
            peak_rss_mib: Some(32.0),
            ..Targets::default()
        };
        let kilobyte = Targets { cpu: 0.45, best_peer: Some(1.4), peers: &[], ..small };
        let produce = Targets { best_peer: Some(2.0), batch_cpu: Some(0.08), ..Targets::default() };
        match self {
            Self::Consume100 => Targets { cpu: 0.08, ..small },
            Self::Consume100Lz4 => Targets { cpu: 0.12, ..small },
            Self::Consume1k | Self::Consume1kLz4 => kilobyte,
            Self::Produce100 => Targets { cpu: 0.13, ..produce },
            Self::Produce100Lz4 => Targets { cpu: 0.25, batch_cpu: None, ..produce },
            Self::Transactions | Self::Partitions => Targets::default(),
        }
    }
}
