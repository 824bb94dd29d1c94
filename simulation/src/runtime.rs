//! One history's runtime: one thread, and a clock that jumps from timer to timer.

use std::io;

use millstream_protocol::backoff::Jitter;

/// Runs a history to its end. Nothing in it waits for anything but simulated time, so it takes only the time that its code
/// takes; several histories may run on threads of their own.
///
/// # Errors
///
/// If the runtime can not be made.
pub fn run<T>(history: impl Future<Output = T>) -> io::Result<T> {
    // Without I/O: between two timers nothing but the queue of tasks is looked at.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    let local = tokio::task::LocalSet::new();
    let result = local.block_on(&runtime, history);
    // Tasks that are left are dropped before the clock is.
    drop(local);
    drop(runtime);
    Ok(result)
}

/// Numbers that follow from a seed (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(Jitter);

impl Random {
    /// The numbers of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(Jitter::new(seed))
    }

    /// The next 64 bits.
    #[expect(clippy::should_implement_trait, reason = "it never ends, so nothing is optional")]
    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`; 0 for a bound of 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The bias is far below what a million histories would show.
        self.next() % bound.max(1)
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A generator of its own, so that more numbers here change nothing there.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self::new(self.next())
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let number = self.next().to_le_bytes();
            chunk.iter_mut().zip(number).for_each(|(byte, random)| *byte = random);
        }
    }
}
