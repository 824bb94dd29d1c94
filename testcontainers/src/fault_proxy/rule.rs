//! What the proxy does to which frames.

use std::sync::Arc;
use std::time::Duration;

/// Keys of the APIs that tests single out most. Any other key of the protocol works as well.
pub mod api_key {
    /// Produce.
    pub const PRODUCE: i16 = 0;
    /// Fetch.
    pub const FETCH: i16 = 1;
    /// ListOffsets.
    pub const LIST_OFFSETS: i16 = 2;
    /// Metadata.
    pub const METADATA: i16 = 3;
    /// OffsetCommit.
    pub const OFFSET_COMMIT: i16 = 8;
    /// FindCoordinator.
    pub const FIND_COORDINATOR: i16 = 10;
    /// ApiVersions.
    pub const API_VERSIONS: i16 = 18;
    /// InitProducerId.
    pub const INIT_PRODUCER_ID: i16 = 22;
    /// AddPartitionsToTxn.
    pub const ADD_PARTITIONS_TO_TXN: i16 = 24;
    /// EndTxn.
    pub const END_TXN: i16 = 26;
    /// WriteTxnMarkers, from a coordinator to leaders.
    pub const WRITE_TXN_MARKERS: i16 = 27;
    /// TxnOffsetCommit.
    pub const TXN_OFFSET_COMMIT: i16 = 28;
}

/// Which way a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the client to the broker.
    Request,
    /// From the broker to the client.
    Response,
}

/// What happens to a frame that a rule matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FaultAction {
    Pass,
    Hold,
    Delay(Duration),
    CutBefore,
    CutAfter,
    Twice,
    BehindNext,
    Replace(Arc<[u8]>),
}

/// A rule: which frames, and what happens to them. A frame goes by the first rule that matches it.
///
/// ```
/// use millstream_testcontainers::{FaultRule, api_key};
///
/// let lost_answer = FaultRule::requests(api_key::END_TXN).times(1).cut_after();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultRule {
    pub(crate) direction: Direction,
    pub(crate) api: Option<i16>,
    pub(crate) client: Option<Arc<str>>,
    pub(crate) action: FaultAction,
    pub(crate) skip: u64,
    pub(crate) times: u64,
}

impl FaultRule {
    fn new(direction: Direction, api: Option<i16>) -> Self {
        Self { direction, api, client: None, action: FaultAction::Pass, skip: 0, times: u64::MAX }
    }

    /// Requests of one API. Without a verb after it, the rule only counts.
    #[must_use]
    pub fn requests(api: i16) -> Self {
        Self::new(Direction::Request, Some(api))
    }

    /// Responses to requests of one API. Without a verb after it, the rule only counts.
    #[must_use]
    pub fn responses(api: i16) -> Self {
        Self::new(Direction::Response, Some(api))
    }

    /// All requests.
    #[must_use]
    pub fn all_requests() -> Self {
        Self::new(Direction::Request, None)
    }

    /// All responses.
    #[must_use]
    pub fn all_responses() -> Self {
        Self::new(Direction::Response, None)
    }

    /// Only of clients with this `client.id`, where several share the broker.
    #[must_use]
    pub fn of_client(mut self, client_id: &str) -> Self {
        self.client = Some(Arc::from(client_id));
        self
    }

    /// Lets the first `frames` that match go by.
    #[must_use]
    pub fn skip(mut self, frames: u64) -> Self {
        self.skip = frames;
        self
    }

    /// Acts on so many frames only.
    #[must_use]
    pub fn times(mut self, frames: u64) -> Self {
        self.times = frames;
        self
    }

    /// Keeps the frame, and all behind it on its connection, until the rule is released or removed. A request is forwarded then
    /// even if its client has died meanwhile: a straggler in the network.
    #[must_use]
    pub fn hold(mut self) -> Self {
        self.action = FaultAction::Hold;
        self
    }

    /// Keeps the frame, and all behind it on its connection, for a time.
    #[must_use]
    pub fn delay(mut self, time: Duration) -> Self {
        self.action = FaultAction::Delay(time);
        self
    }

    /// Closes the connection instead of forwarding the frame.
    #[must_use]
    pub fn cut_before(mut self) -> Self {
        self.action = FaultAction::CutBefore;
        self
    }

    /// Closes the connection after the frame took effect: a request is forwarded and answered, but the answer is not delivered; a
    /// response is delivered.
    #[must_use]
    pub fn cut_after(mut self) -> Self {
        self.action = FaultAction::CutAfter;
        self
    }

    /// Forwards the frame twice.
    #[must_use]
    pub fn twice(mut self) -> Self {
        self.action = FaultAction::Twice;
        self
    }

    /// Forwards the frame behind the next one of its connection. With no next one it waits.
    #[must_use]
    pub fn behind_next(mut self) -> Self {
        self.action = FaultAction::BehindNext;
        self
    }

    /// Forwards `bytes` instead of what stands behind the frame's correlation id. For responses.
    #[must_use]
    pub fn replace(mut self, bytes: impl Into<Arc<[u8]>>) -> Self {
        self.action = FaultAction::Replace(bytes.into());
        self
    }
}
