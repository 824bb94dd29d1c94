//! The tasks of a process.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use millstream_protocol_client::surroundings::{Surroundings, Task, enter};

use super::{Killed, Shared, Status};

/// Wakes a task.
pub(super) struct WakerOf(Waker);

impl WakerOf {
    pub(super) fn wake(self) {
        self.0.wake();
    }
}

/// A task's future; empty while it is polled, and for ever once the process is dead.
#[derive(Clone)]
pub(super) struct Slot(Arc<Mutex<Option<Task>>>);

impl Slot {
    pub(super) fn new(task: Task) -> Self {
        Self(Arc::new(Mutex::new(Some(task))))
    }

    pub(super) fn take(&self) -> Option<Task> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, task: Task) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
    }
}

/// One task of a process.
pub(super) struct Scope {
    process: Arc<Shared>,
    id: u64,
    slot: Slot,
}

impl Scope {
    pub(super) fn new(process: Arc<Shared>, id: u64, slot: Slot) -> Self {
        Self { process, id, slot }
    }
}

impl Future for Scope {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { process, id, slot } = &*self;
        if !process.admits(*id, cx) {
            return Poll::Pending;
        }
        let Some(mut task) = slot.take() else { return Poll::Ready(()) };
        match process.poll(|| task.as_mut().poll(cx)) {
            Poll::Pending => {
                slot.put(task);
                process.polled();
                Poll::Pending
            }
            Poll::Ready(()) => {
                process.drop_inside(task);
                process.lock().tasks.remove(id);
                process.polled();
                Poll::Ready(())
            }
        }
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        if let Some(task) = self.slot.take() {
            self.process.drop_inside(task);
        }
    }
}

/// The main function of a process. It need not be movable between threads; once the process is dead it is dropped with its
/// next poll.
pub(super) struct LocalScope {
    process: Arc<Shared>,
    main: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

/// Of the main function; tasks have smaller numbers.
const MAIN: u64 = u64::MAX;

impl LocalScope {
    pub(super) fn new(process: Arc<Shared>, main: Pin<Box<dyn Future<Output = ()>>>) -> Self {
        Self { process, main: Some(main) }
    }
}

impl Future for LocalScope {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { process, main } = &mut *self;
        let dead = {
            let mut state = process.lock();
            state.main = Some(WakerOf(cx.waker().clone()));
            state.status == Status::Dead
        };
        if !dead && !process.admits(MAIN, cx) {
            return Poll::Pending;
        }
        let polled = match main {
            Some(main) if !dead => {
                let polled = process.poll(|| main.as_mut().poll(cx));
                process.polled();
                polled
            }
            _ => Poll::Ready(()),
        };
        let dead = process.lock().status == Status::Dead;
        if polled.is_pending() && !dead {
            return Poll::Pending;
        }
        if let Some(main) = main.take() {
            process.drop_inside(main);
        }
        Poll::Ready(())
    }
}

impl Drop for LocalScope {
    fn drop(&mut self) {
        if let Some(main) = self.main.take() {
            self.process.drop_inside(main);
        }
    }
}

impl Shared {
    /// Whether a task may be polled now. If not, it is woken when it may.
    fn admits(&self, id: u64, cx: &Context<'_>) -> bool {
        let mut state = self.lock();
        match state.status {
            // It finds its slot empty.
            Status::Dead => true,
            Status::Stopped => {
                state.held.insert(id, WakerOf(cx.waker().clone()));
                false
            }
            Status::Running => {
                let one_in = state.habits.reorder_one_in;
                let later = one_in > 0 && state.random.one_in(one_in);
                if later {
                    drop(state);
                    // Behind all others that are ready.
                    cx.waker().wake_by_ref();
                }
                !later
            }
        }
    }

    /// One poll inside of the process.
    fn poll(self: &Arc<Self>, poll: impl FnOnce() -> Poll<()>) -> Poll<()> {
        let inside = enter(Arc::clone(self) as Arc<dyn Surroundings>);
        let polled = catch_unwind(AssertUnwindSafe(poll));
        drop(inside);
        polled.unwrap_or_else(|panic| {
            if !panic.is::<Killed>() {
                let text = panic_text(&*panic).to_owned();
                self.note(format_args!("panics: {text}"));
                self.lock().panicked.get_or_insert(text);
                self.die();
            }
            Poll::Ready(())
        })
    }

    /// Counts a poll; the process may have died in it, or dies after it.
    fn polled(self: &Arc<Self>) {
        let (dead, dies) = {
            let mut state = self.lock();
            state.polls += 1;
            let dead = state.status == Status::Dead;
            (dead, !dead && state.fate.at_poll == Some(state.polls))
        };
        if dies && self.die() {
            self.note(format_args!("dies between two polls"));
        }
        if dead || dies {
            self.bury();
        }
    }

    fn drop_inside<T>(self: &Arc<Self>, task: T) {
        let inside = enter(Arc::clone(self) as Arc<dyn Surroundings>);
        drop(task);
        drop(inside);
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("process", &self.process).field("id", &self.id).finish()
    }
}
