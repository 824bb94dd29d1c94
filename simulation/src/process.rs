//! A process in a simulation: it can die between any two polls, at a named place or in the middle of a disk operation, be
//! stopped for a while, and be started again on what its machine kept.

mod disk;
mod machine;
mod scope;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use millstream_protocol_client::surroundings::{Connecting, Surroundings, Task, enter};
use tokio::sync::oneshot;

pub use machine::{Crash, Machine, SAVEPOINTS};

use crate::runtime::Random;
use scope::{LocalScope, Scope, Slot, WakerOf};

/// What is around all processes.
pub trait World: fmt::Debug + Send + Sync {
    /// A connection attempt of `process`.
    fn connect(&self, process: &Arc<str>, host: &str, port: u16) -> Connecting;

    /// Time since the Unix epoch by the clock of the process's machine.
    fn wall_time(&self, process: &Arc<str>) -> Duration;

    /// Something that the readable history of a seed tells.
    fn note(&self, process: &str, event: fmt::Arguments<'_>);
}

/// Where a process dies, if it does not end before. Counted from its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// After so many polls of its tasks, all together.
    pub at_poll: Option<u64>,
    /// When it passes a named place of the product for the n-th time (from 1).
    pub at_place: Option<(String, u64)>,
    /// In the middle of the n-th operation that changes its disk (from 1).
    pub at_disk_operation: Option<u64>,
}

/// How a process behaves, beside what kills it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Habits {
    /// One in so many polls of a task is put behind all other tasks; 0: none is.
    pub reorder_one_in: u64,
    /// One in so many blocking steps takes time; 0: none does.
    pub slow_one_in: u64,
    /// The longest that such a step takes.
    pub slow_max: Duration,
    /// Rules of the product that are left out.
    pub mutants: BTreeSet<String>,
}

impl Default for Habits {
    fn default() -> Self {
        Self {
            reorder_one_in: 16,
            slow_one_in: 4,
            slow_max: Duration::from_millis(20),
            mutants: BTreeSet::new(),
        }
    }
}

/// A running process. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Process {
    shared: Arc<Shared>,
}

struct Shared {
    name: Arc<str>,
    world: Arc<dyn World>,
    me: Weak<Shared>,
    // One thread; guards what tasks and harness both touch, never across a poll.
    state: Mutex<State>,
}

struct State {
    random: Random,
    fate: Fate,
    habits: Habits,
    status: Status,
    polls: u64,
    disk_operations: u64,
    disk_full: bool,
    sync_fails: bool,
    /// Where it stops next, and at which passage from now on.
    stop_at: Option<(String, u64)>,
    /// How often each named place was passed.
    passed: BTreeMap<String, u64>,
    next_task: u64,
    tasks: BTreeMap<u64, Slot>,
    /// Tasks that were to be polled while the process was stopped.
    held: BTreeMap<u64, WakerOf>,
    /// The task that is the process's main function.
    main: Option<WakerOf>,
    panicked: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Running,
    /// As after SIGSTOP.
    Stopped,
    Dead,
}

/// What unwinds the stack of a process that dies in the middle of its code.
struct Killed;

impl Process {
    /// A process that has not begun. Everything random in it comes from `random`.
    #[must_use]
    pub fn new(
        name: Arc<str>,
        world: Arc<dyn World>,
        random: Random,
        habits: Habits,
        fate: Fate,
    ) -> Self {
        let state = State {
            random,
            fate,
            habits,
            status: Status::Running,
            polls: 0,
            disk_operations: 0,
            disk_full: false,
            sync_fails: false,
            stop_at: None,
            passed: BTreeMap::new(),
            next_task: 0,
            tasks: BTreeMap::new(),
            held: BTreeMap::new(),
            main: None,
            panicked: None,
        };
        let shared = Arc::new_cyclic(|me| Shared {
            name,
            world,
            me: Weak::clone(me),
            state: Mutex::new(state),
        });
        Self { shared }
    }

    /// Runs its main function; when that ends, or the process dies, all its tasks are gone. `None`: it died. On the runtime
    /// of [`run`](crate::runtime::run).
    pub async fn run<T: 'static>(&self, main: impl Future<Output = T> + 'static) -> Option<T> {
        let (tell, told) = oneshot::channel();
        let main = async move {
            // The harness may have given up.
            let _ = tell.send(main.await);
        };
        tokio::task::spawn_local(LocalScope::new(Arc::clone(&self.shared), Box::pin(main)));
        let result = told.await.ok();
        self.kill();
        result
    }

    /// Kills it as SIGKILL does: no task is polled any more.
    pub fn kill(&self) {
        if self.shared.die() {
            self.shared.bury();
        }
    }

    /// SIGSTOP: no task is polled until [`resume`](Self::resume); time goes on.
    pub fn stop(&self) {
        let mut state = self.shared.lock();
        if state.status == Status::Running {
            state.status = Status::Stopped;
            drop(state);
            self.shared.note(format_args!("stopped"));
        }
    }

    /// SIGCONT.
    pub fn resume(&self) {
        let mut state = self.shared.lock();
        if state.status == Status::Stopped {
            state.status = Status::Running;
            let held = std::mem::take(&mut state.held);
            drop(state);
            self.shared.note(format_args!("goes on"));
            held.into_values().for_each(WakerOf::wake);
        }
    }

    /// It stops, as by [`stop`](Self::stop), once it has passed a named place `passage` times from now on.
    pub fn stop_at(&self, place: &str, passage: u64) {
        self.shared.lock().stop_at = Some((place.to_owned(), passage.max(1)));
    }

    /// Whether it was to stop at a place, and has not come there yet.
    #[must_use]
    pub fn is_to_stop(&self) -> bool {
        self.shared.lock().stop_at.is_some()
    }

    /// It need not stop at any place.
    pub fn pass_on(&self) {
        self.shared.lock().stop_at = None;
    }

    /// It dies when it passes a named place the next time, or with `place:n` the n-th time from now on.
    pub fn die_at_next(&self, place: &str) {
        let (place, nth) = place.split_once(':').unwrap_or((place, "1"));
        let nth: u64 = nth.parse().unwrap_or(1);
        let mut state = self.shared.lock();
        let passed = state.passed.get(place).copied().unwrap_or(0);
        state.fate.at_place = Some((place.to_owned(), passed + nth));
    }

    /// From now on its disk has no room, or has room again.
    pub fn set_disk_full(&self, full: bool) {
        self.shared.lock().disk_full = full;
        self.shared.note(format_args!("disk full: {full}"));
    }

    /// From now on what it syncs fails, or succeeds again.
    pub fn set_sync_fails(&self, fails: bool) {
        self.shared.lock().sync_fails = fails;
        self.shared.note(format_args!("syncing fails: {fails}"));
    }

    /// Whether it lives.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.shared.lock().status != Status::Dead
    }

    /// Polls of its tasks so far.
    #[must_use]
    pub fn polls(&self) -> u64 {
        self.shared.lock().polls
    }

    /// Operations so far that changed its disk.
    #[must_use]
    pub fn disk_operations(&self) -> u64 {
        self.shared.lock().disk_operations
    }

    /// How often it passed each named place of the product.
    #[must_use]
    pub fn passed(&self) -> BTreeMap<String, u64> {
        self.shared.lock().passed.clone()
    }

    /// The text of a panic, which is a defect wherever it comes from.
    #[must_use]
    pub fn panicked(&self) -> Option<String> {
        self.shared.lock().panicked.clone()
    }
}

impl State {
    /// Whether it stops after this passage of a place: no task is polled any more, once this poll is over.
    fn stops_at(&mut self, place: &str) -> bool {
        let Some((at, passages)) = &mut self.stop_at else { return false };
        if at != place {
            return false;
        }
        *passages -= 1;
        if *passages > 0 || self.status != Status::Running {
            return false;
        }
        self.stop_at = None;
        self.status = Status::Stopped;
        true
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, event: fmt::Arguments<'_>) {
        self.world.note(&self.name, event);
    }

    /// No task is polled any more. `false`: it was dead already.
    fn die(&self) -> bool {
        let mut state = self.lock();
        let was = std::mem::replace(&mut state.status, Status::Dead);
        was != Status::Dead
    }

    /// Dies in the middle of the product's code.
    fn die_here(self: &Arc<Self>, at: fmt::Arguments<'_>) {
        if self.die() {
            self.note(format_args!("dies {at}"));
            std::panic::resume_unwind(Box::new(Killed));
        }
    }

    /// Drops all tasks of a dead process, in the order in which they were made.
    fn bury(self: &Arc<Self>) {
        let (tasks, main, held) = {
            let mut state = self.lock();
            let main = state.main.take();
            (std::mem::take(&mut state.tasks), main, std::mem::take(&mut state.held))
        };
        let inside = enter(Arc::clone(self) as Arc<dyn Surroundings>);
        for slot in tasks.into_values() {
            drop(slot.take());
        }
        drop(inside);
        held.into_values().for_each(WakerOf::wake);
        if let Some(main) = main {
            main.wake();
        }
    }
}

impl Surroundings for Shared {
    fn connect(&self, host: &str, port: u16) -> Connecting {
        self.world.connect(&self.name, host, port)
    }

    fn wall_time(&self) -> Duration {
        self.world.wall_time(&self.name)
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        self.lock().random.fill(bytes);
    }

    fn scope(&self, task: Task) -> Task {
        // Whoever asks for a task is one of the process, or its harness.
        let Some(me) = self.me.upgrade() else { return Box::pin(std::future::ready(())) };
        let mut state = self.lock();
        let id = state.next_task;
        state.next_task += 1;
        let slot = Slot::new(task);
        if state.status != Status::Dead {
            state.tasks.insert(id, slot.clone());
        }
        drop(state);
        Box::pin(Scope::new(me, id, slot))
    }

    fn blocking_time(&self) -> Duration {
        let mut state = self.lock();
        let State { random, habits, .. } = &mut *state;
        if habits.slow_one_in == 0 || !random.one_in(habits.slow_one_in) {
            return Duration::ZERO;
        }
        let micros = u64::try_from(habits.slow_max.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(random.below(micros))
    }

    fn passed(&self, place: &str) {
        let mut state = self.lock();
        if state.status == Status::Dead {
            return;
        }
        let count = match state.passed.get_mut(place) {
            Some(count) => {
                *count += 1;
                *count
            }
            None => {
                state.passed.insert(place.to_owned(), 1);
                1
            }
        };
        let dies =
            state.fate.at_place.as_ref().is_some_and(|(at, nth)| at == place && *nth == count);
        if dies {
            state.status = Status::Dead;
            drop(state);
            self.note(format_args!("dies at {place}, passage {count}"));
            std::panic::resume_unwind(Box::new(Killed));
        }
        let stops = state.stops_at(place);
        drop(state);
        self.note(format_args!("passes {place}"));
        if stops {
            self.note(format_args!("stopped"));
        }
    }

    fn disk_fault(&self, _place: &str) -> io::Result<()> {
        Ok(())
    }

    fn has_mutant(&self, name: &str) -> bool {
        self.lock().habits.mutants.contains(name)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("name", &self.name).finish_non_exhaustive()
    }
}
