//! The shipped binary in a root that holds nothing but `/etc/hosts`, `/etc/resolv.conf` and `/dev`: a host name of that file is
//! resolved, and the demo runs.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::steps::Outcome;

/// A name that only the root's own `/etc/hosts` knows.
const NAME: &str = "broker.millstream.test";

/// Runs `binary`. Needs the right to mount, which root has, and others have where user namespaces are allowed.
pub(crate) fn run(binary: &Path, target: &Path) -> Outcome {
    let root = target.join("empty-root");
    if root.exists() {
        fs::remove_dir_all(&root).map_err(|error| format!("{}: {error}", root.display()))?;
    }
    let prepare = || -> std::io::Result<()> {
        fs::create_dir_all(root.join("etc"))?;
        fs::create_dir_all(root.join("dev"))?;
        fs::write(root.join("etc/hosts"), format!("127.0.0.1 localhost {NAME}\n"))?;
        fs::write(root.join("etc/resolv.conf"), "# no name server: only /etc/hosts can answer\n")?;
        fs::copy(binary, root.join("millstream")).map(drop)
    };
    prepare().map_err(|error| format!("prepare {}: {error}", root.display()))?;

    println!("empty root: demo with a broker of its own");
    in_root(&root, &["demo"])?;

    println!("empty root: demo with a broker at {NAME}");
    let mut broker = Broker::start(binary)?;
    let address = broker.address()?;
    let port = address.rsplit(':').next().unwrap_or_default();
    in_root(&root, &["demo", "--bootstrap-server", &format!("{NAME}:{port}")])
}

/// Mounts only for this one process, so that nothing is left behind.
fn in_root(root: &Path, args: &[&str]) -> Outcome {
    let script = "mount --rbind /dev \"$1/dev\" && root=$1 && shift && exec chroot \"$root\" /millstream \"$@\"";
    let status = Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", script, "sh"])
        .arg(root)
        .args(args)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .stdin(Stdio::null())
        .status()
        .map_err(|error| format!("unshare: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("in the empty root: {status}")) }
}

/// `millstream dev` outside the root; ends when dropped.
struct Broker(Child);

impl Broker {
    fn start(binary: &Path) -> Result<Self, String> {
        Command::new(binary)
            .args(["dev", "--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map(Self)
            .map_err(|error| format!("{}: {error}", binary.display()))
    }

    fn address(&mut self) -> Result<String, String> {
        let stdout = self.0.stdout.take().ok_or("no pipe to the broker")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).map_err(|error| error.to_string())?;
        Ok(line.trim().to_owned())
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // It may have ended by itself, which the demo will have said.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
