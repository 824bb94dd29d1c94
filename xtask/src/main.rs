//! Developer tasks, run as `cargo xtask <task>`.

#![expect(clippy::print_stdout, reason = "a command-line tool talks on standard output")]

mod deps;
mod dist;
mod empty_root;
mod fuzz;
mod promises;
mod sizes;
mod steps;
mod test;

use std::process::ExitCode;

use steps::{Outcome, cargo};

const USAGE: &str = "\
usage: cargo xtask <task>

  verify   every check below, and the tests; changes no file
  fix      formats, and applies what clippy can apply by itself
  test     all tests; real-broker tests run where a JVM with Maven or a Docker engine is, and are counted as skipped elsewhere
           (further arguments go to `cargo test`)
  fuzz     coverage-guided fuzzing: fuzz [--seconds N] [--jobs N] [--keep] [TARGET...]; needs cargo-fuzz and a nightly compiler
  dist     builds the static binary into <target>/dist/millstream and checks it
  fmt | clippy | docs | deny | sizes | deps | promises
           one check each";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let task = args.next().unwrap_or_default();
    let rest: Vec<String> = args.collect();
    let outcome = match task.as_str() {
        "verify" => verify(),
        "fix" => fix(),
        "test" => test::run(&rest),
        "fuzz" => fuzz::run(&rest),
        "dist" => dist::run(),
        "fmt" => fmt(),
        "clippy" => clippy(),
        "docs" => docs(),
        "deny" => deny(),
        "sizes" => sizes::run(),
        "deps" => deps::run(),
        "promises" => promises::run(),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn verify() -> Outcome {
    fmt()?;
    sizes::run()?;
    deps::run()?;
    promises::run()?;
    clippy()?;
    docs()?;
    deny()?;
    test::run(&[])
}

fn fix() -> Outcome {
    cargo(&["fmt", "--all"]).run()?;
    cargo(&["clippy", "--fix", "--allow-dirty", "--allow-staged", "--workspace", "--all-targets"])
        .run()?;
    cargo(&["fmt", "--all"]).run()
}

fn fmt() -> Outcome {
    cargo(&["fmt", "--all", "--check"]).run()
}

fn clippy() -> Outcome {
    cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]).run()
}

fn docs() -> Outcome {
    cargo(&["doc", "--workspace", "--no-deps", "--document-private-items", "--locked"])
        .env("RUSTDOCFLAGS", "-D warnings")
        .run()
}

fn deny() -> Outcome {
    let check = cargo(&["deny", "check", "bans", "licenses", "sources"]);
    check.run().map_err(|error| {
        format!("{error}\n(if cargo-deny is missing: cargo install --locked cargo-deny)")
    })
}
