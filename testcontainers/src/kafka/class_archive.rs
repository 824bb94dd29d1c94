//! The classes of a release as a JVM holds them in memory, kept in a file that others map: a broker need not load and verify them again,
//! which is a third of what it costs to start one (class data sharing, JEP 350).

use std::ffi::OsString;
use std::path::PathBuf;

use crate::cache::{cache_dir, fill_once};
use crate::kafka::cluster::KafkaCluster;
use crate::kafka::error::ClusterError;
use crate::kafka::jars::KafkaJars;

const FILE: &str = "broker.jsa";

fn folder(version: &str) -> PathBuf {
    cache_dir().join("kafka").join(format!("{version}-classes"))
}

/// The option of a JVM that uses the archive of `version`, if there is one. A JVM that can not use it starts without.
pub(crate) fn option(version: &str) -> Option<OsString> {
    let file = folder(version).join(FILE);
    let mut option = OsString::from("-XX:SharedArchiveFile=");
    option.push(&file);
    file.is_file().then_some(option)
}

impl KafkaJars {
    /// Makes the archive of the classes that a broker of `version` loads, unless there is one. Takes the time of a start.
    ///
    /// # Errors
    ///
    /// Those of starting a broker.
    pub fn archive_classes(version: &str) -> Result<(), ClusterError> {
        fill_once(&folder(version), |staging| {
            let mut builder = KafkaCluster::builder().version(version);
            let file = staging.join(FILE);
            builder.jvm_flags.push(format!("-XX:ArchiveClassesAtExit={}", file.display()));
            builder.start()?.stop_broker(0)?;
            // One that is missing is made the next time.
            let missing = || std::io::Error::other("the JVM has written no archive of its classes");
            if file.is_file() { Ok(()) } else { Err(missing().into()) }
        })
    }
}
