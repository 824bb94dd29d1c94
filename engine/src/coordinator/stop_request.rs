//! Somebody wants the job to end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millstream_protocol_client::Producer;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// A request to stop, made at most once and seen by everybody who asks later.
#[derive(Clone, Debug)]
pub(crate) struct StopRequest {
    requested_at: Arc<watch::Sender<Option<Instant>>>,
    /// Whose transaction is to be aborted if there is no time for a last checkpoint.
    producer: Arc<Mutex<Option<Producer>>>,
}

/// How long a process that is told to end at once may try to leave no transaction open.
const ABANDON_LIMIT: Duration = Duration::from_secs(1);

/// Longest pause between two tries of a job that was asked to stop.
const PAUSE_MAX: Duration = Duration::from_secs(1);

impl StopRequest {
    pub(crate) fn new() -> Self {
        Self { requested_at: Arc::new(watch::Sender::new(None)), producer: Arc::default() }
    }

    /// Makes the request. Again is harmless.
    pub(crate) fn request(&self) {
        self.requested_at.send_modify(|at| {
            at.get_or_insert_with(Instant::now);
        });
    }

    /// Whether it was made.
    pub(crate) fn is_requested(&self) -> bool {
        self.requested_at.borrow().is_some()
    }

    /// Whether it was made at least `limit` ago.
    pub(crate) fn is_overdue(&self, limit: Duration) -> bool {
        self.requested_at.borrow().is_some_and(|at| at.elapsed() >= limit)
    }

    /// Waits for `pause` before something is tried again. A request ends the pause; who comes after it still waits, up to
    /// [`PAUSE_MAX`], so that what fails again and again is not tried without a breath until the time for the stop is over.
    pub(crate) async fn pause(&self, pause: Duration) {
        if self.is_requested() {
            sleep(pause.min(PAUSE_MAX)).await;
            return;
        }
        tokio::select! {
            biased;
            () = sleep(pause) => {}
            () = self.requested() => {}
        }
    }

    /// Waits for the request.
    pub(crate) async fn requested(&self) {
        self.request_time().await;
    }

    /// Waits until the request is older than `limit`.
    pub(crate) async fn overdue(&self, limit: Duration) {
        sleep_until(self.request_time().await + limit).await;
    }

    async fn request_time(&self) -> Instant {
        // The sender lives as long as `self`.
        let mut requests = self.requested_at.subscribe();
        match requests.wait_for(Option::is_some).await {
            Ok(at) => at.unwrap_or_else(Instant::now),
            Err(_) => std::future::pending().await,
        }
    }

    /// `producer` writes the job's transactions.
    pub(crate) fn watch_over(&self, producer: Producer) {
        *self.producer.lock().unwrap_or_else(PoisonError::into_inner) = Some(producer);
    }

    /// For a process that ends right after: has the coordinator abort what is open, so that readers need not wait for
    /// its timeout. A commit that is under way is not undone by it. Without an answer in time it stays open.
    pub(crate) async fn abandon(&self) {
        let producer = self.producer.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(producer) = producer
            && timeout(ABANDON_LIMIT, producer.init_transactions()).await.is_err()
        {
            tracing::warn!(
                "no answer from the coordinator: the open transaction holds back readers until transaction.timeout.ms"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    async fn lasts(stop: &StopRequest, pause: Duration) -> Duration {
        let begun = Instant::now();
        stop.pause(pause).await;
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_is_kept_by_a_job_that_is_to_stop_but_not_for_long() {
        let stop = StopRequest::new();
        assert_eq!(lasts(&stop, 5 * SECOND).await.as_secs(), 5);
        let (during, ()) = tokio::join!(lasts(&stop, 5 * SECOND), async {
            sleep(2 * SECOND).await;
            stop.request();
        });
        assert_eq!(during.as_secs(), 2);
        assert!(!stop.is_overdue(3 * SECOND));
        // From then on: never longer than a second, never none at all.
        assert_eq!(lasts(&stop, 5 * SECOND).await.as_secs(), 1);
        assert_eq!(lasts(&stop, SECOND / 2).await.as_millis() / 100, 5);
        sleep(2 * SECOND).await;
        assert!(stop.is_overdue(3 * SECOND) && !stop.is_overdue(10 * SECOND));
    }
}
