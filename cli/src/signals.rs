//! SIGINT, SIGTERM and SIGHUP (the terminal is gone), so that a command can clean up before it ends.

use std::future::pending;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// A signal asked the command to end.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("ended by {name}")]
pub(crate) struct Interrupted {
    name: &'static str,
    /// 128 and the signal's number, as shells have it.
    pub(crate) exit_code: u8,
}

/// Receives the signals.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// None where it is ignored: who starts a command by nohup wants it to outlive the terminal.
    hangup: Option<Signal>,
}

impl Signals {
    /// From here on the signals do not end the process by themselves. Needs a tokio runtime.
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: if hangup_is_ignored() { None } else { Some(signal(SignalKind::hangup())?) },
        })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) -> Interrupted {
        let hangup = async {
            match &mut self.hangup {
                Some(signal) => signal.recv().await,
                None => pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => Interrupted { name: "SIGINT", exit_code: 130 },
            _ = self.terminate.recv() => Interrupted { name: "SIGTERM", exit_code: 143 },
            _ = hangup => Interrupted { name: "SIGHUP", exit_code: 129 },
        }
    }
}

/// Whether the process was started with SIGHUP ignored, as Linux tells: bit N - 1 of `SigIgn` stands for signal N.
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 == 1)
}
