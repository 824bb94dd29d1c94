//! Transactions and producers.

use super::super::schema::{BOOL, Field, I16, I32, I32S, I64, I64S, Kind, TEXT, TEXTS, f};

pub(super) const INIT_PRODUCER_ID_REQUEST: &[Field] = &[
    f("transactional_id", TEXT),
    f("transaction_timeout_ms", I32),
    f("producer_id", I64).since(3),
    f("producer_epoch", I16).since(3),
];

pub(super) const INIT_PRODUCER_ID_RESPONSE: &[Field] = &[
    f("throttle_time_ms", I32),
    f("error_code", I16),
    f("producer_id", I64),
    f("producer_epoch", I16),
];

const ADD_PARTITIONS_TOPICS: Kind = each![f("name", TEXT), f("partitions", I32S)];

pub(super) const ADD_PARTITIONS_TO_TXN_REQUEST: &[Field] = &[
    f(
        "transactions",
        each![
            f("transactional_id", TEXT),
            f("producer_id", I64),
            f("producer_epoch", I16),
            f("verify_only", BOOL),
            f("topics", ADD_PARTITIONS_TOPICS),
        ],
    )
    .since(4),
    f("v3_and_below_transactional_id", TEXT).until(3),
    f("v3_and_below_producer_id", I64).until(3),
    f("v3_and_below_producer_epoch", I16).until(3),
    f("v3_and_below_topics", ADD_PARTITIONS_TOPICS).until(3),
];

const ADD_PARTITIONS_RESULTS: Kind = each![
    f("name", TEXT),
    f("results_by_partition", each![f("partition_index", I32), f("partition_error_code", I16)]),
];

pub(super) const ADD_PARTITIONS_TO_TXN_RESPONSE: &[Field] = &[
    f("throttle_time_ms", I32),
    f("error_code", I16).since(4),
    f(
        "results_by_transaction",
        each![f("transactional_id", TEXT), f("topic_results", ADD_PARTITIONS_RESULTS)],
    )
    .since(4),
    f("results_by_topic_v3_and_below", ADD_PARTITIONS_RESULTS).until(3),
];

pub(super) const ADD_OFFSETS_TO_TXN_REQUEST: &[Field] = &[
    f("transactional_id", TEXT),
    f("producer_id", I64),
    f("producer_epoch", I16),
    f("group_id", TEXT),
];

pub(super) const ADD_OFFSETS_TO_TXN_RESPONSE: &[Field] =
    &[f("throttle_time_ms", I32), f("error_code", I16)];

pub(super) const TXN_OFFSET_COMMIT_REQUEST: &[Field] = &[
    f("transactional_id", TEXT),
    f("group_id", TEXT),
    f("producer_id", I64),
    f("producer_epoch", I16),
    f("generation_id", I32).since(3),
    f("member_id", TEXT).since(3),
    f("group_instance_id", TEXT).since(3),
    f(
        "topics",
        each![
            f("name", TEXT),
            f(
                "partitions",
                each![
                    f("partition_index", I32),
                    f("committed_offset", I64),
                    f("committed_leader_epoch", I32).since(2),
                    f("committed_metadata", TEXT)
                ]
            )
        ],
    ),
];

pub(super) const TXN_OFFSET_COMMIT_RESPONSE: &[Field] = &[
    f("throttle_time_ms", I32),
    f(
        "topics",
        each![
            f("name", TEXT),
            f("partitions", each![f("partition_index", I32), f("error_code", I16)])
        ],
    ),
];

pub(super) const END_TXN_REQUEST: &[Field] = &[
    f("transactional_id", TEXT),
    f("producer_id", I64),
    f("producer_epoch", I16),
    f("committed", BOOL),
];

pub(super) const END_TXN_RESPONSE: &[Field] = &[
    f("throttle_time_ms", I32),
    f("error_code", I16),
    f("producer_id", I64).since(5),
    f("producer_epoch", I16).since(5),
];

pub(super) const WRITE_TXN_MARKERS_REQUEST: &[Field] = &[f(
    "markers",
    each![
        f("producer_id", I64),
        f("producer_epoch", I16),
        f("transaction_result", BOOL),
        f("topics", each![f("name", TEXT), f("partition_indexes", I32S)]),
        f("coordinator_epoch", I32)
    ],
)];

pub(super) const WRITE_TXN_MARKERS_RESPONSE: &[Field] = &[f(
    "markers",
    each![
        f("producer_id", I64),
        f(
            "topics",
            each![
                f("name", TEXT),
                f("partitions", each![f("partition_index", I32), f("error_code", I16)])
            ]
        )
    ],
)];

pub(super) const DESCRIBE_TRANSACTIONS_REQUEST: &[Field] = &[f("transactional_ids", TEXTS)];

pub(super) const DESCRIBE_TRANSACTIONS_RESPONSE: &[Field] = &[
    f("throttle_time_ms", I32),
    f(
        "transaction_states",
        each![
            f("error_code", I16),
            f("transactional_id", TEXT),
            f("transaction_state", TEXT),
            f("transaction_timeout_ms", I32),
            f("transaction_start_time_ms", I64),
            f("producer_id", I64),
            f("producer_epoch", I16),
            f("topics", each![f("topic", TEXT), f("partitions", I32S)]),
        ],
    ),
];

pub(super) const LIST_TRANSACTIONS_REQUEST: &[Field] = &[
    f("state_filters", TEXTS),
    f("producer_id_filters", I64S),
    f("duration_filter", I64).since(1),
    f("transactional_id_pattern", TEXT).since(2),
];

pub(super) const LIST_TRANSACTIONS_RESPONSE: &[Field] = &[
    f("throttle_time_ms", I32),
    f("error_code", I16),
    f("unknown_state_filters", TEXTS),
    f(
        "transaction_states",
        each![f("transactional_id", TEXT), f("producer_id", I64), f("transaction_state", TEXT)],
    ),
];

pub(super) const DESCRIBE_PRODUCERS_REQUEST: &[Field] =
    &[f("topics", each![f("name", TEXT), f("partition_indexes", I32S)])];

pub(super) const DESCRIBE_PRODUCERS_RESPONSE: &[Field] = &[
    f("throttle_time_ms", I32),
    f(
        "topics",
        each![
            f("name", TEXT),
            f(
                "partitions",
                each![
                    f("partition_index", I32),
                    f("error_code", I16),
                    f("error_message", TEXT),
                    f(
                        "active_producers",
                        each![
                            f("producer_id", I64),
                            f("producer_epoch", I32),
                            f("last_sequence", I32),
                            f("last_timestamp", I64),
                            f("coordinator_epoch", I32),
                            f("current_txn_start_offset", I64)
                        ]
                    )
                ]
            )
        ],
    ),
];
