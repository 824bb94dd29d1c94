//! Runs a function with state and timers.

use std::sync::Arc;
use std::time::Duration;

use super::{Collector, Output};
use crate::api::{KeyedProcessFunction, OutputCollector, ProcessContext, TimeDomain};
use crate::error::OperatorError;
use crate::exchange::{CheckpointBarrier, CheckpointKind, KeyedBatch, KeyedElement};
use crate::metrics::Counters;
use crate::state::{KeyedStateBackend, RuntimeContext, SealBudget, StateCodec};
use crate::task::{ProcessBatch, SnapshotContext};
use crate::time::{Clock, WATERMARK_MIN, WatermarkStatus};

/// See [`KeyedStream::process`](crate::api::KeyedStream::process).
pub(crate) struct KeyedProcess<P, D> {
    pub(crate) uid: Arc<str>,
    pub(crate) function: P,
    pub(crate) states: KeyedStateBackend,
    pub(crate) worker: usize,
    pub(crate) parallelism: usize,
    pub(crate) clock: Arc<dyn Clock>,
    /// What downstream has been told. Timers at or before the watermark that are still there wait for capacity downstream.
    pub(crate) forwarded: i64,
    /// Timers in processing time fire; not any more behind the barrier of a stop.
    pub(crate) clock_runs: bool,
    pub(crate) counters: Counters,
    pub(crate) downstream: D,
}

/// After so many timers the operator asks again whether there is capacity downstream.
const UNIT_TIMERS: usize = 1024;

/// Under which name an operator's processing time is part of a checkpoint.
pub(crate) fn processing_time_name(uid: &str) -> String {
    format!("{uid}\u{0}processing-time")
}

impl<P, D> KeyedProcess<P, D>
where
    P: KeyedProcessFunction,
    D: Collector<P::Output>,
{
    /// Reads the clock. Processing time stands still while the machine's clock is behind it.
    fn read_clock(&mut self) {
        let time = self.states.time_mut();
        time.processing_ms = time.processing_ms.max(self.clock.wall_time_ms());
    }

    /// Calls the function for timers that are due, the earliest first; gives how many there were, up to `limit`.
    fn fire(&mut self, domain: TimeDomain, limit: usize) -> Result<usize, OperatorError> {
        let Self { function, states, counters, downstream, .. } = self;
        let time = states.time();
        for fired in 0..limit {
            let due = match domain {
                TimeDomain::EventTime => states.event_timers().0.take(time.watermark)?,
                TimeDomain::ProcessingTime => {
                    states.processing_timers().0.take(time.processing_ms)?
                }
            };
            let Some(due) = due else { return Ok(fired) };
            states.set_key_of(&due)?;
            let timestamp = due.timestamp();
            states.time_mut().timestamp = match domain {
                TimeDomain::EventTime => timestamp,
                TimeDomain::ProcessingTime => time.watermark,
            };
            let mut context = ProcessContext::new(states, timestamp, Some(domain));
            let mut out = OutputCollector::new(downstream, timestamp, &mut counters.records_out);
            function.on_timer(timestamp, &mut context, &mut out)?;
        }
        Ok(limit)
    }

    fn has_due_processing_timer(&self) -> bool {
        self.clock_runs
            && self.states.first_processing_timer().is_some_and(|first| {
                first <= self.states.time().processing_ms.max(self.clock.wall_time_ms())
            })
    }

    fn drain(&mut self) -> Result<(), OperatorError> {
        let mut left = UNIT_TIMERS;
        if self.forwarded < self.states.time().watermark {
            left -= self.fire(TimeDomain::EventTime, left)?;
            if left > 0 {
                self.forwarded = self.states.time().watermark;
                self.downstream.on_watermark(self.forwarded)?;
            }
        }
        if left > 0 && self.has_due_processing_timer() {
            self.read_clock();
            // Loads the first slice, if only that was missing.
            self.states.processing_timers().0.first()?;
            self.fire(TimeDomain::ProcessingTime, left)?;
        }
        Ok(())
    }
}

impl<P, D> ProcessBatch<KeyedBatch<P::Input>> for KeyedProcess<P, D>
where
    P: KeyedProcessFunction,
    D: Collector<P::Output>,
{
    fn process_batch(&mut self, batch: &mut KeyedBatch<P::Input>) -> Result<(), OperatorError> {
        self.read_clock();
        let Self { uid, function, states, counters, downstream, .. } = self;
        for KeyedElement { key, element, timestamp } in batch.drain() {
            counters.records_in += 1;
            states.set_encoded_key(key);
            states.time_mut().timestamp = timestamp;
            let mut context = ProcessContext::new(states, timestamp, None);
            let mut out = OutputCollector::new(downstream, timestamp, &mut counters.records_out);
            function
                .process_element(element, &mut context, &mut out)
                .map_err(|error| error.in_operator(uid))?;
        }
        if states.has_ttl() {
            states.clean_some().map_err(|error| error.in_operator(uid))?;
        }
        Ok(())
    }

    fn seal_some(
        &mut self,
        snapshot: &mut SnapshotContext,
        budget: &mut SealBudget,
    ) -> Result<bool, OperatorError> {
        self.states
            .seal_some(budget, |changes| snapshot.add_state(changes))
            .map_err(|error| error.in_operator(&self.uid))
    }

    fn wakes_in(&self) -> Option<Duration> {
        let first = self.states.first_processing_timer().filter(|_| self.clock_runs)?;
        let left = first.saturating_sub(self.clock.wall_time_ms());
        Some(Duration::from_millis(u64::try_from(left).unwrap_or(0)))
    }

    fn has_backlog(&self) -> bool {
        self.forwarded < self.states.time().watermark || self.has_due_processing_timer()
    }

    fn drain_backlog(&mut self) -> Result<(), OperatorError> {
        self.drain().map_err(|error| error.in_operator(&self.uid))
    }
}

impl<P, D> Output for KeyedProcess<P, D>
where
    P: KeyedProcessFunction,
    D: Collector<P::Output>,
{
    fn open(&mut self) -> Result<(), OperatorError> {
        self.downstream.open()?;
        self.counters.watermark(self.states.time().watermark);
        let Self { uid, function, states, worker, parallelism, .. } = self;
        let mut runtime = RuntimeContext::new(states, P::Key::schema(), *worker, *parallelism);
        function.open(&mut runtime).map_err(|error| error.in_operator(uid))
    }

    fn on_watermark(&mut self, watermark: i64) -> Result<(), OperatorError> {
        // After a restore with other workers the inputs may lag behind what this operator has fired.
        if watermark > self.states.time().watermark {
            self.states.time_mut().watermark = watermark;
            self.counters.watermark(watermark);
        }
        Ok(())
    }

    fn on_watermark_status(&mut self, status: WatermarkStatus) -> Result<(), OperatorError> {
        self.downstream.on_watermark_status(status)
    }

    fn on_barrier(
        &mut self,
        barrier: CheckpointBarrier,
        snapshot: &mut SnapshotContext,
    ) -> Result<(), OperatorError> {
        self.states.freeze(barrier.checkpoint).map_err(|error| error.in_operator(&self.uid))?;
        let time = self.states.time();
        if time.watermark > WATERMARK_MIN {
            snapshot.add_watermark(&self.uid, time.watermark);
        }
        if time.processing_ms > 0 {
            snapshot.add_watermark(&processing_time_name(&self.uid), time.processing_ms);
        }
        if barrier.kind == CheckpointKind::Suspend {
            self.clock_runs = false;
        }
        self.downstream.on_barrier(barrier, snapshot)
    }

    fn on_batch_end(&mut self) -> Result<(), OperatorError> {
        self.counters.publish();
        self.downstream.on_batch_end()
    }

    fn on_end(&mut self) -> Result<(), OperatorError> {
        self.clock_runs = false;
        self.counters.publish();
        self.downstream.on_end()
    }

    fn on_checkpoint_confirmed(&mut self, checkpoint: u64) -> Result<(), OperatorError> {
        self.states.confirm(checkpoint);
        self.downstream.on_checkpoint_confirmed(checkpoint)
    }

    fn has_capacity(&self) -> bool {
        self.downstream.has_capacity()
    }
}
