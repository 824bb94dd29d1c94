//! Records from lines, read by a thread of its own: a terminal or a pipe may say nothing for long.

use std::io::{self, BufReader, IsTerminal};
use std::path::Path;

use tokio::sync::mpsc;

use crate::args::records::{InputFormat, ProduceArguments};
use crate::command::CommandError;
use crate::input::{InputError, Lines};
use crate::output::note;
use crate::record::{JsonBytes, JsonInput};

/// A record to be written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct InputRecord {
    pub(super) partition: Option<i32>,
    pub(super) timestamp: Option<i64>,
    pub(super) key: Option<Vec<u8>>,
    pub(super) value: Option<Vec<u8>>,
    pub(super) headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// The records of the input, in their order.
#[derive(Debug)]
pub(super) struct Records {
    read: mpsc::Receiver<Result<InputRecord, InputError>>,
}

impl Records {
    /// Opens the input and begins to read.
    pub(super) fn open(arguments: &ProduceArguments) -> Result<Self, CommandError> {
        let shape = Shape::of(arguments);
        let (sender, read) = mpsc::channel(AHEAD);
        let file = arguments.file.as_deref().map(Lines::open).transpose()?;
        if file.is_none() && io::stdin().is_terminal() {
            note("reading the terminal, a record a line; Ctrl-D ends it");
        }
        std::thread::Builder::new().name("input".to_owned()).spawn(move || {
            let lines = match file {
                Some(lines) => Ok(lines),
                None => Lines::of(Path::new("standard input"), BufReader::new(io::stdin())),
            };
            let read = lines.and_then(|lines| read_all(lines, &shape, &sender));
            if let Err(error) = read {
                // Nobody is left to be told, or this is the last word.
                let _ = sender.blocking_send(Err(error));
            }
        })?;
        Ok(Self { read })
    }

    /// The next one; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Result<InputRecord, InputError>> {
        self.read.recv().await
    }
}

fn read_all(
    lines: Lines<'_>,
    shape: &Shape,
    sender: &mpsc::Sender<Result<InputRecord, InputError>>,
) -> Result<(), InputError> {
    let mut lines = lines.all_up_to(LONGEST_LINE);
    while let Some(line) = lines.next()? {
        let record = shape.record(line).map_err(|reason| lines.no_record(reason))?;
        if let Some(record) = record
            && sender.blocking_send(Ok(record)).is_err()
        {
            break;
        }
    }
    Ok(())
}

/// How a line becomes a record.
#[derive(Clone, Debug)]
struct Shape {
    format: InputFormat,
    key_separator: Option<Vec<u8>>,
    null: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    partition: Option<i32>,
    keep_partitions: bool,
}

impl Shape {
    fn of(arguments: &ProduceArguments) -> Self {
        let bytes = |text: &String| text.clone().into_bytes();
        let headers = arguments.headers.iter();
        Self {
            format: arguments.format,
            key_separator: arguments.key_separator.as_ref().map(bytes),
            null: arguments.null.as_ref().map(bytes),
            headers: headers.map(|(n, value)| (bytes(n), value.as_ref().map(bytes))).collect(),
            partition: arguments.partition,
            keep_partitions: arguments.keep_partitions,
        }
    }

    /// `None` for a blank line between JSON objects.
    fn record(&self, line: Vec<u8>) -> Result<Option<InputRecord>, String> {
        match self.format {
            InputFormat::Lines => self.record_of_line(line).map(Some),
            InputFormat::Json if line.iter().all(u8::is_ascii_whitespace) => Ok(None),
            InputFormat::Json => self.record_of_json(&line).map(Some),
        }
    }

    fn record_of_line(&self, line: Vec<u8>) -> Result<InputRecord, String> {
        let or_null = |bytes: Vec<u8>| (self.null.as_ref() != Some(&bytes)).then_some(bytes);
        let (key, value) = match &self.key_separator {
            None => (None, or_null(line)),
            Some(separator) => {
                let found = line.windows(separator.len()).position(|at| at == &separator[..]);
                let Some(end) = found else {
                    let separator = String::from_utf8_lossy(separator);
                    return Err(format!("it has no key separator {separator:?}"));
                };
                let value = line[end + separator.len()..].to_vec();
                (or_null(line[..end].to_vec()), or_null(value))
            }
        };
        let headers = self.headers.clone();
        Ok(InputRecord { partition: self.partition, timestamp: None, key, value, headers })
    }

    fn record_of_json(&self, line: &[u8]) -> Result<InputRecord, String> {
        let input = JsonInput::read(line).map_err(|error| {
            format!("{error}; an object with key, value, headers, timestamp is expected")
        })?;
        let bytes = |part: Option<JsonBytes>| part.map(JsonBytes::into_bytes).transpose();
        let mut headers = self.headers.clone();
        for (name, value) in input.headers {
            headers.push((name.into_bytes()?, bytes(value)?));
        }
        Ok(InputRecord {
            partition: if self.keep_partitions { input.partition } else { self.partition },
            // -1 is how a record without one is shown.
            timestamp: match input.timestamp {
                Some(before @ ..-1) => return Err(format!("timestamp {before} is before 1970")),
                timestamp => timestamp.filter(|timestamp| *timestamp >= 0),
            },
            key: bytes(input.key)?,
            value: bytes(input.value)?,
            headers,
        })
    }
}

/// Records read ahead.
const AHEAD: usize = 1024;

/// The largest that a topic may be made to take, in base64 and with a name around it.
const LONGEST_LINE: usize = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn shape() -> Shape {
        Shape {
            format: InputFormat::Lines,
            key_separator: Some(b"::".to_vec()),
            null: Some(b"NULL".to_vec()),
            headers: vec![(b"from".to_vec(), Some(b"test".to_vec()))],
            partition: Some(2),
            keep_partitions: false,
        }
    }

    fn record(key: Option<&[u8]>, value: Option<&[u8]>) -> InputRecord {
        InputRecord {
            partition: Some(2),
            timestamp: None,
            key: key.map(<[u8]>::to_vec),
            value: value.map(<[u8]>::to_vec),
            headers: shape().headers,
        }
    }

    #[test]
    fn a_line_is_cut_at_its_first_separator() {
        let cut = |line: &[u8]| shape().record(line.to_vec()).map(Option::unwrap_or_default);
        assert_eq!(cut(b"k::v::w"), Ok(record(Some(b"k"), Some(b"v::w"))));
        assert_eq!(cut(b"::"), Ok(record(Some(b""), Some(b""))));
        assert_eq!(cut(b"k::NULL"), Ok(record(Some(b"k"), None)));
        assert_eq!(cut(b"NULL::\xff"), Ok(record(None, Some(b"\xff"))));
        assert!(cut(b"k:v").is_err_and(|reason| reason.contains("\"::\"")));
        let whole = Shape { key_separator: None, ..shape() };
        assert_eq!(whole.record(b"k::v".to_vec()), Ok(Some(record(None, Some(b"k::v")))));
    }

    #[test]
    fn an_object_says_everything_about_its_record() {
        let json = Shape { format: InputFormat::Json, ..shape() };
        let line = br#"{"partition":9,"timestamp":5,"key":null,"value":{"encoding":"base64","data":"/w=="},"headers":[["h",null]]}"#;
        let mut expected = record(None, Some(b"\xff"));
        expected.timestamp = Some(5);
        expected.headers.push((b"h".to_vec(), None));
        assert_eq!(json.record(line.to_vec()), Ok(Some(expected.clone())));
        let keeping = Shape { keep_partitions: true, partition: None, ..json.clone() };
        expected.partition = Some(9);
        assert_eq!(keeping.record(line.to_vec()), Ok(Some(expected)));
        assert_eq!(json.record(b"  ".to_vec()), Ok(None));
        assert!(json.record(b"{".to_vec()).is_err());
    }
}
