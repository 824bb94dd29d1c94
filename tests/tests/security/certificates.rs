//! Certificates of these tests: an authority of their own, and what Java's `keytool` makes.

use std::fs;
use std::path::{Path, PathBuf};

use millstream_testcontainers::keytool;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};

/// Password of every store.
pub(crate) const STORE_PASSWORD: &str = "store-secret";
/// Password of the client's key inside the JKS store.
pub(crate) const KEY_PASSWORD: &str = "key-secret";

/// An authority.
pub(crate) struct Authority {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, PEM.
pub(crate) struct Issued {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        Self { pem: certificate.pem(), issuer: Issuer::new(params, key) }
    }

    /// An authority that this one vouches for.
    pub(crate) fn intermediate(&self, name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Self { pem: certificate.pem(), issuer: Issuer::new(params, key) }
    }

    pub(crate) fn issue(&self, names: &[&str]) -> Issued {
        self.issue_until(names, 2099)
    }

    /// A certificate that is valid from 2000 to the beginning of a year.
    pub(crate) fn issue_until(&self, names: &[&str], year: i32) -> Issued {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, "millstream test");
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(year, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Issued { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

impl Issued {
    /// Key and certificate in one file, as KIP-651 wants a PEM key store.
    pub(crate) fn write_store(&self, path: &Path) {
        fs::write(path, format!("{}{}", self.key, self.certificate)).unwrap();
    }
}

/// Stores made by `keytool`: a server and a client, each self-signed and trusted by the other.
pub(crate) struct KeytoolStores {
    folder: PathBuf,
}

impl KeytoolStores {
    pub(crate) fn make(folder: &Path) -> Self {
        let stores = Self { folder: folder.to_owned() };
        stores.key_pair("server", "RSA", STORE_PASSWORD, "localhost");
        stores.trust("server", "server.jks", &["client-trust.jks:JKS", "client-trust.p12:PKCS12"]);
        for (alias, algorithm) in [("client", "RSA"), ("client-ec", "EC")] {
            stores.key_pair(alias, algorithm, KEY_PASSWORD, "client");
            stores.trust(alias, &format!("{alias}.jks"), &["server-trust.jks:JKS"]);
            stores.as_pkcs12(alias);
        }
        stores
    }

    pub(crate) fn path(&self, file: &str) -> String {
        self.folder.join(file).display().to_string()
    }

    fn key_pair(&self, alias: &str, algorithm: &str, key_password: &str, name: &str) {
        let bits = if algorithm == "RSA" { "2048" } else { "256" };
        keytool(&[
            "-genkeypair",
            "-alias",
            alias,
            "-keyalg",
            algorithm,
            "-keysize",
            bits,
            "-validity",
            "3650",
            "-dname",
            &format!("CN={name}, O=Millstream"),
            "-ext",
            "san=dns:localhost,ip:127.0.0.1",
            "-storetype",
            "JKS",
            "-keystore",
            &self.path(&format!("{alias}.jks")),
            "-storepass",
            STORE_PASSWORD,
            "-keypass",
            key_password,
        ])
        .unwrap();
    }

    fn as_pkcs12(&self, alias: &str) {
        keytool(&[
            "-importkeystore",
            "-noprompt",
            "-srckeystore",
            &self.path(&format!("{alias}.jks")),
            "-srcstoretype",
            "JKS",
            "-srcstorepass",
            STORE_PASSWORD,
            "-srcalias",
            alias,
            "-srckeypass",
            KEY_PASSWORD,
            "-destkeystore",
            &self.path(&format!("{alias}.p12")),
            "-deststoretype",
            "PKCS12",
            "-deststorepass",
            STORE_PASSWORD,
            "-destkeypass",
            STORE_PASSWORD,
        ])
        .unwrap();
    }

    fn trust(&self, alias: &str, file: &str, stores: &[&str]) {
        let certificate = self.path(&format!("{alias}.crt"));
        keytool(&[
            "-exportcert",
            "-alias",
            alias,
            "-keystore",
            &self.path(file),
            "-storepass",
            STORE_PASSWORD,
            "-file",
            &certificate,
        ])
        .unwrap();
        for store in stores {
            let (file, kind) = store.split_once(':').unwrap();
            keytool(&[
                "-importcert",
                "-noprompt",
                "-alias",
                alias,
                "-file",
                &certificate,
                "-keystore",
                &self.path(file),
                "-storetype",
                kind,
                "-storepass",
                STORE_PASSWORD,
            ])
            .unwrap();
        }
    }
}
