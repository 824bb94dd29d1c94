//! `cargo xtask fuzz`: coverage-guided fuzzing of every target, from the kept inputs on.

use std::fs;
use std::path::Path;

use crate::steps::{Outcome, Step, cargo, target_dir};

const USAGE: &str = "usage: cargo xtask fuzz [--seconds N] [--keep] [TARGET...]";

/// What was asked for.
#[derive(Debug, PartialEq)]
struct Options {
    /// For each target.
    seconds: u64,
    /// Whether inputs that reach new code go into the repository.
    keep: bool,
    /// All if empty.
    targets: Vec<String>,
}

/// Runs the targets one after the other. Inputs are in `<target>/fuzz/corpus`, what broke a promise in
/// `<target>/fuzz/artifacts`.
pub(crate) fn run(args: &[String]) -> Outcome {
    let options = parse(args)?;
    let folder = target_dir()?.join("fuzz");
    let (corpus, artifacts) = (folder.join("corpus"), folder.join("artifacts"));
    inputs(&["unpack", &corpus.display().to_string()]).run()?;
    let known = inputs(&["list"]).output()?;
    let known: Vec<&str> = known.lines().collect();
    if let Some(unknown) = options.targets.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("no target {unknown:?}; there are {}", known.join(", ")));
    }
    let wanted =
        |name: &&&str| options.targets.is_empty() || options.targets.iter().any(|t| t == **name);
    let mut failed = Vec::new();
    for name in known.iter().filter(wanted) {
        let seconds = format!("-max_total_time={}", options.seconds);
        let artifact = format!("-artifact_prefix={}/", artifacts.join(name).display());
        fs::create_dir_all(artifacts.join(name)).map_err(|error| error.to_string())?;
        let own = corpus.join(name).display().to_string();
        let args = [own.as_str(), "--", &seconds, &artifact, "-max_len=4096"];
        // The other targets go on: one finding says nothing about them.
        if fuzz(name, &folder, &args).run().is_err() {
            failed.push(*name);
        }
    }
    if options.keep {
        let merged = folder.join("merged");
        for name in known.iter().filter(wanted) {
            let target = merged.join(name);
            // What an earlier run has left would count as new.
            drop(fs::remove_dir_all(&target));
            fs::create_dir_all(&target).map_err(|error| error.to_string())?;
            let (from, to) =
                (corpus.join(name).display().to_string(), target.display().to_string());
            fuzz(name, &folder, &[&to, &from, "--", "-merge=1", "-max_len=400"]).run()?;
        }
        inputs(&["keep", &merged.display().to_string()]).run()?;
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(format!("{} broke a promise; the inputs are in {}", failed.join(", "), artifacts.display()))
}

/// The program between kept inputs and folders.
fn inputs(args: &[&str]) -> Step {
    let start = ["run", "--quiet", "--locked", "--package", "millstream-fuzz-targets", "--"];
    cargo(&[&start, args].concat())
}

/// One run of libFuzzer, built with debug assertions: an overflow is a finding.
fn fuzz(name: &str, folder: &Path, args: &[&str]) -> Step {
    let start = ["+nightly", "fuzz", "run", "--debug-assertions", "--fuzz-dir", "fuzz", name];
    let limits =
        ["-timeout=10", "-rss_limit_mb=512", "-malloc_limit_mb=64", "-print_final_stats=1"];
    Step::of_path("cargo", &[&start, args, &limits].concat())
        .env("CARGO_TARGET_DIR", folder.join("build"))
}

fn parse(args: &[String]) -> Outcome<Options> {
    let mut options = Options { seconds: 60, keep: false, targets: Vec::new() };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--seconds" => {
                let seconds = args.next().and_then(|text| text.parse().ok());
                options.seconds = seconds.ok_or(USAGE)?;
            }
            "--keep" => options.keep = true,
            flag if flag.starts_with('-') => return Err(USAGE.to_owned()),
            target => options.targets.push(target.to_owned()),
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::{Options, parse};

    #[test]
    fn options_are_read_and_unknown_ones_refused() {
        let read =
            |args: &[&str]| parse(&args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>());
        let expected = Options { seconds: 5, keep: true, targets: vec!["frame".to_owned()] };
        assert_eq!(read(&["--seconds", "5", "frame", "--keep"]), Ok(expected));
        assert!(read(&["--seconds", "x"]).is_err());
        assert!(read(&["--second", "5"]).is_err());
    }
}
