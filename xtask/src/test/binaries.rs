//! Building the test binaries, and what cargo says of them.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::steps::{Outcome, cargo};

/// A compiled test binary.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TestBinary {
    /// Name of its target, as in `cargo test --test NAME`.
    pub(super) target: String,
    pub(super) executable: PathBuf,
    /// Folder of its package: cargo runs tests in it.
    pub(super) package: PathBuf,
}

impl TestBinary {
    /// `tests/exactly_once`: package and target.
    pub(super) fn name(&self) -> String {
        let package = self.package.file_name().unwrap_or_default().to_string_lossy();
        format!("{package}/{}", self.target)
    }
}

/// Compiles all tests of the workspace.
pub(super) fn build(more: &[&str]) -> Outcome<Vec<TestBinary>> {
    let build = ["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"];
    let messages = cargo(&[&build, more].concat()).output()?;
    Ok(messages.lines().filter_map(test_binary).collect())
}

/// The test binary that one of cargo's messages announces.
fn test_binary(message: &str) -> Option<TestBinary> {
    let message: Value = serde_json::from_str(message).ok()?;
    if message["profile"]["test"] != true {
        return None;
    }
    Some(TestBinary {
        target: message["target"]["name"].as_str()?.to_owned(),
        executable: message["executable"].as_str()?.into(),
        package: Path::new(message["manifest_path"].as_str()?).parent()?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_test_binaries_are_taken_from_cargos_messages() {
        let test = r#"{"reason":"compiler-artifact","manifest_path":"/w/tests/Cargo.toml","target":{"kind":["test"],"name":"groups"},
            "profile":{"test":true},"executable":"/t/debug/deps/groups-1"}"#;
        let expected = TestBinary {
            target: "groups".to_owned(),
            executable: "/t/debug/deps/groups-1".into(),
            package: "/w/tests".into(),
        };
        assert_eq!(expected.name(), "tests/groups");
        assert_eq!(test_binary(&test.replace('\n', "")), Some(expected));
        assert_eq!(test_binary(&test.replace("true", "false")), None);
        assert_eq!(test_binary(r#"{"reason":"build-finished","success":true}"#), None);
    }
}
