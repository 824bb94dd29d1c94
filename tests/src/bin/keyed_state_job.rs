//! The job of `millstream_tests::keyed_state` as a process of its own, so that tests can kill it.
//!
//! `keyed-state-job <bootstrap servers> <input> <output> <state folder> [bounded]`

#![allow(clippy::panic, reason = "fails as the tests that use it do")]

use std::path::Path;
use std::process::ExitCode;

use millstream_tests::keyed_state::run_job;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [servers, input, output, state, rest @ ..] = arguments.as_slice() else {
        panic!(
            "usage: keyed-state-job <bootstrap servers> <input> <output> <state folder> [bounded]"
        )
    };
    let bounded = rest.first().is_some_and(|word| word == "bounded");
    millstream_engine::exit(run_job(servers, input, output, Path::new(state), bounded))
}
