//! `server.properties` of one node (broker and controller in one).

use std::collections::BTreeMap;
use std::fmt::Write;

/// Ports and addresses of one node.
#[derive(Clone, Debug)]
pub(crate) struct NodeAddress {
    /// Host name under which the other nodes reach it.
    pub(crate) host: String,
    /// What the listeners bind to.
    pub(crate) bind: String,
    /// Port that the client listener binds.
    pub(crate) client_port: u16,
    /// Port of 127.0.0.1 that clients are told to use: the same, or that of a fault proxy.
    pub(crate) advertised_client_port: u16,
    /// Port for the other brokers and for our tools.
    pub(crate) internal_port: u16,
    /// Port for the controllers.
    pub(crate) controller_port: u16,
    /// Listeners beside these: name, security protocol, port.
    pub(crate) more: Vec<(String, String, u16)>,
    /// `host` is a name that each node resolves in its own way, for the controllers too.
    pub(crate) linked: bool,
}

/// The properties of node `index`, defaults first, so that `overrides` win.
pub(crate) fn node_properties(
    nodes: &[NodeAddress],
    index: usize,
    log_dir: &str,
    overrides: &BTreeMap<String, String>,
) -> String {
    let mut properties = light_defaults(nodes.len());
    if let Some(node) = nodes.get(index) {
        let voters: Vec<String> = nodes
            .iter()
            .zip(1..)
            .map(|(node, id)| format!("{id}@{}:{}", node.host, node.controller_port))
            .collect();
        let NodeAddress {
            host,
            bind,
            client_port,
            advertised_client_port,
            internal_port,
            controller_port,
            more,
            linked,
        } = node;
        // Unless told otherwise controllers tell each other the address they bind.
        let controller = match linked {
            true => format!(",CONTROLLER://{host}:{controller_port}"),
            false => String::new(),
        };
        let join = |part: &dyn Fn(&(String, String, u16)) -> String| -> String {
            more.iter().map(|listener| format!(",{}", part(listener))).collect()
        };
        let mut set = |name: &str, value: String| properties.insert(name.to_owned(), value);
        set("process.roles", "broker,controller".to_owned());
        set("node.id", (index + 1).to_string());
        // Only of consequence with a replica.selector.class.
        set("broker.rack", format!("rack-{}", index + 1));
        set("controller.quorum.voters", voters.join(","));
        set(
            "listeners",
            format!(
                "CLIENT://{bind}:{client_port},INTERNAL://{bind}:{internal_port},CONTROLLER://{bind}:{controller_port}{}",
                join(&|(name, _, port)| format!("{name}://{bind}:{port}"))
            ),
        );
        set(
            "advertised.listeners",
            format!(
                "CLIENT://127.0.0.1:{advertised_client_port},INTERNAL://{host}:{internal_port}{controller}{}",
                join(&|(name, _, port)| format!("{name}://localhost:{port}"))
            ),
        );
        set(
            "listener.security.protocol.map",
            format!(
                "CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT{}",
                join(&|(name, protocol, _)| format!("{name}:{protocol}"))
            ),
        );
        set("inter.broker.listener.name", "INTERNAL".to_owned());
        set("controller.listener.names", "CONTROLLER".to_owned());
        set("log.dirs", log_dir.to_owned());
    }
    properties.extend(overrides.clone());
    let mut text = String::new();
    for (name, value) in properties {
        // Backslashes are the only characters of our values that the format would read differently.
        let _ = writeln!(text, "{name}={}", value.replace('\\', "\\\\"));
    }
    text
}

/// Small internal topics and short waits: a test cluster lives for seconds.
fn light_defaults(brokers: usize) -> BTreeMap<String, String> {
    let (replicas, in_sync) = if brokers >= 3 { ("3", "2") } else { ("1", "1") };
    [
        ("offsets.topic.num.partitions", "4"),
        ("offsets.topic.replication.factor", replicas),
        ("transaction.state.log.num.partitions", "4"),
        ("transaction.state.log.replication.factor", replicas),
        ("transaction.state.log.min.isr", in_sync),
        ("share.coordinator.state.topic.num.partitions", "1"),
        ("share.coordinator.state.topic.replication.factor", replicas),
        ("share.coordinator.state.topic.min.isr", in_sync),
        ("default.replication.factor", replicas),
        ("min.insync.replicas", in_sync),
        // A missing topic must be an error for the client under test.
        ("auto.create.topics.enable", "false"),
        ("group.initial.rebalance.delay.ms", "0"),
        // Tests wait for transactions to expire; the default looks every 10 s.
        ("transaction.abort.timed.out.transaction.cleanup.interval.ms", "500"),
        // Test data carries time stamps of years ago, and retention goes by them.
        ("log.retention.ms", "-1"),
        ("log.cleaner.dedupe.buffer.size", "4194304"),
        ("num.network.threads", "2"),
        ("num.io.threads", "4"),
        ("num.recovery.threads.per.data.dir", "1"),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(offset: u16) -> NodeAddress {
        NodeAddress {
            host: "127.0.0.1".to_owned(),
            bind: "127.0.0.1".to_owned(),
            client_port: 20_000 + offset,
            advertised_client_port: 21_000 + offset,
            internal_port: 22_000 + offset,
            controller_port: 23_000 + offset,
            more: vec![("TLS".to_owned(), "SSL".to_owned(), 24_000 + offset)],
            linked: false,
        }
    }

    #[test]
    fn second_of_three_nodes_knows_all_voters_and_advertises_the_proxy() {
        let nodes = [address(1), address(2), address(3)];
        let overrides =
            BTreeMap::from([("auto.create.topics.enable".to_owned(), "true".to_owned())]);
        let text = node_properties(&nodes, 1, "/tmp/x", &overrides);
        for line in [
            "node.id=2",
            "controller.quorum.voters=1@127.0.0.1:23001,2@127.0.0.1:23002,3@127.0.0.1:23003",
            "listeners=CLIENT://127.0.0.1:20002,INTERNAL://127.0.0.1:22002,CONTROLLER://127.0.0.1:23002,TLS://127.0.0.1:24002",
            "advertised.listeners=CLIENT://127.0.0.1:21002,INTERNAL://127.0.0.1:22002,TLS://localhost:24002",
            "listener.security.protocol.map=CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL",
            "default.replication.factor=3",
            "auto.create.topics.enable=true",
            "log.dirs=/tmp/x",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is missing in:\n{text}");
        }
    }
}
