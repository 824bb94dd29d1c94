//! `cargo xtask deps`: who may depend on whom.

use crate::steps::{Outcome, cargo, metadata};

/// What a crate of the workspace may use: of ours in its code, of ours in its tests as well, and what it must never have.
struct Rule {
    package: &'static str,
    uses: &'static [&'static str],
    tests_use: &'static [&'static str],
    never: &'static [&'static str],
}

const EVERYTHING: &[&str] = &["*"];

/// Sans-io: what must not be anywhere below this crate, however far down. That its own code asks neither sockets nor clocks
/// is held by `protocol/clippy.toml`.
const SANS_IO: &str = "millstream-protocol";
const IO_CRATES: &[&str] =
    &["tokio", "mio", "socket2", "async-std", "smol", "async-io", "polling", "hyper", "rustls"];

/// The table of ARCHITECTURE.md.
const RULES: &[Rule] = &[
    Rule {
        package: "millstream-protocol",
        uses: &[],
        tests_use: &[],
        never: &["tokio", "rustls", "socket2", "mio"],
    },
    Rule {
        package: "millstream-protocol-client",
        uses: &["millstream-protocol"],
        tests_use: &["millstream-dev-broker", "millstream-testcontainers"],
        never: &["fjall"],
    },
    Rule {
        package: "millstream-checkpoint",
        uses: &[],
        tests_use: &[],
        never: &["tokio", "kafka-protocol"],
    },
    Rule {
        package: "millstream-engine",
        uses: &["millstream-protocol", "millstream-protocol-client", "millstream-checkpoint"],
        tests_use: &["millstream-dev-broker", "millstream-testcontainers"],
        never: &["fjall", "kafka-protocol"],
    },
    Rule {
        package: "millstream-dev-broker",
        uses: &["millstream-protocol"],
        tests_use: &[],
        never: &["millstream-protocol-client", "fjall"],
    },
    Rule {
        package: "millstream",
        uses: &[
            "millstream-sql",
            "millstream-engine",
            "millstream-protocol-client",
            "millstream-protocol",
            "millstream-dev-broker",
        ],
        tests_use: &["millstream-testcontainers"],
        never: &["fjall", "kafka-protocol"],
    },
    Rule {
        package: "millstream-testcontainers",
        uses: &["millstream-dev-broker"],
        tests_use: &[],
        never: &["millstream-protocol-client", "kafka-protocol"],
    },
    Rule {
        package: "millstream-fuzz-targets",
        uses: &["millstream-protocol", "millstream-protocol-client"],
        tests_use: &[],
        never: &["tokio", "fjall"],
    },
    Rule { package: "millstream-simulation", uses: EVERYTHING, tests_use: &[], never: &["fjall"] },
    Rule { package: "millstream-tests", uses: EVERYTHING, tests_use: &[], never: &[] },
    Rule { package: "millstream-bench", uses: EVERYTHING, tests_use: &[], never: &[] },
    Rule { package: "xtask", uses: &[], tests_use: &[], never: &["tokio"] },
];

/// Reports the direct dependencies of each crate and refuses those that go the wrong way.
pub(crate) fn run() -> Outcome {
    println!("» direction of dependencies");
    let metadata = metadata()?;
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names: Vec<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let mut wrong = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let Some(rule) = RULES.iter().find(|rule| rule.package == name) else {
            wrong.push(format!("{name} has no rule in xtask/src/deps.rs"));
            continue;
        };
        let mut ours = Vec::new();
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let used = dependency["name"].as_str().unwrap_or_default();
            let in_tests = dependency["kind"] == "dev";
            if names.contains(&used) {
                ours.push(if in_tests { format!("{used} (tests)") } else { used.to_owned() });
            }
            if !is_allowed(rule, used, in_tests, names.contains(&used)) {
                wrong.push(format!("{name} must not use {used}"));
            }
        }
        ours.sort();
        println!("  {name}: {}", if ours.is_empty() { "-".to_owned() } else { ours.join(", ") });
    }
    let args = ["tree", "--package", SANS_IO, "--edges", "normal,build", "--prefix", "none"];
    wrong.extend(io_crates(&cargo(&args).output()?).map(|found| {
        format!("{SANS_IO} must not have {found} below it; cargo tree -p {SANS_IO} -i {found}")
    }));
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Those of the forbidden crates that a tree names, one crate a line.
fn io_crates(tree: &str) -> impl Iterator<Item = &str> {
    let names = tree.lines().filter_map(|line| line.split_whitespace().next());
    names.filter(|name| IO_CRATES.contains(name))
}

fn is_allowed(rule: &Rule, used: &str, in_tests: bool, is_ours: bool) -> bool {
    if rule.never.contains(&used) {
        // An oracle in a test is no part of the product.
        return in_tests && !is_ours;
    }
    let listed = |list: &[&str]| list.contains(&used) || list == EVERYTHING;
    !is_ours || listed(rule.uses) || in_tests && listed(rule.tests_use)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(package: &str) -> &'static Rule {
        RULES.iter().find(|rule| rule.package == package).unwrap()
    }

    #[test]
    fn a_socket_far_below_is_noticed() {
        let tree = "millstream-protocol v0.1.0 (/x)\nbytes v1.11.0\nmio v1.0.3\ntokio-util v0.7\n";
        assert_eq!(io_crates(tree).collect::<Vec<_>>(), ["mio"]);
    }

    #[test]
    fn wrong_ways_are_refused_and_right_ones_pass() {
        let engine = rule("millstream-engine");
        assert!(is_allowed(engine, "millstream-checkpoint", false, true));
        assert!(is_allowed(engine, "tokio", false, false));
        assert!(is_allowed(engine, "millstream-dev-broker", true, true));
        assert!(!is_allowed(engine, "millstream-dev-broker", false, true));
        assert!(!is_allowed(engine, "fjall", false, false));
        assert!(!is_allowed(
            rule("millstream-dev-broker"),
            "millstream-protocol-client",
            true,
            true
        ));
        assert!(!is_allowed(rule("millstream-protocol"), "tokio", false, false));
        assert!(is_allowed(rule("millstream-tests"), "millstream-engine", false, true));
    }
}
