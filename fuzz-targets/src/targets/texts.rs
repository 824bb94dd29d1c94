//! What people write.

use millstream_protocol::sasl::jaas::{JaasModule, JaasProblem};
use millstream_protocol_client::{ClientConfig, parse_properties};

/// A JAAS text is read, or refused at a place inside it.
pub(super) fn jaas(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    match JaasModule::parse(text) {
        Err(error) if error.problem == JaasProblem::TooLong => {}
        Err(error) => {
            assert!(error.position >= 1 && error.position <= text.chars().count() + 1);
        }
        Ok(_) => {}
    }
}

/// Any text is a properties file, and what is in it is set or refused.
pub(super) fn properties(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let mut config = ClientConfig::new("localhost:9092");
    for (name, value) in parse_properties(text) {
        // Files named in values are left alone.
        if !value.contains("${file:") && !name.ends_with("location") {
            let _ = config.set(&name, &value);
        }
    }
    let _ = config.validate();
}
