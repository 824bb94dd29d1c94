//! Any text is a properties file, and what is in it is set or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millstream_protocol_client::{ClientConfig, parse_properties};

fuzz_target!(|text: &str| {
    let mut config = ClientConfig::new("localhost:9092");
    for (name, value) in parse_properties(text) {
        // Files named in values are left alone.
        if !value.contains("${file:") && !name.ends_with("location") {
            let _ = config.set(&name, &value);
        }
    }
});
