//! Running commands.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

/// Done, or one message for the person at the terminal.
pub(crate) type Outcome<T = ()> = Result<T, String>;

/// A command that is shown before it runs.
pub(crate) struct Step {
    command: Command,
    shown: String,
}

/// A step that runs cargo.
pub(crate) fn cargo(args: &[&str]) -> Step {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null());
    Step { command, shown: format!("cargo {}", args.join(" ")) }
}

impl Step {
    /// A step that runs a program found on the `PATH`. `cargo +nightly` is rustup's, not the one that runs this.
    pub(crate) fn of_path(program: &str, args: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
        Self { command, shown: format!("{program} {}", args.join(" ")) }
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.shown = format!("{name}={:?} {}", value.as_ref(), self.shown);
        self.command.env(name, value);
        self
    }

    /// Runs it with its output shown.
    pub(crate) fn run(mut self) -> Outcome {
        println!("» {}", self.shown);
        let started = Instant::now();
        let status = self.command.status().map_err(|error| format!("{}: {error}", self.shown))?;
        println!("« {:.1} s", started.elapsed().as_secs_f64());
        if status.success() { Ok(()) } else { Err(format!("failed ({status}): {}", self.shown)) }
    }

    /// Runs it and returns what it printed on standard output.
    pub(crate) fn output(mut self) -> Outcome<String> {
        let output = self
            .command
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("{}: {error}", self.shown))?;
        if !output.status.success() {
            return Err(format!("failed ({}): {}", output.status, self.shown));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// `cargo metadata` of the workspace, without its dependencies' own entries.
pub(crate) fn metadata() -> Outcome<Value> {
    let text = cargo(&["metadata", "--format-version", "1", "--no-deps"]).output()?;
    serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))
}

/// The target folder, wherever the environment puts it.
pub(crate) fn target_dir() -> Outcome<PathBuf> {
    let metadata = metadata()?;
    let folder = metadata["target_directory"].as_str();
    folder.map(PathBuf::from).ok_or_else(|| "cargo metadata names no target folder".to_owned())
}
