//! The job of `millstream_tests::keyed_state` as a process of its own, so that tests can kill it.
//!
//! `keyed-state-job <bootstrap servers> <input> <output> <state folder> [bounded] [job=<name>] [parallelism=N]
//! [from=<savepoint>]`

#![allow(clippy::panic, reason = "fails as the tests that use it do")]

use std::path::Path;
use std::process::ExitCode;

use millstream_tests::keyed_state::KeyedStateJob;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [servers, input, output, state, rest @ ..] = arguments.as_slice() else {
        panic!("usage: <bootstrap servers> <input> <output> <state folder> [option...]")
    };
    let mut settings = KeyedStateJob::new(servers, input, output);
    let mut savepoint = None;
    for option in rest {
        match option.split_once('=') {
            None if option == "bounded" => settings.bounded = true,
            Some(("parallelism", number)) => {
                settings.parallelism = number.parse().unwrap_or_else(|_| panic!("{option}"));
            }
            Some(("job", name)) => name.clone_into(&mut settings.name),
            Some(("from", path)) => savepoint = Some(path),
            _ => panic!("unknown option {option}"),
        }
    }
    let job = settings.job(Path::new(state)).map(|job| match savepoint {
        Some(path) => job.from_savepoint(path),
        None => job,
    });
    millstream_engine::exit(job.and_then(millstream_engine::Job::run))
}
