//! Members of consumer groups as machines: the classic protocol (JoinGroup, SyncGroup, Heartbeat, LeaveGroup) with the
//! assignors that run in the leading member, and the protocol of KIP-848, where the broker assigns.
//!
//! [`GroupMember`] is the face of both. A driver tells it what the user subscribes to ([`GroupMember::subscribe`]), that
//! the user is alive ([`GroupMember::handle_poll`]), how many partitions topics have ([`GroupMember::handle_topics`]), and
//! what brokers answer; it sends what [`GroupMember::poll_request`] gives and passes on what
//! [`GroupMember::poll_event`] tells. Of partitions that are taken away in an orderly way the user is asked first: the
//! machine holds them until [`GroupMember::acknowledge_revoked`].
//!
//! | module | subject |
//! | --- | --- |
//! | `assignor` | range, roundrobin, sticky, cooperative-sticky |
//! | `consumer_protocol` | what members and leader write to each other |
//! | `classic` | the member of the classic protocol |
//! | `modern` | the member of KIP-848 |
//! | `offsets` | OffsetCommit and OffsetFetch: requests, and what their answers ask for |

pub mod assignor;
mod classic;
mod config;
pub mod consumer_protocol;
mod error;
mod event;
mod heartbeat_clock;
mod member;
mod modern;
pub mod offsets;
mod poll_clock;

pub use config::GroupConfig;
pub use error::GroupError;
pub use event::{GroupEvent, MemberIdentity, TopicInfo};
pub use member::GroupMember;

#[cfg(test)]
mod tests;
