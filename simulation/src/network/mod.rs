//! The network between processes and brokers, and the one queue of everything that is going to happen outside of the
//! processes.
//!
//! A connection is two streams of bytes. Each piece written takes some time; pieces of one connection stay in order, those
//! of different connections do not. A connection can be cut at any byte. What was under way to the broker then arrives
//! in time, late, in part or not at all: a request that its client has given up can still be handled long after the client
//! has asked again elsewhere, as with real sockets.

mod connection;
mod link;
mod stream;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::cluster::{BrokerEvent, Brokers};
use crate::history::History;
use crate::runtime::Random;
use connection::{Connection, Direction};
use link::Links;
pub use link::{Blocked, NetworkSettings};
pub use stream::NetworkStream;

/// A process, by the name of its machine.
pub type ProcessName = Arc<str>;

/// The network and the cluster behind it. Clones share them.
#[derive(Clone, Debug)]
pub struct Network {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    // Guards the whole world outside of the processes. One thread, never held across an await.
    world: Mutex<World>,
    /// Something earlier than all before has been queued.
    earlier: Notify,
}

/// What happens at a point in time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// A connection attempt reaches the broker.
    Arrived(u64),
    /// Its outcome reaches the process.
    Answered(u64),
    /// Bytes are due at one end of a connection.
    Due(u64, Direction),
    /// Something of the cluster's own.
    Broker(BrokerEvent),
}

/// What lies outside of the processes.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) history: History,
    queue: BTreeMap<(u64, u64), Event>,
    next_event: u64,
    pub(crate) connections: BTreeMap<u64, Connection>,
    next_connection: u64,
    pub(crate) links: Links,
    random: Random,
    pub(crate) brokers: Brokers,
}

impl World {
    /// Microseconds of simulated time.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.history.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    pub(crate) fn schedule(&mut self, at: u64, event: Event) {
        self.next_event += 1;
        self.queue.insert((at, self.next_event), event);
    }

    fn first_due(&self) -> Option<u64> {
        self.queue.first_key_value().map(|((at, _), _)| *at)
    }

    fn run_due(&mut self) {
        let now = self.now();
        while let Some(entry) = self.queue.first_entry() {
            if entry.key().0 > now {
                return;
            }
            match entry.remove() {
                Event::Arrived(id) => self.arrived(id, now),
                Event::Answered(id) => self.answered(id),
                Event::Due(id, Direction::Up) => self.due_up(id, now),
                Event::Due(id, Direction::Down) => self.due_down(id, now),
                Event::Broker(event) => self.broker_event(event, now),
            }
        }
    }
}

impl Network {
    /// The network before `brokers`. To be made inside of the simulated runtime; nothing happens until
    /// [`run`](Self::run) is polled.
    pub(crate) fn new(
        seed: u64,
        settings: NetworkSettings,
        brokers: Brokers,
        history: History,
    ) -> Self {
        let world = World {
            history,
            queue: BTreeMap::new(),
            next_event: 0,
            connections: BTreeMap::new(),
            next_connection: 0,
            links: Links::new(settings),
            random: Random::named(seed, "network"),
            brokers,
        };
        let shared = Shared { world: Mutex::new(world), earlier: Notify::new() };
        Self { shared: Arc::new(shared) }
    }

    /// Lets happen what is due, for ever.
    pub async fn run(self) {
        loop {
            let (next, origin) = {
                let mut world = self.lock();
                world.run_due();
                (world.first_due(), world.history.origin())
            };
            let wait = async {
                match next {
                    Some(at) => tokio::time::sleep_until(origin + Duration::from_micros(at)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.shared.earlier.notified() => {}
                () = wait => {}
            }
        }
    }

    /// Connects `process` to the broker at `host`.
    ///
    /// # Errors
    ///
    /// `ConnectionRefused` if nothing listens there. Never returns if nothing answers.
    pub async fn connect(&self, process: &ProcessName, host: &str) -> io::Result<NetworkStream> {
        let id = self.with(|world, now| world.begin_connection(process, host, now))?;
        // Dropped before it is open, the attempt is given up.
        let stream = NetworkStream::new(self.clone(), id);
        stream.opened().await?;
        Ok(stream)
    }

    /// Replaces the settings from now on.
    pub fn set_settings(&self, settings: NetworkSettings) {
        self.with(|world, _| world.links.settings = settings);
    }

    /// Holds bytes back, until a point in time; see [`Blocked`].
    pub fn block(&self, blocked: Blocked) {
        self.with(|world, now| {
            let until = now + u64::try_from(blocked.lasts.as_micros()).unwrap_or(0);
            world.history.note(&"network", || blocked.to_string());
            world.links.block(blocked, until);
        });
    }

    /// From now on each request of `process` is under way for up to `by_ms` longer, at least half of that.
    pub fn slow_down(&self, process: &ProcessName, by_ms: u64) {
        self.with(|world, _| {
            world.history.note(process, || format!("its requests take up to {by_ms} ms longer"));
            world.links.slow_down(Arc::clone(process), by_ms);
        });
    }

    /// Ends all blocks.
    pub fn unblock(&self) {
        self.with(|world, now| world.links.unblock(now));
    }

    /// Breaks every connection that `process` (all, if none is named) has to `node` (all, if none is named).
    pub fn cut(&self, process: Option<&ProcessName>, node: Option<i32>) {
        self.with(|world, now| world.cut_all(process, node, now));
    }

    /// Changes the world, and wakes its clock if something earlier is due now.
    pub(crate) fn with<T>(&self, step: impl FnOnce(&mut World, u64) -> T) -> T {
        let mut world = self.lock();
        let before = world.first_due();
        let now = world.now();
        let result = step(&mut world, now);
        let after = world.first_due();
        drop(world);
        if after.is_some_and(|after| before.is_none_or(|before| after < before)) {
            self.shared.earlier.notify_one();
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.shared.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When this world began.
    #[must_use]
    pub fn origin(&self) -> Instant {
        self.lock().history.origin()
    }
}
