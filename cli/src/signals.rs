//! SIGINT, SIGTERM and SIGHUP (the terminal is gone), so that a command can clean up before it ends.

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
    hangup: Signal,
}

impl Signals {
    /// From here on the signals do not end the process by themselves. Needs a tokio runtime.
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one.
    pub(crate) async fn next(&mut self) -> Interrupted {
        tokio::select! {
            _ = self.interrupt.recv() => Interrupted { name: "SIGINT", exit_code: 130 },
            _ = self.terminate.recv() => Interrupted { name: "SIGTERM", exit_code: 143 },
            _ = self.hangup.recv() => Interrupted { name: "SIGHUP", exit_code: 129 },
        }
    }
}
