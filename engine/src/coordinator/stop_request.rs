//! Somebody wants the job to end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millstream_protocol_client::Producer;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

/// A request to stop, made at most once and seen by everybody who asks later.
#[derive(Clone, Debug)]
pub(crate) struct StopRequest {
    requested_at: Arc<watch::Sender<Option<Instant>>>,
    /// Whose transaction is to be aborted if there is no time for a last checkpoint.
    producer: Arc<Mutex<Option<Producer>>>,
}

/// How long a process that is told to end at once may try to leave no transaction open.
const ABANDON_LIMIT: Duration = Duration::from_secs(1);

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
