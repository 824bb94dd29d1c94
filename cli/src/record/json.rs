//! Records as JSON, one object a line: text as strings, other bytes as `{"encoding":"base64","data":"…"}`.
//!
//! What consume writes, produce reads: keys, values, headers in their order and timestamps come back as they were.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use millstream_protocol::TopicPartition;
use millstream_protocol::records::RecordView;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

/// Bytes that are text, or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "text, or an object with encoding (base64) and data, is expected")]
pub(crate) enum JsonBytes {
    /// UTF-8.
    Text(String),
    /// Anything else.
    Encoded {
        /// `base64`, with padding (RFC 4648 section 4).
        encoding: Encoding,
        /// The bytes.
        data: String,
    },
}

/// How bytes that are no text are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Encoding {
    /// RFC 4648.
    Base64,
}

impl JsonBytes {
    fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Encoded { encoding: Encoding::Base64, data: STANDARD.encode(bytes) },
        }
    }

    /// The bytes.
    pub(crate) fn into_bytes(self) -> Result<Vec<u8>, String> {
        match self {
            Self::Text(text) => Ok(text.into_bytes()),
            Self::Encoded { data, .. } => {
                STANDARD.decode(data).map_err(|error| format!("data is no base64: {error}"))
            }
        }
    }
}

#[derive(Serialize)]
struct JsonRecord<'a> {
    topic: &'a str,
    partition: i32,
    offset: i64,
    /// Milliseconds since 1970; -1 if there is none.
    timestamp: i64,
    key: Option<JsonBytes>,
    value: Option<JsonBytes>,
    headers: Vec<(JsonBytes, Option<JsonBytes>)>,
}

/// Appends a record as a line.
pub(crate) fn write_json(
    out: &mut Vec<u8>,
    partition: &TopicPartition,
    record: &RecordView<'_>,
) -> Result<(), serde_json::Error> {
    let headers = record.headers;
    let line = JsonRecord {
        topic: &partition.topic,
        partition: partition.partition,
        offset: record.offset,
        timestamp: record.timestamp,
        key: record.key.map(JsonBytes::of),
        value: record.value.map(JsonBytes::of),
        headers: headers.map(|h| (JsonBytes::of(h.key), h.value.map(JsonBytes::of))).collect(),
    };
    serde_json::to_writer(&mut *out, &line)?;
    out.push(b'\n');
    Ok(())
}

/// A record as produce reads it. Where consume says it came from (topic, offset) is passed over; any other field is refused, for
/// one that is misspelt would be one that is missing.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JsonInput {
    #[serde(default)]
    pub(crate) key: Option<JsonBytes>,
    #[serde(default)]
    pub(crate) value: Option<JsonBytes>,
    #[serde(default)]
    pub(crate) headers: Vec<(JsonBytes, Option<JsonBytes>)>,
    #[serde(default)]
    pub(crate) partition: Option<i32>,
    #[serde(default)]
    pub(crate) timestamp: Option<i64>,
    #[serde(default, rename = "topic")]
    _topic: IgnoredAny,
    #[serde(default, rename = "offset")]
    _offset: IgnoredAny,
}

impl JsonInput {
    /// Reads one object. Not a list, which would do for one whose fields are all left out.
    pub(crate) fn read(line: &[u8]) -> Result<Self, String> {
        if line.trim_ascii_start().first() != Some(&b'{') {
            return Err("it is no JSON object".to_owned());
        }
        // Its line is always the first one of the one it was given.
        serde_json::from_slice(line)
            .map_err(|error| error.to_string().replace(" at line 1 column ", " at column "))
    }
}

#[cfg(test)]
mod tests {
    use millstream_protocol::records::Headers;

    use super::*;

    #[test]
    fn text_is_text_and_other_bytes_come_back_as_they_were() {
        let record = RecordView {
            offset: 7,
            timestamp: 5,
            key: None,
            value: Some(b"\x00\xff"),
            headers: Headers::default(),
        };
        let mut out = Vec::new();
        write_json(&mut out, &TopicPartition::new("out", 3), &record).expect("written");
        let expected = "{\"topic\":\"out\",\"partition\":3,\"offset\":7,\"timestamp\":5,\"key\":null,\
                        \"value\":{\"encoding\":\"base64\",\"data\":\"AP8=\"},\"headers\":[]}\n";
        assert_eq!(String::from_utf8(out.clone()).expect("text"), expected);
        let read = JsonInput::read(&out).expect("read back");
        assert_eq!(read.key, None);
        assert_eq!(read.value.map(JsonBytes::into_bytes), Some(Ok(b"\x00\xff".to_vec())));
        assert_eq!((read.partition, read.timestamp), (Some(3), Some(5)));
    }

    #[test]
    fn an_object_needs_nothing_and_holds_nothing_unknown() {
        let read = JsonInput::read(b" {}").expect("an object");
        assert_eq!(read, JsonInput::default());
        let text = r#"{"value":"é","headers":[["a","1"],["a",null],["b",{"encoding":"base64","data":"/w=="}]],"offset":1,"topic":"t"}"#;
        let read = JsonInput::read(text.as_bytes()).expect("an object");
        assert_eq!(read.value, Some(JsonBytes::Text("é".to_owned())));
        let values: Vec<_> =
            read.headers.into_iter().map(|(_, value)| value.map(JsonBytes::into_bytes)).collect();
        assert_eq!(values, [Some(Ok(b"1".to_vec())), None, Some(Ok(vec![0xff]))]);
        for wrong in [
            r#"{"vlaue":"1"}"#,
            r#"{"value":1}"#,
            r#"{"value":{"encoding":"hex","data":""}}"#,
            "[]",
            "x",
        ] {
            assert!(JsonInput::read(wrong.as_bytes()).is_err(), "{wrong}");
        }
        let bad = JsonBytes::Encoded { encoding: Encoding::Base64, data: "%".to_owned() };
        assert!(bad.into_bytes().is_err());
    }
}
