//! Amazon MSK's mechanism: a pre-signed request (Signature Version 4) that the broker hands on to Amazon for checking.
//!
//! The payload of AWS_MSK_IAM and the token of the OAUTHBEARER variant carry the same signature over different hosts. The
//! form is that of the public documentation of `aws-msk-iam-auth`; a vector in the tests was computed by another program.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::Secret;

/// What is signed with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwsCredentials {
    /// Access key id; not secret.
    pub access_key_id: String,
    /// Secret access key.
    pub secret_access_key: Secret,
    /// For temporary credentials.
    pub session_token: Option<Secret>,
}

/// What is signed, besides the credentials.
#[derive(Clone, Copy, Debug)]
pub struct MskRequest<'a> {
    /// Region of the cluster, such as `eu-west-1`.
    pub region: &'a str,
    /// Wall-clock time, seconds since 1970 in UTC. Amazon refuses what is minutes off.
    pub unix_seconds: u64,
    /// Names this client in Amazon's logs.
    pub user_agent: &'a str,
}

/// The payload of mechanism AWS_MSK_IAM for the broker `host`, JSON. Valid for 15 minutes.
///
/// `None` only if the hash refuses its key, which HMAC never does.
#[must_use]
pub fn payload(
    credentials: &AwsCredentials,
    request: MskRequest<'_>,
    host: &str,
) -> Option<Secret> {
    let signed = Signed::new(credentials, request, host)?;
    let mut fields = serde_json::Map::new();
    let mut put = |name: &str, value: &str| {
        fields.insert(name.to_owned(), serde_json::Value::from(value));
    };
    put("version", "2020_10_22");
    put("host", host);
    put("user-agent", request.user_agent);
    for (name, value) in &signed.parameters {
        put(&name.to_ascii_lowercase(), value);
    }
    put("x-amz-signature", &signed.signature);
    Some(Secret::new(serde_json::Value::Object(fields).to_string()))
}

/// A bearer token for OAUTHBEARER: the same signature over the region's endpoint, as a URL in base64. Valid for 15 minutes.
///
/// `None` only if the hash refuses its key, which HMAC never does.
#[must_use]
pub fn bearer_token(credentials: &AwsCredentials, request: MskRequest<'_>) -> Option<Secret> {
    use base64::Engine;
    let host = format!("kafka.{}.amazonaws.com", request.region);
    let signed = Signed::new(credentials, request, &host)?;
    let url = format!(
        "https://{host}/?{}&X-Amz-Signature={}&User-Agent={}",
        signed.query(),
        signed.signature,
        encoded(request.user_agent)
    );
    Some(Secret::new(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(url)))
}

struct Signed {
    /// Sorted by name.
    parameters: Vec<(&'static str, String)>,
    signature: String,
}

impl Signed {
    fn new(credentials: &AwsCredentials, request: MskRequest<'_>, host: &str) -> Option<Self> {
        let (date, time) = date_and_time(request.unix_seconds);
        let scope = format!("{date}/{}/{SERVICE}/aws4_request", request.region);
        let mut parameters = vec![
            ("Action", "kafka-cluster:Connect".to_owned()),
            ("X-Amz-Algorithm", ALGORITHM.to_owned()),
            ("X-Amz-Credential", format!("{}/{scope}", credentials.access_key_id)),
            ("X-Amz-Date", time.clone()),
            ("X-Amz-Expires", "900".to_owned()),
        ];
        if let Some(token) = &credentials.session_token {
            parameters.push(("X-Amz-Security-Token", token.expose().to_owned()));
        }
        parameters.push(("X-Amz-SignedHeaders", "host".to_owned()));
        let mut signed = Self { parameters, signature: String::new() };
        // Method, path, query, headers, their names, hash of the empty body.
        let canonical = format!(
            "GET\n/\n{}\nhost:{host}\n\nhost\n{}",
            signed.query(),
            hex(&Sha256::digest(b""))
        );
        let to_sign =
            format!("{ALGORITHM}\n{time}\n{scope}\n{}", hex(&Sha256::digest(canonical.as_bytes())));
        let mut key = format!("AWS4{}", credentials.secret_access_key.expose()).into_bytes();
        for part in [date.as_str(), request.region, SERVICE, "aws4_request"] {
            key = mac(&key, part.as_bytes())?;
        }
        signed.signature = hex(&mac(&key, to_sign.as_bytes())?);
        Some(signed)
    }

    fn query(&self) -> String {
        let pairs: Vec<String> = self
            .parameters
            .iter()
            .map(|(name, value)| format!("{name}={}", encoded(value)))
            .collect();
        pairs.join("&")
    }
}

/// RFC 3986: everything but unreserved characters.
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn mac(key: &[u8], data: &[u8]) -> Option<Vec<u8>> {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).ok()?;
    mac.update(data);
    Some(mac.finalize().into_bytes().to_vec())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `yyyymmdd` and `yyyymmddThhmmssZ`.
fn date_and_time(unix_seconds: u64) -> (String, String) {
    let (days, seconds) = (unix_seconds / 86_400, unix_seconds % 86_400);
    // Years begin in March here, so that the leap day is the last of its year; eras have 400 years.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let date = format!("{year:04}{month:02}{day:02}");
    let time = format!("{date}T{:02}{:02}{:02}Z", seconds / 3600, seconds / 60 % 60, seconds % 60);
    (date, time)
}

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const SERVICE: &str = "kafka-cluster";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "19700101T000000Z"),
            (951_782_400, "20000229T000000Z"),
            (1_709_251_199, "20240229T235959Z"),
            (1_735_689_600, "20250101T000000Z"),
            (4_107_542_400, "21000301T000000Z"),
        ] {
            assert_eq!(date_and_time(seconds).1, expected);
        }
    }

    fn request() -> MskRequest<'static> {
        MskRequest { region: "eu-west-1", unix_seconds: 1_735_787_045, user_agent: "millstream/1" }
    }

    #[test]
    fn the_payload_equals_what_another_program_signed() {
        let credentials = AwsCredentials {
            access_key_id: "AKIDEXAMPLE".to_owned(),
            secret_access_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into(),
            session_token: Some("tok/en+1==".into()),
        };
        let host = "b-1.demo.abcde1.c2.kafka.eu-west-1.amazonaws.com";
        let payload = payload(&credentials, request(), host).unwrap();
        let parsed: serde_json::Value = serde_json::from_str(payload.expose()).unwrap();
        let expected = serde_json::json!({
            "version": "2020_10_22",
            "host": host,
            "user-agent": "millstream/1",
            "action": "kafka-cluster:Connect",
            "x-amz-algorithm": "AWS4-HMAC-SHA256",
            "x-amz-credential": "AKIDEXAMPLE/20250102/eu-west-1/kafka-cluster/aws4_request",
            "x-amz-date": "20250102T030405Z",
            "x-amz-expires": "900",
            "x-amz-security-token": "tok/en+1==",
            "x-amz-signedheaders": "host",
            "x-amz-signature": "bcde535e79846e896f1cc86c7f05c103bec586442facdc4916f902ded197f1d2",
        });
        assert_eq!(parsed, expected);
    }

    #[test]
    fn the_token_equals_what_another_program_signed() {
        use base64::Engine;
        let credentials = AwsCredentials {
            access_key_id: "AKIDEXAMPLE".to_owned(),
            secret_access_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into(),
            session_token: None,
        };
        let token = bearer_token(&credentials, request()).unwrap();
        let url = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(token.expose()).unwrap();
        assert_eq!(
            String::from_utf8(url).unwrap(),
            "https://kafka.eu-west-1.amazonaws.com/?Action=kafka-cluster%3AConnect&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIDEXAMPLE%2F20250102%2Feu-west-1%2Fkafka-cluster%2Faws4_request&X-Amz-Date=20250102T030405Z&X-Amz-Expires=900&X-Amz-SignedHeaders=host&X-Amz-Signature=aba69b010ba234bfbb6bb018b63d22956aff705c7f0dae4715441b6b7edc4da6&User-Agent=millstream%2F1"
        );
    }
}
