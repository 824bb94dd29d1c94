//! A token, and when to ask for the next one.

use std::time::Duration;

use millstream_protocol::sasl::Secret;
use tokio::time::Instant;

use super::SaslConfig;

/// A token with its times.
#[derive(Clone, Debug)]
pub(super) struct CachedToken {
    pub(super) token: Secret,
    /// A new one is asked for from then on.
    pub(super) refresh_at: Instant,
    /// It is of no use from then on.
    pub(super) expires_at: Instant,
}

impl CachedToken {
    /// `jitter`: a random number from 0 to 1.
    pub(super) fn new(
        token: Secret,
        lifetime: Duration,
        now: Instant,
        config: &SaslConfig,
        jitter: f64,
    ) -> Self {
        let after = refresh_after(lifetime, config, jitter);
        Self { token, refresh_at: now + after, expires_at: now + lifetime }
    }
}

/// Java's rule (`ExpiringCredentialRefreshingLogin`): a part of the life, not too soon, and not too close to its end. The
/// two limits do not count for a life that is too short for both.
fn refresh_after(lifetime: Duration, config: &SaslConfig, jitter: f64) -> Duration {
    let part = config.refresh_window_factor + jitter * config.refresh_window_jitter;
    let wanted = lifetime.mul_f64(part.clamp(0.0, 1.0));
    let (soonest, buffer) = (config.refresh_min_period, config.refresh_buffer);
    match lifetime.checked_sub(soonest + buffer) {
        Some(_) => wanted.clamp(soonest, lifetime.saturating_sub(buffer)),
        None => wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_renewed_by_javas_rule() {
        let config = SaslConfig::default();
        for (lifetime, jitter, expected) in [
            (3600, 0.0, 2880),
            (3600, 1.0, 3060),
            (7200, 0.0, 5760),
            (600, 0.0, 300),
            (100, 0.0, 80),
        ] {
            let after = refresh_after(Duration::from_secs(lifetime), &config, jitter);
            assert_eq!(after.as_secs(), expected, "{lifetime}");
        }
    }
}
