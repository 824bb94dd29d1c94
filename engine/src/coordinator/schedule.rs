//! When the next checkpoint is due.

use std::sync::Arc;
use std::time::Duration;

use millstream_checkpoint::LayeredState;
use tokio::time::Instant;

use super::statistics::CheckpointTrigger;

/// Changed bytes have no alarm: they are looked at so often. Far below the time in which 64 MiB change.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Triggers of checkpoints: the interval, many changed bytes, an old transaction. Pure: time is an argument.
#[derive(Clone, Debug)]
pub(crate) struct CheckpointSchedule {
    pub(crate) interval: Duration,
    pub(crate) min_pause: Duration,
    pub(crate) dirty_bytes_max: usize,
    /// A transaction that is older is committed, whatever the pause.
    pub(crate) transaction_age_max: Duration,
    last_trigger: Instant,
    last_end: Instant,
    transaction_begun: Instant,
}

impl CheckpointSchedule {
    /// For an attempt that begins at `now`.
    pub(crate) fn new(
        interval: Duration,
        min_pause: Duration,
        dirty_bytes_max: usize,
        transaction_age_max: Duration,
        now: Instant,
    ) -> Self {
        Self {
            interval,
            min_pause,
            dirty_bytes_max,
            transaction_age_max,
            last_trigger: now,
            // Before the first checkpoint there is nothing to pause after.
            last_end: now.checked_sub(min_pause).unwrap_or(now),
            transaction_begun: now,
        }
    }

    /// Why a checkpoint should begin now, if one should.
    pub(crate) fn due(&self, now: Instant, dirty_bytes: usize) -> Option<CheckpointTrigger> {
        if now >= self.transaction_begun + self.transaction_age_max {
            return Some(CheckpointTrigger::TransactionAge);
        }
        if now < self.last_end + self.min_pause {
            return None;
        }
        if now >= self.last_trigger + self.interval {
            return Some(CheckpointTrigger::Interval);
        }
        (dirty_bytes >= self.dirty_bytes_max).then_some(CheckpointTrigger::DirtyBytes)
    }

    /// When to ask again.
    pub(crate) fn next_look(&self, now: Instant) -> Instant {
        let by_time = (self.last_trigger + self.interval).max(self.last_end + self.min_pause);
        let too_old = self.transaction_begun + self.transaction_age_max;
        by_time.min(too_old).min(now + LOOK_INTERVAL)
    }

    /// A checkpoint has begun. One that began a little late, as timers are, does not make the next one later.
    pub(crate) fn triggered(&mut self, now: Instant) {
        let due = self.last_trigger + self.interval;
        let in_time = now >= due && now < due + self.interval / 4;
        self.last_trigger = if in_time { due } else { now };
    }

    /// A checkpoint is committed, and the next transaction begins.
    pub(crate) fn ended(&mut self, now: Instant) {
        self.last_end = now;
        self.transaction_begun = now;
    }

    /// There was nothing to commit, so no transaction is open.
    pub(crate) fn skipped(&mut self, now: Instant) {
        self.last_trigger = now;
        self.transaction_begun = now;
    }
}

/// Bytes of state that were changed and are not in the store yet: what the workers hold, counted by them, and what is frozen.
#[derive(Clone, Debug)]
pub(crate) struct DirtyBytes {
    pub(crate) layered: Arc<LayeredState>,
}

impl DirtyBytes {
    pub(crate) fn bytes(&self) -> usize {
        let (confirmed, unconfirmed) = self.layered.pending_bytes();
        let active = self.layered.dirty_bytes().bytes();
        active.saturating_add(confirmed).saturating_add(unconfirmed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const AGE: Duration = Duration::from_secs(20);

    fn schedule(interval: Duration, min_pause: Duration) -> (CheckpointSchedule, Instant) {
        let now = Instant::now();
        (CheckpointSchedule::new(interval, min_pause, 1000, AGE, now), now)
    }

    #[test]
    fn the_interval_counts_from_trigger_to_trigger() {
        let (mut schedule, begin) = schedule(100 * MS, Duration::ZERO);
        assert_eq!(schedule.due(begin + 99 * MS, 0), None);
        assert_eq!(schedule.next_look(begin + 80 * MS), begin + 100 * MS);
        assert_eq!(schedule.due(begin + 100 * MS, 0), Some(CheckpointTrigger::Interval));
        schedule.triggered(begin + 100 * MS);
        schedule.ended(begin + 190 * MS);
        assert_eq!(schedule.due(begin + 199 * MS, 0), None);
        assert_eq!(schedule.due(begin + 200 * MS, 0), Some(CheckpointTrigger::Interval));
    }

    #[test]
    fn a_late_timer_does_not_make_all_later_checkpoints_later() {
        let (mut schedule, begin) = schedule(100 * MS, Duration::ZERO);
        for trigger in [101, 202, 300] {
            schedule.triggered(begin + trigger * MS);
        }
        assert_eq!(schedule.next_look(begin + 390 * MS), begin + 400 * MS);
        // One that was held up begins the count anew, and so does an early one.
        for (trigger, next) in [(430, 530), (480, 580)] {
            schedule.triggered(begin + trigger * MS);
            assert_eq!(schedule.due(begin + (next - 1) * MS, 0), None);
            assert_eq!(schedule.due(begin + next * MS, 0), Some(CheckpointTrigger::Interval));
        }
    }

    #[test]
    fn the_pause_counts_from_the_end_of_a_checkpoint_and_holds_for_dirty_bytes_too() {
        let (mut schedule, begin) = schedule(100 * MS, 50 * MS);
        assert_eq!(schedule.due(begin + MS, 1000), Some(CheckpointTrigger::DirtyBytes));
        schedule.triggered(begin + 100 * MS);
        schedule.ended(begin + 190 * MS);
        for at in [200, 239] {
            assert_eq!(schedule.due(begin + at * MS, 5000), None, "{at}");
        }
        assert_eq!(schedule.next_look(begin + 200 * MS), begin + 240 * MS);
        assert_eq!(schedule.due(begin + 240 * MS, 0), Some(CheckpointTrigger::Interval));
    }

    #[test]
    fn a_pause_does_not_let_a_transaction_grow_old() {
        let (mut schedule, begin) = schedule(100 * MS, 3 * AGE);
        schedule.triggered(begin + 100 * MS);
        schedule.ended(begin + 200 * MS);
        let old = begin + 200 * MS + AGE;
        assert_eq!(schedule.due(old - MS, 5000), None);
        assert_eq!(schedule.next_look(old - MS), old);
        assert_eq!(schedule.due(old, 0), Some(CheckpointTrigger::TransactionAge));
        // Nothing was written, so no transaction is open.
        schedule.skipped(old);
        assert_eq!(schedule.due(old, 0), None);
    }

    #[test]
    fn what_changed_is_looked_at_while_the_interval_is_long() {
        let (schedule, begin) = schedule(Duration::from_secs(10), Duration::ZERO);
        assert_eq!(schedule.next_look(begin), begin + LOOK_INTERVAL);
        assert_eq!(schedule.due(begin, 999), None);
        assert_eq!(schedule.due(begin, 1000), Some(CheckpointTrigger::DirtyBytes));
    }
}
