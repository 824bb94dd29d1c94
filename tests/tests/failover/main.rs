//! Three real brokers that lose leaders, coordinators, processes and their network, while records are written and read.
//!
//! Numbered records go through the record producer to several partitions (idempotent, `acks=all`, `min.insync.replicas=2`); a
//! partition consumer and a member of a group read along; a transactional producer commits and aborts beside them. At the end no
//! number of any partition is missing, doubled or out of order, for any reader, each lies where its acknowledgement said, and
//! every transaction is there whole or not at all.
//!
//! The short form runs by default. The full one takes about ten minutes (1 M records, a cut of 30 s, Kafka's own
//! time-outs):
//!
//! ```sh
//! cargo test -p millstream-tests --test failover -- --ignored --nocapture
//! ```
//!
//! | module | subject |
//! | --- | --- |
//! | `scenario` | the tests: forms, and the steps in the order that the seed gives |
//! | `faults` | what is done to the cluster |
//! | `load` | producers and consumers |
//! | `numbered` | the judge, and mutants that it must catch |

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod faults;
mod load;
mod numbered;
mod scenario;
