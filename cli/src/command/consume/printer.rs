//! Records on standard output.

use millstream_protocol::TopicPartition;
use millstream_protocol::records::{DecodeLimits, RecordView};
use millstream_protocol_client::FetchedPartition;

use crate::args::records::ConsumeArguments;
use crate::command::CommandError;
use crate::output::{self, OutputFormat};
use crate::record::{RecordFormat, write_json};

/// What became of a fetched partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Printed {
    /// All of it is printed: reading goes on here.
    All(i64),
    /// As many records as were asked for are printed, and this is the next offset.
    Enough(i64),
    /// Nobody reads what is printed.
    ReaderGone,
}

/// Prints records, as many as were asked for.
#[derive(Debug)]
pub(super) struct Printer {
    output: OutputFormat,
    format: RecordFormat,
    null: String,
    /// How many more; `None` for any number.
    left: Option<u64>,
    lines: Vec<u8>,
}

impl Printer {
    pub(super) fn new(arguments: &ConsumeArguments) -> Self {
        Self {
            output: arguments.cluster.output,
            format: arguments.format.clone().unwrap_or_default(),
            null: arguments.null.clone(),
            left: arguments.max_messages,
            lines: Vec::new(),
        }
    }

    /// True if no record is to be printed any more.
    pub(super) fn has_enough(&self) -> bool {
        self.left == Some(0)
    }

    /// Prints the records below `end` that the isolation level lets through.
    pub(super) fn print(
        &mut self,
        fetched: &FetchedPartition,
        end: Option<i64>,
    ) -> Result<Printed, CommandError> {
        let tp = &fetched.topic_partition;
        let failed = |error: millstream_protocol::records::RecordsError| {
            let error = CommandError::from(error);
            CommandError::says(error.exit_code, format!("failed to decode {tp}: {}", error.cause))
        };
        let mut next = fetched.fetch_offset;
        'batches: for batch in fetched.visible_batches(DecodeLimits::default()) {
            let batch = batch.map_err(failed)?;
            for record in batch.records.iter().flatten() {
                let record = record.map_err(failed)?;
                if end.is_some_and(|end| record.offset >= end) {
                    next = record.offset;
                    break 'batches;
                }
                if self.has_enough() {
                    break 'batches;
                }
                self.write(tp, &record)?;
                next = record.offset.saturating_add(1);
                if self.lines.len() > LINES_BYTES && !self.flush()? {
                    return Ok(Printed::ReaderGone);
                }
            }
            if self.has_enough() {
                break;
            }
            next = batch.next_offset;
        }
        if !self.flush()? {
            return Ok(Printed::ReaderGone);
        }
        Ok(if self.has_enough() { Printed::Enough(next) } else { Printed::All(next) })
    }

    fn write(&mut self, tp: &TopicPartition, record: &RecordView<'_>) -> Result<(), CommandError> {
        match self.output {
            OutputFormat::Text => self.format.write(&mut self.lines, tp, record, &self.null),
            OutputFormat::Json => write_json(&mut self.lines, tp, record)?,
        }
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(1);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<bool, CommandError> {
        if self.lines.is_empty() {
            return Ok(true);
        }
        let is_there = output::print_while_read(&self.lines)?;
        self.lines.clear();
        Ok(is_there)
    }
}

/// Written at once.
const LINES_BYTES: usize = 64 << 10;
