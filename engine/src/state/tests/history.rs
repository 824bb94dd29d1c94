//! One random history.

use std::sync::Arc;
use std::time::Duration;

use millstream_checkpoint::{
    CheckpointId, CheckpointRef, DeltaHeader, Fingerprint, FjallOptions, FjallStore, FrozenDelta,
    JobName, JobStatus, LayeredState, MemoryStore, Nonce, Positions, RealDisk, SealedState,
    StateDirectory, StateStore,
};

use super::super::backend::Place;
use super::super::*;
use super::model::{Cell, Model, TTL_MS};
use crate::api::AggregateFunction;

/// Which store lies below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Memory,
    Fjall,
}

#[derive(Clone)]
struct CountAndSum;

impl AggregateFunction for CountAndSum {
    type Input = i64;
    type Accumulator = (u64, i64);
    type Output = (u64, i64);

    fn create_accumulator(&self) -> (u64, i64) {
        (0, 0)
    }
    fn add(&self, element: i64, (count, sum): &mut (u64, i64)) {
        *count += 1;
        *sum += element;
    }
    fn result(&self, accumulator: &(u64, i64)) -> (u64, i64) {
        *accumulator
    }
}

/// The states of one worker and their handles.
struct Worker {
    states: KeyedStateBackend,
    value: ValueState<i64>,
    list: ListState<String>,
    map: MapState<u8, i64>,
    sum: ReducingState<i64>,
    aggregate: AggregatingState<CountAndSum>,
    short_value: ValueState<i64>,
    short_list: ListState<i64>,
    short_map: MapState<u8, i64>,
    sealed: bool,
}

const KEY_GROUPS: u16 = 8;
const JOB: &str = "history";

pub(super) struct History {
    random: Random,
    memory: Option<Arc<MemoryStore>>,
    _folder: tempfile::TempDir,
    directory: StateDirectory,
    store: Arc<dyn StateStore>,
    layered: Arc<LayeredState>,
    workers: Vec<Worker>,
    groups: KeyGroups,
    model: Model,
    /// The checkpoint that is being sealed, the model at its barrier, and what is sealed of it.
    pending: Option<(u64, Model, Vec<SealedState>)>,
    confirmed: (u64, Model),
    /// Confirmed checkpoints whose files are there.
    files: Vec<CheckpointRef>,
    nonce: u8,
    checks: u64,
}

type Checked = Result<(), String>;

impl History {
    /// Runs `steps` random steps; gives the number of comparisons, or what was wrong.
    pub(super) fn run(kind: Kind, seed: u64, steps: usize) -> Result<u64, String> {
        let mut history = Self::new(kind, seed);
        for step in 0..steps {
            history.step().map_err(|wrong| format!("step {step}: {wrong}"))?;
        }
        history.restart(false).map_err(|wrong| format!("at the end: {wrong}"))?;
        Ok(history.checks)
    }

    fn new(kind: Kind, seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let job = JobName::new(JOB).unwrap();
        let path = folder.path().join("state");
        let directory =
            StateDirectory::open(Arc::new(RealDisk), &path, &job, Fingerprint([0; 16])).unwrap();
        let memory = (kind == Kind::Memory).then(|| Arc::new(MemoryStore::new()));
        let store: Arc<dyn StateStore> = match &memory {
            Some(memory) => Arc::clone(memory) as _,
            None => open_fjall(&directory),
        };
        let layered = Arc::new(LayeredState::new(Arc::clone(&store)).unwrap());
        let mut history = Self {
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            memory,
            _folder: folder,
            directory,
            store,
            layered,
            workers: Vec::new(),
            groups: KeyGroups::new(KEY_GROUPS, 1),
            model: Model::default(),
            pending: None,
            confirmed: (0, Model::default()),
            files: Vec::new(),
            nonce: 0,
            checks: 0,
        };
        history.start_workers();
        history
    }

    fn start_workers(&mut self) {
        self.nonce += 1;
        let parallelism = 1 + self.random.below(3);
        let cache_entries = 1 + self.random.below(12);
        self.groups = KeyGroups::new(KEY_GROUPS, parallelism);
        let (confirmed, model) = &self.confirmed;
        self.workers = (0..parallelism)
            .map(|worker| {
                let mut states = KeyedStateBackend::new(Place {
                    uid: "op".into(),
                    layered: Arc::clone(&self.layered),
                    key_groups: self.groups,
                    owned: self.groups.range_of(worker),
                    first_checkpoint: confirmed + 1,
                    cache_entries,
                });
                states.time_mut().watermark = model.watermark;
                states.time_mut().processing_ms = self.model.processing_ms;
                Worker::open(states)
            })
            .collect();
    }

    fn step(&mut self) -> Checked {
        match self.random.below(100) {
            0..70 => self.change(),
            70..76 => self.advance_watermark(),
            76..80 => {
                self.model.processing_ms += i64::try_from(self.random.below(9)).unwrap();
                let now = self.model.processing_ms;
                self.workers.iter_mut().for_each(|it| it.states.time_mut().processing_ms = now);
                Ok(())
            }
            80..84 => {
                let looks = self.random.below(30);
                self.each(|worker| worker.states.clean(looks))
            }
            84..90 => self.barrier(),
            90..95 => self.seal(),
            95..97 => self.apply(),
            97 => self.restart(true),
            _ => {
                let rare = self.random.below(3) == 0;
                if rare { self.restart(false) } else { Ok(()) }
            }
        }
    }

    fn each(
        &mut self,
        mut work: impl FnMut(&mut Worker) -> Result<(), crate::OperatorError>,
    ) -> Checked {
        self.workers.iter_mut().try_for_each(&mut work).map_err(|error| format!("{error:?}"))
    }

    /// One operation of a function under a random key.
    fn change(&mut self) -> Checked {
        let Self { random, workers, groups, model, checks, .. } = self;
        let cell: Cell = (random.small(12), random.small(3));
        let worker = worker_of(workers, *groups, cell);
        worker.set_cell(cell);
        let number = i64::from(random.small(100));
        let (now_expiry, now) = (model.expiry(), model.processing_ms);
        let lives = |expiry: i64| now < expiry;
        let watermark = model.watermark;
        let at = model.cells.entry(cell).or_default();
        *checks += 1;
        let mut work = || -> Result<(String, String), crate::OperatorError> {
            let Worker {
                states,
                value,
                list,
                map,
                sum,
                aggregate,
                short_value,
                short_list,
                short_map,
                ..
            } = worker;
            Ok(match random.below(26) {
                0..2 => {
                    at.value = Some(number);
                    value.update(states, number)?;
                    done()
                }
                2 => {
                    at.value = None;
                    value.clear(states)?;
                    done()
                }
                3 => both(&value.value(states)?.copied(), &at.value),
                4..6 => {
                    at.list.push(number.to_string());
                    list.add(states, &number.to_string())?;
                    done()
                }
                6 => both(&list.get(states)?, &at.list),
                7 => {
                    at.list = vec!["new".to_owned(), number.to_string()];
                    list.update(states, &at.list)?;
                    done()
                }
                8 => {
                    at.list.clear();
                    list.clear(states)?;
                    done()
                }
                9..11 => {
                    let key = random.small(6);
                    at.map.insert(key, number);
                    map.put(states, &key, &number)?;
                    done()
                }
                11 => {
                    let key = random.small(6);
                    at.map.remove(&key);
                    map.remove(states, &key)?;
                    done()
                }
                12 => {
                    let key = random.small(6);
                    both(&map.get(states, &key)?, &at.map.get(&key).copied())
                }
                13 => {
                    let expected: Vec<_> =
                        at.map.iter().map(|(key, value)| (*key, *value)).collect();
                    both(
                        &(map.is_empty(states)?, map.entries(states)?),
                        &(expected.is_empty(), expected),
                    )
                }
                14 if random.below(3) == 0 => {
                    at.map.clear();
                    map.clear(states)?;
                    done()
                }
                14..16 => {
                    at.sum = Some(at.sum.unwrap_or(0) + number);
                    sum.add(states, number)?;
                    both(&sum.get(states)?.copied(), &at.sum)
                }
                16 => {
                    at.sum = None;
                    sum.clear(states)?;
                    done()
                }
                17 => {
                    let (count, total) = at.aggregate.unwrap_or((0, 0));
                    at.aggregate = Some((count + 1, total + number));
                    aggregate.add(states, number)?;
                    both(&aggregate.get(states)?, &at.aggregate)
                }
                18 => {
                    at.aggregate = None;
                    aggregate.clear(states)?;
                    done()
                }
                19 => {
                    at.short_value = Some((number, now_expiry));
                    short_value.update(states, number)?;
                    done()
                }
                20 => {
                    at.short_value = at.short_value.filter(|(_, expiry)| lives(*expiry));
                    both(&short_value.value(states)?.copied(), &at.short_value.map(|it| it.0))
                }
                21 => {
                    at.short_list.push((number, now_expiry));
                    short_list.add(states, &number)?;
                    done()
                }
                22 => {
                    at.short_list.retain(|(_, expiry)| lives(*expiry));
                    // Reads prolong it.
                    at.short_list.iter_mut().for_each(|element| element.1 = now_expiry);
                    let expected: Vec<_> = at.short_list.iter().map(|element| element.0).collect();
                    both(&short_list.get(states)?, &expected)
                }
                23 => {
                    let key = random.small(6);
                    at.short_map.insert(key, (number, now_expiry));
                    short_map.put(states, &key, &number)?;
                    done()
                }
                24 => {
                    at.short_map.retain(|_, (_, expiry)| lives(*expiry));
                    let expected: Vec<_> =
                        at.short_map.iter().map(|(key, value)| (*key, value.0)).collect();
                    both(&short_map.entries(states)?, &expected)
                }
                _ => {
                    let timestamp = watermark + 1 + i64::from(random.small(60));
                    if random.below(4) == 0 {
                        let known = model.timers.iter().find(|timer| timer.1 == cell).copied();
                        let timer = known.unwrap_or((timestamp, cell));
                        model.timers.remove(&timer);
                        let (timers, key) = states.event_timers();
                        timers.delete(key, timer.0);
                    } else {
                        model.timers.insert((timestamp, cell));
                        let (timers, key) = states.event_timers();
                        timers.register(key, timestamp);
                    }
                    done()
                }
            })
        };
        let (found, expected) = work().map_err(|error| format!("{error:?}"))?;
        if found == expected {
            Ok(())
        } else {
            Err(format!("key {cell:?}: found {found}, expected {expected}"))
        }
    }

    fn advance_watermark(&mut self) -> Checked {
        self.model.watermark += i64::from(self.random.small(30));
        let expected = self.model.fire();
        let watermark = self.model.watermark;
        let mut fired: Vec<(i64, Cell)> = Vec::new();
        for worker in &mut self.workers {
            worker.states.time_mut().watermark = watermark;
            let mut last = i64::MIN;
            while let Some((timestamp, cell)) = worker.fire(watermark)? {
                if timestamp < last {
                    return Err(format!("a timer of {timestamp} fires after one of {last}"));
                }
                last = timestamp;
                fired.push((timestamp, cell));
            }
        }
        fired.sort_unstable();
        self.checks += 1;
        if fired == expected {
            Ok(())
        } else {
            Err(format!("timers {fired:?} fired, expected {expected:?}"))
        }
    }

    fn barrier(&mut self) -> Checked {
        if self.pending.is_some() {
            return Ok(());
        }
        let checkpoint = self.confirmed.0 + 1;
        self.pending = Some((checkpoint, self.model.clone(), Vec::new()));
        self.each(|worker| {
            worker.sealed = false;
            worker.states.freeze(checkpoint)
        })
    }

    /// A slice of the encoding at each worker; once all of it is there, the checkpoint is written and confirmed.
    fn seal(&mut self) -> Checked {
        let Some((_, _, parts)) = &mut self.pending else { return Ok(()) };
        let values = self.random.below(60);
        for worker in &mut self.workers {
            let mut budget = SealBudget::of(values);
            let sealed = worker.states.seal_some(&mut budget, |part| parts.push(part));
            worker.sealed = sealed.map_err(|error| format!("{error:?}"))?;
        }
        if !self.workers.iter().all(|worker| worker.sealed) {
            return Ok(());
        }
        let Some((checkpoint, model, parts)) = self.pending.take() else { return Ok(()) };
        let at = CheckpointRef::new(CheckpointId(checkpoint), Nonce([self.nonce; 16]));
        let delta = Arc::new(FrozenDelta::from_parts(parts).map_err(|error| error.to_string())?);
        self.layered.push_frozen(at, Arc::clone(&delta)).unwrap();
        let last = self.files.last().copied();
        let zero = CheckpointRef::new(CheckpointId::ZERO, Nonce([0; 16]));
        let header = DeltaHeader {
            job: JobName::new(JOB).unwrap(),
            at,
            parent: last.unwrap_or(zero),
            parent_ledger_offset: None,
            positions: Positions::new(),
            watermarks: Vec::new(),
            status: JobStatus::Running,
            fingerprint: Fingerprint([0; 16]),
            producer: None,
        };
        self.directory.write_delta(&header, &delta).unwrap();
        if self.random.below(8) == 0 {
            // The commit fails.
            self.directory.quarantine(at).unwrap();
            return self.restart(true);
        }
        self.layered.confirm(at).unwrap();
        self.files.push(at);
        self.confirmed = (checkpoint, model);
        self.each(|worker| {
            worker.states.confirm(checkpoint);
            Ok(())
        })
    }

    fn apply(&mut self) -> Checked {
        let bytes_max = self.random.below(4000);
        self.layered.apply_confirmed(bytes_max).unwrap();
        if self.random.below(2) == 0 {
            self.layered.persist().unwrap();
        }
        Ok(())
    }

    /// Everything in memory is gone; with a power loss (not `soft`) also what the store has not persisted. Then all state
    /// is read and compared.
    fn restart(&mut self, soft: bool) -> Checked {
        self.workers.clear();
        if !soft && let Some(memory) = &self.memory {
            let mut random = self.random.clone();
            let memory = Arc::new(memory.after_crash(|_| random.below(2) == 0));
            self.store = Arc::clone(&memory) as _;
            self.memory = Some(memory);
        }
        if !soft && self.memory.is_none() {
            // fjall locks its folder.
            let none: Arc<dyn StateStore> = Arc::new(MemoryStore::new());
            self.layered = Arc::new(LayeredState::new(Arc::clone(&none)).unwrap());
            self.store = none;
            self.store = open_fjall(&self.directory);
        }
        let floor = self.store.floor().unwrap().map_or(0, |at| at.checkpoint.0);
        for at in self.files.iter().filter(|at| at.checkpoint.0 > floor) {
            let (_, delta) = self.directory.read_delta(*at).unwrap();
            for state in delta.states() {
                let applied = self.store.applied(state).unwrap();
                if applied.is_none_or(|applied| applied.checkpoint < at.checkpoint) {
                    self.store.ingest(state, *at, &mut delta.changes(state)).unwrap();
                }
            }
        }
        if let Some(last) = self.files.last() {
            self.store.persist_floor(*last).unwrap();
        }
        self.layered = Arc::new(LayeredState::new(Arc::clone(&self.store)).unwrap());
        self.pending = None;
        // The clock goes on.
        let now = self.model.processing_ms;
        self.model = self.confirmed.1.clone();
        self.model.processing_ms = now;
        self.start_workers();
        self.compare_all()
    }

    fn compare_all(&mut self) -> Checked {
        let Self { workers, groups, model, checks, .. } = self;
        for (cell, at) in model.cells.clone() {
            let worker = worker_of(workers, *groups, cell);
            worker.set_cell(cell);
            *checks += 1;
            let (value, list, map) = worker.contents().map_err(|error| format!("{error:?}"))?;
            let expected: Vec<_> = at.map.iter().map(|(key, value)| (*key, *value)).collect();
            if (value, &list, &map) != (at.value, &at.list, &expected) {
                return Err(format!(
                    "after a restart {cell:?} has {value:?} {list:?} {map:?}, expected {at:?}"
                ));
            }
        }
        Ok(())
    }
}

impl Worker {
    fn open(mut states: KeyedStateBackend) -> Self {
        let ttl = StateTtlConfig::new(Duration::from_millis(TTL_MS.unsigned_abs()));
        let prolonged = ttl.update_type(TtlUpdateType::OnReadAndWrite);
        let mut runtime = RuntimeContext::of_backend::<u8>(&mut states);
        let value = runtime.value_state(ValueStateDescriptor::new("value")).unwrap();
        let list = runtime.list_state(ListStateDescriptor::new("list")).unwrap();
        let map = runtime.map_state(MapStateDescriptor::new("map")).unwrap();
        let add = |one: i64, other: i64| one + other;
        let sum = runtime.reducing_state(ReducingStateDescriptor::new("sum", add)).unwrap();
        let aggregate = AggregatingStateDescriptor::new("aggregate", CountAndSum);
        let aggregate = runtime.aggregating_state(aggregate).unwrap();
        let short = ValueStateDescriptor::new("short value").with_ttl(ttl);
        let short_value = runtime.value_state(short).unwrap();
        let short = ListStateDescriptor::new("short list").with_ttl(prolonged);
        let short_list = runtime.list_state(short).unwrap();
        let short = MapStateDescriptor::new("short map").with_ttl(ttl);
        let short_map = runtime.map_state(short).unwrap();
        Self {
            states,
            value,
            list,
            map,
            sum,
            aggregate,
            short_value,
            short_list,
            short_map,
            sealed: true,
        }
    }

    fn set_cell(&mut self, (key, namespace): Cell) {
        self.states.set_current_key(&key).unwrap();
        self.states.set_current_namespace(&vec![namespace; namespace.into()]);
    }

    #[expect(clippy::type_complexity, reason = "three states at once")]
    fn contents(
        &mut self,
    ) -> Result<(Option<i64>, Vec<String>, Vec<(u8, i64)>), crate::OperatorError> {
        let Self { states, value, list, map, .. } = self;
        Ok((value.value(states)?.copied(), list.get(states)?, map.entries(states)?))
    }

    fn fire(&mut self, watermark: i64) -> Result<Option<(i64, Cell)>, String> {
        let wrong = |error: crate::OperatorError| format!("{error:?}");
        let Some(due) = self.states.event_timers().0.take(watermark).map_err(wrong)? else {
            return Ok(None);
        };
        self.states.set_key_of(&due).map_err(wrong)?;
        let key = u8::decode(self.states.encoded_key()).unwrap();
        // The namespace ends the timer's key, and is its own length.
        let namespace = due.key().last().copied().unwrap();
        Ok(Some((due.timestamp(), (key, namespace))))
    }
}

fn worker_of(workers: &mut [Worker], groups: KeyGroups, (key, _): Cell) -> &mut Worker {
    let mut bytes = Vec::new();
    key.encode(&mut bytes).unwrap();
    &mut workers[groups.worker_of(groups.of_key(&bytes).key_group)]
}

fn open_fjall(directory: &StateDirectory) -> Arc<dyn StateStore> {
    Arc::new(FjallStore::open(&directory.store_path(), FjallOptions::default()).unwrap())
}

fn both<T: std::fmt::Debug>(found: &T, expected: &T) -> (String, String) {
    (format!("{found:?}"), format!("{expected:?}"))
}

fn done() -> (String, String) {
    Default::default()
}

/// xorshift64*.
#[derive(Clone)]
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound.max(1)
    }

    fn small(&mut self, bound: u8) -> u8 {
        u8::try_from(self.below(bound.into())).unwrap()
    }
}
