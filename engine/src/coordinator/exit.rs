//! The end of a program that is one job.

use std::error::Error;
use std::process::ExitCode;

use super::JobError;

/// Prints what went wrong to standard error, with its causes, and gives the exit code that says so.
#[must_use]
pub fn exit(result: Result<(), JobError>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", error_chain(&error));
            error.exit_code().into()
        }
    }
}

/// The error and the causes below it, one a line; a cause that its parent has said already is left out.
#[must_use]
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut above = text.clone();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let line = inner.to_string();
        if !above.contains(&line) {
            text.push_str("\n  caused by: ");
            text.push_str(&line);
            above = line;
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Level(&'static str, #[source] Option<Box<Level>>);

    #[test]
    fn every_cause_has_a_line_unless_its_parent_said_it() {
        let root = Level("connection refused", None);
        let same = Level("connection refused", Some(Box::new(root)));
        let top = Level("no broker", Some(Box::new(same)));
        assert_eq!(error_chain(&top), "no broker\n  caused by: connection refused");
    }
}
