//! What nodes find while the chains of one worker are built.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use millstream_checkpoint::LayeredState;

use super::{Extensions, RestoreContext};
use crate::api::{ExecutionConfig, SinkContext, SourceContext};
use crate::error::{Bug, OperatorError};
use crate::exchange::{Channel, ChannelMatrix};
use crate::metrics::{Counters, JobMetrics};
use crate::state::{KeyGroups, Place};
use crate::task::{Task, WorkerNotifier};
use crate::time::Clock;

/// Collects the tasks of one worker. Nodes add theirs downstream first.
pub struct BuildContext<'a> {
    pub(super) worker: usize,
    pub(super) tasks: Vec<Box<dyn Task>>,
    pub(super) shared: SharedContext<'a>,
}

/// What all workers of one run have in common.
pub(super) struct SharedContext<'a> {
    pub(super) config: &'a ExecutionConfig,
    pub(super) restore: &'a RestoreContext,
    pub(super) metrics: &'a JobMetrics,
    pub(super) notifiers: &'a [WorkerNotifier],
    /// The channels of each exchange, by position of the operator behind it. Their element type is known to that node only.
    pub(super) exchanges: &'a mut BTreeMap<usize, Box<dyn Any>>,
}

/// What worker `w` reads from and writes to on one exchange.
pub(crate) struct ExchangeEnds<E> {
    pub(crate) inputs: Vec<Arc<Channel<E>>>,
    pub(crate) outputs: Vec<Arc<Channel<E>>>,
}

impl BuildContext<'_> {
    pub(crate) fn add_task(&mut self, task: impl Task + 'static) {
        self.tasks.push(Box::new(task));
    }

    pub(crate) fn counters(&self, uid: &str) -> Counters {
        self.shared.metrics.counters(uid, self.worker)
    }

    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.shared.restore.clock)
    }

    pub(crate) fn key_groups(&self) -> KeyGroups {
        KeyGroups::new(self.shared.config.max_parallelism, self.shared.config.parallelism)
    }

    pub(crate) fn worker(&self) -> usize {
        self.worker
    }

    pub(crate) fn state(&self) -> Arc<LayeredState> {
        Arc::clone(&self.shared.restore.state)
    }

    /// What the keyed states of the operator `uid` have in common.
    pub(crate) fn state_place(&self, uid: &Arc<str>) -> Place {
        Place {
            uid: Arc::clone(uid),
            layered: self.state(),
            key_groups: self.key_groups(),
            owned: self.key_groups().range_of(self.worker),
            first_checkpoint: self.first_checkpoint(),
            cache_entries: self.state_cache_entries(),
        }
    }

    pub(crate) fn parallelism(&self) -> usize {
        self.shared.config.parallelism
    }

    pub(crate) fn first_checkpoint(&self) -> u64 {
        self.shared.restore.first_checkpoint
    }

    pub(crate) fn state_cache_entries(&self) -> usize {
        self.shared.config.state_cache_entries
    }

    pub(crate) fn restored_watermark(&self, uid: &str) -> Option<i64> {
        let mut watermarks = self.shared.restore.watermarks.iter();
        watermarks.find(|(of, _)| of == uid).map(|(_, watermark)| *watermark)
    }

    /// The ends of the exchange in front of the operator at `position`, whose elements are `E`.
    pub(crate) fn exchange<E: Send + 'static>(
        &mut self,
        position: usize,
    ) -> Result<ExchangeEnds<E>, OperatorError> {
        let SharedContext { config, notifiers, exchanges, .. } = &mut self.shared;
        let matrix = exchanges
            .entry(position)
            .or_insert_with(|| Box::new(ChannelMatrix::<E>::new(config.exchange_bytes, notifiers)));
        let matrix = matrix.downcast_ref::<ChannelMatrix<E>>().ok_or_else(|| {
            OperatorError::new(Bug(format!("exchange {position} carries elements of two types")))
        })?;
        Ok(ExchangeEnds {
            inputs: matrix.inputs_of(self.worker),
            outputs: matrix.outputs_of(self.worker),
        })
    }

    /// What the reader of the source `uid` is made from. Split i is read by worker i modulo parallelism.
    pub(crate) fn source_context(&self, uid: &Arc<str>) -> SourceContext {
        let parallelism = self.shared.config.parallelism;
        let positions = self.shared.restore.positions.of_source(uid).cloned();
        SourceContext {
            uid: Arc::clone(uid),
            worker: self.worker,
            parallelism,
            positions: positions.skip(self.worker).step_by(parallelism).collect(),
            checkpoint_interval: self.shared.config.checkpoint_interval,
            notifier: self.notifier(),
            extensions: self.extensions(),
        }
    }

    pub(crate) fn sink_context(&self, uid: &Arc<str>) -> SinkContext {
        SinkContext {
            uid: Arc::clone(uid),
            worker: self.worker,
            parallelism: self.shared.config.parallelism,
            checkpoint: self.first_checkpoint(),
            notifier: self.notifier(),
            extensions: self.extensions(),
        }
    }

    fn notifier(&self) -> WorkerNotifier {
        self.shared.notifiers.get(self.worker).cloned().unwrap_or_default()
    }

    fn extensions(&self) -> Extensions {
        self.shared.restore.extensions.clone()
    }
}

impl fmt::Debug for BuildContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BuildContext").field("worker", &self.worker).finish_non_exhaustive()
    }
}
