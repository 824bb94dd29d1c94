//! Event time of one source reader: a generator per split, merged over the splits that are not idle.

use std::time::Duration;

use millstream_protocol::Timestamp;

use super::watermark_strategy::Generator;
use super::{WATERMARK_MAX, WATERMARK_MIN, WatermarkStatus};

/// Watermarks of the splits that one reader owns. A split is active, idle or finished; it turns idle by
/// [`caught_up`](Self::caught_up) answers and active by data.
#[derive(Debug)]
pub(crate) struct SplitWatermarks {
    generator: Generator,
    idle_timeout: Option<Duration>,
    splits: Vec<Split>,
    emitted: i64,
    status: WatermarkStatus,
}

#[derive(Debug)]
struct Split {
    max_timestamp: Option<i64>,
    activity: Activity,
}

#[derive(Debug, PartialEq, Eq)]
enum Activity {
    Active {
        /// Time for which the split has been answered empty, and when the last such answer came.
        idle_for: Duration,
        last_answer: Option<Timestamp>,
    },
    Idle,
    Finished,
}

const ACTIVE: Activity = Activity::Active { idle_for: Duration::ZERO, last_answer: None };

/// What has to be told downstream after a unit of input, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WatermarkProgress {
    /// The stream became active (before its watermark).
    pub(crate) active: bool,
    /// A higher watermark.
    pub(crate) watermark: Option<i64>,
    /// The stream became idle (after its watermark).
    pub(crate) idle: bool,
}

impl SplitWatermarks {
    /// `splits`: largest timestamp of each split so far, and whether it was read to its end.
    pub(crate) fn new(
        generator: Generator,
        idle_timeout: Option<Duration>,
        splits: impl IntoIterator<Item = (Option<i64>, bool)>,
    ) -> Self {
        let splits = splits
            .into_iter()
            .map(|(max_timestamp, finished)| Split {
                max_timestamp,
                activity: if finished { Activity::Finished } else { ACTIVE },
            })
            .collect();
        Self {
            generator,
            idle_timeout,
            splits,
            emitted: WATERMARK_MIN,
            status: WatermarkStatus::Active,
        }
    }

    /// An element of `split` passes. True if the whole stream was idle: it must be declared active first.
    #[inline]
    pub(crate) fn on_element(&mut self, split: usize, timestamp: i64) -> bool {
        if let Some(split) = self.splits.get_mut(split) {
            if split.max_timestamp.is_none_or(|max| max < timestamp) {
                split.max_timestamp = Some(timestamp);
            }
            split.activity = ACTIVE;
        }
        let was_idle = self.status == WatermarkStatus::Idle;
        self.status = WatermarkStatus::Active;
        was_idle
    }

    /// The source answered that `split` has nothing to read right now. The time since the last such answer counts as
    /// idle, but at most [`ANSWER_GAP_MAX`] of it: a longer gap means that nobody was there to answer.
    pub(crate) fn caught_up(&mut self, split: usize, now: Timestamp) {
        let Some(timeout) = self.idle_timeout else { return };
        let Some(split) = self.splits.get_mut(split) else { return };
        let Activity::Active { idle_for, last_answer } = &mut split.activity else { return };
        if let Some(last) = *last_answer {
            *idle_for += now.since(last).min(ANSWER_GAP_MAX);
        }
        *last_answer = Some(now);
        if *idle_for >= timeout {
            split.activity = Activity::Idle;
        }
    }

    /// `split` was read to its end and holds event time back no longer.
    pub(crate) fn finish(&mut self, split: usize) {
        if let Some(split) = self.splits.get_mut(split) {
            split.activity = Activity::Finished;
        }
    }

    /// Largest timestamp of `split` and whether it is finished, for the checkpoint.
    pub(crate) fn state(&self, split: usize) -> (Option<i64>, bool) {
        self.splits
            .get(split)
            .map_or((None, false), |s| (s.max_timestamp, s.activity == Activity::Finished))
    }

    /// What changed since the last call. Call after every unit of input.
    pub(crate) fn progress(&mut self) -> WatermarkProgress {
        let generator = self.generator;
        let watermark = |split: &Split| match split.activity {
            Activity::Finished => WATERMARK_MAX,
            Activity::Active { .. } | Activity::Idle => generator.watermark(split.max_timestamp),
        };
        let active = self.splits.iter().filter(|s| matches!(s.activity, Activity::Active { .. }));
        let (status, merged) = match active.map(watermark).min() {
            Some(min) => (WatermarkStatus::Active, min),
            // Nobody is active: nothing older is awaited from anyone who spoke. Splits that ended say nothing about the
            // idle ones; only the end of the input itself is the end of time.
            None => {
                let idle = self.splits.iter().filter(|s| s.activity == Activity::Idle);
                (WatermarkStatus::Idle, idle.map(watermark).max().unwrap_or(WATERMARK_MIN))
            }
        };
        let mut progress = WatermarkProgress::default();
        if merged > self.emitted {
            self.emitted = merged;
            progress.watermark = Some(merged);
        }
        if status != self.status {
            self.status = status;
            match status {
                WatermarkStatus::Active => progress.active = true,
                WatermarkStatus::Idle => progress.idle = true,
            }
        }
        progress
    }
}

/// The longest time between two answers that counts as idle. Fetches are answered at least every `fetch.max.wait.ms`
/// (500 ms by default).
pub(crate) const ANSWER_GAP_MAX: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests;
