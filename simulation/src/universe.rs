//! What is around the processes of one history: the network, and clocks that may be wrong.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millstream_protocol_client::surroundings::{Connecting, SimulatedStream};

use crate::history::History;
use crate::network::{Network, ProcessName};
use crate::process::World;

/// Wall clock at the beginning of every history, in milliseconds since 1970.
pub const WALL_CLOCK_MS: i64 = 1_700_000_000_000;

/// Everything around the processes.
#[derive(Debug)]
pub struct Universe {
    network: Network,
    history: History,
    // How far each machine's clock is off, in milliseconds. One thread, never held across an await.
    clocks: Mutex<BTreeMap<ProcessName, i64>>,
}

impl Universe {
    /// Machines on `network` with clocks that are right.
    #[must_use]
    pub fn new(network: Network, history: History) -> Self {
        Self { network, history, clocks: Mutex::default() }
    }

    /// Moves a machine's clock of the day, back if negative.
    pub fn jump(&self, machine: &ProcessName, by_ms: i64) {
        let mut clocks = self.clocks.lock().unwrap_or_else(PoisonError::into_inner);
        *clocks.entry(Arc::clone(machine)).or_default() += by_ms;
        self.history.note(machine, || format!("its clock jumps by {by_ms} ms"));
    }

    /// Sets every clock right.
    pub fn set_clocks(&self) {
        self.clocks.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl World for Universe {
    fn connect(&self, process: &Arc<str>, host: &str, _port: u16) -> Connecting {
        let (network, process, host) = (self.network.clone(), Arc::clone(process), host.to_owned());
        Box::pin(async move {
            let stream = network.connect(&process, &host).await?;
            Ok(Box::new(stream) as Box<dyn SimulatedStream>)
        })
    }

    fn wall_time(&self, process: &Arc<str>) -> Duration {
        let clocks = self.clocks.lock().unwrap_or_else(PoisonError::into_inner);
        let off = clocks.get(process).copied().unwrap_or(0);
        let base = Duration::from_millis(WALL_CLOCK_MS.saturating_add(off).max(0).unsigned_abs());
        base + self.history.elapsed()
    }

    fn note(&self, process: &str, event: fmt::Arguments<'_>) {
        self.history.note(&process, || event.to_string());
    }
}
