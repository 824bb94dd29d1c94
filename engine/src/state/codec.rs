//! How keys and accumulators become bytes.

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// Bytes of a key or a state value. Implemented for every serde type with postcard's encoding, which is compact and gives
/// equal values equal bytes as long as the type keeps its elements in an order (a `HashMap` in a *key* does not).
pub trait StateCodec: Sized + 'static {
    /// Appends the encoded value.
    ///
    /// # Errors
    ///
    /// [`CodecError`] if the type cannot be encoded (a sequence of unknown length).
    fn encode(&self, to: &mut Vec<u8>) -> Result<(), CodecError>;

    /// Reads a value back; all of `bytes` belongs to it.
    ///
    /// # Errors
    ///
    /// [`CodecError`] if `bytes` is not one whole value of this type.
    fn decode(bytes: &[u8]) -> Result<Self, CodecError>;

    /// Names the encoded shape. A job whose state says otherwise is refused.
    #[must_use]
    fn schema() -> String;
}

/// A key or state value could not be encoded or decoded.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("failed to {action} {type_name}: {cause}")]
pub struct CodecError {
    action: &'static str,
    type_name: &'static str,
    cause: String,
}

impl CodecError {
    fn new<T>(action: &'static str, cause: impl ToString) -> Self {
        Self { action, type_name: std::any::type_name::<T>(), cause: cause.to_string() }
    }

    pub(crate) fn decode<T>(cause: &str) -> Self {
        Self::new::<T>("decode", cause)
    }
}

impl<T> StateCodec for T
where
    T: Serialize + DeserializeOwned + 'static,
{
    fn encode(&self, to: &mut Vec<u8>) -> Result<(), CodecError> {
        *to = postcard::to_extend(self, std::mem::take(to))
            .map_err(|cause| CodecError::new::<T>("encode", cause))?;
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<Self, CodecError> {
        let (value, rest) = postcard::take_from_bytes(bytes)
            .map_err(|cause| CodecError::new::<T>("decode", cause))?;
        if rest.is_empty() {
            Ok(value)
        } else {
            Err(CodecError::new::<T>("decode", format!("{} bytes are left over", rest.len())))
        }
    }

    fn schema() -> String {
        format!("postcard {}", super::schema::describe::<T>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_appended_and_read_back_whole() {
        let mut bytes = vec![7];
        ("AA".to_owned(), 3_i64).encode(&mut bytes).unwrap();
        assert_eq!(bytes.first(), Some(&7));
        assert_eq!(<(String, i64)>::decode(&bytes[1..]), Ok(("AA".to_owned(), 3)));
        bytes.push(0);
        assert!(<(String, i64)>::decode(&bytes[1..]).is_err());
        assert!(<(String, i64)>::decode(&bytes[1..3]).is_err());
    }
}
