//! A model of the transaction coordinator: the answer matrices of EndTxn under TV1 and TV2, InitProducerId, timeouts and a
//! competitor, with requests and answers that get lost or arrive late. Whatever the manager says of a transaction must be
//! what became of it.

use proptest::prelude::*;

use super::{LIMIT, added, described, ended, initialized, key, lost, manager};
use crate::backoff::Jitter;
use crate::messages::{ApiKey, Request, Response};
use crate::transaction::{ProduceError, TransactionEvent, TransactionManager};
use crate::{ErrorCode, Timestamp};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn what_is_said_of_a_transaction_is_what_became_of_it(seed in any::<u64>()) {
        for tv in [1, 2] {
            let compared = run(seed, tv, Mutant::None).map_err(TestCaseError::fail)?;
            prop_assert!(compared > 0, "nothing was compared");
        }
    }
}

/// B043: a late copy of an EndTxn must not decide the next transaction; here a coordinator that lets it is noticed.
#[test]
fn model_notices_coordinators_that_ignore_epochs_or_lie() {
    for (mutant, tv) in [
        (Mutant::IgnoresEpochs, 1),
        (Mutant::IgnoresEpochs, 2),
        (Mutant::Lies, 1),
        (Mutant::Lies, 2),
    ] {
        let caught = (0..200).filter(|seed| run(*seed, tv, mutant).is_err()).count();
        assert!(caught > 0, "{mutant:?} under TV{tv} was never noticed");
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mutant {
    None,
    /// EndTxn ends whatever is open.
    IgnoresEpochs,
    /// A transaction that timed out is said to be committed.
    Lies,
}

const TRANSACTIONS: usize = 12;

/// What became of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Outcome {
    /// We asked for its commit.
    asked: bool,
    committed: Option<bool>,
}

struct World {
    random: Jitter,
    coordinator: Coordinator,
    history: Vec<Outcome>,
    late: Vec<(Request, i16)>,
    now: Timestamp,
}

/// Runs transactions one after the other. Returns how many outcomes were compared.
fn run(seed: u64, tv: i16, mutant: Mutant) -> Result<u64, String> {
    let mut world = World {
        random: Jitter::new(seed),
        coordinator: Coordinator::new(mutant, if seed.is_multiple_of(3) { 32_755 } else { 0 }),
        history: Vec::new(),
        late: Vec::new(),
        now: Timestamp::ZERO,
    };
    let mut manager = manager(tv);
    let mut compared = 0;
    world.init(&mut manager)?;
    for _ in 0..TRANSACTIONS {
        if manager.needs_bump() {
            let bumped = manager.bump(world.now);
            let event = bumped.map(|()| world.drive(&mut manager));
            if !matches!(event, Ok(Ok(TransactionEvent::EpochBumped(Ok(_))))) {
                event.map_err(|error| error.to_string())??;
                world.init(&mut manager)?;
            }
        }
        manager.begin().map_err(|error| format!("begin: {error}"))?;
        let number = world.history.len();
        world.history.push(Outcome::default());
        if !world.write(&mut manager, tv, number)? {
            world.init(&mut manager)?;
            continue;
        }
        let commit = world.random.below(5) > 0;
        world.history[number].asked = commit;
        manager.end(world.now, commit, LIMIT).map_err(|error| error.to_string())?;
        let TransactionEvent::Ended { committed, result } = world.drive(&mut manager)? else {
            return Err("another event than the end".to_owned());
        };
        assert_eq!(committed, commit);
        let outcome = world.history[number].committed;
        match result {
            Ok(()) if outcome == Some(commit) => compared += 1,
            Ok(()) => return Err(format!("{number} was said to be ended: {outcome:?}")),
            Err(ProduceError::Abortable { .. }) if outcome == Some(true) => {
                return Err(format!("{number} was said to be aborted, but is committed"));
            }
            Err(ProduceError::Abortable { .. }) => compared += 1,
            Err(ProduceError::Fenced { .. } | ProduceError::UnknownOutcome { .. }) => {}
            Err(other) => return Err(format!("{number}: {other}")),
        }
        if manager.error().is_some() {
            world.init(&mut manager)?;
        }
    }
    // Late copies arrive after all.
    for (request, version) in std::mem::take(&mut world.late) {
        world.coordinator.answer(&request, version, &mut world.history);
    }
    match world.history.iter().position(|outcome| outcome.committed == Some(true) && !outcome.asked)
    {
        Some(number) => Err(format!("{number} was committed, but not by its own EndTxn")),
        None => Ok(compared),
    }
}

impl World {
    fn init(&mut self, manager: &mut TransactionManager) -> Result<(), String> {
        for _ in 0..200 {
            manager.init(self.now);
            match self.drive(manager)? {
                TransactionEvent::Initialized(Ok(_)) => return Ok(()),
                TransactionEvent::Initialized(Err(
                    ProduceError::ConcurrentTransactions { .. } | ProduceError::TimedOut { .. },
                )) => {}
                other => return Err(format!("init: {other:?}")),
            }
        }
        Err("init never succeeded".to_owned())
    }

    /// Writes to one or two partitions. False if the transaction died of it.
    fn write(
        &mut self,
        manager: &mut TransactionManager,
        tv: i16,
        number: usize,
    ) -> Result<bool, String> {
        let mode = manager.mode().ok_or("no transaction")?;
        self.coordinator.number = number;
        for partition in 0..=(self.random.below(2) as i32) {
            let mut tries = 0;
            while !manager.may_write(self.now, &key(partition)) {
                self.step(manager);
                match manager.poll_event() {
                    None => {}
                    Some(TransactionEvent::Failed(_)) => return Ok(false),
                    Some(other) => return Err(format!("while writing: {other:?}")),
                }
                tries += 1;
                if tries > 500 {
                    return Err("a partition was never added".to_owned());
                }
            }
            manager.handle_written();
            let identity = manager.identity().ok_or("no identity")?;
            assert_eq!(mode as i16, tv - 1);
            while tv == 2 && self.coordinator.is_preparing() {
                self.coordinator.complete();
            }
            if tv == 2
                && !self.coordinator.write(
                    identity.producer_id,
                    identity.producer_epoch,
                    &mut self.history,
                )
            {
                let code = ErrorCode::INVALID_PRODUCER_EPOCH;
                manager.fail(ProduceError::abortable(ApiKey::Produce, code, Some(key(partition))));
                manager.poll_event();
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn drive(&mut self, manager: &mut TransactionManager) -> Result<TransactionEvent, String> {
        for _ in 0..1_000 {
            if let Some(event) = manager.poll_event() {
                return Ok(event);
            }
            self.step(manager);
        }
        Err("nothing happens any more".to_owned())
    }

    /// One thing happens.
    fn step(&mut self, manager: &mut TransactionManager) {
        match self.random.below(40) {
            0 => self.coordinator.time_out(&mut self.history),
            1 => self.coordinator.compete(&mut self.history),
            2..6 if !self.late.is_empty() => {
                let (request, version) = self.late.remove(self.random.below(self.late.len()));
                self.coordinator.answer(&request, version, &mut self.history);
            }
            6..14 => self.coordinator.complete(),
            _ => {}
        }
        let Some(outgoing) = manager.poll_request(self.now) else {
            if let Some(at) = manager.poll_timeout() {
                self.now = self.now.max(at);
                manager.handle_timeout(self.now);
            }
            return;
        };
        let version = outgoing.max_version.unwrap_or(5);
        let answer = match self.random.below(8) {
            0 => Err(lost()),
            1 => {
                self.late.push((outgoing.request.clone(), version));
                Err(lost())
            }
            2 => {
                self.coordinator.answer(&outgoing.request, version, &mut self.history);
                Err(lost())
            }
            _ => Ok(self.coordinator.answer(&outgoing.request, version, &mut self.history)),
        };
        manager.handle_response(self.now, outgoing.token, version, answer);
        while manager.poll_stale_metadata().is_some() {}
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Empty,
    Ongoing,
    PrepareCommit,
    PrepareAbort,
    CompleteCommit,
    CompleteAbort,
}

struct Coordinator {
    mutant: Mutant,
    producer_id: i64,
    epoch: i16,
    last_epoch: Option<i16>,
    phase: Phase,
    /// Whom the next transaction belongs to.
    number: usize,
    ongoing: usize,
}

impl Coordinator {
    fn new(mutant: Mutant, epoch: i16) -> Self {
        Self {
            mutant,
            producer_id: 1,
            epoch,
            last_epoch: None,
            phase: Phase::Empty,
            number: 0,
            ongoing: 0,
        }
    }

    fn is_preparing(&self) -> bool {
        matches!(self.phase, Phase::PrepareCommit | Phase::PrepareAbort)
    }

    /// The markers are written.
    fn complete(&mut self) {
        self.phase = match self.phase {
            Phase::PrepareCommit => Phase::CompleteCommit,
            Phase::PrepareAbort => Phase::CompleteAbort,
            other => other,
        };
    }

    fn time_out(&mut self, history: &mut [Outcome]) {
        if self.phase == Phase::Ongoing {
            self.epoch += 1;
            self.last_epoch = None;
            self.decide(false, history);
        }
    }

    /// Another producer of the same id starts.
    fn compete(&mut self, history: &mut [Outcome]) {
        self.init(-1, -1, history);
        self.complete();
        self.init(-1, -1, history);
    }

    fn decide(&mut self, commit: bool, history: &mut [Outcome]) {
        self.phase = if commit { Phase::PrepareCommit } else { Phase::PrepareAbort };
        history[self.ongoing].committed = Some(commit);
    }

    fn begin(&mut self) {
        if self.phase != Phase::Ongoing {
            self.phase = Phase::Ongoing;
            self.ongoing = self.number;
        }
    }

    /// A first batch under TV2.
    fn write(&mut self, producer_id: i64, epoch: i16, _history: &mut [Outcome]) -> bool {
        let ours = producer_id == self.producer_id && epoch == self.epoch;
        if ours {
            self.begin();
        }
        ours
    }

    fn answer(&mut self, request: &Request, version: i16, history: &mut [Outcome]) -> Response {
        match request {
            Request::InitProducerId(init) => {
                let code = self.init(init.producer_id.0, init.producer_epoch, history);
                initialized(code, self.producer_id, self.epoch)
            }
            Request::AddPartitionsToTxn(add) => {
                let ours = add.v3_and_below_producer_id.0 == self.producer_id
                    && add.v3_and_below_producer_epoch == self.epoch;
                let code = if !ours {
                    ErrorCode::PRODUCER_FENCED
                } else if self.is_preparing() {
                    ErrorCode::CONCURRENT_TRANSACTIONS
                } else {
                    self.begin();
                    ErrorCode::NONE
                };
                let partitions: Vec<(i32, ErrorCode)> = add.v3_and_below_topics[0]
                    .partitions
                    .iter()
                    .map(|partition| (*partition, code))
                    .collect();
                added(&partitions)
            }
            Request::EndTxn(end) => {
                let id = end.producer_id.0;
                let (code, next) = if version >= 5 {
                    self.end_tv2(id, end.producer_epoch, end.committed, history)
                } else {
                    (self.end_tv1(id, end.producer_epoch, end.committed, history), false)
                };
                if next { ended(code, self.producer_id, self.epoch) } else { ended(code, -1, -1) }
            }
            Request::DescribeTransactions(_) => described(&format!("{:?}", self.phase)),
            other => panic!("{other:?}"),
        }
    }

    fn init(&mut self, id: i64, epoch: i16, history: &mut [Outcome]) -> ErrorCode {
        if self.phase == Phase::Ongoing {
            self.epoch += 1;
            self.last_epoch = None;
            self.decide(false, history);
            return ErrorCode::CONCURRENT_TRANSACTIONS;
        }
        if self.is_preparing() {
            return ErrorCode::CONCURRENT_TRANSACTIONS;
        }
        let bump = epoch >= 0;
        if bump && (id != self.producer_id || epoch != self.epoch) {
            let again = id == self.producer_id && Some(epoch) == self.last_epoch;
            return if again { ErrorCode::NONE } else { ErrorCode::PRODUCER_FENCED };
        }
        self.last_epoch = bump.then_some(epoch);
        if self.epoch >= i16::MAX - 1 {
            self.producer_id += 1;
            self.epoch = 0;
            self.last_epoch = None;
        } else {
            self.epoch += 1;
        }
        self.phase = Phase::Empty;
        ErrorCode::NONE
    }

    fn end_tv1(&mut self, id: i64, epoch: i16, commit: bool, history: &mut [Outcome]) -> ErrorCode {
        if self.mutant == Mutant::IgnoresEpochs {
            if self.phase == Phase::Ongoing {
                self.decide(commit, history);
            }
            return ErrorCode::NONE;
        }
        if id != self.producer_id {
            return ErrorCode::INVALID_PRODUCER_ID_MAPPING;
        }
        if self.mutant == Mutant::Lies && self.phase == Phase::CompleteAbort {
            return ErrorCode::NONE;
        }
        if epoch != self.epoch {
            return ErrorCode::PRODUCER_FENCED;
        }
        match (self.phase, commit) {
            (Phase::Ongoing, _) => {
                self.decide(commit, history);
                ErrorCode::NONE
            }
            (Phase::PrepareCommit, true) | (Phase::PrepareAbort, false) => {
                ErrorCode::CONCURRENT_TRANSACTIONS
            }
            (Phase::CompleteCommit, true) | (Phase::CompleteAbort, false) => ErrorCode::NONE,
            _ => ErrorCode::INVALID_TXN_STATE,
        }
    }

    /// The code, and whether the answer carries the current identity.
    fn end_tv2(
        &mut self,
        id: i64,
        epoch: i16,
        commit: bool,
        history: &mut [Outcome],
    ) -> (ErrorCode, bool) {
        if self.mutant == Mutant::IgnoresEpochs {
            if self.phase == Phase::Ongoing {
                self.decide(commit, history);
            }
            return (ErrorCode::NONE, true);
        }
        if id != self.producer_id {
            return (ErrorCode::INVALID_PRODUCER_ID_MAPPING, false);
        }
        if self.mutant == Mutant::Lies && self.phase == Phase::CompleteAbort {
            return (ErrorCode::NONE, true);
        }
        let again = epoch == self.epoch - 1;
        if epoch != self.epoch && !again {
            return (ErrorCode::PRODUCER_FENCED, false);
        }
        match (self.phase, commit, again) {
            (Phase::Ongoing, _, false) => {
                self.epoch += 1;
                self.last_epoch = None;
                self.decide(commit, history);
                (ErrorCode::NONE, true)
            }
            (Phase::Empty | Phase::CompleteCommit | Phase::CompleteAbort, false, false) => {
                self.epoch += 1;
                (ErrorCode::NONE, true)
            }
            (Phase::Empty | Phase::CompleteCommit | Phase::CompleteAbort, true, false) => {
                (ErrorCode::INVALID_TXN_STATE, false)
            }
            (Phase::Empty | Phase::Ongoing, _, true)
            | (Phase::PrepareCommit | Phase::PrepareAbort, _, false) => {
                (ErrorCode::PRODUCER_FENCED, false)
            }
            (Phase::PrepareCommit, true, true) | (Phase::PrepareAbort, false, true) => {
                (ErrorCode::CONCURRENT_TRANSACTIONS, false)
            }
            (Phase::CompleteCommit, true, true) | (Phase::CompleteAbort, false, true) => {
                (ErrorCode::NONE, true)
            }
            (Phase::PrepareCommit | Phase::CompleteCommit, false, true)
            | (Phase::PrepareAbort | Phase::CompleteAbort, true, true) => {
                (ErrorCode::INVALID_TXN_STATE, false)
            }
        }
    }
}
