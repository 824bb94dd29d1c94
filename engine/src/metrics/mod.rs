//! Counters per operator, written by the workers and readable from outside while the job runs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::time::WATERMARK_MIN;

/// Counters of one operator at one worker.
#[derive(Debug)]
struct OperatorMetrics {
    records_in: AtomicU64,
    records_out: AtomicU64,
    late_records_dropped: AtomicU64,
    watermark: AtomicI64,
}

/// By uid and worker.
type ByOperator = BTreeMap<(Arc<str>, usize), Arc<OperatorMetrics>>;

/// Counters of one operator, summed over the workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorMetricsSnapshot {
    /// The operator's uid.
    pub uid: Arc<str>,
    /// Elements taken in (`numRecordsIn`).
    pub records_in: u64,
    /// Elements given out (`numRecordsOut`).
    pub records_out: u64,
    /// Elements dropped because their window had closed (`numLateRecordsDropped`).
    pub late_records_dropped: u64,
    /// The least watermark of any worker in milliseconds (`currentInputWatermark`), `None` before the first.
    pub watermark: Option<i64>,
}

/// All counters of a job. Cheap to clone. They count work done, so a replay after a rollback counts again.
#[derive(Clone, Debug, Default)]
pub struct JobMetrics {
    // Guards only the list: touched when workers start and when somebody reads.
    operators: Arc<Mutex<ByOperator>>,
}

impl JobMetrics {
    /// No counters yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads all operators, in the order of their uids.
    #[must_use]
    pub fn snapshot(&self) -> Vec<OperatorMetricsSnapshot> {
        let operators = self.operators.lock().unwrap_or_else(PoisonError::into_inner);
        let mut snapshots: Vec<OperatorMetricsSnapshot> = Vec::new();
        for ((uid, _), metrics) in operators.iter() {
            let watermark = Some(metrics.watermark.load(Ordering::Relaxed))
                .filter(|watermark| *watermark != WATERMARK_MIN);
            let records_in = metrics.records_in.load(Ordering::Relaxed);
            let records_out = metrics.records_out.load(Ordering::Relaxed);
            let late_records_dropped = metrics.late_records_dropped.load(Ordering::Relaxed);
            match snapshots.last_mut().filter(|last| last.uid == *uid) {
                Some(last) => {
                    last.records_in += records_in;
                    last.records_out += records_out;
                    last.late_records_dropped += late_records_dropped;
                    last.watermark = last.watermark.min(watermark);
                }
                None => snapshots.push(OperatorMetricsSnapshot {
                    uid: Arc::clone(uid),
                    records_in,
                    records_out,
                    late_records_dropped,
                    watermark,
                }),
            }
        }
        snapshots
    }

    /// The counters of `uid`, if there is such an operator.
    #[must_use]
    pub fn operator(&self, uid: &str) -> Option<OperatorMetricsSnapshot> {
        self.snapshot().into_iter().find(|operator| &*operator.uid == uid)
    }

    /// The counters that `worker` writes for the operator `uid`; counting goes on where an earlier run stopped.
    pub(crate) fn counters(&self, uid: &str, worker: usize) -> Counters {
        let mut operators = self.operators.lock().unwrap_or_else(PoisonError::into_inner);
        let metrics = operators.entry((uid.into(), worker)).or_insert_with(|| {
            Arc::new(OperatorMetrics {
                records_in: AtomicU64::new(0),
                records_out: AtomicU64::new(0),
                late_records_dropped: AtomicU64::new(0),
                watermark: AtomicI64::new(WATERMARK_MIN),
            })
        });
        metrics.watermark.store(WATERMARK_MIN, Ordering::Relaxed);
        Counters {
            records_in: 0,
            records_out: 0,
            late_records_dropped: 0,
            shared: Arc::clone(metrics),
        }
    }
}

/// Counts without atomics; [`publish`](Self::publish) at the end of a batch makes the counts readable.
#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) records_in: u64,
    pub(crate) records_out: u64,
    pub(crate) late_records_dropped: u64,
    shared: Arc<OperatorMetrics>,
}

impl Counters {
    pub(crate) fn publish(&mut self) {
        let add = |shared: &AtomicU64, local: &mut u64| {
            if *local > 0 {
                shared.fetch_add(std::mem::take(local), Ordering::Relaxed);
            }
        };
        add(&self.shared.records_in, &mut self.records_in);
        add(&self.shared.records_out, &mut self.records_out);
        add(&self.shared.late_records_dropped, &mut self.late_records_dropped);
    }

    pub(crate) fn watermark(&self, watermark: i64) {
        self.shared.watermark.store(watermark, Ordering::Relaxed);
    }
}
