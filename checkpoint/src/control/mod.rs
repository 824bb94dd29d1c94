//! Requests to a job's process from outside of it: small files in the folder `control` of its state directory.
//!
//! ```text
//! control/SERVER             which process serves requests; gone when it has ended well
//! control/<id>.request       asks for a savepoint; taken away by the process when it begins to serve it, or before by the one
//!                            who asked, who withdraws it so
//! control/<id>.answer        what became of it; taken away by the one who asked, or by the process after an hour
//! ```
//!
//! Files and no socket: a path may be longer than a socket's may, the folder may be mounted into another container, and who
//! may write into the state directory may ask. Nothing here outlives a process: each one begins with an empty folder and
//! an id of its own, which every request names, so a request is served by the process that it was meant for or by none. The
//! lock of the state directory tells whether that process lives. A file SERVER that is missing or damaged is written again.

mod client;
mod error;
mod files;
mod server;

pub use client::ControlClient;
pub use error::ControlError;
pub use files::{ControlAnswer, ControlRequest, SavepointTaken};
pub use server::{ControlClaim, ControlServer};

#[cfg(test)]
mod tests;
