//! Records as the JVM helper writes them: bytes are hexadecimal text.

use serde_json::{Value, json};

use super::types::{JavaRecord, ProducedRecord};

pub(super) fn record_to_json(record: &JavaRecord) -> Value {
    let headers: Vec<Value> = record
        .headers
        .iter()
        .map(|(name, value)| json!([name, value.as_deref().map(to_hex)]))
        .collect();
    json!({
        "partition": record.partition,
        "timestamp": record.timestamp,
        "key": record.key.as_deref().map(to_hex),
        "value": record.value.as_deref().map(to_hex),
        "headers": headers,
    })
}

pub(super) fn record_from_json(json: &Value) -> Option<ProducedRecord> {
    let headers = json["headers"].as_array()?;
    Some(ProducedRecord {
        partition: i32_of(&json["partition"])?,
        offset: json["offset"].as_i64()?,
        timestamp: json["timestamp"].as_i64()?,
        key: bytes_of(&json["key"])?,
        value: bytes_of(&json["value"])?,
        headers: headers
            .iter()
            .map(|pair| Some((pair[0].as_str()?.to_owned(), bytes_of(&pair[1])?)))
            .collect::<Option<_>>()?,
    })
}

pub(super) fn i32_of(json: &Value) -> Option<i32> {
    json.as_i64()?.try_into().ok()
}

/// Outer `None`: neither null nor hexadecimal.
pub(super) fn bytes_of(json: &Value) -> Option<Option<Vec<u8>>> {
    if json.is_null() {
        return Some(None);
    }
    let text = json.as_str()?;
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16)?.try_into().ok()).collect();
    let digits = digits?;
    let pairs =
        digits.chunks_exact(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit));
    digits.len().is_multiple_of(2).then(|| Some(pairs.collect()))
}

pub(super) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_the_way_through_text() {
        for bytes in [None, Some(vec![]), Some(vec![0, 15, 16, 255])] {
            assert_eq!(bytes_of(&json!(bytes.as_deref().map(to_hex))), Some(bytes));
        }
        for wrong in ["0", "0g"] {
            assert_eq!(bytes_of(&json!(wrong)), None);
        }
    }
}
