//! Asking before something is done that can not be undone.

use std::io::{self, IsTerminal, Write};

use crate::command::CommandError;
use crate::exit_code;

/// Refuses at once what could neither be asked nor was agreed to: without `--yes` there has to be a terminal.
pub(crate) fn check(yes: bool, action: &str) -> Result<(), CommandError> {
    if yes || io::stdin().is_terminal() && io::stderr().is_terminal() {
        return Ok(());
    }
    let text = format!(
        "{action} can not be undone, and there is no terminal to ask on; nothing was done. Give --yes to do it"
    );
    Err(CommandError::says(exit_code::USAGE, text))
}

/// Asks, unless `--yes` was given.
pub(crate) async fn ask(yes: bool, question: &str) -> Result<(), CommandError> {
    if yes {
        return Ok(());
    }
    let question = format!("{question} [y/N] ");
    // A thread of its own: a signal must end the command while the terminal says nothing.
    let answer = tokio::task::spawn_blocking(move || {
        let mut err = io::stderr().lock();
        err.write_all(question.as_bytes()).and_then(|()| err.flush())?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).map(|_| answer)
    });
    let answer = answer.await??;
    if matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    Err(CommandError::says(exit_code::FAILED, "nothing was done, because the answer was not yes"))
}
