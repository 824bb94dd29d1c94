//! Amazon's credentials, and the signatures made with them.

use std::time::{SystemTime, UNIX_EPOCH};

use millstream_protocol::network::DisconnectReason;
use millstream_protocol::sasl::aws_msk_iam::{self, AwsCredentials, MskRequest};
use millstream_protocol::sasl::jaas::JaasModule;
use millstream_protocol::sasl::{SaslLogin, Secret};

use super::login::jaas_error;
use crate::ConfigError;

/// Static credentials: from the login module, else from the environment, read anew for each signature. Profiles, roles and
/// instance metadata are not read; a tool that has them can export the environment.
#[derive(Debug)]
pub(super) struct AwsSource {
    configured: Option<AwsCredentials>,
    region: Option<String>,
}

impl AwsSource {
    /// Options of `IAMLoginModule` that are understood here. The first three are ours.
    pub(super) const OPTIONS: &'static [&'static str] =
        &["awsAccessKeyId", "awsSecretAccessKey", "awsSessionToken", "awsRegion", "awsDebugCreds"];

    pub(super) fn new(module: Option<&JaasModule>) -> Result<Self, ConfigError> {
        let option = |name: &str| module.and_then(|module| module.option(name)).cloned();
        let configured = match (option("awsAccessKeyId"), option("awsSecretAccessKey")) {
            (Some(id), Some(secret)) => Some(AwsCredentials {
                access_key_id: id.expose().to_owned(),
                secret_access_key: secret,
                session_token: option("awsSessionToken"),
            }),
            (None, None) => None,
            _ => {
                let expected = "awsAccessKeyId and awsSecretAccessKey together";
                return Err(jaas_error(expected.to_owned()));
            }
        };
        let region = option("awsRegion").map(|region| region.expose().to_owned());
        Ok(Self { configured, region })
    }

    /// For mechanism AWS_MSK_IAM.
    pub(super) fn payload(&self, host: &str) -> Result<SaslLogin, DisconnectReason> {
        let region = self.region(Some(host))?;
        let payload = aws_msk_iam::payload(&self.credentials()?, request(&region), host);
        let payload = payload.ok_or_else(|| failed("the request can not be signed"))?;
        Ok(SaslLogin::AwsMskIam { payload })
    }

    /// For OAUTHBEARER.
    pub(super) fn bearer_token(&self) -> Result<Secret, DisconnectReason> {
        let region = self.region(None)?;
        let token = aws_msk_iam::bearer_token(&self.credentials()?, request(&region));
        token.ok_or_else(|| failed("the request can not be signed"))
    }

    fn credentials(&self) -> Result<AwsCredentials, DisconnectReason> {
        if let Some(configured) = &self.configured {
            return Ok(configured.clone());
        }
        match (variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY")) {
            (Some(access_key_id), Some(secret)) => Ok(AwsCredentials {
                access_key_id,
                secret_access_key: Secret::new(secret),
                session_token: variable("AWS_SESSION_TOKEN").map(Secret::new),
            }),
            _ => Err(failed(
                "no Amazon credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (profiles and roles are not read; 'aws configure export-credentials --format env' prints them)",
            )),
        }
    }

    fn region(&self, host: Option<&str>) -> Result<String, DisconnectReason> {
        let named = self.region.clone().or_else(|| host.and_then(region_of).map(str::to_owned));
        named
            .or_else(|| variable("AWS_REGION"))
            .or_else(|| variable("AWS_DEFAULT_REGION"))
            .ok_or_else(|| failed("the Amazon region is not known: set AWS_REGION"))
    }
}

/// The region in a broker's name, as in `b-1.demo.x.c2.kafka.eu-west-1.amazonaws.com`.
fn region_of(host: &str) -> Option<&str> {
    let mut labels = host.split('.').skip_while(|label| !label.starts_with("kafka"));
    labels.next()?;
    let region = labels.next()?;
    (labels.next() == Some("amazonaws")).then_some(region)
}

fn request(region: &str) -> MskRequest<'_> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    MskRequest {
        region,
        unix_seconds: now.as_secs(),
        user_agent: concat!("millstream/", env!("CARGO_PKG_VERSION")),
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn failed(detail: &str) -> DisconnectReason {
    DisconnectReason::LoginFailed { detail: detail.to_owned(), retriable: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_region_is_part_of_a_brokers_name() {
        for (host, region) in [
            ("b-1.demo.abc.c2.kafka.eu-west-1.amazonaws.com", Some("eu-west-1")),
            ("boot-x.c1.kafka-serverless.us-east-1.amazonaws.com", Some("us-east-1")),
            ("b-1.demo.abc.c2.kafka.cn-north-1.amazonaws.com.cn", Some("cn-north-1")),
            ("kafka.example.com", None),
            ("localhost", None),
        ] {
            assert_eq!(region_of(host), region, "{host}");
        }
    }
}
