//! No messages of a broker that does not know the secret make a client believe it.

use bytes::Bytes;
use millstream_protocol::messages::{StrBytes, kp};
use millstream_protocol::sasl::scram::{ScramClient, ScramHash};
use millstream_protocol::sasl::{SaslExchange, SaslLogin, SaslProgress, Secret};
use millstream_protocol::{Request, Response};

/// The first byte chooses the hash; then the broker's first and final message, a line each.
pub(super) fn scram(input: &[u8]) {
    let Some((&hash, messages)) = input.split_first() else { return };
    let mut lines = messages.splitn(2, |byte| *byte == b'\n');
    let (first, last) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    if is_slow(first) {
        return;
    }
    let hash = if hash & 1 == 1 { ScramHash::Sha512 } else { ScramHash::Sha256 };
    let mut client = ScramClient::new(hash, "user", "pencil".into(), "nonce".to_owned(), false);
    if client.client_final(first).is_ok() {
        assert!(client.verify_server_final(last).is_err());
    }
}

/// The first byte chooses the mechanism; then the broker's tokens, a line each. The handshake is honest.
pub(super) fn exchange(input: &[u8]) {
    let Some((&mechanism, messages)) = input.split_first() else { return };
    if messages.split(|byte| *byte == b'\n').any(is_slow) {
        return;
    }
    let login = match mechanism % 3 {
        0 => SaslLogin::Scram {
            hash: ScramHash::Sha256,
            username: "user".to_owned(),
            password: Secret::new("pencil"),
            token_auth: false,
            nonce: "nonce".to_owned(),
        },
        1 => SaslLogin::OAuthBearer { token: Secret::new("token"), extensions: [].into() },
        _ => SaslLogin::Plain { username: "user".to_owned(), password: Secret::new("pencil") },
    };
    let proves = mechanism % 3 == 0;
    let mut exchange = SaslExchange::new(login).expect("a login");
    let mut tokens = messages.split(|byte| *byte == b'\n');
    for _ in 0..8 {
        let answer: Response = match exchange.poll_request() {
            Some(Request::SaslHandshake(request)) => {
                let offered = vec![request.mechanism, StrBytes::from_static_str("GSSAPI")];
                kp::SaslHandshakeResponse::default().with_mechanisms(offered).into()
            }
            Some(_) => {
                let Some(token) = tokens.next() else { return };
                kp::SaslAuthenticateResponse::default()
                    .with_auth_bytes(Bytes::copy_from_slice(token))
                    .into()
            }
            None => panic!("neither at its end nor with a question"),
        };
        match exchange.handle_response(&answer) {
            Ok((next, SaslProgress::Continue)) => exchange = next,
            Ok((_, SaslProgress::Done { .. })) => {
                assert!(!proves, "a broker without the password was believed");
                return;
            }
            Err(_) => return,
        }
    }
    panic!("an exchange without end");
}

/// Rounds of a million would only show that hashing takes time.
fn is_slow(message: &[u8]) -> bool {
    let text = String::from_utf8_lossy(message);
    text.split("i=").skip(1).any(|count| !count.starts_with("4096"))
}
