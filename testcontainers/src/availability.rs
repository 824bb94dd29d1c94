//! Whether this machine can run real Apache Kafka, and how a test that needs it is skipped where it can not.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::kafka::java_program;

/// How real Apache Kafka can be run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Availability {
    /// A JVM is here, and Maven to bring the jars (or the jars are in the cache already).
    Jars,
    /// No JVM, but a Docker engine that answers.
    Docker,
    /// Neither.
    Neither {
        /// What was looked for, and what was found.
        reason: String,
    },
}

/// Looks once per process for a JVM with Maven, then for a Docker engine.
#[must_use]
pub fn availability() -> &'static Availability {
    static FOUND: OnceLock<Availability> = OnceLock::new();
    FOUND.get_or_init(look)
}

fn look() -> Availability {
    if std::env::var_os("MILLSTREAM_NO_REAL_KAFKA").is_some_and(|value| !value.is_empty()) {
        return Availability::Neither { reason: "MILLSTREAM_NO_REAL_KAFKA is set".to_owned() };
    }
    let java = answers(Command::new(java_program("java")).arg("-version"));
    let maven = java.and_then(|()| answers(Command::new("mvn").arg("--version")));
    let Err(no_jars) = maven else { return Availability::Jars };
    // `docker version` asks the engine too; the client alone is of no use.
    match answers(Command::new("docker").args(["version", "--format", "{{.Server.Version}}"])) {
        Ok(()) => Availability::Docker,
        Err(no_docker) => Availability::Neither { reason: format!("{no_jars}; {no_docker}") },
    }
}

/// Runs a command that should end at once; the error says in one line what is wrong.
fn answers(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => return Err(format!("{name} can not be started ({error})")),
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("{name} does not work ({status})")),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(10)),
            Ok(None) | Err(_) => {
                // It may have ended in between.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("{name} does not answer"));
            }
        }
    }
}

/// Whether a test may use real Kafka. Call it first thing in such a test and return if it says `false`.
///
/// A skipped test prints a line with the reason, also where the test runner captures output, and is noted in the skip report
/// (see [`skip_report`]), which `cargo xtask test` sums up.
///
/// # Panics
///
/// Under `CI=true` if there is no real Kafka: a CI run that skips its judge has not passed.
#[must_use]
pub fn real_kafka_or_skip(test_name: &str) -> bool {
    let Availability::Neither { reason } = availability() else { return true };
    skip(test_name, &format!("no real Apache Kafka on this machine: {reason}"));
    false
}

/// Notes that `test_name` was skipped because of `reason`.
///
/// # Panics
///
/// Under `CI=true`.
pub fn skip(test_name: &str, reason: &str) {
    let in_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    #[expect(clippy::panic, reason = "this is an assertion of the test that calls it")]
    if in_ci {
        panic!("{test_name} may not be skipped under CI=true: {reason}");
    }
    // Standard error itself is not captured by the test runner, unlike `eprintln!`.
    let _ = writeln!(std::io::stderr(), "skipped: {test_name}: {reason}");
    let report = skip_report();
    let written = fs::File::options()
        .create(true)
        .append(true)
        .open(&report)
        .and_then(|mut file| file.write_all(format!("{test_name}\t{reason}\n").as_bytes()));
    if let Err(error) = written {
        let _ = writeln!(std::io::stderr(), "can not write {}: {error}", report.display());
    }
}

/// The file that lists skipped tests: a line each, name, tab, reason.
///
/// `MILLSTREAM_SKIP_REPORT` if set, else `millstream-skipped-tests.tsv` in the target folder of the running test.
#[must_use]
pub fn skip_report() -> PathBuf {
    if let Some(file) = std::env::var_os("MILLSTREAM_SKIP_REPORT") {
        return PathBuf::from(file);
    }
    let folder = std::env::current_exe().ok().and_then(|exe| {
        // <target>/<profile>/deps/<test>
        let deps = exe.ancestors().find(|folder| folder.ends_with("deps"))?.to_path_buf();
        Some(deps.parent()?.parent()?.to_path_buf())
    });
    folder.unwrap_or_else(std::env::temp_dir).join("millstream-skipped-tests.tsv")
}
