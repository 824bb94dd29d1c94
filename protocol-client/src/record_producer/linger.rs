//! The task that closes batches whose time is up, and renews what is known of topics.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use super::Shared;

/// Ends with the producer.
pub(super) async fn run(shared: Weak<Shared>, opened: Arc<Notify>, max_age: Duration) {
    let mut renew_at = Instant::now() + max_age;
    loop {
        // Not kept over any wait, or the producer would live as long as its task.
        let Some(alive) = shared.upgrade() else { return };
        if Instant::now() >= renew_at {
            renew_at = Instant::now() + max_age;
            renew(&alive, renew_at - max_age).await;
        }
        let due = alive.send_due();
        drop(alive);
        let until = due.unwrap_or_else(|error| {
            // The codec failed; whoever flushes meets the same error.
            tracing::error!(%error, "a batch could not be closed");
            None
        });
        // The end of the wait is all that counts, not why it ended.
        drop(timeout_at(until.unwrap_or(renew_at), opened.notified()).await);
    }
}

/// Topics grow, and leaders come and go.
async fn renew(shared: &Shared, described_before: Instant) {
    let old = shared.lock().batches.described_before(described_before);
    for topic in old {
        if let Err(error) = shared.describe(&topic).await {
            // What is known stays good enough to go on with; the next time may be luckier.
            tracing::warn!(%topic, %error, "the partitions of a topic could not be looked up again");
        }
    }
}
