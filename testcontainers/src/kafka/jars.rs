//! The jars of one Kafka release, brought once by Maven into the cache folder.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cache::{cache_dir, fill_once};
use crate::kafka::class_archive;
use crate::kafka::error::{Action, ClusterError};

const POM: &str = include_str!("../../java/pom.xml");

/// How a release logs: the binding that Maven brings, and its configuration.
#[derive(Clone, Copy, Debug)]
struct Logging {
    /// Group, artifact and version of the binding.
    binding: [&'static str; 3],
    file: &'static str,
    config: &'static str,
    /// The system property that names the file, up to the path.
    option: &'static str,
}

impl Logging {
    /// Kafka 4.0 moved from reload4j (log4j 1) to log4j 2.
    fn of(version: &str) -> Self {
        if at_least(version, 4, 0) {
            Self {
                binding: ["org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.3"],
                file: "log4j2.xml",
                config: include_str!("../../java/log4j2.xml"),
                option: "-Dlog4j2.configurationFile=",
            }
        } else {
            Self {
                binding: ["org.slf4j", "slf4j-reload4j", "1.7.36"],
                file: "log4j.properties",
                config: include_str!("../../java/log4j.properties"),
                option: "-Dlog4j.configuration=file:",
            }
        }
    }
}

/// Whether a release such as `4.3.1` is `major.minor` or later.
pub(crate) fn at_least(version: &str, major: u32, minor: u32) -> bool {
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(major), Some(minor))
}

/// Flags that make short-lived JVMs start quickly; they make a loaded one slow. A JVM that can not use an archive of classes, because it
/// is another than the one that wrote it, would say so on standard output, among the results.
pub(crate) const QUICK_START: [&str; 5] = [
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Xlog:cds=off",
    "-Xlog:cds+dynamic=off",
];

/// The jars of one release, ready to run.
#[derive(Clone, Debug)]
pub struct KafkaJars {
    version: String,
    folder: PathBuf,
    logging: Logging,
}

impl KafkaJars {
    /// Resolves the jars of `version`, such as `4.3.1`, or finds them in the cache.
    ///
    /// # Errors
    ///
    /// [`ClusterError::Command`] with Maven's own words, if it can not bring them.
    pub fn resolve(version: &str) -> Result<Self, ClusterError> {
        let folder = cache_dir().join("kafka").join(version);
        fill_once(&folder, |staging| copy_jars(version, staging))?;
        Ok(Self { version: version.to_owned(), folder, logging: Logging::of(version) })
    }

    /// The folder that holds `libs/` and what was compiled against them.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A class path for `java -cp`.
    #[must_use]
    pub fn class_path(&self) -> OsString {
        self.folder.join("libs/*").into_os_string()
    }

    /// Arguments of `java` up to the main class: class path, logging, flags for a quick start.
    pub(crate) fn tool_args(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> = QUICK_START.iter().map(OsString::from).collect();
        args.extend(class_archive::option(&self.version));
        args.extend(["-Xmx256m", "-Dmillstream.log.level=warn"].map(OsString::from));
        args.push(self.log_config());
        args.push("-cp".into());
        args.push(self.class_path());
        args
    }

    pub(crate) fn log_config(&self) -> OsString {
        let mut option = OsString::from(self.logging.option);
        option.push(self.folder.join(self.logging.file));
        option
    }
}

fn copy_jars(version: &str, staging: &Path) -> Result<(), ClusterError> {
    let write = |name: &str, text: &str| {
        fs::write(staging.join(name), text).action(|| format!("write {name} for Maven"))
    };
    let logging = Logging::of(version);
    let [group, artifact, binding] = logging.binding;
    write("pom.xml", POM)?;
    write(logging.file, logging.config)?;
    let output = Command::new("mvn")
        .args(["-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=libs"])
        .arg(format!("-Dkafka.version={version}"))
        .arg(format!("-Dlogging.group={group}"))
        .arg(format!("-Dlogging.artifact={artifact}"))
        .arg(format!("-Dlogging.version={binding}"))
        .current_dir(staging)
        .stdin(Stdio::null())
        .output()
        .action(|| "start mvn".to_owned())?;
    if output.status.success() {
        return Ok(());
    }
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    Err(ClusterError::Command {
        command: format!("mvn dependency:copy-dependencies for Kafka {version}"),
        code: output.status.code().unwrap_or(-1),
        output: last_lines(&text, 12),
    })
}

/// A program of the JDK, such as `javac`: `JAVA_HOME`'s if there is one, else whatever the path finds.
#[must_use]
pub fn java_program(name: &str) -> PathBuf {
    std::env::var_os("JAVA_HOME")
        .map(|home| Path::new(&home).join("bin").join(name))
        .filter(|program| program.is_file())
        .unwrap_or_else(|| PathBuf::from(name))
}

/// Runs Java's `keytool`, which makes JKS and PKCS12 stores.
///
/// # Errors
///
/// [`ClusterError::Command`] with what it printed, or that there is none.
pub fn keytool(args: &[&str]) -> Result<(), ClusterError> {
    let output = Command::new(java_program("keytool"))
        .args(args)
        .stdin(Stdio::null())
        .output()
        .action(|| "start keytool".to_owned())?;
    if output.status.success() {
        return Ok(());
    }
    // It complains on standard output. Passwords are arguments, which are not repeated here.
    Err(ClusterError::Command {
        command: format!("keytool {}", args.first().copied().unwrap_or_default()),
        code: output.status.code().unwrap_or(-1),
        output: last_lines(&String::from_utf8_lossy(&output.stdout), 5),
    })
}

/// The last `count` lines of `text`.
pub(crate) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines.get(lines.len().saturating_sub(count)..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_number() {
        assert!(at_least("4.3.1", 4, 2));
        assert!(at_least("4.10.0", 4, 2));
        assert!(!at_least("4.1.0", 4, 2));
        assert!(!at_least("3.9.1", 4, 2));
    }

    #[test]
    fn each_release_logs_by_the_library_it_was_built_with() {
        assert_eq!(Logging::of("4.0.0").file, "log4j2.xml");
        assert_eq!(Logging::of("3.9.1").file, "log4j.properties");
    }
}
