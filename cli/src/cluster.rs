//! How the tools reach a cluster: addresses and properties from the command line, one client, signals.

use std::path::PathBuf;

use clap::Args;
use millstream_protocol_client::{ClientConfig, KafkaClient};

use crate::command::CommandError;
use crate::exit_code;
use crate::output::{OutputFormat, note};
use crate::signals::Signals;

/// Where the cluster is, and how its answers are written.
#[derive(Clone, Debug, Args)]
pub(crate) struct ClusterArguments {
    /// Brokers to ask first, with commas between
    #[arg(short, long, value_name = "HOST:PORT", global = true, help_heading = "Cluster")]
    pub(crate) bootstrap_server: Option<String>,

    /// Properties of Kafka's clients, as Kafka's own tools take them
    #[arg(long, value_name = "FILE", global = true, help_heading = "Cluster")]
    pub(crate) command_config: Option<PathBuf>,

    /// A property of Kafka's clients; counts more than the file. Repeatable
    #[arg(
        short = 'X',
        long = "property",
        value_name = "KEY=VALUE",
        global = true,
        help_heading = "Cluster"
    )]
    pub(crate) properties: Vec<String>,

    /// How results are written
    #[arg(
        long,
        value_name = "FORMAT",
        value_enum,
        default_value_t = OutputFormat::Text,
        global = true,
        help_heading = "Cluster"
    )]
    pub(crate) output: OutputFormat,
}

impl ClusterArguments {
    /// The client's configuration: the file, then `-X`, then `-b`; each counts more than the one before.
    pub(crate) fn config(&self) -> Result<ClientConfig, CommandError> {
        let mut config = ClientConfig::new("");
        "millstream".clone_into(&mut config.client_id);
        if let Some(path) = &self.command_config {
            config = config.with_file(path).map_err(|error| {
                CommandError::says(exit_code::CONFIG, format!("--command-config {error}"))
            })?;
        }
        config = config.with(&self.properties)?;
        if let Some(servers) = &self.bootstrap_server {
            if self.properties.iter().any(|property| property.starts_with("bootstrap.servers=")) {
                note("-b counts more than -X bootstrap.servers");
            }
            config.set("bootstrap.servers", servers)?;
        }
        if config.bootstrap_servers.is_empty() {
            let text = "no broker to ask: give -b HOST:PORT, or bootstrap.servers in the file of --command-config";
            return Err(CommandError::says(exit_code::USAGE, text));
        }
        for (name, reason) in config.ignored() {
            tracing::info!(name, reason, "this property has no effect");
        }
        Ok(config)
    }

    /// Connects, works, and closes. A signal ends it in the middle.
    pub(crate) fn with_client<F>(
        &self,
        work: impl FnOnce(KafkaClient) -> F,
    ) -> Result<(), CommandError>
    where
        F: Future<Output = Result<(), CommandError>>,
    {
        with_signals(self.config()?, |client, mut signals| async move {
            tokio::select! {
                done = work(client) => done,
                signal = signals.next() => Err(signal.into()),
            }
        })
    }
}

/// Connects, works, and closes. What a signal means is for the work to say, once there is a connection.
pub(crate) fn with_signals<F>(
    config: ClientConfig,
    work: impl FnOnce(KafkaClient, Signals) -> F,
) -> Result<(), CommandError>
where
    F: Future<Output = Result<(), CommandError>>,
{
    let runtime = runtime()?;
    let ended = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        let client = tokio::select! {
            client = KafkaClient::connect(config) => client?,
            signal = signals.next() => return Err(signal.into()),
        };
        let ended = work(client.clone(), signals).await;
        client.close().await;
        ended
    });
    // A thread may wait for a terminal that says nothing any more.
    runtime.shutdown_background();
    ended
}

/// One thread for the work, one for the client.
pub(crate) fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn arguments(file: &str) -> (ClusterArguments, tempfile::NamedTempFile) {
        let mut properties = tempfile::NamedTempFile::new().expect("a file");
        properties.write_all(file.as_bytes()).expect("written");
        let arguments = ClusterArguments {
            bootstrap_server: None,
            command_config: Some(properties.path().to_owned()),
            properties: Vec::new(),
            output: OutputFormat::Text,
        };
        (arguments, properties)
    }

    #[test]
    fn the_command_line_counts_more_than_the_file() {
        let file = "bootstrap.servers = a:1, b:2\n# comment\nclient.id=from-file\nlinger.ms=7\n";
        let (mut arguments, _file) = arguments(file);
        let config = arguments.config().expect("usable");
        assert_eq!(config.bootstrap_servers, ["a:1", "b:2"]);
        assert_eq!(config.client_id, "from-file");
        arguments.properties =
            vec!["client.id=from-line".to_owned(), "bootstrap.servers=c:3".to_owned()];
        arguments.bootstrap_server = Some("d:4".to_owned());
        let config = arguments.config().expect("usable");
        assert_eq!(config.bootstrap_servers, ["d:4"]);
        assert_eq!(config.client_id, "from-line");
    }

    #[test]
    fn what_can_not_be_used_is_named_with_its_place() {
        let (mut bad, file) = arguments("request.timeout.m=3\n");
        let error = bad.config().expect_err("no such property");
        let text = error.cause.to_string();
        assert_eq!(error.exit_code, exit_code::CONFIG);
        assert!(text.contains(&file.path().display().to_string()), "{text}");
        assert!(text.contains("did you mean 'request.timeout.ms'"), "{text}");
        assert!(text.contains(", line 1: "), "{text}");
        // A value that is meant to go on in the next line, and does not. Its end is secret.
        let key = "# a key\nssl.keystore.key=-----BEGIN PRIVATE KEY-----\nMIIEvS3CR3TS3CR3T\n";
        let (key, _file) = arguments(key);
        let text = key.config().expect_err("a line that is no property").cause.to_string();
        assert!(text.contains(", line 3: ") && text.contains("backslash"), "{text}");
        assert!(!text.contains("S3CR3T"), "{text}");
        for (property, servers) in [
            ("S3CR3T", None),
            ("sasl.password:S3CR3T=a", None),
            ("linger.ms=1", Some("user:S3CR3T@host:9092")),
        ] {
            bad.command_config = None;
            bad.properties = vec![property.to_owned()];
            bad.bootstrap_server = servers.map(str::to_owned);
            let text = bad.config().expect_err(property).cause.to_string();
            assert!(!text.contains("S3CR3T"), "{text}");
        }
        (bad.properties, bad.bootstrap_server) = (Vec::new(), None);
        bad.command_config = Some("/dev/zero".into());
        let text = bad.config().expect_err("a file without end").cause.to_string();
        assert!(text.contains("larger than 1048576 bytes"), "{text}");
        bad.command_config = Some("/no/such/file".into());
        let error = bad.config().expect_err("no such file");
        assert!(error.cause.to_string().contains("/no/such/file"));
        bad.command_config = None;
        let error = bad.config().expect_err("no address");
        assert_eq!(error.exit_code, exit_code::USAGE);
        assert!(error.cause.to_string().contains("-b HOST:PORT"));
    }
}
