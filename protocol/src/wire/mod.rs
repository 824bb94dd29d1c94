//! The wire itself: bounds-checked reading, writing without copying record bytes, headers, typed errors.
//!
//! Nothing here allocates more than the bytes it was given can justify: every length is checked against what is
//! left of the frame before memory is asked for.

mod error;
mod header;
mod reader;
mod writer;

pub use error::{Direction, EncodeError, ReadError, ReadProblem, WireError};
pub use header::{RequestHeader, ResponseHeader};
pub use reader::Reader;
pub use writer::{EncodedFrame, Writer};
