//! Functions with state and timers: the lowest level of the API.

use std::fmt;
use std::marker::PhantomData;

use crate::error::OperatorError;
use crate::operator::Collector;
use crate::state::{KeyedStateBackend, RuntimeContext, StateCodec, StateContext};

/// A function with keyed state and timers (Flink's `KeyedProcessFunction`). Each worker has its own copy.
///
/// State belongs in state handles. What a function keeps in fields of its own is gone after a restart or a rollback.
///
/// ```
/// use millstream_engine::api::{KeyedProcessFunction, OutputCollector, ProcessContext};
/// use millstream_engine::state::{RuntimeContext, ValueState, ValueStateDescriptor};
/// use millstream_engine::OperatorError;
///
/// /// Emits the number of elements of a key once none has come for a minute of event time.
/// #[derive(Clone, Default)]
/// struct QuietCount {
///     count: ValueState<u64>,
///     last: ValueState<i64>,
/// }
///
/// impl KeyedProcessFunction for QuietCount {
///     type Key = String;
///     type Input = String;
///     type Output = (String, u64);
///
///     fn open(&mut self, runtime: &mut RuntimeContext<'_>) -> Result<(), OperatorError> {
///         self.count = runtime.value_state(ValueStateDescriptor::new("count"))?;
///         self.last = runtime.value_state(ValueStateDescriptor::new("last"))?;
///         Ok(())
///     }
///
///     fn process_element(
///         &mut self,
///         _element: String,
///         ctx: &mut ProcessContext<'_, String>,
///         _out: &mut OutputCollector<'_, (String, u64)>,
///     ) -> Result<(), OperatorError> {
///         let count = self.count.value(ctx)?.copied().unwrap_or(0);
///         self.count.update(ctx, count + 1)?;
///         let now = ctx.timestamp();
///         self.last.update(ctx, now)?;
///         ctx.timer_service().register_event_time_timer(now + 60_000);
///         Ok(())
///     }
///
///     fn on_timer(
///         &mut self,
///         timestamp: i64,
///         ctx: &mut ProcessContext<'_, String>,
///         out: &mut OutputCollector<'_, (String, u64)>,
///     ) -> Result<(), OperatorError> {
///         if self.last.value(ctx)? == Some(&(timestamp - 60_000)) {
///             let count = self.count.value(ctx)?.copied().unwrap_or(0);
///             out.collect((ctx.current_key()?, count))?;
///             self.count.clear(ctx)?;
///             self.last.clear(ctx)?;
///         }
///         Ok(())
///     }
/// }
/// ```
pub trait KeyedProcessFunction: Clone + Send + 'static {
    /// What the stream is keyed by.
    type Key: StateCodec + Send;
    /// What comes in.
    type Input: Send + 'static;
    /// What goes out.
    type Output: Send + 'static;

    /// Registers the function's states and keeps their handles. Called once on each worker before any element, and once
    /// while the job is described, to learn the states' names and types: it must do the same every time.
    ///
    /// # Errors
    ///
    /// Whatever the function cannot go on with; the job does not start then.
    fn open(&mut self, runtime: &mut RuntimeContext<'_>) -> Result<(), OperatorError>;

    /// Processes one element.
    ///
    /// # Errors
    ///
    /// Whatever the function cannot go on with; it ends the run.
    fn process_element(
        &mut self,
        element: Self::Input,
        ctx: &mut ProcessContext<'_, Self::Key>,
        out: &mut OutputCollector<'_, Self::Output>,
    ) -> Result<(), OperatorError>;

    /// A timer that was registered for the context's key has fired at `timestamp` (milliseconds). Those in event time fire in
    /// the order of their timestamps when the watermark reaches them. Those in processing time fire when the clock does; if
    /// no process ran at that time, late. When all inputs have ended, the first all fire and the second do not any more.
    ///
    /// # Errors
    ///
    /// Whatever the function cannot go on with; it ends the run.
    fn on_timer(
        &mut self,
        timestamp: i64,
        ctx: &mut ProcessContext<'_, Self::Key>,
        out: &mut OutputCollector<'_, Self::Output>,
    ) -> Result<(), OperatorError> {
        let _ = (timestamp, ctx, out);
        Ok(())
    }
}

/// Which time a timer is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeDomain {
    /// The watermark.
    EventTime,
    /// The machine's clock.
    ProcessingTime,
}

/// What a function can ask about the element or timer that it processes; the context of its state.
pub struct ProcessContext<'a, K> {
    states: &'a mut KeyedStateBackend,
    timestamp: i64,
    time_domain: Option<TimeDomain>,
    key: PhantomData<fn() -> K>,
}

impl<'a, K: StateCodec> ProcessContext<'a, K> {
    pub(crate) fn new(
        states: &'a mut KeyedStateBackend,
        timestamp: i64,
        time_domain: Option<TimeDomain>,
    ) -> Self {
        Self { states, timestamp, time_domain, key: PhantomData }
    }

    /// Timestamp of the element or timer, in milliseconds.
    #[must_use]
    pub fn timestamp(&self) -> i64 {
        self.timestamp
    }

    /// The domain of the timer that fires; `None` for an element.
    #[must_use]
    pub fn time_domain(&self) -> Option<TimeDomain> {
        self.time_domain
    }

    /// Key of the element or timer.
    ///
    /// # Errors
    ///
    /// [`OperatorError`] if it can not be decoded.
    pub fn current_key(&self) -> Result<K, OperatorError> {
        K::decode(self.states.encoded_key()).map_err(OperatorError::new)
    }

    /// Times, and the timers of the current key.
    pub fn timer_service(&mut self) -> TimerService<'_> {
        TimerService { states: self.states }
    }
}

impl<K> StateContext for ProcessContext<'_, K> {
    fn states(&mut self) -> &mut KeyedStateBackend {
        self.states
    }
}

/// Registers and deletes timers of the current key and namespace. There is at most one timer of the same time, key and
/// namespace in each domain; registering it again changes nothing.
pub struct TimerService<'a> {
    states: &'a mut KeyedStateBackend,
}

impl TimerService<'_> {
    /// The operator's watermark in milliseconds.
    #[must_use]
    pub fn current_watermark(&self) -> i64 {
        self.states.time().watermark
    }

    /// The operator's processing time in milliseconds since the Unix epoch: the machine's clock, read once per batch, but
    /// never before a time that a checkpoint has seen.
    #[must_use]
    pub fn current_processing_time(&self) -> i64 {
        self.states.time().processing_ms
    }

    /// Registers a timer for when the watermark reaches `timestamp` (milliseconds); at once if it has.
    pub fn register_event_time_timer(&mut self, timestamp: i64) {
        let (timers, key) = self.states.event_timers();
        timers.register(key, timestamp);
    }

    /// Registers a timer for when the clock reaches `timestamp` (milliseconds since the Unix epoch).
    pub fn register_processing_time_timer(&mut self, timestamp: i64) {
        let (timers, key) = self.states.processing_timers();
        timers.register(key, timestamp);
    }

    /// Deletes a timer, if there is one.
    pub fn delete_event_time_timer(&mut self, timestamp: i64) {
        let (timers, key) = self.states.event_timers();
        timers.delete(key, timestamp);
    }

    /// Deletes a timer, if there is one.
    pub fn delete_processing_time_timer(&mut self, timestamp: i64) {
        let (timers, key) = self.states.processing_timers();
        timers.delete(key, timestamp);
    }
}

/// Where a function puts what it emits (Flink's `Collector`).
pub struct OutputCollector<'a, T> {
    downstream: &'a mut dyn Collector<T>,
    timestamp: i64,
    collected: &'a mut u64,
}

impl<'a, T> OutputCollector<'a, T> {
    pub(crate) fn new(
        downstream: &'a mut dyn Collector<T>,
        timestamp: i64,
        collected: &'a mut u64,
    ) -> Self {
        Self { downstream, timestamp, collected }
    }

    /// Emits an element with the timestamp of the element or timer that is processed.
    ///
    /// # Errors
    ///
    /// [`OperatorError`] of an operator downstream; give it back.
    pub fn collect(&mut self, element: T) -> Result<(), OperatorError> {
        self.collect_with_timestamp(element, self.timestamp)
    }

    /// Emits an element with a timestamp of its own, in milliseconds.
    ///
    /// # Errors
    ///
    /// As for [`collect`](Self::collect).
    pub fn collect_with_timestamp(
        &mut self,
        element: T,
        timestamp: i64,
    ) -> Result<(), OperatorError> {
        *self.collected += 1;
        self.downstream.collect(element, timestamp)
    }
}

impl<K> fmt::Debug for ProcessContext<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessContext")
            .field("timestamp", &self.timestamp)
            .field("time_domain", &self.time_domain)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for TimerService<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimerService").field("time", &self.states.time()).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for OutputCollector<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputCollector")
            .field("timestamp", &self.timestamp)
            .finish_non_exhaustive()
    }
}
