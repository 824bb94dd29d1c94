//! What a process gets from outside and no test can steer: connections, the time of day, random numbers, tasks.
//!
//! The operating system and tokio give it. With the feature `simulation` a test may put [`Surroundings`] of its own around
//! the futures of a process: then the whole client, and the engine above it, runs in one thread under simulated time, and
//! does the same for the same seed. Timers need no seam: tokio's clock can be paused.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::task::JoinHandle;

#[cfg(feature = "simulation")]
pub use simulated::{
    Connecting, SimulatedStream, Surroundings, SurroundingsOfThread, Task, current, enter,
};

/// Time since the Unix epoch by the clock of the day; may jump.
#[must_use]
pub fn wall_time() -> Duration {
    #[cfg(feature = "simulation")]
    if let Some(around) = current() {
        return around.wall_time();
    }
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The same in whole milliseconds.
#[must_use]
pub fn wall_time_ms() -> i64 {
    i64::try_from(wall_time().as_millis()).unwrap_or(i64::MAX)
}

/// Fills `bytes` with random numbers.
///
/// # Errors
///
/// If the operating system has none.
pub fn fill_random(bytes: &mut [u8]) -> Result<(), getrandom::Error> {
    #[cfg(feature = "simulation")]
    if let Some(around) = current() {
        around.fill_random(bytes);
        return Ok(());
    }
    getrandom::fill(bytes)
}

/// A seed for jitter, different for each caller: many clients must not move in step.
#[must_use]
pub fn seed() -> u64 {
    #[cfg(feature = "simulation")]
    if let Some(around) = current() {
        let mut bytes = [0_u8; 8];
        around.fill_random(&mut bytes);
        return u64::from_le_bytes(bytes);
    }
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}

/// Runs `future` as a task of this process, on the current runtime. Dropping the handle leaves it running.
///
/// # Panics
///
/// Outside of a tokio runtime.
pub fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    #[cfg(feature = "simulation")]
    if let Some(around) = current() {
        return simulated::spawn_in(&*around, future);
    }
    tokio::spawn(future)
}

/// Runs `work`, which blocks, where it holds up no task, and waits for it by the handle.
///
/// # Panics
///
/// Outside of a tokio runtime.
pub fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    #[cfg(feature = "simulation")]
    if let Some(around) = current() {
        let future = async move {
            simulated::pause().await;
            work()
        };
        return simulated::spawn_in(&*around, future);
    }
    tokio::task::spawn_blocking(work)
}

/// Runs an endless loop that blocks between its awaits, on a thread where it holds up no task.
///
/// # Panics
///
/// Outside of a tokio runtime.
pub fn spawn_blocking_loop<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    #[cfg(feature = "simulation")]
    if let Some(around) = current() {
        return simulated::spawn_in(&*around, future);
    }
    let runtime = tokio::runtime::Handle::current();
    tokio::task::spawn_blocking(move || runtime.block_on(future))
}

/// Runs `work`, which blocks, on this thread, whose other tasks are carried on by another.
///
/// # Panics
///
/// On a runtime of one thread.
pub fn block_in_place<T>(work: impl FnOnce() -> T) -> T {
    #[cfg(feature = "simulation")]
    if is_simulated() {
        return work();
    }
    tokio::task::block_in_place(work)
}

/// A place between two blocking steps where other tasks may come in; in a real process they run on other threads in any
/// case, and nothing happens here.
pub async fn interleave() {
    #[cfg(feature = "simulation")]
    if is_simulated() {
        simulated::pause().await;
    }
}

/// Whether the calling code runs inside of [`Surroundings`].
#[must_use]
pub fn is_simulated() -> bool {
    #[cfg(feature = "simulation")]
    return current().is_some();
    #[cfg(not(feature = "simulation"))]
    false
}

/// The feature `simulation`.
#[cfg(feature = "simulation")]
mod simulated;
