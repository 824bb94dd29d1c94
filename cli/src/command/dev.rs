//! `millstream dev`: the development broker in the foreground.

use std::io::Write;

use millstream_dev_broker::{DevBroker, DevBrokerConfig};

use super::CommandError;
use crate::args::DevArguments;

pub(crate) fn run(arguments: DevArguments) -> Result<(), CommandError> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(serve(arguments))
}

async fn serve(arguments: DevArguments) -> Result<(), CommandError> {
    let broker = DevBroker::start(DevBrokerConfig {
        listen: arguments.listen,
        data_dir: arguments.data_dir.clone(),
        transaction_version: arguments.transaction_version,
        ..DevBrokerConfig::default()
    })?;
    let kept = arguments.data_dir.map_or_else(
        || "in memory, gone when this process ends".to_owned(),
        |dir| dir.display().to_string(),
    );
    {
        // The first line is the address alone, so that a script can read it.
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", broker.address())?;
        out.flush()?;
    }
    eprintln!(
        "development broker on {} (transaction.version {}, data {kept})",
        broker.address(),
        arguments.transaction_version
    );
    eprintln!("use it as bootstrap.servers={}; Ctrl-C ends it", broker.address());
    millstream_engine::shutdown_signal().await;
    broker.stop().await;
    Ok(())
}
