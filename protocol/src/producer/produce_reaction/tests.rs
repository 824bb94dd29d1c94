use super::*;

/// Every code that we know has a deliberate place: whoever adds one must decide.
#[test]
fn table_of_codes_holds_for_each_kind_of_producer() {
    let retry =
        |refresh, soon, maybe_written| Reaction::Retry(Retry { refresh, soon, maybe_written });
    for mode in [None, Some(TransactionMode::Tv1), Some(TransactionMode::Tv2)] {
        let soon = mode == Some(TransactionMode::Tv2);
        let table = [
            (ErrorCode::NONE, Reaction::Done),
            (ErrorCode::DUPLICATE_SEQUENCE_NUMBER, Reaction::Done),
            (ErrorCode::UNKNOWN_SERVER_ERROR, Reaction::RetryFewTimes),
            (ErrorCode::CORRUPT_MESSAGE, Reaction::RetryFewTimes),
            (ErrorCode(12_345), Reaction::RetryFewTimes),
            (ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, retry(true, false, false)),
            (ErrorCode::NOT_LEADER_OR_FOLLOWER, retry(true, false, false)),
            (ErrorCode::KAFKA_STORAGE_ERROR, retry(true, false, false)),
            (ErrorCode::FENCED_LEADER_EPOCH, retry(true, false, false)),
            (ErrorCode::REQUEST_TIMED_OUT, retry(false, false, true)),
            (ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND, retry(false, false, true)),
            (ErrorCode::NOT_ENOUGH_REPLICAS, retry(false, soon, false)),
            (ErrorCode::NETWORK_EXCEPTION, retry(false, soon, false)),
            (ErrorCode::CONCURRENT_TRANSACTIONS, retry(false, soon, false)),
            (ErrorCode::NOT_COORDINATOR, retry(false, soon, false)),
            (ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, Reaction::OutOfOrder),
            (ErrorCode::INVALID_PRODUCER_EPOCH, Reaction::IdentityLost),
            (ErrorCode::UNKNOWN_PRODUCER_ID, Reaction::IdentityLost),
            (ErrorCode::MESSAGE_TOO_LARGE, Reaction::TooLarge),
            (ErrorCode::RECORD_LIST_TOO_LARGE, Reaction::TooLarge),
            (ErrorCode::INVALID_TXN_STATE, Reaction::Abort),
            (ErrorCode::INVALID_PRODUCER_ID_MAPPING, Reaction::Abort),
            (ErrorCode::TRANSACTION_ABORTABLE, Reaction::Abort),
            (ErrorCode::PRODUCER_FENCED, Reaction::Fence),
            (ErrorCode::TOPIC_AUTHORIZATION_FAILED, Reaction::Fail),
            (ErrorCode::INVALID_TIMESTAMP, Reaction::Fail),
            (ErrorCode::INVALID_RECORD, Reaction::Fail),
        ];
        for (code, expected) in table {
            assert_eq!(reaction(code, mode), expected, "{code} under {mode:?}");
        }
    }
}
