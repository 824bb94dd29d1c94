//! One suite, run against the dev broker and real Kafka of several kinds: each behaviour of the wire that a client's
//! correctness rests on is a test named after it.
//!
//! | cluster | what it is |
//! | --- | --- |
//! | `dev_tv0`, `dev_tv2` | the dev broker with `transaction.version` 0 and 2 |
//! | `kafka_tv0`, `kafka_tv1`, `kafka_tv2` | Kafka 4.3.1, one broker, each level of the feature; at level 1 the broker has no room for fetch sessions |
//! | `kafka_three_brokers` | Kafka 4.3.1, three brokers |
//! | `kafka_older` | Kafka 3.9.1, one broker |
//!
//! Where each behaviour is tested. What no broker can be brought to is tested on the machine alone (`protocol/`) or on the dev
//! broker; kills and cut networks are in `tests/failover`.
//!
//! | area | behaviour | test |
//! | --- | --- | --- |
//! | compatibility | 3.9, 4.3, dev broker | this suite on each; older ones need ZooKeeper, `KafkaClusterBuilder::version` runs any from 3.3 |
//! | negotiation | UNSUPPORTED_VERSION in the body of version 0, with and without keys | `negotiation_unsupported_version_with_api_keys`, `negotiation_unsupported_version_without_api_keys` |
//! | | feature level 0, 1, 2 | `negotiation_feature_level_decides_the_transaction_mode` |
//! | framing | arbitrary bytes, hostile lengths | `frame/tests.rs`, `guard/tests.rs`, `messages/tests/hostile.rs` in `protocol/`; `tests/hostile` |
//! | batch | bytes of Java in every codec, repeated headers | `tests/interop`: `java_records_of_every_codec_…`, `our_records_of_every_codec_…` |
//! | | LogAppendTime | `batch_log_append_time` |
//! | | compacted tail, emptied batch, delete horizon | `batch_compacted_tail_emptied_batch_and_delete_horizon` |
//! | | partial tail | `batch_partial_tail` |
//! | | control batches | every test of `read_committed` |
//! | | bomb | `bombs_that_declare_no_size_stop_at_the_limit` in `protocol/` |
//! | sessions | evicted, wrong epoch | `sessions_evicted_session`, `sessions_invalid_session_epoch` |
//! | | epoch wraps | `epoch_after_the_largest_is_one` in `protocol/` |
//! | | topic recreated | `sessions_topic_recreate` |
//! | | leader moves | `tests/failover` |
//! | | empty full answer of a throttled broker | `sessions_throttle_empty_full_response` |
//! | | no room in the broker's cache | this suite on `kafka_tv1` |
//! | read_committed | interleaved producers | `read_committed_interleaved_pids` |
//! | | unsorted list of aborted transactions | `the_order_of_aborted_transactions_does_not_matter` in `protocol/` |
//! | | aborted transaction over several fetches | `read_committed_aborted_txn_spanning_fetches` |
//! | | epoch of markers | `read_committed_marker_epoch` |
//! | | compacted marker | `read_committed_compacted_marker` |
//! | idempotence | lost, doubled, swapped answers with five in flight | `idempotence_dropped_responses`, `idempotence_duplicated_responses`, `idempotence_reordered_responses`; every fault at every place: `every_record_is_written_once_in_order_whatever_the_network_does` in `protocol/` |
//! | | sequences wrap | `idempotence_sequence_wrap` |
//! | | epoch bump | `idempotence_epoch_bump` |
//! | | MESSAGE_TOO_LARGE | `idempotence_message_too_large_split` |
//! | EndTxn | every answer of version 4 and 5 | `end_txn_every_answer_of_version_4`, `end_txn_every_answer_of_version_5` |
//! | | lost answer; nobody waits for it | `end_txn_lost_answer`, `end_txn_commit_that_nobody_waited_for` |
//! | | start while a former owner's transaction is being aborted | `end_txn_start_during_an_abort_is_bounded` |
//! | | records sent during a commit | `overlap_records_sent_during_a_commit_are_of_the_next`, `overlap_what_follows_a_failed_commit_fails_with_it` |
//! | | broker killed in each state | `end_txn_coordinator_killed_in_each_state` |
//! | | replay in the wrong mode | `end_txn_replay_in_the_wrong_mode`; why `PreparedTransaction` carries its mode |
//! | resume | another process finishes, in all outcomes | `resume_open_transaction`, `resume_ended_transaction`, `resume_timed_out_transaction`, `resume_superseded_transaction`, `resume_expired_id` |
//! | | last epoch | `near_the_last_epoch_the_identity_is_asked_for_until_the_id_changes` in `protocol/`, `epochs_that_run_out_bring_a_new_producer_id` in `dev-broker/` |
//! | offsets as an oracle | read before the fence; fence, then read | `oracle_waits_before_the_fence`, `oracle_after_the_fence` |
//! | | last commit wins, plain commit, group deleted | `oracle_last_commit_wins`, `oracle_plain_commit_overrides`, `oracle_group_deleted` |
//! | | expiry | `oracle_expires` (takes minutes: `-- --ignored oracle_expires`) |
//! | | topic recreated, partition missing, metadata too long | `oracle_topic_recreate`, `oracle_partition_must_exist`, `oracle_metadata_limit` |
//! | | stale reads of the coordinator before 4.0 | can not be brought about from outside |
//! | kills of client, broker, coordinator | | `tests/exactly_once`, `tests/failover` |
//! | logins and TLS | | `tests/security`, `sasl/tests` in `protocol/` |

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod batch;
mod clusters;
mod compacted;
mod end_txn;
mod idempotence;
mod killed_coordinator;
mod negotiation;
mod oracle;
mod overlap;
mod raw;
mod read_committed;
mod resume;
mod sessions;

use clusters::{Kind, run};

/// One test for each body, on one kind of cluster.
macro_rules! cases {
    ($kind:expr; $($area:ident: $($test:ident),+;)+) => {
        $($(
            #[test]
            fn $test() {
                let name = concat!(module_path!(), "::", stringify!($test));
                super::run($kind, name, super::$area::$test);
            }
        )+)+
    };
}

/// What holds on every cluster, and what more holds on this one.
macro_rules! suite {
    ($module:ident, $kind:expr $(, { $($more:tt)* })?) => {
        mod $module {
            use super::Kind;
            cases! { $kind;
                negotiation:
                    negotiation_unsupported_version_with_api_keys,
                    negotiation_unsupported_version_without_api_keys,
                    negotiation_feature_level_decides_the_transaction_mode;
                batch:
                    batch_log_append_time,
                    batch_partial_tail;
                sessions:
                    sessions_evicted_session,
                    sessions_invalid_session_epoch,
                    sessions_topic_recreate;
                read_committed:
                    read_committed_interleaved_pids,
                    read_committed_aborted_txn_spanning_fetches,
                    read_committed_marker_epoch;
                idempotence:
                    idempotence_dropped_responses,
                    idempotence_duplicated_responses,
                    idempotence_reordered_responses,
                    idempotence_sequence_wrap,
                    idempotence_epoch_bump,
                    idempotence_message_too_large_split;
                end_txn:
                    end_txn_every_answer_of_version_4,
                    end_txn_lost_answer,
                    end_txn_commit_that_nobody_waited_for;
                overlap:
                    overlap_records_sent_during_a_commit_are_of_the_next,
                    overlap_what_follows_a_failed_commit_fails_with_it;
                resume:
                    resume_open_transaction,
                    resume_ended_transaction,
                    resume_timed_out_transaction,
                    resume_superseded_transaction,
                    resume_expired_id;
            }
            $(cases! { $kind; $($more)* })?
        }
    };
}

suite!(dev_tv0, Kind::Dev(0));
suite!(dev_tv2, Kind::Dev(2), {
    end_txn: end_txn_every_answer_of_version_5, end_txn_replay_in_the_wrong_mode;
});
suite!(kafka_tv0, Kind::Kafka(0), {
    compacted: batch_compacted_tail_emptied_batch_and_delete_horizon;
    end_txn: end_txn_start_during_an_abort_is_bounded;
    oracle: oracle_waits_before_the_fence, oracle_after_the_fence, oracle_last_commit_wins;
});
suite!(kafka_tv1, Kind::Kafka(1), {
    oracle: oracle_waits_before_the_fence, oracle_after_the_fence;
});
suite!(kafka_tv2, Kind::Kafka(2), {
    compacted:
        batch_compacted_tail_emptied_batch_and_delete_horizon,
        read_committed_compacted_marker;
    sessions: sessions_throttle_empty_full_response;
    end_txn:
        end_txn_every_answer_of_version_5,
        end_txn_replay_in_the_wrong_mode,
        end_txn_start_during_an_abort_is_bounded;
    oracle:
        oracle_waits_before_the_fence,
        oracle_after_the_fence,
        oracle_last_commit_wins,
        oracle_plain_commit_overrides,
        oracle_group_deleted,
        oracle_topic_recreate,
        oracle_partition_must_exist,
        oracle_metadata_limit;
});
suite!(kafka_three_brokers, Kind::ThreeBrokers, {
    end_txn: end_txn_every_answer_of_version_5, end_txn_replay_in_the_wrong_mode;
    oracle: oracle_waits_before_the_fence, oracle_after_the_fence;
});
suite!(kafka_older, Kind::Older, {
    compacted:
        batch_compacted_tail_emptied_batch_and_delete_horizon,
        read_committed_compacted_marker;
    oracle:
        oracle_waits_before_the_fence,
        oracle_after_the_fence,
        oracle_last_commit_wins,
        oracle_plain_commit_overrides,
        oracle_group_deleted;
});
