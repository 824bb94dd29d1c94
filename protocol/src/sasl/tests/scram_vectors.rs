//! SCRAM against RFC 7677's example, an independent computation for SHA-512, and brokers that cheat.

use crate::sasl::scram::{MAX_ITERATIONS, ScramClient, ScramError, ScramHash};

const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
const SERVER_NONCE: &str = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
const SALT: &str = "W22ZaJ0SNY7soEsUEjb6gQ==";
const SHA256_PROOF: &str = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
const SHA256_SIGNATURE: &str = "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
const SHA512_PROOF: &str =
    "gMGXRcevScNtxZ6/8lQYpGtnsNAc3mGcmNomv+xnoOMw+3R2xNJdMNnzMlTN8PPC6wdp6dybEmDYXYTxwnYPJQ==";
const SHA512_SIGNATURE: &str =
    "ZQnYEgWQMFmmsM8aQMF0nDDCy/AgCzkwk8CmMZYcMg0vSVlKDanekLtifDSeVGT4+5ZxXnJq199RVG2rR7N7Zw==";

fn client(hash: ScramHash) -> ScramClient {
    ScramClient::new(hash, "user", "pencil".into(), NONCE.to_owned(), false)
}

fn server_first(nonce: &str, salt: &str, iterations: &str) -> Vec<u8> {
    format!("r={nonce},s={salt},i={iterations}").into_bytes()
}

/// A client that has sent its proof, and the proof.
fn proven(hash: ScramHash) -> (ScramClient, String) {
    let mut client = client(hash);
    let last = client.client_final(&server_first(SERVER_NONCE, SALT, "4096")).unwrap();
    (client, last)
}

/// B113: the final message carries the broker's nonce as it is.
#[test]
fn the_example_of_rfc_7677_comes_out() {
    assert_eq!(client(ScramHash::Sha256).client_first(), format!("n,,n=user,r={NONCE}"));
    let (mut client, last) = proven(ScramHash::Sha256);
    // The final nonce is the broker's, once: case B113.
    assert_eq!(last, format!("c=biws,r={SERVER_NONCE},p={SHA256_PROOF}"));
    client.verify_server_final(format!("v={SHA256_SIGNATURE}").as_bytes()).unwrap();
}

#[test]
fn sha_512_agrees_with_another_program() {
    let (mut client, last) = proven(ScramHash::Sha512);
    assert_eq!(last, format!("c=biws,r={SERVER_NONCE},p={SHA512_PROOF}"));
    client.verify_server_final(format!("v={SHA512_SIGNATURE}").as_bytes()).unwrap();
}

#[test]
fn names_are_escaped_and_delegation_tokens_marked() {
    let client = ScramClient::new(ScramHash::Sha256, "a=b,c", "p".into(), "nonce".to_owned(), true);
    assert_eq!(client.client_first(), "n,,n=a=3Db=2Cc,r=nonce,tokenauth=true");
}

#[test]
fn a_nonce_that_does_not_extend_ours_is_refused() {
    for nonce in [NONCE, "", "other", &SERVER_NONCE[1..], &format!("x{SERVER_NONCE}")] {
        let error = client(ScramHash::Sha256).client_final(&server_first(nonce, SALT, "4096"));
        assert_eq!(error, Err(ScramError::ForeignNonce), "{nonce}");
    }
}

#[test]
fn iterations_are_bounded_both_ways() {
    for iterations in [0, 1, 4095, u64::from(MAX_ITERATIONS) + 1, u64::MAX] {
        let first = server_first(SERVER_NONCE, SALT, &iterations.to_string());
        let error = client(ScramHash::Sha256).client_final(&first);
        assert_eq!(error, Err(ScramError::Iterations { iterations }));
    }
}

#[test]
fn malformed_first_messages_are_refused() {
    for message in [
        &b""[..],
        b"x",
        b"\xff\xfe",
        b"s=W22ZaJ0SNY7soEsUEjb6gQ==,r=rOprNGfwEbeRWgbNEkqO1,i=4096",
        b"r=rOprNGfwEbeRWgbNEkqO1",
        b"r=rOprNGfwEbeRWgbNEkqO1,s=,i=4096",
        b"r=rOprNGfwEbeRWgbNEkqO1,s=!!,i=4096",
        b"r=rOprNGfwEbeRWgbNEkqO1,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=-1",
        b"r=rOprNGfwEbeRWgbNEkqO1,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=many",
        b"m=must,r=rOprNGfwEbeRWgbNEkqO1,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        &vec![b'r'; 100_000],
    ] {
        let error = client(ScramHash::Sha256).client_final(message).unwrap_err();
        assert!(matches!(error, ScramError::Malformed { message: "first", .. }), "{error:?}");
    }
}

#[test]
fn a_broker_that_skips_or_forges_its_signature_is_refused() {
    for (message, forged) in [
        (String::new(), false),
        (format!("x={SHA256_SIGNATURE}"), false),
        ("v=".to_owned(), true),
        ("v=6rri".to_owned(), true),
        (format!("v={SHA512_SIGNATURE}"), true),
        (format!("v={}", SHA256_SIGNATURE.replace("6rri", "6rrj")), true),
    ] {
        let (mut client, _) = proven(ScramHash::Sha256);
        let error = client.verify_server_final(message.as_bytes()).unwrap_err();
        assert_eq!(error == ScramError::WrongSignature, forged, "{message}: {error:?}");
    }
    // Before its proof is there, nothing can be verified.
    let mut early = client(ScramHash::Sha256);
    let message = format!("v={SHA256_SIGNATURE}");
    assert_eq!(early.verify_server_final(message.as_bytes()), Err(ScramError::WrongSignature));
}

#[test]
fn an_error_of_the_broker_is_named() {
    let (mut client, _) = proven(ScramHash::Sha256);
    let error = client.verify_server_final(b"e=other-error").unwrap_err();
    assert_eq!(error, ScramError::ServerError { text: "other-error".to_owned() });
}

/// Case B115: two exchanges at a time do not disturb each other.
#[test]
fn exchanges_share_nothing() {
    let (mut first, mut second) = (client(ScramHash::Sha256), client(ScramHash::Sha256));
    first.client_final(&server_first(SERVER_NONCE, SALT, "4096")).unwrap();
    second.client_final(&server_first(&format!("{NONCE}zzz"), SALT, "5000")).unwrap();
    first.verify_server_final(format!("v={SHA256_SIGNATURE}").as_bytes()).unwrap();
}
