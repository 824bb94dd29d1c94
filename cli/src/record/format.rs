//! `consume --format`: a line of text per record.

use std::io::Write;
use std::str::FromStr;

use millstream_protocol::TopicPartition;
use millstream_protocol::records::RecordView;

use crate::output::time_text;

/// Text with places for the parts of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordFormat {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(Vec<u8>),
    Topic,
    Partition,
    Offset,
    Timestamp,
    Time,
    Key,
    Value,
    Headers,
    KeyBytes,
    ValueBytes,
}

/// The value and the end of a line.
impl Default for RecordFormat {
    fn default() -> Self {
        Self { parts: vec![Part::Value, Part::Text(b"\n".to_vec())] }
    }
}

impl FromStr for RecordFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut literal = Vec::new();
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            let part = match (c, chars.as_str().chars().next()) {
                ('%', next) => {
                    chars.next();
                    match next {
                        Some('t') => Part::Topic,
                        Some('p') => Part::Partition,
                        Some('o') => Part::Offset,
                        Some('T') => Part::Timestamp,
                        Some('d') => Part::Time,
                        Some('k') => Part::Key,
                        Some('v' | 's') => Part::Value,
                        Some('h') => Part::Headers,
                        Some('K') => Part::KeyBytes,
                        Some('S') => Part::ValueBytes,
                        Some('%') => {
                            literal.push(b'%');
                            continue;
                        }
                        other => {
                            let found = other.map(String::from).unwrap_or_default();
                            return Err(format!(
                                "%{found} stands for nothing; %t %p %o %T %d %k %v %h %K %S %% do"
                            ));
                        }
                    }
                }
                ('\\', Some(escaped)) => {
                    chars.next();
                    literal.push(match escaped {
                        'n' => b'\n',
                        't' => b'\t',
                        'r' => b'\r',
                        '0' => 0,
                        '\\' => b'\\',
                        other => {
                            return Err(format!(
                                "\\{other} stands for nothing; \\n \\t \\r \\0 \\\\ do"
                            ));
                        }
                    });
                    continue;
                }
                (c, _) => {
                    literal.extend(c.encode_utf8(&mut [0; 4]).as_bytes());
                    continue;
                }
            };
            if !literal.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut literal)));
            }
            parts.push(part);
        }
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        Ok(Self { parts })
    }
}

impl RecordFormat {
    /// Appends a record. Keys and values are written as the bytes that they are, `null` where there is none.
    pub(crate) fn write(
        &self,
        out: &mut Vec<u8>,
        partition: &TopicPartition,
        record: &RecordView<'_>,
        null: &str,
    ) {
        let null = null.as_bytes();
        for part in &self.parts {
            match part {
                Part::Text(text) => out.extend(text),
                Part::Topic => out.extend(partition.topic.as_bytes()),
                Part::Partition => number(out, partition.partition.into()),
                Part::Offset => number(out, record.offset),
                Part::Timestamp => number(out, record.timestamp),
                Part::Time => out.extend(time_text(record.timestamp).as_bytes()),
                Part::Key => out.extend(record.key.unwrap_or(null)),
                Part::Value => out.extend(record.value.unwrap_or(null)),
                Part::KeyBytes => number(out, bytes(record.key)),
                Part::ValueBytes => number(out, bytes(record.value)),
                Part::Headers => {
                    for (index, header) in record.headers.enumerate() {
                        if index > 0 {
                            out.push(b',');
                        }
                        out.extend(header.key);
                        out.push(b'=');
                        out.extend(header.value.unwrap_or(null));
                    }
                }
            }
        }
    }
}

fn number(out: &mut Vec<u8>, number: i64) {
    // Writing to memory does not fail.
    let _ = write!(out, "{number}");
}

/// -1 for null, as kcat has it.
fn bytes(part: Option<&[u8]>) -> i64 {
    part.map_or(-1, |part| i64::try_from(part.len()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use millstream_protocol::records::Headers;

    use super::*;

    fn printed(format: &str, key: Option<&[u8]>) -> Vec<u8> {
        let record = RecordView {
            offset: 7,
            timestamp: 1_000,
            key,
            value: Some(b"\xff"),
            headers: Headers::default(),
        };
        let mut out = Vec::new();
        let format: RecordFormat = format.parse().expect("a format");
        format.write(&mut out, &TopicPartition::new("out", 3), &record, "NULL");
        out
    }

    #[test]
    fn each_place_holds_its_part() {
        let line = printed("%t-%p@%o %T %d %k=%v|%s %h%K/%S 100%%\\n\\t\\\\", Some(b"k"));
        let expected = b"out-3@7 1000 1970-01-01T00:00:01.000Z k=\xff|\xff 1/1 100%\n\t\\";
        assert_eq!(line, expected);
        assert_eq!(printed("%k %K\\0", None), b"NULL -1\0");
    }

    #[test]
    fn what_stands_for_nothing_is_refused() {
        for wrong in ["%x", "%", "\\q", "a%"] {
            assert!(wrong.parse::<RecordFormat>().is_err(), "{wrong}");
        }
        assert_eq!("".parse(), Ok(RecordFormat { parts: Vec::new() }));
        // A backslash at the end is one.
        let parts = vec![Part::Text(b"\\".to_vec())];
        assert_eq!("\\".parse(), Ok(RecordFormat { parts }));
    }
}
