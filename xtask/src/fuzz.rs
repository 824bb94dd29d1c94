//! `cargo xtask fuzz`: coverage-guided fuzzing of every target, from the kept inputs on.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::steps::{Outcome, Step, cargo, target_dir};

const USAGE: &str = "usage: cargo xtask fuzz [--seconds N] [--jobs N] [--keep] [TARGET...]";

/// What was asked for.
#[derive(Debug, PartialEq)]
struct Options {
    /// For each target.
    seconds: u64,
    /// Targets that run side by side.
    jobs: usize,
    /// Whether inputs that reach new code go into the repository.
    keep: bool,
    /// All if empty.
    targets: Vec<String>,
}

/// Builds the targets and runs them, some side by side. Inputs are in `<target>/fuzz/corpus`, what libFuzzer says in
/// `<target>/fuzz/logs`, what broke a promise in `<target>/fuzz/artifacts`.
pub(crate) fn run(args: &[String]) -> Outcome {
    let options = parse(args)?;
    let folder = Folder(target_dir()?.join("fuzz"));
    inputs(&["unpack", &folder.of("corpus").display().to_string()]).run()?;
    let known = inputs(&["list"]).output()?;
    let known: Vec<&str> = known.lines().collect();
    if let Some(unknown) = options.targets.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("no target {unknown:?}; there are {}", known.join(", ")));
    }
    let is_wanted =
        |name: &&str| options.targets.is_empty() || options.targets.iter().any(|t| t == *name);
    let wanted: Vec<&str> = known.into_iter().filter(is_wanted).collect();
    let programs = build(&folder)?;
    let failed = side_by_side(&wanted, options.jobs, |name| {
        let own = folder.of("corpus").join(name);
        let artifacts = folder.of("artifacts").join(name);
        fs::create_dir_all(&artifacts).map_err(|error| error.to_string())?;
        let seconds = format!("-max_total_time={}", options.seconds);
        let prefix = format!("-artifact_prefix={}/", artifacts.display());
        let args = [&*own.to_string_lossy(), &seconds, &prefix, "-max_len=4096"];
        fuzz(&programs.join(name), &args, &folder.of("logs").join(format!("{name}.log")))
    });
    if options.keep {
        keep(&folder, &programs, &wanted)?;
    }
    if failed.is_empty() {
        return Ok(());
    }
    let artifacts = folder.of("artifacts");
    Err(format!("{} broke a promise; the inputs are in {}", failed.join(", "), artifacts.display()))
}

/// Where all that is not part of the repository lies.
struct Folder(PathBuf);

impl Folder {
    fn of(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

/// Runs `work` on every target, on `jobs` threads, and says how each went; gives those that failed. The others go on: one
/// finding says nothing about them.
fn side_by_side<'t>(
    targets: &[&'t str],
    jobs: usize,
    work: impl Fn(&str) -> Outcome<String> + Sync,
) -> Vec<&'t str> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let lane = || {
        while let Some(name) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            match work(name) {
                Ok(what) => println!("{name}: {what}"),
                Err(error) => {
                    println!("{name}: {error}");
                    failed.lock().unwrap_or_else(PoisonError::into_inner).push(*name);
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(lane);
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// What reached new code, in its smallest form, goes into the repository.
fn keep(folder: &Folder, programs: &Path, targets: &[&str]) -> Outcome {
    let merged = folder.of("merged");
    for name in targets {
        let target = merged.join(name);
        // What an earlier run has left would count as new.
        drop(fs::remove_dir_all(&target));
        fs::create_dir_all(&target).map_err(|error| error.to_string())?;
        let (to, from) = (target, folder.of("corpus").join(name));
        let args = [&*to.to_string_lossy(), &*from.to_string_lossy(), "-merge=1", "-max_len=400"];
        fuzz(&programs.join(name), &args, &folder.of("logs").join(format!("{name}-merge.log")))?;
    }
    inputs(&["keep", &merged.display().to_string()]).run()
}

/// The program between kept inputs and folders.
fn inputs(args: &[&str]) -> Step {
    let start = ["run", "--quiet", "--locked", "--package", "millstream-fuzz-targets", "--"];
    cargo(&[&start, args].concat())
}

/// Builds all targets under AddressSanitizer, with debug assertions: an overflow is a finding. Gives the folder of the programs.
fn build(folder: &Folder) -> Outcome<PathBuf> {
    let args = ["fuzz", "build", "--debug-assertions", "--fuzz-dir", "fuzz"];
    let toolchains = Step::of_path("rustup", &["toolchain", "list"]).output();
    let step = if toolchains.is_ok_and(|list| list.contains("nightly")) {
        Step::of_path("cargo", &[&["+nightly"], args.as_slice()].concat())
    } else {
        // The same compiler as a nightly one of its day, told so.
        cargo(&args).env("RUSTC_BOOTSTRAP", "1")
    };
    step.env("CARGO_TARGET_DIR", folder.of("build")).run()?;
    let host = Step::of_path("rustc", &["--print", "host-tuple"]).output()?;
    Ok(folder.of("build").join(host.trim()).join("release"))
}

/// One run of libFuzzer; gives what it counted.
fn fuzz(program: &Path, args: &[&str], log: &Path) -> Outcome<String> {
    let failure = |error: &dyn std::fmt::Display| format!("{}: {error}", log.display());
    fs::create_dir_all(log.parent().unwrap_or(log)).map_err(|error| failure(&error))?;
    let output = File::create(log).map_err(|error| failure(&error))?;
    let limits =
        ["-timeout=10", "-rss_limit_mb=1024", "-malloc_limit_mb=64", "-print_final_stats=1"];
    let status = Command::new(program)
        .args(args)
        .args(limits)
        .env("ASAN_OPTIONS", "detect_odr_violation=0")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(output)
        .status()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let said = fs::read_to_string(log).map_err(|error| failure(&error))?;
    if !status.success() {
        let lines: Vec<&str> = said.lines().collect();
        let last = lines.get(lines.len().saturating_sub(30)..).unwrap_or_default();
        return Err(format!("{status}; the end of {}:\n{}", log.display(), last.join("\n")));
    }
    let count = |name: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(name));
        line.map_or("?", str::trim).to_owned()
    };
    let runs = count("stat::number_of_executed_units:");
    Ok(format!("{runs} runs, {} new inputs", count("stat::new_units_added:")))
}

fn parse(args: &[String]) -> Outcome<Options> {
    let mut options = Options { seconds: 60, jobs: 1, keep: false, targets: Vec::new() };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|text| text.parse().ok()).ok_or(USAGE);
        match arg.as_str() {
            "--seconds" => options.seconds = number()?,
            "--jobs" => options.jobs = usize::try_from(number()?).map_err(|_| USAGE)?.max(1),
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
        let expected =
            Options { seconds: 5, jobs: 2, keep: true, targets: vec!["frame".to_owned()] };
        assert_eq!(read(&["--seconds", "5", "--jobs", "2", "frame", "--keep"]), Ok(expected));
        assert!(read(&["--seconds", "x"]).is_err());
        assert!(read(&["--jobs"]).is_err());
        assert!(read(&["--second", "5"]).is_err());
    }
}
