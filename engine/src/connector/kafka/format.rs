//! From records to elements and back.

use std::marker::PhantomData;

use millstream_protocol::records::RecordView;
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::error::Cause;

/// Makes an element of a record.
pub trait RecordDeserializer: Clone + Send + 'static {
    /// The element.
    type Item: Send + 'static;

    /// Decodes `record`; the bytes it borrows do not outlive the call. `None` leaves the record out.
    ///
    /// # Errors
    ///
    /// Any cause; the source adds topic, partition and offset. The job stops, nothing is skipped.
    fn deserialize(&mut self, record: &RecordView<'_>) -> Result<Option<Self::Item>, Cause>;
}

/// Makes a record of an element.
pub trait RecordSerializer<T>: Clone + Send + 'static {
    /// Appends the key to `key` and the value to `value`, both empty. Gives whether the record has a key.
    ///
    /// # Errors
    ///
    /// Any cause; the sink adds its uid. The job stops, nothing is skipped.
    fn serialize(
        &mut self,
        element: &T,
        key: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> Result<bool, Cause>;
}

/// A value that is not what the job expects.
#[derive(Debug, Error)]
enum JsonError {
    #[error("the record has no value (a tombstone), a JSON object was expected")]
    NoValue,
    #[error("malformed JSON at column {column}: {reason}")]
    Malformed { column: usize, reason: String },
}

/// The value of a record is a JSON object with the fields of `T`.
#[derive(Debug)]
pub struct JsonDeserializer<T> {
    ignore_parse_errors: bool,
    item: PhantomData<fn() -> T>,
}

impl<T> JsonDeserializer<T> {
    /// Leaves out what it can not decode.
    #[must_use]
    pub fn ignore_parse_errors(mut self) -> Self {
        self.ignore_parse_errors = true;
        self
    }
}

impl<T> Default for JsonDeserializer<T> {
    fn default() -> Self {
        Self { ignore_parse_errors: false, item: PhantomData }
    }
}

impl<T> Clone for JsonDeserializer<T> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

impl<T: DeserializeOwned> JsonDeserializer<T> {
    fn decode(record: &RecordView<'_>) -> Result<T, JsonError> {
        let value = record.value.ok_or(JsonError::NoValue)?;
        // Checked as a whole: serde_json would check every string and every name of a field by itself.
        let text = str::from_utf8(value).map_err(|error| JsonError::Malformed {
            column: error.valid_up_to() + 1,
            reason: error.to_string(),
        })?;
        serde_json::from_str(text).map_err(|error| {
            // A record is one line as a rule; in a value of several lines the column counts from its own line, so the
            // place in the text is named by serde_json as well.
            let column = error.column();
            JsonError::Malformed { column, reason: error.to_string() }
        })
    }
}

impl<T: DeserializeOwned + Send + 'static> RecordDeserializer for JsonDeserializer<T> {
    type Item = T;

    fn deserialize(&mut self, record: &RecordView<'_>) -> Result<Option<T>, Cause> {
        match Self::decode(record) {
            Ok(element) => Ok(Some(element)),
            Err(_) if self.ignore_parse_errors => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// The value of a record is the element as a JSON object, the key what `key` takes from it.
#[derive(Clone, Debug)]
pub struct JsonSerializer<K> {
    key: K,
}

impl<K> JsonSerializer<K> {
    /// Records with the key that `key` gives, as text.
    pub fn with_key(key: K) -> Self {
        Self { key }
    }
}

impl<T, K, S> RecordSerializer<T> for JsonSerializer<K>
where
    T: Serialize,
    K: Fn(&T) -> S + Clone + Send + 'static,
    S: AsRef<[u8]>,
{
    fn serialize(
        &mut self,
        element: &T,
        key: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> Result<bool, Cause> {
        key.extend_from_slice((self.key)(element).as_ref());
        serde_json::to_writer(value, element)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use millstream_protocol::records::Headers;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Row {
        number: i64,
    }

    fn decode(value: Option<&[u8]>, leniently: bool) -> Result<Option<Row>, String> {
        let mut deserializer = JsonDeserializer::default();
        if leniently {
            deserializer = deserializer.ignore_parse_errors();
        }
        let headers = Headers::default();
        let record = RecordView { offset: 7, timestamp: 0, key: None, value, headers };
        deserializer.deserialize(&record).map_err(|error| error.to_string())
    }

    #[test]
    fn what_can_not_be_decoded_is_an_error_with_its_column_or_left_out() {
        let bad: [(Option<&[u8]>, &str); 4] = [
            (None, "a tombstone"),
            (Some(b"{\"number\":}"), "column 11"),
            (Some(b"{\"number\":\"\xff\"}"), "column 12"),
            (Some(b"{}"), "missing field `number`"),
        ];
        for (value, expected) in bad {
            let error = decode(value, false).expect_err("it is no row");
            assert!(error.contains(expected), "{error}");
            assert_eq!(decode(value, true), Ok(None));
        }
        for leniently in [false, true] {
            assert_eq!(decode(Some(b"{\"number\":3}"), leniently), Ok(Some(Row { number: 3 })));
        }
    }
}
