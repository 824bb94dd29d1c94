//! A broker that lies: answers to everything the client can ask, random, cut off, with flipped bits and with lengths that claim
//! gigabytes, in a process that may not allocate more than 64 MiB. No panic, no abort, no hang.
//!
//! | module | subject |
//! | --- | --- |
//! | `capped` | the allocator |
//! | `lab` | the network machine and a broker in one thread, without sockets |
//! | `frames` | a million frames, for each API and version |
//! | `machines` | producers, group members and fetchers among such answers |
//! | `sockets` | the whole client against such a broker over TCP |
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail as tests do"
)]
#![expect(unsafe_code, reason = "a global allocator that refuses can not be written without it")]

mod capped;
mod frames;
mod lab;
mod machines;
mod sockets;
