//! A job between a steady writer and a reader of committed records: what latency, restart and throughput are measured with.

mod feed;
mod job;
mod reader;

use std::io::Write;
use std::time::Duration;

use tokio::runtime::Runtime;

pub(crate) use feed::{Feed, Records};
pub(crate) use job::{
    Guarantee, JobProcess, Phases, Shape, SteadyJobArguments, measure, run as run_job,
};
pub(crate) use reader::{Reader, Seen};

use crate::BenchError;
use crate::broker::Broker;
use crate::targets::warn_if_loaded;

/// Real Kafka and a runtime for what talks to it; a loaded machine is told of first.
pub(crate) fn begin(out: &mut impl Write) -> Result<(Runtime, Broker), BenchError> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    warn_if_loaded(out)?;
    let broker = runtime.block_on(Broker::kafka())?;
    Ok((runtime, broker))
}

/// Partitions of input and output.
pub(crate) const PARTITIONS: i32 = 4;

/// Bytes of a key, where there is one.
pub(crate) const KEY_BYTES: usize = 16;

/// Bytes of a value.
pub(crate) const VALUE_BYTES: usize = 100;

/// A number in text.
const DIGITS: usize = 16;

/// Makes the value of record `number`: its number, the time, and the end of `filling`.
fn stamp(value: &mut Vec<u8>, number: u64, at: Duration, filling: &[u8]) {
    value.clear();
    let nanoseconds = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
    // A vector takes everything.
    let _ = write!(value, "{number:016x}{nanoseconds:016x}");
    value.extend_from_slice(filling.get(2 * DIGITS..).unwrap_or_default());
}

/// Number and time of a value.
fn stamp_of(value: &[u8]) -> Option<(u64, Duration)> {
    let text = |from: usize| str::from_utf8(value.get(from..from + DIGITS)?).ok();
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    Some((number(text(0)?)?, Duration::from_nanos(number(text(DIGITS)?)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_back() {
        let mut value = Vec::new();
        stamp(&mut value, 77, Duration::from_micros(5), &[b'x'; VALUE_BYTES]);
        assert_eq!((value.len(), stamp_of(&value)), (100, Some((77, Duration::from_micros(5)))));
        assert_eq!(stamp_of(b"0123"), None);
    }
}
