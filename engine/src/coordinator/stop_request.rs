//! Somebody wants the job to end.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// A request to stop, made at most once and seen by everybody who asks later.
#[derive(Clone, Debug)]
pub(crate) struct StopRequest(Arc<watch::Sender<bool>>);

impl StopRequest {
    pub(crate) fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Makes the request. Again is harmless.
    pub(crate) fn request(&self) {
        self.0.send_replace(true);
    }

    /// Waits for the request.
    pub(crate) async fn requested(&self) {
        // The sender lives as long as `self`.
        let _ = self.0.subscribe().wait_for(|requested| *requested).await;
    }

    /// Waits until the request is older than `limit`.
    pub(crate) async fn overdue(&self, limit: Duration) {
        self.requested().await;
        tokio::time::sleep(limit).await;
    }
}
