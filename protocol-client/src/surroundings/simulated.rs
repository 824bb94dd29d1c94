//! Surroundings that a test gives.

use std::cell::RefCell;
use std::fmt::Debug;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// One end of a simulated connection. Reading 0 bytes is the end; an error's kind says how it broke, as a socket's does.
pub trait SimulatedStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> SimulatedStream for S {}

/// A connection attempt. Dropped by its caller when it takes too long.
pub type Connecting =
    Pin<Box<dyn Future<Output = io::Result<Box<dyn SimulatedStream>>> + Send + 'static>>;

/// A task without a result.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send + 'static>>;

/// What one simulated process lives in. All of it has to follow from a seed.
pub trait Surroundings: Debug + Send + Sync {
    /// Connects to `host:port`. Called inside the runtime; may take simulated time.
    fn connect(&self, host: &str, port: u16) -> Connecting;

    /// Time since the Unix epoch by the clock of the day; may jump in both directions.
    fn wall_time(&self) -> Duration;

    /// Fills `bytes` with random numbers.
    fn fill_random(&self, bytes: &mut [u8]);

    /// `task` as one of this process: polled inside of these surroundings, and dropped when the process dies. It ends then
    /// without having been completed.
    fn scope(&self, task: Task) -> Task;

    /// How long the next blocking step takes (writing a file, say). Zero lets other tasks come in all the same.
    fn blocking_time(&self) -> Duration {
        Duration::ZERO
    }

    /// The product passes a named place. Does not return if the process is to die there.
    fn passed(&self, _place: &str) {}

    /// An error that an operation on the disk meets at a named place.
    ///
    /// # Errors
    ///
    /// The injected one.
    fn disk_fault(&self, _place: &str) -> io::Result<()> {
        Ok(())
    }

    /// Whether the rule of the product with this name is left out, to show that an oracle notices.
    fn has_mutant(&self, _name: &str) -> bool {
        false
    }
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<dyn Surroundings>>> = const { RefCell::new(None) };
}

/// The surroundings of the code that runs now, if they are simulated.
#[must_use]
pub fn current() -> Option<Arc<dyn Surroundings>> {
    // Not there while the thread ends.
    CURRENT.try_with(|current| current.borrow().clone()).ok().flatten()
}

/// Puts the calling thread into `surroundings` until the guard is dropped. For each poll of a task of the process.
#[must_use]
pub fn enter(surroundings: Arc<dyn Surroundings>) -> SurroundingsOfThread {
    let before = CURRENT.with(|current| current.replace(Some(surroundings)));
    SurroundingsOfThread { before }
}

/// The thread is inside of [`Surroundings`]; see [`enter`].
#[derive(Debug)]
pub struct SurroundingsOfThread {
    before: Option<Arc<dyn Surroundings>>,
}

impl Drop for SurroundingsOfThread {
    fn drop(&mut self) {
        let _ = CURRENT.try_with(|current| current.replace(self.before.take()));
    }
}

/// A task of the process; whoever waits for it waits for ever if the process dies, and is dead as well.
pub(super) fn spawn_in<T: Send + 'static>(
    around: &dyn Surroundings,
    future: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    let (tell, told) = oneshot::channel();
    let task = around.scope(Box::pin(async move {
        // The handle may be gone.
        let _ = tell.send(future.await);
    }));
    tokio::spawn(async move {
        task.await;
        match told.await {
            Ok(result) => result,
            Err(_) => std::future::pending().await,
        }
    })
}

/// One blocking step's time.
pub(super) async fn pause() {
    let time = current().map_or(Duration::ZERO, |around| around.blocking_time());
    if time.is_zero() {
        tokio::task::yield_now().await;
    } else {
        tokio::time::sleep(time).await;
    }
}
