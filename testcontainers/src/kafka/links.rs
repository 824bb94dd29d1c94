//! A proxy on every way from node to node, so that one of them can be cut off from the others.
//!
//! All nodes run on one machine, so a proxy before a listener can not tell who calls. Each node therefore reaches the others
//! under names that its JVM resolves by a hosts file of its own (`jdk.net.hosts.file`): node 2 finds `broker-3` at 127.1.2.3, where
//! the proxy of this one way listens, on the ports that node 3 has at 127.0.0.1. The whole of 127.0.0.0/8 is loopback on
//! Linux; elsewhere those addresses have to be configured.

use std::ffi::OsString;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use crate::fault_proxy::FaultProxy;
use crate::kafka::cluster::KafkaCluster;
use crate::kafka::error::{Action, ClusterError};
use crate::kafka::properties::NodeAddress;

/// The name under which nodes and tools know the node of this index.
pub(crate) fn name(index: usize) -> String {
    format!("broker-{}", index + 1)
}

/// One way from a node to a node.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) internal: FaultProxy,
    pub(crate) controller: FaultProxy,
}

impl KafkaCluster {
    /// The fault proxy on the way from a node to a node (which may be the same), for the requests of brokers among each
    /// other, if the cluster was built with [`links`](crate::KafkaClusterBuilder::links).
    #[must_use]
    pub fn link(&self, from: usize, to: usize) -> Option<&FaultProxy> {
        let found = self.links.iter().find(|link| (link.from, link.to) == (from, to))?;
        Some(&found.internal)
    }

    /// Cuts a broker off from clients and from all other nodes: nothing passes either way, nothing is closed. Needs
    /// [`fault_proxy`](crate::KafkaClusterBuilder::fault_proxy) and [`links`](crate::KafkaClusterBuilder::links).
    pub fn isolate_broker(&self, broker: usize) {
        self.ways_of(broker).for_each(FaultProxy::start_blackhole);
    }

    /// Ends [`isolate_broker`](Self::isolate_broker).
    pub fn rejoin_broker(&self, broker: usize) {
        self.ways_of(broker).for_each(FaultProxy::end_blackhole);
    }

    /// The proxies between a node and everybody else.
    fn ways_of(&self, broker: usize) -> impl Iterator<Item = &FaultProxy> {
        let between =
            self.links.iter().filter(move |link| (link.from == broker) != (link.to == broker));
        self.proxy(broker)
            .into_iter()
            .chain(between.flat_map(|link| [&link.internal, &link.controller]))
    }

    /// What a tool's JVM needs to find the brokers.
    pub(crate) fn tool_hosts(&self) -> Option<OsString> {
        // Asked before the links are laid, too.
        let linked = self.nodes.first().is_some_and(|node| node.address.linked);
        linked.then(|| hosts_option(&self.folder, None))
    }
}

/// Starts the proxies of all ways, and writes the hosts files.
pub(crate) fn lay(folder: &Path, nodes: &[NodeAddress]) -> Result<Vec<Link>, ClusterError> {
    let mut links = Vec::new();
    for from in 0..nodes.len() {
        let mut lines = String::new();
        for (to, node) in nodes.iter().enumerate() {
            let host = IpAddr::V4(address(from, to));
            let proxy = |port| {
                FaultProxy::start_on(host, port, port)
                    .action(|| format!("start a proxy at {host}:{port}"))
            };
            let (internal, controller) = (proxy(node.internal_port)?, proxy(node.controller_port)?);
            links.push(Link { from, to, internal, controller });
            lines.push_str(&format!("{host} {}\n", name(to)));
        }
        write_hosts(&hosts_file(folder, Some(from)), lines)?;
    }
    // Tools go around the proxies.
    let lines = (0..nodes.len()).map(|index| format!("127.0.0.1 {}\n", name(index))).collect();
    write_hosts(&hosts_file(folder, None), lines)?;
    Ok(links)
}

/// The JVM's option for node `index`, or for a tool.
pub(crate) fn hosts_option(folder: &Path, index: Option<usize>) -> OsString {
    let mut option = OsString::from("-Djdk.net.hosts.file=");
    option.push(hosts_file(folder, index));
    option
}

fn hosts_file(folder: &Path, index: Option<usize>) -> PathBuf {
    match index {
        Some(index) => folder.join(format!("node-{}", index + 1)).join("hosts"),
        None => folder.join("hosts"),
    }
}

/// With such a file the JVM resolves nothing else, so the machine's own names stand in it too.
fn write_hosts(file: &Path, mut lines: String) -> Result<(), ClusterError> {
    lines.push_str("127.0.0.1 localhost\n");
    if let Ok(own) = fs::read_to_string("/proc/sys/kernel/hostname") {
        lines.push_str(&format!("127.0.0.1 {}\n", own.trim()));
    }
    fs::write(file, lines).action(|| format!("write {}", file.display()))
}

/// Where node `from` finds node `to`.
fn address(from: usize, to: usize) -> Ipv4Addr {
    let part = |index: usize| u8::try_from(index + 1).unwrap_or(u8::MAX);
    Ipv4Addr::new(127, 1, part(from), part(to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_has_an_address_of_its_own() {
        assert_eq!(address(1, 2), Ipv4Addr::new(127, 1, 2, 3));
        assert_ne!(address(1, 2), address(2, 1));
    }
}
