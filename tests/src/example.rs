//! The examples, as programs.

use std::path::PathBuf;

/// The path of an example that `cargo test --workspace` has built.
///
/// # Panics
///
/// If it was not built.
#[must_use]
pub fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the test's own path");
    // <target>/<profile>/deps/<test>
    let profile = test.ancestors().nth(2).expect("a target folder");
    let path = profile.join("examples").join(name);
    assert!(
        path.exists(),
        "{} is missing; build it with: cargo build --example {name} --features fault-injection",
        path.display()
    );
    path
}
