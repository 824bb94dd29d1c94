//! Runs real Apache Kafka in the foreground until its standard input closes or it is interrupted.

#![expect(clippy::print_stdout, reason = "the address is what the caller waits for")]

use std::io::Read;
use std::process::ExitCode;

use millstream_testcontainers::{
    Availability, ClusterError, DEFAULT_VERSION, KafkaCluster, KafkaJars, OLDER_VERSION,
    availability,
};

const USAGE: &str = "usage: real-kafka [--version V] [--brokers N] [--transaction-version N] [--property NAME=VALUE]...
       real-kafka --prepare   brings the jars, makes what lets brokers start quickly, and says whether real brokers can run here";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match args.as_slice() {
        [only] if only == "--prepare" => prepare(),
        _ => serve(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn prepare() -> Result<(), String> {
    match availability() {
        Availability::Jars => {
            for version in [DEFAULT_VERSION, OLDER_VERSION] {
                let jars = KafkaJars::resolve(version).map_err(|error| chain(&error))?;
                println!("Apache Kafka {version}: jars in {}", jars.folder().display());
                if let Err(error) = KafkaJars::archive_classes(version) {
                    println!("brokers start more slowly than they could: {}", chain(&error));
                }
            }
        }
        Availability::Docker => println!("Apache Kafka {DEFAULT_VERSION}: by the Docker engine"),
        Availability::Neither { reason } => println!("no real Apache Kafka here: {reason}"),
    }
    Ok(())
}

fn serve(args: &[String]) -> Result<(), String> {
    let mut builder = KafkaCluster::builder();
    for pair in args.chunks(2) {
        let [option, value] = pair else { return Err(USAGE.to_owned()) };
        let number = || value.parse::<u16>().map_err(|_| format!("{option} {value}: not a number"));
        builder = match option.as_str() {
            "--version" => builder.version(value),
            "--brokers" => builder.brokers(number()?.into()),
            "--transaction-version" => builder.transaction_version(number()?),
            "--property" => {
                let (name, value) = value.split_once('=').ok_or(USAGE)?;
                builder.property(name, value)
            }
            _ => return Err(USAGE.to_owned()),
        };
    }
    let cluster = builder.start().map_err(|error| chain(&error))?;
    println!("{}", cluster.bootstrap_servers());
    eprintln!("logs in {}; ends with standard input (Ctrl-D)", cluster.log_dir().display());
    // Nothing is expected but the end; an unreadable input is one.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    Ok(())
}

fn chain(error: &ClusterError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
