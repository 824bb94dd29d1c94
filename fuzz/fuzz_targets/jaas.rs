//! A JAAS text is read, or refused at a place inside it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millstream_protocol::sasl::jaas::JaasModule;

fuzz_target!(|text: &str| {
    if let Err(error) = JaasModule::parse(text) {
        assert!(error.position >= 1 && error.position <= text.chars().count() + 1);
    }
});
