use std::io;

use millstream_checkpoint::{FencedReason, StopReason};
use millstream_protocol::TopicPartition;
use millstream_protocol_client::FetchError;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

/// The pauses after failures at these seconds, without jitter.
fn pauses(strategy: RestartStrategy, failures: &[u64]) -> Vec<Option<f64>> {
    let mut backoff = RestartBackoff::new(strategy);
    let mut at = |second: &u64| {
        backoff.on_failure(Duration::from_secs(*second), 0.5).map(|pause| pause.as_secs_f64())
    };
    failures.iter().map(&mut at).collect()
}

#[test]
fn no_restart_ends_at_once_and_a_fixed_delay_after_its_attempts() {
    assert_eq!(pauses(RestartStrategy::NoRestart, &[0]), [None]);
    let twice = RestartStrategy::fixed_delay(2, 3 * SECOND);
    // However long it ran well in between.
    assert_eq!(pauses(twice, &[0, 9_000, 90_000]), [Some(3.0), Some(3.0), None]);
}

#[test]
fn a_failure_rate_forgets_failures_that_are_older_than_its_interval() {
    let rate = RestartStrategy::failure_rate(2, 60 * SECOND, SECOND);
    let one = Some(1.0);
    assert_eq!(pauses(rate, &[0, 30, 60, 90, 120]), [one; 5]);
    assert_eq!(pauses(rate, &[0, 30, 59]), [one, one, None]);
    assert_eq!(pauses(RestartStrategy::failure_rate(0, 60 * SECOND, SECOND), &[0]), [None]);
}

#[test]
fn an_exponential_delay_grows_to_its_maximum_and_begins_anew_after_the_threshold() {
    let flinks = RestartStrategy::exponential_delay();
    let grown = pauses(flinks, &[0, 1, 2, 3, 4]);
    assert_eq!(grown, [1.0, 1.5, 2.25, 3.375, 5.0625].map(Some));
    let longest = pauses(flinks, &(0..100).collect::<Vec<_>>());
    assert_eq!(longest.last(), Some(&Some(60.0)));
    // The threshold counts from the restart, not from the failure.
    assert_eq!(pauses(flinks, &[0, 3600]), [Some(1.0), Some(1.5)]);
    assert_eq!(pauses(flinks, &[0, 3601]), [Some(1.0), Some(1.0)]);
}

#[test]
fn attempts_of_an_exponential_delay_count_anew_with_its_pause() {
    let twice = RestartStrategy::ExponentialDelay {
        initial_backoff: SECOND,
        max_backoff: HOUR,
        backoff_multiplier: f64::MAX,
        reset_backoff_threshold: 10 * SECOND,
        jitter_factor: 0.0,
        attempts_before_reset_backoff: 2,
    };
    assert_eq!(pauses(twice, &[0, 1, 2]), [Some(1.0), Some(3600.0), None]);
    assert_eq!(pauses(twice, &[0, 11, 22, 33]), [Some(1.0); 4]);
}

#[test]
fn jitter_moves_a_pause_by_its_part_and_never_beyond_the_longest() {
    let strategy = RestartStrategy::exponential_delay();
    let first = |random| RestartBackoff::new(strategy).on_failure(Duration::ZERO, random);
    assert_eq!(first(0.0), Some(Duration::from_millis(900)));
    assert_eq!(first(1.0), Some(Duration::from_millis(1100)));
    let mut backoff = RestartBackoff::new(strategy);
    let pauses = (0..50).map(|second| backoff.on_failure(second * SECOND, 1.0));
    assert_eq!(pauses.max(), Some(Some(60 * SECOND)));
}

fn at_offset(offset: i64) -> JobError {
    let error = OperatorError::new("no number").in_operator("parse");
    JobError::Operator(error.at(format!("flights-2 offset {offset}")))
}

#[test]
fn failures_at_the_same_record_are_counted_until_another_comes_between() {
    let mut same = SameRecord::default();
    let counts = [1, 1, 2, 1, 1].map(|offset| same.count(&at_offset(offset)));
    assert_eq!(counts, [1, 2, 1, 1, 2]);
    let nowhere = JobError::Operator(OperatorError::new("no number"));
    assert_eq!((same.count(&nowhere), same.count(&nowhere)), (0, 0));
    assert_eq!(same.count(&at_offset(1)), 1);
    let too_large = || JobError::Producer {
        transactional_id: "job/0".to_owned(),
        source: ProduceError::Fatal {
            cause: FatalCause::RecordTooLarge {
                topic_partition: TopicPartition::new("out", 0),
                bytes: 2_000_000,
            },
        },
    };
    assert_eq!((same.count(&too_large()), same.count(&too_large())), (1, 2));
}

#[test]
fn what_a_restart_can_not_mend_is_not_restarted() {
    let operator = |cause: crate::Cause| JobError::Operator(OperatorError::new(cause));
    let producer = |source| JobError::Producer { transactional_id: "job/0".to_owned(), source };
    let sync_failed = || StateError::Io {
        operation: "writing",
        path: "META".into(),
        source: io::Error::other("bad disk"),
    };
    let meta_missing = || StopReason::MetaMissing { directory: "/state".into() };
    let fatal = [
        JobError::Fenced(FencedReason::NewerOwner),
        JobError::Stop(meta_missing()),
        JobError::State(sync_failed()),
        operator(Box::new(StoreError::NoSpace { place: "store".to_owned() })),
        operator(Box::new(Bug("never".to_owned()))),
        operator(Box::new(FetchError::OffsetBelowLogStart { position: 3, log_start_offset: 5 })),
        JobError::Bug { what: "never".to_owned() },
        JobError::InvalidJob { job: "job".to_owned(), reason: "no sink".to_owned() },
        producer(ProduceError::InvalidTransactionTimeout { timeout: HOUR }),
        JobError::Client(ClientError::UnknownTopic {
            operation: "reading".to_owned(),
            topic: "flights".to_owned(),
        }),
    ];
    for error in fatal {
        assert!(!may_restart(&error), "{error:?}");
    }
    let unreachable = ClientError::NoBrokerReachable { failures: Vec::new(), after: SECOND };
    let mended = [
        operator("a function of the user's".into()),
        at_offset(7),
        operator(Box::new(unreachable.clone())),
        JobError::Client(unreachable),
        producer(ProduceError::ConcurrentTransactions { transactional_id: "job/0".into() }),
        JobError::TooManyFailedCheckpoints {
            failed: 3,
            tolerable: 2,
            last: "disk full".to_owned(),
        },
    ];
    for error in mended {
        assert!(may_restart(&error), "{error:?}");
    }
}

#[test]
fn a_record_of_a_restart_says_when_what_and_why_in_one_line() {
    let record = RestartRecord {
        at_ms: 1_709_210_096_789,
        kind: RestartKind::Failure,
        checkpoint: 12,
        reason: one_line(&at_offset(7)),
        delay: Duration::from_millis(1500),
    };
    assert_eq!(
        record.to_string(),
        "2024-02-29T12:34:56Z restarted from checkpoint 12 after 1.5s: operator \"parse\" failed at flights-2 offset 7: no number"
    );
    for (ms, text) in [
        (0, "1970-01-01T00:00:00Z"),
        (951_868_800_000, "2000-03-01T00:00:00Z"),
        (4_102_444_799_000, "2099-12-31T23:59:59Z"),
        (-1, "1969-12-31T23:59:59Z"),
    ] {
        assert_eq!(Utc(ms).to_string(), text);
    }
}

#[test]
fn a_history_of_any_length_is_told_in_a_few_lines() {
    let record = |second: i64, reason: String| RestartRecord {
        at_ms: 1_709_210_096_789 + second * 1000,
        kind: RestartKind::FailedCheckpoint,
        checkpoint: 60,
        reason,
        delay: Duration::from_secs(5),
    };
    let full = |seconds: std::ops::Range<i64>| {
        seconds.map(|second| record(second, "disk full".to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(RestartHistory(Vec::new()).to_string(), "");
    let alike = RestartHistory(full(0..57)).to_string();
    assert_eq!(
        alike,
        "\n  2024-02-29T12:34:56Z rolled back to checkpoint 60 after 5s: disk full (57 times, last 2024-02-29T12:35:52Z)"
    );
    let different = |count| {
        let records = (0..count).map(|number| record(number, format!("reason {number}")));
        RestartHistory(records.collect()).to_string()
    };
    assert_eq!(different(10).lines().count(), 1 + 10);
    let many = different(100);
    assert_eq!(many.lines().count(), 1 + 3 + 1 + 7, "{many}");
    for part in ["reason 2\n", "(90 more)", "reason 93\n", "reason 99"] {
        assert!(many.contains(part), "{part}: {many}");
    }
    assert!(!many.contains("reason 92"), "{many}");
}
