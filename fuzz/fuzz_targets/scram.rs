//! No messages of a broker that does not know the password make a SCRAM client believe it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millstream_protocol::sasl::scram::{ScramClient, ScramHash};

fuzz_target!(|messages: (&[u8], &[u8], bool)| {
    let (first, last, sha512) = messages;
    // Rounds of a million would only show that hashing takes time.
    if String::from_utf8_lossy(first).split("i=").skip(1).any(|count| !count.starts_with("4096")) {
        return;
    }
    let hash = if sha512 { ScramHash::Sha512 } else { ScramHash::Sha256 };
    let mut client = ScramClient::new(hash, "user", "pencil".into(), "nonce".to_owned(), false);
    if client.client_final(first).is_ok() {
        assert!(client.verify_server_final(last).is_err());
    }
});
