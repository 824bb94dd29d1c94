//! A simulated process.
