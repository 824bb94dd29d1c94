//! Wakes a parked worker.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Poll, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

/// Tells one worker that something happened which it may be waiting for: input, capacity, a control message. Cheap to
/// clone and to call; calls while the worker runs are remembered.
#[derive(Clone, Debug, Default)]
pub struct WorkerNotifier(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    notified: AtomicBool,
    /// The worker's thread, which exists later than the notifier: set when it waits for the first time. No lock: a worker is
    /// often woken before the thread that wakes it goes on, and would then wait for it.
    thread: OnceLock<Thread>,
    /// Of a worker that is a task: whom to wake, if it waits.
    task: Mutex<Option<Waker>>,
}

impl WorkerNotifier {
    /// A notifier whose worker does not wait yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Wakes the worker, or keeps it from parking next time.
    pub fn notify(&self) {
        if self.0.notified.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(thread) = self.0.thread.get() {
            thread.unpark();
        } else if let Some(task) = &*self.0.task.lock().unwrap_or_else(PoisonError::into_inner) {
            task.wake_by_ref();
        }
    }

    /// Whether a notification is waiting to be taken.
    #[must_use]
    pub fn is_notified(&self) -> bool {
        self.0.notified.load(Ordering::Acquire)
    }

    /// Parks the calling thread until notified; returns at once if that happened since the last call.
    pub(crate) fn wait(&self) {
        if self.take() {
            return;
        }
        self.name_thread();
        while !self.take() {
            thread::park();
        }
    }

    /// The same, but for `timeout` at most; may return early.
    pub(crate) fn wait_timeout(&self, timeout: Duration) {
        if self.take() {
            return;
        }
        self.name_thread();
        if !self.take() {
            thread::park_timeout(timeout);
            self.take();
        }
    }

    /// The same for a worker that is a task.
    pub(crate) async fn notified(&self) {
        std::future::poll_fn(|cx| {
            if self.take() {
                return Poll::Ready(());
            }
            let task = Some(cx.waker().clone());
            *self.0.task.lock().unwrap_or_else(PoisonError::into_inner) = task;
            if self.take() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn name_thread(&self) {
        // A worker is driven by one thread as long as it lives.
        self.0.thread.get_or_init(thread::current);
    }

    fn take(&self) -> bool {
        self.0.notified.swap(false, Ordering::AcqRel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_before_the_wait_is_not_lost() {
        let notifier = WorkerNotifier::new();
        notifier.notify();
        notifier.wait();
        assert!(!notifier.is_notified());
    }

    #[test]
    fn a_waiting_thread_is_woken() {
        let notifier = WorkerNotifier::new();
        let waker = notifier.clone();
        let waiting = thread::spawn(move || notifier.wait());
        waker.notify();
        waiting.join().unwrap();
    }

    #[test]
    fn a_wait_with_a_timeout_ends_without_a_notification() {
        WorkerNotifier::new().wait_timeout(Duration::from_millis(1));
    }
}
