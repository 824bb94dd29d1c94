//! Developer tasks: verify, fix, dist.

fn main() {}
