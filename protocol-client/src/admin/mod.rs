//! Calls about the cluster rather than its records.

mod configs;
mod group_offsets;
mod list_offsets;
mod topics;
mod transactions;

pub use configs::ConfigResource;
pub use list_offsets::{ListedOffset, OffsetSpec};
pub use topics::{NewTopic, PartitionDescription, TopicDescription};

use millstream_protocol::messages::StrBytes;

/// Text as the messages hold it.
fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}
