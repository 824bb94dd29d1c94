//! What a record costs: nanoseconds per record to encode, to check and to decode.
//!
//! `cargo run --release -p millstream-protocol --example record_codec`
//!
//! Records have a 16-byte key and a 100-byte value, about 120 bytes encoded. The best of several
//! passes is printed: the others measure the machine's neighbours.
#![expect(clippy::print_stdout, reason = "printing is what this program is for")]
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a measurement asks the clock; the crate itself never does"
)]

use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

use millstream_protocol::records::{
    Appended, BatchBuilder, BatchView, Compression, DecodeLimits, Decompressor, RecordsError,
    SealedBatch,
};

/// Short passes, so that some run between two turns of another process.
const RECORDS_PER_PASS: usize = 10_000;
const TIME_PER_FIGURE: Duration = Duration::from_millis(500);

fn main() -> Result<(), Box<dyn Error>> {
    println!(
        "{:<8} {:>9} {:>8} {:>7} {:>9} {:>7} {:>7} {:>12}",
        "codec", "batch", "records", "ratio", "encode", "crc", "decode", "crc + decode"
    );
    for compression in Compression::ALL {
        for batch_bytes in [16 * 1024, 1024 * 1024] {
            measure(compression, batch_bytes)?;
        }
    }
    Ok(())
}

fn measure(compression: Compression, batch_bytes: usize) -> Result<(), Box<dyn Error>> {
    let values = values();
    let mut builder = BatchBuilder::new(compression, batch_bytes);
    let sample = fill(&mut builder, &values)?;
    let records = usize::try_from(sample.record_count())?;
    let batches = (RECORDS_PER_PASS / records).max(1);
    let per_record = |duration: Duration| duration.as_nanos() as f64 / (batches * records) as f64;

    let encode = best(|| {
        for _ in 0..batches {
            let batch = fill(&mut builder, &values)?;
            builder.recycle(batch);
        }
        Ok(())
    })?;
    let crc = best(|| {
        for _ in 0..batches {
            black_box(crc32c::crc32c(black_box(&sample.bytes()[21..])));
        }
        Ok(())
    })?;
    let view = BatchView::parse(sample.bytes())?;
    let mut decompressor = Decompressor::new();
    let decode = best(|| {
        for _ in 0..batches {
            read(black_box(&view), &mut decompressor)?;
        }
        Ok(())
    })?;
    let both = best(|| {
        for _ in 0..batches {
            read(&BatchView::parse(sample.bytes())?, &mut decompressor)?;
        }
        Ok(())
    })?;
    let plain = 61 + records * 125;
    println!(
        "{:<8} {:>9} {records:>8} {:>7.2} {:>9.1} {:>7.1} {:>7.1} {:>12.1}",
        compression.name(),
        batch_bytes,
        plain as f64 / sample.size_bytes() as f64,
        per_record(encode),
        per_record(crc),
        per_record(decode),
        per_record(both),
    );
    Ok(())
}

/// Shortest time of as many passes as there is time for.
fn best(mut pass: impl FnMut() -> Result<(), RecordsError>) -> Result<Duration, RecordsError> {
    let mut best = Duration::MAX;
    let end = Instant::now() + TIME_PER_FIGURE;
    while best == Duration::MAX || Instant::now() < end {
        let start = Instant::now();
        pass()?;
        best = best.min(start.elapsed());
    }
    Ok(best)
}

/// Appends until the batch is full.
fn fill(builder: &mut BatchBuilder, values: &[String]) -> Result<SealedBatch, RecordsError> {
    for (index, value) in (0_i64..).zip(values.iter().cycle()) {
        let mut key = *b"account-00000000";
        key[8..].copy_from_slice(&index.to_be_bytes());
        let timestamp = 1_700_000_000_000 + index / 10;
        let appended = builder.append(timestamp, Some(&key), Some(value.as_bytes()), &[])?;
        if appended == Appended::Full {
            break;
        }
    }
    // The first record always fits.
    let empty = RecordsError::RecordTooLarge { record_bytes: 0 };
    builder.build()?.ok_or(empty)
}

/// Decodes every record and looks at its fields.
fn read(view: &BatchView, decompressor: &mut Decompressor) -> Result<(), RecordsError> {
    let block = view.records(&DecodeLimits::default(), decompressor)?;
    let mut sum = 0;
    for record in &block {
        let record = record?;
        sum += record.offset ^ record.timestamp;
        sum += record.key.map_or(0, <[u8]>::len) as i64;
        sum += record.value.map_or(0, <[u8]>::len) as i64;
    }
    black_box(sum);
    Ok(())
}

/// JSON of 100 bytes that compresses about as real events do.
fn values() -> Vec<String> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..10_000)
        .map(|_| {
            let mut value = format!(
                r#"{{"auction":{},"bidder":{},"price":{},"channel":"ch-{}","url":"https://x.example/"#,
                next() % 100_000,
                next() % 1_000_000,
                next() % 10_000_000,
                next() % 100,
            );
            while value.len() < 98 {
                value.push(char::from(b'a' + u8::try_from(next() % 16).unwrap_or(0)));
            }
            value.push_str("\"}");
            value.truncate(100);
            value
        })
        .collect()
}
