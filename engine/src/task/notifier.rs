//! Wakes a parked worker.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
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
    // Guards the handle of the worker's thread or task, which exists later than the notifier. Taken only when a worker
    // starts to wait and when a waiting worker is woken.
    parked: Mutex<Option<Parked>>,
}

#[derive(Debug)]
enum Parked {
    Thread(Thread),
    Task(Waker),
}

impl WorkerNotifier {
    /// A notifier whose worker does not wait yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Wakes the worker, or keeps it from parking next time.
    pub fn notify(&self) {
        if !self.0.notified.swap(true, Ordering::AcqRel) {
            let parked = self.0.parked.lock().unwrap_or_else(PoisonError::into_inner);
            match parked.as_ref() {
                Some(Parked::Thread(thread)) => thread.unpark(),
                Some(Parked::Task(task)) => task.wake_by_ref(),
                None => {}
            }
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
            let task = Some(Parked::Task(cx.waker().clone()));
            *self.0.parked.lock().unwrap_or_else(PoisonError::into_inner) = task;
            if self.take() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn name_thread(&self) {
        let thread = Some(Parked::Thread(thread::current()));
        *self.0.parked.lock().unwrap_or_else(PoisonError::into_inner) = thread;
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
