//! SIGINT and SIGTERM.

use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Both signals that ask a process to end.
#[derive(Debug)]
pub(crate) struct ShutdownSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl ShutdownSignals {
    /// From here on the signals no longer end the process by themselves. Needs a tokio runtime.
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next one; gives the exit code of a process that it ends at once.
    pub(crate) async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.interrupt.recv() => 130,
            _ = self.terminate.recv() => 143,
        }
    }

    /// The next one that comes after `pause`; those before are passed over.
    pub(crate) async fn next_after(&mut self, pause: Duration) -> i32 {
        let from = Instant::now() + pause;
        loop {
            let exit_code = self.next().await;
            if Instant::now() >= from {
                return exit_code;
            }
        }
    }
}

/// Waits for SIGINT or SIGTERM. Returns at once where signals can not be received.
pub async fn shutdown_signal() {
    match ShutdownSignals::listen() {
        Ok(mut signals) => {
            signals.next().await;
        }
        Err(error) => tracing::error!(%error, "signals can not be received"),
    }
}
