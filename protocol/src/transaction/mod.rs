//! The coordinator's side of a producer: identity, transactions, fencing (KIP-98, KIP-360, KIP-890).
//!
//! ```text
//!                    ┌────────────── bump ──────────────┐
//!                    ▼                                  │
//! Uninitialized ─► Initializing ─► Ready ─ begin ─► InTransaction ─ end ─► Ending ─► Ready
//!      ▲             ▲    │          ▲                  │                   │ │
//!      └─ met an     │    │          └── abort ── AbortRequired ◄── aborted ┘ └─ no definite answer ─► InDoubt
//!         open one ──┼────┘                             │
//!                    └── init ──── from every state ────┴── Fenced ◄── another producer took over
//! ```
//!
//! Which of two sets of rules holds is latched per transaction: *TV2* if the cluster has finalized `transaction.version` 2
//! or higher (partitions join with their first batch, EndTxn answers the next identity), else *TV1* (AddPartitionsToTxn
//! before the first batch, InitProducerId between transactions). The broker goes by the version of each request, so
//! requests of a TV1 transaction are capped: Produce at 11, AddPartitionsToTxn at 3, EndTxn at 4.
//!
//! Under TV2 the first batch right after a commit waits until its markers are written, for a broker that meets it earlier holds
//! it for 20 ms; `markers.rs` says more.

mod add_partitions;
mod config;
mod end_txn;
mod init_producer_id;
mod markers;
mod produce_error;
mod resume;
mod retrying;
mod send_offsets;
mod state;
mod transaction_manager;

pub use config::{TransactionConfig, TransactionEvent};
pub use produce_error::{AbortCause, FatalCause, ProduceError};
pub use resume::{PreparedTransaction, ResumeStep, TransactionOutcome};
pub use send_offsets::GroupOffsets;
pub use state::TransactionMode;
pub use transaction_manager::TransactionManager;
