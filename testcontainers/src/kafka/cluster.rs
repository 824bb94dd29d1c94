//! A running cluster.

use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::availability::{Availability, availability};
use crate::fault_proxy::FaultProxy;
use crate::kafka::builder::{KafkaClusterBuilder, Listener};
use crate::kafka::docker::{self, DockerNode, FOLDER_INSIDE};
use crate::kafka::error::{Action, ClusterError};
use crate::kafka::jars::{KafkaJars, java_program, last_lines};
use crate::kafka::links::{self, Link};
use crate::kafka::node::{Node, Runtime};
use crate::kafka::properties::{NodeAddress, node_properties};
use crate::kafka::{class_archive, kept_logs, ready};
use crate::ports::PortLease;
use crate::process::{GuardedCommand, Signal};

const STOP_LIMIT: Duration = Duration::from_secs(30);
const TRIES: usize = 4;

/// Real Apache Kafka on this machine. Dropping it ends the brokers and removes their data; after a panic the folder is kept.
///
/// All verbs take `&self` and may be called from any thread, so a test binary can share one cluster in a `static OnceLock`.
/// Brokers are numbered from 0; their node ids are one higher.
#[derive(Debug)]
pub struct KafkaCluster {
    pub(crate) folder: PathBuf,
    pub(crate) nodes: Vec<Node>,
    network: Option<String>,
    pub(crate) links: Vec<Link>,
    version: String,
    ready_limit: Duration,
}

impl KafkaCluster {
    /// A cluster of one broker of the default release unless told otherwise.
    #[must_use]
    pub fn builder() -> KafkaClusterBuilder {
        KafkaClusterBuilder::default()
    }

    pub(crate) fn start(settings: &KafkaClusterBuilder) -> Result<Self, ClusterError> {
        let mut tried = 1;
        loop {
            let cluster = Self::prepare(settings)?;
            let outcome = cluster.start_brokers();
            match outcome {
                Ok(()) => return Ok(cluster),
                // Someone took a port between our look and the broker's.
                Err(_) if tried < TRIES && cluster.met_a_taken_port() => tried += 1,
                Err(error) => {
                    kept_logs::mark(&cluster.folder);
                    return Err(error);
                }
            }
        }
    }

    /// Folders, ports, properties, formatted storage.
    fn prepare(settings: &KafkaClusterBuilder) -> Result<Self, ClusterError> {
        let jars = match availability() {
            Availability::Jars => Some(KafkaJars::resolve(&settings.version)?),
            Availability::Docker => None,
            Availability::Neither { reason } => {
                return Err(ClusterError::Unavailable { reason: reason.clone() });
            }
        };
        let cluster_id = random_uuid()?;
        let folder = std::env::temp_dir().join("millstream-kafka").join(&cluster_id);
        fs::create_dir_all(&folder).action(|| format!("make {}", folder.display()))?;
        kept_logs::watch(&folder);
        let mut cluster = Self {
            folder,
            nodes: Vec::new(),
            network: None,
            links: Vec::new(),
            version: settings.version.clone(),
            ready_limit: settings.ready_limit,
        };
        cluster.add_nodes(settings, jars.as_ref(), &cluster_id)?;
        if let Some(jars) = &jars {
            cluster.format(jars, &cluster_id, &format_args(settings))?;
        }
        Ok(cluster)
    }

    fn add_nodes(
        &mut self,
        settings: &KafkaClusterBuilder,
        jars: Option<&KafkaJars>,
        cluster_id: &str,
    ) -> Result<(), ClusterError> {
        let image = format!("apache/kafka:{}", settings.version);
        let container = |index: usize| format!("millstream-{}-{index}", cluster_id.to_lowercase());
        if jars.is_none() {
            docker::pull(&image)?;
            let network = container(0) + "-network";
            docker::create_network(&network)?;
            self.network = Some(network);
        }
        let mut parts = Vec::new();
        for index in 0..settings.brokers {
            let lease = || PortLease::take().action(|| "find a free port".to_owned());
            let mut ports = vec![lease()?, lease()?, lease()?];
            let (client_port, internal_port, controller_port) =
                (ports[0].port(), ports[1].port(), ports[2].port());
            let mut more = Vec::new();
            for listener in &settings.listeners {
                let port = lease()?;
                let Listener { name, security_protocol } = listener.clone();
                more.push((name, security_protocol, port.port()));
                ports.push(port);
            }
            let proxy = match settings.fault_proxy {
                true => Some(
                    FaultProxy::start(client_port).action(|| "start a fault proxy".to_owned())?,
                ),
                false => None,
            };
            let loopback = || "127.0.0.1".to_owned();
            let address = NodeAddress {
                host: match jars {
                    Some(_) if settings.links => links::name(index),
                    Some(_) => loopback(),
                    None => container(index),
                },
                bind: if jars.is_some() { loopback() } else { "0.0.0.0".to_owned() },
                client_port,
                advertised_client_port: proxy.as_ref().map_or(client_port, FaultProxy::port),
                internal_port,
                controller_port,
                more,
                linked: settings.links,
            };
            parts.push((address, ports, proxy));
        }
        let addresses: Vec<NodeAddress> =
            parts.iter().map(|(address, ..)| address.clone()).collect();
        for (index, (address, ports, proxy)) in parts.into_iter().enumerate() {
            let folder = self.folder.join(format!("node-{}", index + 1));
            fs::create_dir_all(&folder).action(|| format!("make {}", folder.display()))?;
            let runtime = match jars {
                Some(jars) => {
                    let flags = [format!("-Xmx{}", settings.heap)];
                    let flags = flags.iter().chain(&settings.jvm_flags).map(OsString::from);
                    let hosts =
                        settings.links.then(|| links::hosts_option(&self.folder, Some(index)));
                    let archive = class_archive::option(&settings.version);
                    let jvm_flags = flags.chain(archive).chain(hosts).collect();
                    Runtime::Jars { jars: jars.clone(), jvm_flags }
                }
                None => Runtime::Docker(DockerNode {
                    image: image.clone(),
                    container: container(index),
                    network: self.network.clone(),
                    cluster_id: cluster_id.to_owned(),
                    format_args: format_args(settings),
                    shared_folder: settings.shared_folder.clone(),
                    heap: settings.heap.clone(),
                }),
            };
            let data = match jars {
                Some(_) => folder.join("data").display().to_string(),
                None => format!("{FOLDER_INSIDE}/data"),
            };
            let text = node_properties(&addresses, index, &data, &settings.properties);
            fs::write(folder.join("server.properties"), text)
                .action(|| format!("write the properties of broker {index}"))?;
            self.nodes.push(Node::new(index, folder, address, ports, proxy, runtime));
        }
        if settings.links {
            if jars.is_none() {
                let reason = "ways between brokers can be cut only if a JVM runs them".to_owned();
                return Err(ClusterError::Unavailable { reason });
            }
            self.links = links::lay(&self.folder, &addresses)?;
        }
        Ok(())
    }

    /// Formats the storage of all nodes at the same time.
    fn format(
        &self,
        jars: &KafkaJars,
        cluster_id: &str,
        more: &[String],
    ) -> Result<(), ClusterError> {
        let mut running = Vec::new();
        for node in &self.nodes {
            let log = node.folder.join("format.log");
            let process = GuardedCommand::new(java_program("java"))
                .args(jars.tool_args())
                .args(self.tool_hosts())
                .args(["kafka.tools.StorageTool", "format", "-t", cluster_id, "-c"])
                .arg(node.folder.join("server.properties"))
                .args(more)
                .stdout(&log)
                .stderr(&log)
                .spawn()
                .action(|| "start java".to_owned())?;
            running.push((log, process));
        }
        for (log, mut process) in running {
            let code = process.wait(self.ready_limit).action(|| "wait for java".to_owned())?;
            if code != Some(0) {
                kept_logs::mark(&self.folder);
                let text = fs::read_to_string(&log).unwrap_or_default();
                return Err(ClusterError::Command {
                    command: format!("StorageTool format (log in {})", log.display()),
                    code: code.unwrap_or(-1),
                    output: last_lines(&text, 5),
                });
            }
        }
        Ok(())
    }

    fn start_brokers(&self) -> Result<(), ClusterError> {
        for node in &self.nodes {
            node.spawn()?;
        }
        for node in &self.nodes {
            self.wait_until_ready(node, self.nodes.len())?;
        }
        Ok(())
    }

    /// Waits until the broker answers, counts itself among the living, and knows `brokers` of them.
    fn wait_until_ready(&self, node: &Node, brokers: usize) -> Result<(), ClusterError> {
        let started = Instant::now();
        let own_id = i32::try_from(node.index + 1).unwrap_or(i32::MAX);
        loop {
            let last =
                match ready::alive_brokers(node.address.internal_port, Duration::from_secs(5)) {
                    Ok(alive) if alive.contains(&own_id) && alive.len() >= brokers => return Ok(()),
                    Ok(alive) => format!("brokers it knows as alive: {alive:?}"),
                    Err(error) => error.to_string(),
                };
            let log_dir = node.folder.clone();
            if let Some(code) = node.ended() {
                let tail = node.log_tail(8);
                return Err(ClusterError::BrokerEnded { broker: node.index, code, log_dir, tail });
            }
            let waited = started.elapsed();
            if waited > self.ready_limit {
                return Err(ClusterError::NotReady { broker: node.index, waited, last, log_dir });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn met_a_taken_port(&self) -> bool {
        self.nodes.iter().any(|node| {
            let log = fs::read_to_string(node.log_file()).unwrap_or_default();
            ["Address already in use", "BindException", "port is already allocated"]
                .iter()
                .any(|sign| log.contains(sign))
        })
    }

    /// Addresses for clients, `host:port` with commas between; those of the fault proxies if there are any.
    #[must_use]
    pub fn bootstrap_servers(&self) -> String {
        self.addresses(|address| address.advertised_client_port)
    }

    /// Addresses that go around the fault proxies.
    #[must_use]
    pub fn direct_bootstrap_servers(&self) -> String {
        self.addresses(|address| address.internal_port)
    }

    /// Addresses of a listener added by [`KafkaClusterBuilder::listener`]; empty if there is none of that name.
    #[must_use]
    pub fn listener_bootstrap_servers(&self, listener: &str) -> String {
        let ports = self.nodes.iter().filter_map(|node| {
            node.address.more.iter().find(|(name, ..)| name == listener).map(|(.., port)| *port)
        });
        ports.map(|port| format!("localhost:{port}")).collect::<Vec<_>>().join(",")
    }

    fn addresses(&self, port: impl Fn(&NodeAddress) -> u16) -> String {
        let addresses: Vec<String> =
            self.nodes.iter().map(|node| format!("127.0.0.1:{}", port(&node.address))).collect();
        addresses.join(",")
    }

    /// The Kafka release that runs.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Number of brokers, running or not.
    #[must_use]
    pub fn broker_count(&self) -> usize {
        self.nodes.len()
    }

    /// The fault proxy before broker `broker`, if the cluster was built with them.
    #[must_use]
    pub fn proxy(&self, broker: usize) -> Option<&FaultProxy> {
        self.nodes.get(broker)?.proxy.as_ref()
    }

    /// All fault proxies, in the order of the brokers.
    pub fn proxies(&self) -> impl Iterator<Item = &FaultProxy> {
        self.nodes.iter().filter_map(|node| node.proxy.as_ref())
    }

    /// The folder of the cluster: `node-<id>/kafka.log`, `server.properties` and `data` of each broker.
    #[must_use]
    pub fn log_dir(&self) -> &Path {
        &self.folder
    }

    /// Process id of a running broker (of the Docker client, if that runs it).
    #[must_use]
    pub fn process_id(&self, broker: usize) -> Option<u32> {
        self.nodes.get(broker)?.process_id()
    }

    /// SIGKILL. The data stay for [`start_broker`](Self::start_broker).
    ///
    /// # Errors
    ///
    /// If there is no such broker, or Docker refuses.
    pub fn kill_broker(&self, broker: usize) -> Result<(), ClusterError> {
        self.node(broker)?.signal(Signal::Kill)
    }

    /// Ends a broker in an orderly way (SIGTERM: it hands over its leaderships first), by SIGKILL after 30 s.
    ///
    /// # Errors
    ///
    /// If there is no such broker, or Docker refuses.
    pub fn stop_broker(&self, broker: usize) -> Result<(), ClusterError> {
        self.node(broker)?.stop(STOP_LIMIT)
    }

    /// Starts a broker again, on the same ports and data, and waits until it is among the living.
    ///
    /// # Errors
    ///
    /// If there is no such broker, or it does not come up.
    pub fn start_broker(&self, broker: usize) -> Result<(), ClusterError> {
        let node = self.node(broker)?;
        node.signal(Signal::Kill)?;
        node.spawn()?;
        self.wait_until_ready(node, 1)
    }

    /// SIGSTOP: the broker keeps its connections and answers nothing.
    ///
    /// # Errors
    ///
    /// If there is no such broker, or Docker refuses.
    pub fn pause_broker(&self, broker: usize) -> Result<(), ClusterError> {
        self.node(broker)?.signal(Signal::Stop)
    }

    /// SIGCONT after [`pause_broker`](Self::pause_broker).
    ///
    /// # Errors
    ///
    /// If there is no such broker, or Docker refuses.
    pub fn resume_broker(&self, broker: usize) -> Result<(), ClusterError> {
        self.node(broker)?.signal(Signal::Cont)
    }

    pub(crate) fn node(&self, broker: usize) -> Result<&Node, ClusterError> {
        self.nodes.get(broker).ok_or_else(|| ClusterError::Io {
            action: format!("find broker {broker} of {}", self.nodes.len()),
            source: std::io::ErrorKind::NotFound.into(),
        })
    }
}

impl Drop for KafkaCluster {
    fn drop(&mut self) {
        for node in &self.nodes {
            // A container that can not be removed is Docker's trouble; a process is killed in any case.
            let _ = node.signal(Signal::Kill);
        }
        if let Some(network) = &self.network {
            let _ = docker::remove_network(network);
        }
        kept_logs::release(&self.folder);
    }
}

fn format_args(settings: &KafkaClusterBuilder) -> Vec<String> {
    let mut args = Vec::new();
    if let Some(level) = settings.transaction_version {
        args.extend(["--feature".to_owned(), format!("transaction.version={level}")]);
    }
    for user in &settings.scram_users {
        args.extend(["--add-scram".to_owned(), user.clone()]);
    }
    args
}

/// A random identifier in Kafka's form: 16 bytes in URL-safe base64, here without the two signs, which tools take for options.
fn random_uuid() -> Result<String, ClusterError> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut bytes = [0_u8; 21];
    fs::File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .action(|| "read random bytes".to_owned())?;
    let letter =
        |byte: &u8| LETTERS.get(usize::from(*byte) % LETTERS.len()).copied().unwrap_or(b'A');
    let mut id: String = bytes.iter().map(|byte| char::from(letter(byte))).collect();
    // The last of 22 letters carries two bits; `A` leaves the unused four at zero.
    id.push('A');
    Ok(id)
}
