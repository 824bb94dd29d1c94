//! Test binaries side by side. Those that start brokers wait more than they compute, so that one after the other leaves part of the
//! machine idle.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use super::binaries::TestBinary;
use crate::steps::Outcome;

/// Test binaries that run at a time.
const LANES: usize = 3;

/// Those that take a minute or more, the longest first: begun last they would run alone at the end.
const LONG: [&str; 9] = [
    "tests/exactly_once",
    "tests/groups",
    "tests/conformance",
    "tests/interop",
    "tests/admin",
    "testcontainers/real_kafka",
    "tests/failover",
    "checkpoint/state_directory",
    "doc",
];

/// A command that runs some of the tests.
struct Job {
    name: String,
    command: Command,
    log: PathBuf,
}

/// Runs the binaries and the examples in the documentation. All run, even when some fail; what each prints is shown in one piece when it
/// ends, and is in a file of `<target>/millstream-tests` from the start.
pub(super) fn run(
    binaries: Vec<TestBinary>,
    to_cargo: &[&str],
    target: &Path,
    skip_report: &Path,
) -> Outcome {
    let folder = target.join("millstream-tests");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut jobs: Vec<Job> = binaries.iter().map(|binary| job_of(binary, &folder)).collect();
    jobs.push(doc_tests(to_cargo, &folder));
    jobs.sort_by_key(|job| LONG.iter().position(|long| *long == job.name).unwrap_or(LONG.len()));
    for job in &mut jobs {
        job.command.env("MILLSTREAM_SKIP_REPORT", skip_report).stdin(Stdio::null());
    }

    let started = Instant::now();
    let waiting = Mutex::new(VecDeque::from(jobs));
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                // The guard goes before the job runs: another lane takes the next.
                while let Some(job) = next(&waiting) {
                    if let Err(why) = job.run() {
                        failed.lock().unwrap_or_else(PoisonError::into_inner).push(why);
                    }
                }
            });
        }
    });
    println!("« {:.1} s", started.elapsed().as_secs_f64());
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

fn next(waiting: &Mutex<VecDeque<Job>>) -> Option<Job> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
}

fn job_of(binary: &TestBinary, folder: &Path) -> Job {
    let name = binary.name();
    let mut command = Command::new(&binary.executable);
    // As cargo does; what it set for this program itself would be wrong there.
    command.current_dir(&binary.package).env("CARGO_MANIFEST_DIR", &binary.package);
    let log = binary.executable.file_name().unwrap_or_default();
    Job { log: folder.join(log).with_extension("log"), name, command }
}

fn doc_tests(to_cargo: &[&str], folder: &Path) -> Job {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["test", "--workspace", "--doc"]).args(to_cargo);
    Job { name: "doc".to_owned(), command, log: folder.join("doc.log") }
}

impl Job {
    fn run(mut self) -> Outcome {
        let started = Instant::now();
        let status = self.start().map_err(|error| format!("{}: {error}", self.name))?;
        let printed = fs::read(&self.log).unwrap_or_default();
        let printed = String::from_utf8_lossy(&printed);
        println!("» {}\n{}\n« {:.1} s", self.name, printed.trim(), started.elapsed().as_secs_f64());
        if status.success() { Ok(()) } else { Err(format!("failed ({status}): {}", self.name)) }
    }

    /// Runs it to its end, both outputs in the order they were written.
    fn start(&mut self) -> std::io::Result<ExitStatus> {
        let log = File::create(&self.log)?;
        self.command.stdout(log.try_clone()?).stderr(log).status()
    }
}
