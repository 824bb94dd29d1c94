//! Reading partitions: positions, sessions, bounds.
//!
//! A [`Fetcher`] holds the position of every partition that one consumer reads, keeps one incremental session per leader
//! ([`FetchSession`], KIP-227) with one request in flight, and hands out what arrives as [`FetchEvent`]s. It never moves a
//! position by itself: what the reader asked for is delivered, or the partition fails with a [`FetchError`] that says why.
//!
//! ```text
//!            answer with data: position = end of the last whole batch
//!          ┌───────────────┐
//!          ▼               │
//! assign ─► Fetching ──────┘──OFFSET_OUT_OF_RANGE──► Diagnosing ──below the log start, beyond the end──► Failed
//!          ▲   │                                         │                                                │
//!          │   └─corrupt, truncated, not authorized …────┼──────────────────────────────────────────────► │
//!          └──────────────── in range after all ─────────┘                                    seek ◄──────┘
//! ```

mod batch_walk;
mod fetch_error;
mod fetch_event;
mod fetch_partition;
mod fetch_response;
mod fetch_session;
mod fetcher;
mod offset_diagnosis;

pub use fetch_error::FetchError;
pub use fetch_event::{FetchEvent, FetchedPartition};
pub use fetch_session::{FetchSession, SessionOutcome, SessionRequest, SessionViolation};
pub use fetcher::{FetchConfig, FetchPace, FetchStart, Fetcher};
