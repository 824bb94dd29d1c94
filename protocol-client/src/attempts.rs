//! Tries of one call: backoff between them, one time limit over all.

use std::time::Duration;

use millstream_protocol::backoff::{ExponentialBackoff, Jitter};
use millstream_protocol::network::RequestError;
use tokio::time::{Instant, sleep};

use crate::ClientError;

/// The tries of one call.
#[derive(Clone, Debug)]
pub(crate) struct Attempts {
    operation: String,
    started: Instant,
    limit: Duration,
    backoff: ExponentialBackoff,
    jitter: Jitter,
    failures: u32,
    outcome_unknown: bool,
    /// What the last try met that came to its end.
    last: Option<String>,
}

impl Attempts {
    pub(crate) fn new(
        operation: String,
        limit: Duration,
        backoff: ExponentialBackoff,
        seed: u64,
    ) -> Self {
        let jitter = Jitter::new(seed);
        let started = Instant::now();
        Self {
            operation,
            started,
            limit,
            backoff,
            jitter,
            failures: 0,
            outcome_unknown: false,
            last: None,
        }
    }

    /// The tries of one item of a call over several: a name and failures of its own, the time limit of the whole.
    pub(crate) fn part(&self, operation: String) -> Self {
        Self { operation, failures: 0, outcome_unknown: false, last: None, ..self.clone() }
    }

    /// What is being done, for error texts.
    pub(crate) fn operation(&self) -> &str {
        &self.operation
    }

    /// Time left.
    pub(crate) fn remaining(&self) -> Duration {
        self.limit.saturating_sub(self.started.elapsed())
    }

    /// Tries that failed so far.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// True if a broker may have acted on an earlier try whose answer was lost.
    pub(crate) fn outcome_unknown(&self) -> bool {
        self.outcome_unknown
    }

    /// Waits before the next try after `error`, or gives it back if there must be none.
    pub(crate) async fn after(&mut self, error: RequestError) -> Result<(), ClientError> {
        self.outcome_unknown |= error.outcome_unknown();
        if matches!(error, RequestError::TimedOut { .. })
            && self.remaining().is_zero()
            && let Some(last) = &self.last
        {
            // Cut short by the limit of the whole call, the try tells nothing; the one before it does.
            return Err(self.timed_out(last.clone()));
        }
        if error.is_retriable() {
            return self.pause(&error.to_string()).await;
        }
        Err(ClientError::of_request(&self.operation, error))
    }

    /// Waits before the next try.
    pub(crate) async fn pause(&mut self, last: &str) -> Result<(), ClientError> {
        self.failures = self.failures.saturating_add(1);
        let delay = self.backoff.delay(self.failures, &mut self.jitter);
        if delay >= self.remaining() {
            return Err(self.timed_out(last.to_owned()));
        }
        self.last = Some(last.to_owned());
        sleep(delay).await;
        Ok(())
    }

    fn timed_out(&self, last: String) -> ClientError {
        ClientError::TimedOut { operation: self.operation.clone(), after: self.limit, last }
    }
}

#[cfg(test)]
mod tests {
    use millstream_protocol::network::Destination;

    use super::*;

    #[tokio::test]
    async fn a_try_that_the_limit_cut_short_does_not_hide_what_the_one_before_met() {
        let backoff = ExponentialBackoff::new(Duration::from_millis(10), Duration::from_millis(10));
        let mut attempts = Attempts::new("ask".to_owned(), Duration::from_secs(1), backoff, 1);
        attempts.pause("UNSTABLE_OFFSET_COMMIT").await.unwrap();
        attempts.limit = Duration::ZERO;
        let after = attempts.remaining();
        let cut = RequestError::TimedOut { destination: Destination::AnyBroker, after, sent: true };
        let Err(ClientError::TimedOut { last, .. }) = attempts.after(cut.clone()).await else {
            panic!("the time is up");
        };
        assert_eq!(last, "UNSTABLE_OFFSET_COMMIT");
        assert!(attempts.outcome_unknown());

        let mut first = attempts.part("ask".to_owned());
        let Err(ClientError::TimedOut { last, .. }) = first.after(cut).await else {
            panic!("the time is up");
        };
        assert!(last.starts_with("no answer from"), "{last}");
    }
}
