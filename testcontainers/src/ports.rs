//! Ports on the loopback address that stay ours although brokers are killed and started again.
//!
//! Asking the kernel for any free port gives one of its ephemeral range, which an outgoing connection of some other test may take
//! while the broker is down. Leases are therefore taken below that range, and a locked file per port keeps test processes apart.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

const LOWEST: u32 = 18_000;
const HIGHEST: u32 = 32_000;

/// A port of 127.0.0.1 that no other lease of any process on this machine has.
#[derive(Debug)]
pub(crate) struct PortLease {
    port: u16,
    // The lock is released when the file is closed, also by SIGKILL.
    _lock: File,
}

impl PortLease {
    /// Takes a free port.
    ///
    /// # Errors
    ///
    /// `AddrInUse` if every port of the range is taken; the file system's error for the lock folder.
    pub(crate) fn take() -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let folder = std::env::temp_dir().join("millstream-ports");
        fs::create_dir_all(&folder)?;
        let highest =
            lowest_ephemeral_port().map_or(HIGHEST, |low| HIGHEST.min(low)).max(LOWEST + 1);
        let span = highest - LOWEST;
        // Processes start at different places, so that they rarely try each other's ports.
        let start = std::process::id().wrapping_mul(97);
        for _ in 0..span {
            let step = NEXT.fetch_add(1, Ordering::Relaxed);
            let Ok(port) = u16::try_from(LOWEST + start.wrapping_add(step) % span) else {
                continue;
            };
            let lock = File::create(folder.join(port.to_string()))?;
            if lock.try_lock().is_ok() && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
                return Ok(Self { port, _lock: lock });
            }
        }
        Err(io::Error::new(io::ErrorKind::AddrInUse, "no free port below the ephemeral range"))
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

fn lowest_ephemeral_port() -> Option<u32> {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    range.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn leases_differ_and_are_free_to_bind() {
        let leases: Vec<_> = (0..20).map(|_| PortLease::take().unwrap()).collect();
        let ports: BTreeSet<_> = leases.iter().map(PortLease::port).collect();
        assert_eq!(ports.len(), 20);
        for port in ports {
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        }
    }
}
