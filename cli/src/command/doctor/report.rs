//! What the doctor writes down, as it finds it.

use std::time::Duration;

use serde::Serialize;

use crate::exit_code;
use crate::output::{self, OutputError, OutputFormat};

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    /// Fine.
    Ok,
    /// A job could run, and something should be known.
    Warning,
    /// A job could not run.
    Failed,
}

/// One check.
#[derive(Clone, Debug)]
pub(super) struct Check<'a> {
    /// What was looked at.
    pub(super) check: &'a str,
    pub(super) status: Status,
    /// What was found.
    pub(super) found: String,
    /// What to change.
    pub(super) advice: Option<String>,
    pub(super) took: Option<Duration>,
    /// What the command ends with if this is what failed.
    pub(super) exit_code: u8,
}

impl<'a> Check<'a> {
    pub(super) fn ok(check: &'a str, found: String) -> Self {
        let exit_code = exit_code::OK;
        Self { check, status: Status::Ok, found, advice: None, took: None, exit_code }
    }

    pub(super) fn warning(check: &'a str, found: String, advice: impl Into<String>) -> Self {
        let advice = Some(advice.into());
        Self { status: Status::Warning, advice, ..Self::ok(check, found) }
    }

    pub(super) fn failed(check: &'a str, found: String, advice: impl Into<String>) -> Self {
        let advice = Some(advice.into());
        let exit_code = exit_code::CONFIG;
        Self { status: Status::Failed, advice, exit_code, ..Self::ok(check, found) }
    }
}

#[derive(Serialize)]
struct Row<'a> {
    /// An address, or `cluster`.
    subject: &'a str,
    check: &'a str,
    status: Status,
    found: &'a str,
    advice: Option<&'a str>,
    took_ms: Option<f64>,
}

/// Checks in their order, written at once.
#[derive(Debug)]
pub(super) struct Report {
    output: OutputFormat,
    subject: String,
    failed: usize,
    worst: Option<u8>,
}

impl Report {
    pub(super) fn new(output: OutputFormat) -> Self {
        Self { output, subject: String::new(), failed: 0, worst: None }
    }

    /// From here on it is about this.
    pub(super) fn begin(&mut self, subject: &str) -> Result<(), OutputError> {
        let blank = if self.subject.is_empty() { "" } else { "\n" };
        subject.clone_into(&mut self.subject);
        match self.output {
            OutputFormat::Json => Ok(()),
            OutputFormat::Text => output::print(format!("{blank}{subject}\n").as_bytes()),
        }
    }

    pub(super) fn add(&mut self, check: Check<'_>) -> Result<(), OutputError> {
        let Check { check, status, found, advice, took, exit_code } = check;
        if status == Status::Failed {
            self.failed += 1;
            self.worst.get_or_insert(exit_code);
        }
        if self.output == OutputFormat::Json {
            let took_ms = took.map(|took| (took.as_secs_f64() * 1e6).round() / 1e3);
            let (subject, advice) = (self.subject.as_str(), advice.as_deref());
            return output::print_json([Row {
                subject,
                check,
                status,
                found: &found,
                advice,
                took_ms,
            }]);
        }
        let sign = match status {
            Status::Ok => "ok",
            Status::Warning => "warn",
            Status::Failed => "FAIL",
        };
        let took = took.map(|took| format!(" ({:.1} ms)", took.as_secs_f64() * 1e3));
        let mut text = format!("  {sign:<4}  {check:<16}  {found}{}\n", took.unwrap_or_default());
        if let Some(advice) = advice {
            text.push_str(&format!("                          -> {advice}\n"));
        }
        output::print(text.as_bytes())
    }

    /// The exit code of the first failure.
    pub(super) fn worst(&self) -> Option<u8> {
        self.worst
    }

    /// How many checks failed.
    pub(super) fn failed(&self) -> usize {
        self.failed
    }

    /// The last word to a person.
    pub(super) fn close(&self, text: &str) -> Result<(), OutputError> {
        match self.output {
            OutputFormat::Json => Ok(()),
            OutputFormat::Text => output::print(format!("\n{text}\n").as_bytes()),
        }
    }
}
