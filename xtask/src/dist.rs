//! `cargo xtask dist`: the binary that is shipped.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::empty_root;
use crate::steps::{Outcome, cargo, target_dir};

const TARGET: &str = "x86_64-unknown-linux-gnu";
const LARGEST_BYTES: u64 = 20 * 1024 * 1024;
/// The only crates that may bring C code along.
const C_CODE: [&str; 2] = ["ring", "zstd-sys"];

/// Builds the static binary into `<target>/dist/millstream`, and checks its size, that it is static, and what is linked into it.
pub(crate) fn run() -> Outcome {
    check_linked()?;
    cargo(&["build", "--profile", "dist", "--target", TARGET, "-p", "millstream", "--locked"])
        // Without an explicit target the flag would hit proc-macros, which can not be static.
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .run()?;
    let target = target_dir()?;
    let built = target.join(TARGET).join("dist/millstream");
    let folder = target.join("dist");
    let shipped = folder.join("millstream");
    fs::create_dir_all(&folder)
        .and_then(|()| fs::copy(&built, &shipped))
        .map_err(|error| format!("copy {} to {}: {error}", built.display(), shipped.display()))?;
    check_size(&shipped)?;
    check_static(&shipped)?;
    empty_root::run(&shipped, &target)
}

fn check_size(binary: &Path) -> Outcome {
    let bytes = fs::metadata(binary).map_err(|e| format!("{}: {e}", binary.display()))?.len();
    println!("{}: {bytes} bytes (at most {LARGEST_BYTES})", binary.display());
    if bytes > LARGEST_BYTES { Err("the binary is too large".to_owned()) } else { Ok(()) }
}

/// `ldd` exits with an error and says so for a static binary; a static-pie one it calls statically linked.
fn check_static(binary: &Path) -> Outcome {
    let output =
        Command::new("ldd").arg(binary).output().map_err(|error| format!("ldd: {error}"))?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    println!("ldd: {}", said.trim());
    let is_static = said.contains("not a dynamic executable") || said.contains("statically linked");
    if is_static { Ok(()) } else { Err("the binary is not static".to_owned()) }
}

/// Refuses crates that compile C code or link a C library, but for the listed ones.
fn check_linked() -> Outcome {
    let binary =
        ["-p", "millstream", "--target", TARGET, "-e", "normal", "--prefix", "none", "--locked"];
    let tree = cargo(&[&["tree"], binary.as_slice()].concat()).output()?;
    let linked: BTreeSet<&str> =
        tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let all = ["metadata", "--format-version", "1", "--locked", "--filter-platform", TARGET];
    let metadata: Value = serde_json::from_str(&cargo(&all).output()?)
        .map_err(|error| format!("cargo metadata: {error}"))?;
    let with_c: BTreeSet<&str> = list(&metadata["packages"])
        .filter(|package| brings_c(package))
        .filter_map(|package| package["name"].as_str())
        .filter(|name| linked.contains(name))
        .collect();
    println!("of {} crates, with C code: {with_c:?}", linked.len());
    let strangers: Vec<&&str> = with_c.iter().filter(|name| !C_CODE.contains(*name)).collect();
    if strangers.is_empty() { Ok(()) } else { Err(format!("C code of {strangers:?} is linked")) }
}

/// Whether a package has a tool for compiling C or finding C libraries among its build dependencies.
fn brings_c(package: &Value) -> bool {
    list(&package["dependencies"]).any(|dependency| {
        let name = dependency["name"].as_str().unwrap_or_default();
        dependency["kind"] == "build"
            && dependency["optional"] != true
            && ["cc", "cmake", "bindgen", "pkg-config", "vcpkg"].contains(&name)
    })
}

fn list(json: &Value) -> impl Iterator<Item = &Value> {
    json.as_array().into_iter().flatten()
}
