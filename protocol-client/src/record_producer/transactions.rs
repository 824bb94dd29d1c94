//! Which transaction a record belongs to, and the verbs that begin and end one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millstream_protocol::group::offsets::OffsetAndMetadata;
use millstream_protocol::network::RequestError;
use millstream_protocol::transaction::{FatalCause, ProduceError};
use millstream_protocol::{ProducerIdAndEpoch, TopicPartition};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::{RecordProducer, SendError, Shared};
use crate::ConsumerGroupMetadata;
#[cfg(doc)]
use crate::Producer;
use crate::surroundings::spawn;

/// Which transaction records belong to.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    pub(super) tag: u64,
    /// Records may be sent. Not while it is being ended.
    pub(super) open: bool,
    /// Why it never began or can not go on, although nobody has ended it.
    pub(super) failed: Option<ProduceError>,
    /// The one before is still being committed; this one is begun when that is done.
    turn: Option<watch::Receiver<Outcome>>,
}

/// How a commit ended, once it has.
type Outcome = Option<Result<(), ProduceError>>;

/// A commit under way. May be dropped: it goes on all the same.
#[derive(Clone, Debug)]
pub struct Committing {
    outcome: watch::Receiver<Outcome>,
}

impl Committing {
    /// Waits for the end of the commit, which takes `default.api.timeout.ms` at most.
    ///
    /// # Errors
    ///
    /// As [`RecordProducer::commit_transaction`]. What was sent since then has failed as well.
    pub async fn wait(mut self) -> Result<(), ProduceError> {
        ended(&mut self.outcome).await
    }

    /// Whether it has ended, in whatever way: [`wait`](Self::wait) returns at once then.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.outcome.borrow().is_some() || self.outcome.has_changed().is_err()
    }
}

async fn ended(outcome: &mut watch::Receiver<Outcome>) -> Result<(), ProduceError> {
    let told = outcome.wait_for(Option::is_some).await.ok().and_then(|told| told.clone());
    // Nobody is left to tell it if the runtime has ended.
    told.unwrap_or(Err(ProduceError::Fatal { cause: FatalCause::Request(RequestError::Closed) }))
}

impl RecordProducer {
    /// Fences: becomes the newest producer of the transactional id, whose earlier transaction is aborted (KIP-98). To be
    /// called once before the first transaction, and after [`ProduceError::UnknownOutcome`]. Only for a transactional id.
    ///
    /// # Errors
    ///
    /// As [`Producer::init_transactions`]; [`ProduceError::ConcurrentTransactions`] only if the earlier transaction is not
    /// ended within `max.block.ms`.
    pub async fn init_transactions(&self) -> Result<ProducerIdAndEpoch, ProduceError> {
        self.shared.check_transactional("init_transactions")?;
        self.shared.turned().await;
        let deadline = Instant::now() + self.shared.max_block;
        // Records that can not be written any more must not keep a batch open.
        let closed = self.shared.drop_open();
        debug_assert!(closed.is_ok(), "what was taken can be closed: {closed:?}");
        self.shared.lock().transaction.failed = None;
        let mut result = self.shared.producer.init_transactions().await;
        // The transaction of a former owner is being aborted; that ends by itself.
        while let Err(ProduceError::ConcurrentTransactions { .. }) = result {
            let again = async {
                tokio::time::sleep(WHILE_ABORTING).await;
                self.shared.producer.init_transactions().await
            };
            match timeout_at(deadline, again).await {
                Ok(next) => result = next,
                Err(_) => return result,
            }
        }
        result
    }

    /// Opens a transaction: what is sent from now on belongs to it. Below `transaction.version` 2 it takes the next epoch
    /// first, which asks the coordinator (KIP-360); else nobody is asked.
    ///
    /// # Errors
    ///
    /// [`ProduceError::InvalidState`] if one is open already or `init_transactions` is missing; [`ProduceError::Fenced`] if
    /// another producer has taken over; [`ProduceError::TimedOut`] after `max.block.ms`.
    pub async fn begin_transaction(&self) -> Result<(), ProduceError> {
        self.shared.check_transactional("begin_transaction")?;
        self.shared.turned().await;
        let producer = &self.shared.producer;
        if producer.needs_bump() {
            producer.bump_epoch().await?;
        }
        let mut state = self.shared.lock();
        if state.transaction.open {
            let (verb, state) = ("begin_transaction", "in a transaction already");
            return Err(ProduceError::InvalidState { verb, state });
        }
        let tag = state.transaction.tag + 1;
        producer.begin_transaction(tag)?;
        state.transaction = Transaction { tag, open: true, ..Transaction::default() };
        Ok(())
    }

    /// Sends what is open, waits for the acknowledgements, and commits, within `default.api.timeout.ms`. Nothing can be sent
    /// meanwhile; see [`commit_and_begin_transaction`](Self::commit_and_begin_transaction). A dropped future leaves the commit
    /// on its way.
    ///
    /// # Errors
    ///
    /// As [`SendError::Producer`]: [`ProduceError::Abortable`] says that nothing of it is visible: call
    /// [`abort_transaction`](Self::abort_transaction) and begin anew. [`ProduceError::UnknownOutcome`] says that no definite
    /// answer came in time: call [`init_transactions`](Self::init_transactions) before anything else.
    /// [`ProduceError::Fenced`] says that another producer has taken over.
    pub async fn commit_transaction(&self) -> Result<(), SendError> {
        let (shared, producer) = (&self.shared, &self.shared.producer);
        shared.check_transactional("commit_transaction")?;
        shared.turned().await;
        // One whose future was dropped can be waited for again.
        if shared.lock().transaction.open || !producer.is_committing() {
            shared.end("commit_transaction")?;
        }
        Ok(producer.commit_transaction(shared.client.config().default_api_timeout).await?)
    }

    /// Ends the open transaction here, commits it as [`commit_transaction`](Self::commit_transaction) does, and opens the next:
    /// what is sent from now on belongs to that one, is taken at once, and goes out when the commit is done. Writers need not
    /// stand still while brokers answer, which is most of what frequent commits cost. Records that wait so have a
    /// `buffer.memory` of their own.
    ///
    /// To be followed by [`Committing::wait`] before the next commit. The other verbs wait for the commit by themselves. If
    /// it fails, what was sent since then fails too, and every further record; the way on is the one after a failed
    /// `commit_transaction`. If it succeeds and the next transaction can not begin, because the producer was fenced meanwhile,
    /// say, the next record or verb tells. To be called on a tokio runtime.
    ///
    /// ```no_run
    /// # async fn example(
    /// #     producer: millstream_protocol_client::RecordProducer,
    /// #     records: Vec<millstream_protocol_client::ProducerRecord<'_>>,
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut committing: Option<millstream_protocol_client::Committing> = None;
    /// for thousand in records.chunks(1000) {
    ///     for record in thousand {
    ///         producer.send(record).await?;
    ///     }
    ///     if let Some(before) = committing.take() {
    ///         before.wait().await?;
    ///     }
    ///     committing = Some(producer.commit_and_begin_transaction()?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ProduceError::InvalidState`] in no transaction, or while the commit before is under way; why the open one has failed;
    /// [`SendError::Encode`] if a batch can not be closed. The transaction is still open then.
    pub fn commit_and_begin_transaction(&self) -> Result<Committing, SendError> {
        let shared = Arc::clone(&self.shared);
        let (tell, outcome) = watch::channel(None);
        let verb = "commit_and_begin_transaction";
        shared.check_transactional(verb)?;
        let tag = {
            let mut state = shared.lock();
            if state.transaction.turn.as_ref().is_some_and(|turn| turn.borrow().is_none()) {
                let state = "committing the transaction before: wait for that first";
                return Err(ProduceError::InvalidState { verb, state }.into());
            }
            let tag = shared.send_all(&mut state, verb)?;
            state.transaction.tag += 1;
            state.transaction.turn = Some(outcome.clone());
            tag
        };
        spawn(async move {
            let committed = shared.turn(tag + 1).await;
            // Nobody may be waiting.
            let _ = tell.send(Some(committed));
        });
        Ok(Committing { outcome })
    }

    /// Commits offsets of a group with the open transaction (KIP-447): they count if and when it commits.
    ///
    /// # Errors
    ///
    /// As [`Producer::send_offsets_to_transaction`].
    pub async fn send_offsets_to_transaction(
        &self,
        group: &ConsumerGroupMetadata,
        offsets: BTreeMap<TopicPartition, OffsetAndMetadata>,
    ) -> Result<(), ProduceError> {
        self.shared.check_transactional("send_offsets_to_transaction")?;
        self.shared.turned().await;
        self.shared.open_tag(&self.shared.lock(), "send_offsets_to_transaction")?;
        self.shared.producer.send_offsets_to_transaction(group, offsets).await
    }

    /// Drops what is open, and aborts, within `max.block.ms`: nothing of the transaction is ever visible to readers that are
    /// `read_committed`.
    ///
    /// # Errors
    ///
    /// [`SendError::Producer`] as [`Producer::abort_transaction`]; the broker aborts by itself after
    /// `transaction.timeout.ms`.
    pub async fn abort_transaction(&self) -> Result<(), SendError> {
        let shared = &self.shared;
        shared.check_transactional("abort_transaction")?;
        shared.turned().await;
        shared.drop_open()?;
        let never_began = shared.lock().transaction.failed.take().is_some();
        match shared.producer.abort_transaction().await {
            // The producer's trouble is a record, which is gone now: who fences himself aborts as well.
            Err(ProduceError::Fatal {
                cause: FatalCause::RecordTooLarge { .. } | FatalCause::SplitFailed { .. },
            }) => self.init_transactions().await.map(|_| ()).map_err(SendError::from),
            Err(ProduceError::InvalidState { .. }) if never_began => Ok(()),
            ended => Ok(ended?),
        }
    }
}

impl Shared {
    /// Before anything is touched: what an idempotent producer has taken is none of a transaction's business.
    fn check_transactional(&self, verb: &'static str) -> Result<(), ProduceError> {
        let state = "without a transactional id";
        if self.transactional { Ok(()) } else { Err(ProduceError::InvalidState { verb, state }) }
    }

    /// Sends what is open, and lets nothing be sent behind it.
    fn end(&self, verb: &'static str) -> Result<(), SendError> {
        let mut state = self.lock();
        self.send_all(&mut state, verb)?;
        state.transaction.open = false;
        Ok(())
    }

    /// The transaction before this one is committed, or is not; who can not go on then meets its error later.
    pub(super) async fn turned(&self) {
        let turn = self.lock().transaction.turn.clone();
        if let Some(mut turn) = turn {
            let _ = ended(&mut turn).await;
        }
    }

    /// Commits the open transaction and begins that of `tag`, whose records are being taken meanwhile.
    async fn turn(&self, tag: u64) -> Result<(), ProduceError> {
        let producer = &self.producer;
        let committed = producer.commit_transaction(self.client.config().default_api_timeout).await;
        let begun = async {
            committed.clone()?;
            if producer.needs_bump() {
                producer.bump_epoch().await?;
            }
            producer.begin_transaction(tag)
        };
        if let Err(error) = begun.await {
            self.lock().transaction.failed = Some(error);
            let dropped = self.drop_open();
            debug_assert!(dropped.is_ok(), "what was taken can be closed: {dropped:?}");
            // What was handed over already would wait for a transaction that never begins.
            producer.discard().await;
        }
        committed
    }
}

/// Between two tries while a former owner's transaction is being aborted.
const WHILE_ABORTING: Duration = Duration::from_millis(20);
