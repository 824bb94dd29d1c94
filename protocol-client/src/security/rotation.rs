//! Certificates that are renewed while a job runs: files are read anew when they change.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use super::TlsConfig;
use super::tls::TlsConnector;
use crate::ConfigError;

/// The present connector. New connections use what the files hold now; a file that can not be used is reported, and the old
/// content stays in use until the next change.
#[derive(Clone, Debug)]
pub(super) struct RotatingTls {
    config: Arc<TlsConfig>,
    /// Guards the connector and the times of the files it was made of.
    present: Arc<Mutex<Present>>,
}

#[derive(Debug)]
struct Present {
    connector: TlsConnector,
    changed: Vec<Option<SystemTime>>,
}

impl RotatingTls {
    pub(super) fn new(config: &TlsConfig) -> Result<Self, ConfigError> {
        let changed = times(config);
        let connector = TlsConnector::for_brokers(config)?;
        let present = Arc::new(Mutex::new(Present { connector, changed }));
        Ok(Self { config: Arc::new(config.clone()), present })
    }

    pub(super) fn connector(&self) -> TlsConnector {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = times(&self.config);
        if changed != present.changed {
            match TlsConnector::for_brokers(&self.config) {
                Ok(connector) => {
                    tracing::info!("the key store or truststore has changed and was read anew");
                    present.connector = connector;
                }
                Err(error) => {
                    tracing::warn!(%error, "the changed key store or truststore can not be used; the old one stays");
                }
            }
            present.changed = changed;
        }
        present.connector.clone()
    }
}

fn times(config: &TlsConfig) -> Vec<Option<SystemTime>> {
    let files = [&config.truststore.location, &config.keystore.location];
    let time = |path: &PathBuf| fs::metadata(path).and_then(|file| file.modified()).ok();
    files.into_iter().flatten().map(time).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::Duration;

    use super::*;

    fn authority() -> String {
        let key = rcgen::KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
        params.self_signed(&key).unwrap().pem()
    }

    /// Writes the file with a time of its own: file systems round times.
    fn write(path: &PathBuf, content: &str, at: u64) {
        fs::write(path, content).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(at);
        File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }

    #[test]
    fn changed_files_are_read_anew_and_unusable_ones_are_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ca.pem");
        write(&path, &authority(), 1_000);
        let mut config = TlsConfig::default();
        config.truststore.location = Some(path.clone());
        let tls = RotatingTls::new(&config).unwrap();
        let first = tls.connector();
        assert!(tls.connector().is_same(&first));
        write(&path, &authority(), 2_000);
        let second = tls.connector();
        assert!(!second.is_same(&first));
        write(&path, "half a file", 3_000);
        assert!(tls.connector().is_same(&second));
        write(&path, &authority(), 4_000);
        assert!(!tls.connector().is_same(&second));
    }
}
