//! Runs a dev broker in the foreground: `cargo run -p millstream-dev-broker --example dev_broker -- [LISTEN] [FOLDER]`.

use millstream_dev_broker::{DevBroker, DevBrokerConfig};

#[expect(clippy::print_stdout, reason = "the address is what this program is started for")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut config = DevBrokerConfig::default();
    if let Some(listen) = arguments.next() {
        config.listen = listen;
    }
    config.data_dir = arguments.next().map(Into::into);
    config.cluster.auto_create_topics = true;
    let broker = DevBroker::start(config)?;
    println!("{}", broker.address());
    loop {
        std::thread::park();
    }
}
