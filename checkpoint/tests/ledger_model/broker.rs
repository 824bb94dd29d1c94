//! The brokers: transaction coordinator, partition leaders, requests under way.
//!
//! The rules are those of Apache Kafka's `TransactionCoordinator`, `TransactionMetadata` and `ProducerStateManager`. Which
//! rules a request follows is told by its version alone: `tv2` stands for EndTxn 5 and Produce 12.

use crate::few::Few;

/// Nonces of attempts and ids of owners; 0 is none.
pub(crate) type Id = u8;

/// A record of the ledger (partition 0), or of an output, where `parent` and `owner` are 0 and `offset` is the input it was
/// made from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Rec {
    pub(crate) checkpoint: u8,
    pub(crate) offset: u8,
    pub(crate) nonce: Id,
    pub(crate) parent: Id,
    pub(crate) owner: Id,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Txn {
    #[default]
    Empty,
    Ongoing,
    PrepareCommit,
    PrepareAbort,
    Committed,
    Aborted,
}

/// How a request is answered. `Wait`: CONCURRENT_TRANSACTIONS, or not at all yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Ok,
    Wait,
    Refused,
}

/// What does not change about the brokers of a configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BrokerRules {
    /// The epoch at which a producer id is used up (32,767 in Kafka).
    pub(crate) epoch_max: u8,
    /// Leaders ask the coordinator before they let a producer of TV1 into a transaction (from 3.6 on).
    pub(crate) verify: bool,
    /// With transaction.version 2 a fence takes two epochs (4.0, KAFKA-19367).
    pub(crate) fence_takes_two: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Coordinator {
    pub(crate) pid: u8,
    pub(crate) epoch: u8,
    pub(crate) txn: Txn,
    /// Partitions that have not got their marker yet, or are in the open transaction.
    pub(crate) partitions: u8,
    pub(crate) previous_pid: Option<u8>,
    pub(crate) next_pid: Option<u8>,
    pub(crate) pids: u8,
    /// The epoch overflowed; the transactional id can not be used again.
    pub(crate) stuck: bool,
}

impl Coordinator {
    pub(crate) fn is_preparing(&self) -> bool {
        matches!(self.txn, Txn::PrepareCommit | Txn::PrepareAbort)
    }

    fn new_pid(&mut self) -> u8 {
        self.pids += 1;
        self.pids
    }

    /// Aborts the open transaction with a higher epoch in the markers: its timeout, or InitProducerId.
    pub(crate) fn fence(&mut self, rules: &BrokerRules, tv2: bool) {
        let step = if tv2 && rules.fence_takes_two { 2 } else { 1 };
        if self.epoch + step > rules.epoch_max {
            self.stuck = true;
            return;
        }
        self.epoch += step;
        self.txn = Txn::PrepareAbort;
    }

    /// InitProducerId; `expected` is the producer's id and epoch, `None` for (-1, -1). `tv2`: the level of the brokers.
    pub(crate) fn init_producer_id(
        &mut self,
        rules: &BrokerRules,
        tv2: bool,
        expected: Option<(u8, u8)>,
    ) -> Answer {
        if self.stuck || self.is_preparing() {
            return Answer::Wait;
        }
        if expected.is_some_and(|(pid, _)| pid != self.pid) {
            return Answer::Refused;
        }
        if self.txn == Txn::Ongoing {
            // The epoch is not looked at here.
            self.fence(rules, tv2);
            return Answer::Wait;
        }
        if expected.is_some_and(|(_, epoch)| epoch != self.epoch) {
            return Answer::Refused;
        }
        if self.epoch + 1 >= rules.epoch_max {
            self.previous_pid = None;
            self.pid = self.new_pid();
            self.epoch = 0;
        } else {
            self.epoch += 1;
        }
        self.txn = Txn::Empty;
        Answer::Ok
    }

    pub(crate) fn add_partition(&mut self, pid: u8, epoch: u8, partition: u8) -> Answer {
        if (pid, epoch) != (self.pid, self.epoch) {
            return Answer::Refused;
        }
        if self.is_preparing() {
            return Answer::Wait;
        }
        if self.txn != Txn::Ongoing {
            self.txn = Txn::Ongoing;
            self.partitions = 0;
        }
        self.partitions |= 1 << partition;
        Answer::Ok
    }

    pub(crate) fn end_txn(
        &mut self,
        rules: &BrokerRules,
        tv2: bool,
        (pid, epoch): (u8, u8),
        commit: bool,
    ) -> Answer {
        let (done, prepare, other) = if commit {
            (Txn::Committed, Txn::PrepareCommit, Txn::PrepareAbort)
        } else {
            (Txn::Aborted, Txn::PrepareAbort, Txn::PrepareCommit)
        };
        if !tv2 {
            if (pid, epoch) != (self.pid, self.epoch) {
                return Answer::Refused;
            }
            return match self.txn {
                Txn::Ongoing => {
                    self.txn = prepare;
                    Answer::Ok
                }
                now if now == done => Answer::Ok,
                now if now == prepare => Answer::Wait,
                _ => Answer::Refused,
            };
        }
        let crossed =
            self.previous_pid == Some(pid) && epoch + 1 == rules.epoch_max && self.epoch == 0;
        let retry = crossed || (pid == self.pid && epoch + 1 == self.epoch);
        if (pid != self.pid && !crossed) || (!retry && epoch != self.epoch) {
            return Answer::Refused;
        }
        if retry {
            return match self.txn {
                now if now == prepare => Answer::Wait,
                now if now == done => Answer::Ok,
                _ => Answer::Refused,
            };
        }
        if self.txn == other || self.txn == prepare || (self.txn != Txn::Ongoing && commit) {
            return Answer::Refused;
        }
        if self.txn != Txn::Ongoing {
            self.partitions = 0;
        }
        if self.epoch + 1 >= rules.epoch_max {
            self.next_pid = Some(self.new_pid());
        }
        self.epoch += 1;
        self.txn = prepare;
        Answer::Ok
    }

    /// All markers are written.
    pub(crate) fn complete(&mut self) {
        self.txn = if self.txn == Txn::PrepareCommit { Txn::Committed } else { Txn::Aborted };
        if let Some(next) = self.next_pid.take() {
            self.previous_pid = Some(self.pid);
            self.pid = next;
            self.epoch = 0;
        }
    }
}

/// What a leader knows of a producer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ProducerState {
    pub(crate) pid: u8,
    pub(crate) epoch: u8,
    pub(crate) next_sequence: u8,
}

/// Leader of a partition. It learns an epoch only from a Produce that it accepts, or from a marker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Leader {
    /// What read_committed shows, of all times: compaction is counted apart.
    pub(crate) log: Few<Rec, 12>,
    pub(crate) open: Few<(u8, Rec), 4>,
    pub(crate) producers: Few<ProducerState, 4>,
}

impl Leader {
    pub(crate) fn producer(&self, pid: u8) -> Option<ProducerState> {
        self.producers.iter().copied().find(|known| known.pid == pid)
    }

    fn learn(&mut self, state: ProducerState) {
        self.producers.retain(|known| known.pid != state.pid);
        self.producers.push(state);
        self.producers.sort_unstable_by_key(|known| known.pid);
    }

    pub(crate) fn is_open(&self, pid: u8, epoch: u8) -> bool {
        self.open.iter().any(|(open, _)| *open == pid)
            && self.producer(pid).is_some_and(|known| known.epoch == epoch)
    }

    pub(crate) fn append(&mut self, pid: u8, epoch: u8, sequence: u8, rec: Rec) -> Answer {
        if let Some(known) = self.producer(pid) {
            if epoch < known.epoch || (epoch > known.epoch && sequence != 0) {
                return Answer::Refused;
            }
            if epoch == known.epoch && sequence < known.next_sequence {
                // Acknowledged as the duplicate it is.
                return Answer::Ok;
            }
            if epoch == known.epoch && sequence > known.next_sequence {
                return Answer::Refused;
            }
        }
        self.learn(ProducerState { pid, epoch, next_sequence: sequence + 1 });
        self.open.push((pid, rec));
        Answer::Ok
    }

    pub(crate) fn marker(&mut self, pid: u8, epoch: u8, commit: bool) {
        if self.producer(pid).is_none_or(|known| epoch > known.epoch) {
            self.learn(ProducerState { pid, epoch, next_sequence: 0 });
        }
        if commit {
            let open = self.open;
            for (_, rec) in open.iter().filter(|(open, _)| *open == pid) {
                self.log.push(*rec);
            }
        }
        self.open.retain(|(open, _)| *open != pid);
    }
}

/// A request under way that may still arrive, at any time, also after its sender died.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Msg {
    Produce {
        partition: u8,
        pid: u8,
        epoch: u8,
        tv2: bool,
        sequence: u8,
        rec: Rec,
    },
    EndTxn {
        pid: u8,
        epoch: u8,
        tv2: bool,
        commit: bool,
        from: u8,
    },
    AddPartitions {
        pid: u8,
        epoch: u8,
        partition: u8,
    },
    #[default]
    InitProducerId,
}

/// `from` of an EndTxn for whose answer nobody waits.
pub(crate) const NOBODY: u8 = 9;
