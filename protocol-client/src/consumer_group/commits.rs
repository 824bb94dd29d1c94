//! Commits of a member: one under way at a time, each repeated as whoever the member is by then.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use millstream_protocol::Response;
use millstream_protocol::TopicPartition;
use millstream_protocol::backoff::{ExponentialBackoff, Jitter};
use millstream_protocol::group::offsets::{OffsetAndMetadata, Verdict, commit_verdict};
use millstream_protocol::network::RequestError;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::CommitError;

pub(super) type Offsets = BTreeMap<TopicPartition, OffsetAndMetadata>;
pub(super) type CommitReply = oneshot::Sender<Result<(), CommitError>>;

/// A commit, and how it ended.
pub(super) type EndedCommit = (CommitJob, Result<(), CommitError>);

/// Offsets to be committed, and what follows.
#[derive(Debug)]
pub(super) struct CommitJob {
    offsets: Offsets,
    limit: Duration,
    started: Instant,
    failures: u32,
    /// Dropped on the way, because they are not ours any more.
    not_owned: BTreeSet<TopicPartition>,
    pub(super) then: AfterCommit,
}

/// What the end of a commit brings about.
#[derive(Debug)]
pub(super) enum AfterCommit {
    /// Of `enable.auto.commit`: the next one will say it again.
    Nothing,
    Reply(CommitReply),
    /// The reader has let go: the revocation of this number is acknowledged.
    Acknowledge(u64),
    Close,
}

impl CommitJob {
    pub(super) fn new(offsets: Offsets, limit: Duration, then: AfterCommit) -> Self {
        Self {
            offsets,
            limit,
            started: Instant::now(),
            failures: 0,
            not_owned: BTreeSet::new(),
            then,
        }
    }

    pub(super) fn offsets(&self) -> &Offsets {
        &self.offsets
    }
}

/// The queue of commits.
#[derive(Debug)]
pub(super) struct Commits {
    queue: VecDeque<CommitJob>,
    in_flight: Option<CommitJob>,
    retry_at: Option<Instant>,
    backoff: ExponentialBackoff,
    jitter: Jitter,
}

/// What an answer means for the member.
#[derive(Debug)]
pub(super) struct CommitOutcome {
    /// The commit that ended, and how.
    pub(super) ended: Option<EndedCommit>,
    /// The coordinator does not know the member as it was.
    pub(super) suspect: bool,
}

impl Commits {
    pub(super) fn new(backoff: ExponentialBackoff, seed: u64) -> Self {
        Self {
            queue: VecDeque::new(),
            in_flight: None,
            retry_at: None,
            backoff,
            jitter: Jitter::new(seed),
        }
    }

    pub(super) fn push(&mut self, job: CommitJob) {
        self.queue.push_back(job);
    }

    /// True if nothing is queued or under way.
    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.in_flight.is_none()
    }

    pub(super) fn retry_at(&self) -> Option<Instant> {
        if self.in_flight.is_some() { None } else { self.retry_at }
    }

    /// The offsets of the next commit to send, if it is time. Those of partitions that are not `owned` are left out; a
    /// commit of which nothing is left ends at once.
    pub(super) fn start(
        &mut self,
        owned: &BTreeSet<TopicPartition>,
    ) -> Option<Result<Offsets, EndedCommit>> {
        if self.in_flight.is_some() || self.retry_at.is_some_and(|at| at > Instant::now()) {
            return None;
        }
        self.retry_at = None;
        let mut job = self.queue.pop_front()?;
        let lost: Vec<_> = job.offsets.keys().filter(|tp| !owned.contains(tp)).cloned().collect();
        for tp in lost {
            job.offsets.remove(&tp);
            job.not_owned.insert(tp);
        }
        if job.offsets.is_empty() {
            return Some(Err(ended(job)));
        }
        let offsets = job.offsets.clone();
        self.in_flight = Some(job);
        Some(Ok(offsets))
    }

    pub(super) fn answered(&mut self, result: Result<Response, RequestError>) -> CommitOutcome {
        let Some(mut job) = self.in_flight.take() else {
            return CommitOutcome { ended: None, suspect: false };
        };
        let mut suspect = false;
        let last = match result {
            Ok(Response::OffsetCommit(response)) => match commit_verdict(&response) {
                Verdict::Done => {
                    return CommitOutcome { ended: Some(ended(job)), suspect: false };
                }
                Verdict::Retry(code) => code.to_string(),
                Verdict::NotInGeneration(code) => {
                    suspect = code != millstream_protocol::ErrorCode::REBALANCE_IN_PROGRESS;
                    code.to_string()
                }
                Verdict::RetryForAWhile(code) => {
                    if job.failures >= TRIES_OF_UNKNOWN_TOPICS {
                        return failed(job, CommitError::Broker { code });
                    }
                    code.to_string()
                }
                Verdict::Failed(code) => return failed(job, CommitError::Broker { code }),
            },
            Ok(_) => String::from("another answer"),
            Err(error) if error.is_retriable() => error.to_string(),
            Err(RequestError::CoordinatorRefused { code, .. }) => {
                return failed(job, CommitError::Broker { code });
            }
            Err(error) => return failed(job, CommitError::Request(error)),
        };
        if job.started.elapsed() >= job.limit {
            let after = job.limit;
            return failed(job, CommitError::TimedOut { after, last });
        }
        job.failures = job.failures.saturating_add(1);
        let delay = self.backoff.delay(job.failures, &mut self.jitter);
        self.retry_at = Some(Instant::now() + delay);
        self.queue.push_front(job);
        CommitOutcome { ended: None, suspect }
    }
}

fn ended(mut job: CommitJob) -> EndedCommit {
    let partitions = std::mem::take(&mut job.not_owned);
    let result =
        if partitions.is_empty() { Ok(()) } else { Err(CommitError::NotOwned { partitions }) };
    (job, result)
}

fn failed(job: CommitJob, error: CommitError) -> CommitOutcome {
    CommitOutcome { ended: Some((job, Err(error))), suspect: false }
}

/// A topic may just have been created, or be gone for good.
const TRIES_OF_UNKNOWN_TOPICS: u32 = 5;

#[cfg(test)]
mod tests;
