//! Benchmarks of Millstream against limits and peers.

fn main() {}
