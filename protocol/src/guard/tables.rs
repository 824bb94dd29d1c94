//! The schemas, one table per API and direction, as of Kafka 4.1 (`clients/src/main/resources/common/message`). They
//! cover the versions of [`ApiKey::codec_versions`].

use super::schema::{BOOL, Field, I8, I16, I32, I32S, I64, I64S, Kind, TEXT, TEXTS, UUID, f};
use crate::messages::ApiKey;
use crate::wire::Direction::{self, Request, Response};

/// The schema of a body, or `None` for the APIs whose codecs are our own.
pub(super) const fn schema(api_key: ApiKey, direction: Direction) -> Option<&'static [Field]> {
    Some(match (api_key, direction) {
        (ApiKey::Produce | ApiKey::Fetch | ApiKey::ApiVersions, _) => return None,
        (ApiKey::ListOffsets, Request) => LIST_OFFSETS_REQUEST,
        (ApiKey::ListOffsets, Response) => LIST_OFFSETS_RESPONSE,
        (ApiKey::Metadata, Request) => METADATA_REQUEST,
        (ApiKey::Metadata, Response) => METADATA_RESPONSE,
        (ApiKey::OffsetCommit, Request) => OFFSET_COMMIT_REQUEST,
        (ApiKey::OffsetCommit, Response) => OFFSET_COMMIT_RESPONSE,
        (ApiKey::OffsetFetch, Request) => OFFSET_FETCH_REQUEST,
        (ApiKey::OffsetFetch, Response) => OFFSET_FETCH_RESPONSE,
        (ApiKey::FindCoordinator, Request) => FIND_COORDINATOR_REQUEST,
        (ApiKey::FindCoordinator, Response) => FIND_COORDINATOR_RESPONSE,
        (ApiKey::CreateTopics, Request) => CREATE_TOPICS_REQUEST,
        (ApiKey::CreateTopics, Response) => CREATE_TOPICS_RESPONSE,
        (ApiKey::DeleteTopics, Request) => DELETE_TOPICS_REQUEST,
        (ApiKey::DeleteTopics, Response) => DELETE_TOPICS_RESPONSE,
        (ApiKey::InitProducerId, Request) => INIT_PRODUCER_ID_REQUEST,
        (ApiKey::InitProducerId, Response) => INIT_PRODUCER_ID_RESPONSE,
        (ApiKey::AddPartitionsToTxn, Request) => ADD_PARTITIONS_TO_TXN_REQUEST,
        (ApiKey::AddPartitionsToTxn, Response) => ADD_PARTITIONS_TO_TXN_RESPONSE,
        (ApiKey::EndTxn, Request) => END_TXN_REQUEST,
        (ApiKey::EndTxn, Response) => END_TXN_RESPONSE,
        (ApiKey::DescribeConfigs, Request) => DESCRIBE_CONFIGS_REQUEST,
        (ApiKey::DescribeConfigs, Response) => DESCRIBE_CONFIGS_RESPONSE,
        (ApiKey::DescribeTransactions, Request) => DESCRIBE_TRANSACTIONS_REQUEST,
        (ApiKey::DescribeTransactions, Response) => DESCRIBE_TRANSACTIONS_RESPONSE,
        (ApiKey::ListTransactions, Request) => LIST_TRANSACTIONS_REQUEST,
        (ApiKey::ListTransactions, Response) => LIST_TRANSACTIONS_RESPONSE,
    })
}

/// An array of structs.
macro_rules! each {
    ($($field:expr),* $(,)?) => {
        Kind::Array(&Kind::Struct(&[$($field),*]))
    };
}

const LIST_OFFSETS_REQUEST: &[Field] = &[
    f("replica_id", I32),
    f("isolation_level", I8).since(2),
    f(
        "topics",
        each![
            f("name", TEXT),
            f(
                "partitions",
                each![
                    f("partition_index", I32),
                    f("current_leader_epoch", I32).since(4),
                    f("timestamp", I64),
                ]
            ),
        ],
    ),
    f("timeout_ms", I32).since(10),
];

const LIST_OFFSETS_RESPONSE: &[Field] = &[
    f("throttle_time_ms", I32).since(2),
    f(
        "topics",
        each![
            f("name", TEXT),
            f(
                "partitions",
                each![
                    f("partition_index", I32),
                    f("error_code", I16),
                    f("timestamp", I64),
                    f("offset", I64),
                    f("leader_epoch", I32).since(4),
                ]
            ),
        ],
    ),
];

const METADATA_REQUEST: &[Field] = &[
    f("topics", each![f("topic_id", UUID).since(10), f("name", TEXT)]),
    f("allow_auto_topic_creation", BOOL).since(4),
    f("include_cluster_authorized_operations", BOOL).since(8).until(10),
    f("include_topic_authorized_operations", BOOL).since(8),
];

const METADATA_RESPONSE: &[Field] = &[
    f("throttle_time_ms", I32).since(3),
    f(
        "brokers",
        each![f("node_id", I32), f("host", TEXT), f("port", I32), f("rack", TEXT).since(1)],
    ),
    f("cluster_id", TEXT).since(2),
    f("controller_id", I32).since(1),
    f(
        "topics",
        each![
            f("error_code", I16),
            f("name", TEXT),
            f("topic_id", UUID).since(10),
            f("is_internal", BOOL).since(1),
            f(
                "partitions",
                each![
                    f("error_code", I16),
                    f("partition_index", I32),
                    f("leader_id", I32),
                    f("leader_epoch", I32).since(7),
                    f("replica_nodes", I32S),
                    f("isr_nodes", I32S),
                    f("offline_replicas", I32S).since(5),
                ]
            ),
            f("topic_authorized_operations", I32).since(8),
        ],
    ),
    f("cluster_authorized_operations", I32).since(8).until(10),
    f("error_code", I16).since(13),
];

const OFFSET_COMMIT_REQUEST: &[Field] = &[
    f("group_id", TEXT),
    f("generation_id_or_member_epoch", I32),
    f("member_id", TEXT),
    f("group_instance_id", TEXT).since(7),
    f("retention_time_ms", I64).until(4),
    f(
        "topics",
        each![
            f("name", TEXT),
            f(
                "partitions",
                each![
                    f("partition_index", I32),
                    f("committed_offset", I64),
                    f("committed_leader_epoch", I32).since(6),
                    f("committed_metadata", TEXT),
                ]
            ),
        ],
    ),
];

const OFFSET_COMMIT_RESPONSE: &[Field] = &[
    f("throttle_time_ms", I32).since(3),
    f(
        "topics",
        each![
            f("name", TEXT),
            f("partitions", each![f("partition_index", I32), f("error_code", I16)]),
        ],
    ),
];

const OFFSET_FETCH_REQUEST: &[Field] = &[
    f("group_id", TEXT).until(7),
    f("topics", each![f("name", TEXT), f("partition_indexes", I32S)]).until(7),
    f(
        "groups",
        each![
            f("group_id", TEXT),
            f("member_id", TEXT).since(9),
            f("member_epoch", I32).since(9),
            f("topics", each![f("name", TEXT), f("partition_indexes", I32S)]),
        ],
    )
    .since(8),
    f("require_stable", BOOL).since(7),
];

const OFFSET_FETCH_PARTITION: Kind = Kind::Struct(&[
    f("partition_index", I32),
    f("committed_offset", I64),
    f("committed_leader_epoch", I32).since(5),
    f("metadata", TEXT),
    f("error_code", I16),
]);

const OFFSET_FETCH_RESPONSE: &[Field] = &[
    f("throttle_time_ms", I32).since(3),
    f("topics", each![f("name", TEXT), f("partitions", Kind::Array(&OFFSET_FETCH_PARTITION))])
        .until(7),
    f("error_code", I16).since(2).until(7),
    f(
        "groups",
        each![
            f("group_id", TEXT),
            f(
                "topics",
                each![f("name", TEXT), f("partitions", Kind::Array(&OFFSET_FETCH_PARTITION))]
            ),
            f("error_code", I16),
        ],
    )
    .since(8),
];

const FIND_COORDINATOR_REQUEST: &[Field] =
    &[f("key", TEXT).until(3), f("key_type", I8).since(1), f("coordinator_keys", TEXTS).since(4)];

const FIND_COORDINATOR_RESPONSE: &[Field] = &[
    f("throttle_time_ms", I32).since(1),
    f("error_code", I16).until(3),
    f("error_message", TEXT).since(1).until(3),
    f("node_id", I32).until(3),
    f("host", TEXT).until(3),
    f("port", I32).until(3),
    f(
        "coordinators",
        each![
            f("key", TEXT),
            f("node_id", I32),
            f("host", TEXT),
            f("port", I32),
            f("error_code", I16),
            f("error_message", TEXT),
        ],
    )
    .since(4),
];

const CREATE_TOPICS_REQUEST: &[Field] = &[
    f(
        "topics",
        each![
            f("name", TEXT),
            f("num_partitions", I32),
            f("replication_factor", I16),
            f("assignments", each![f("partition_index", I32), f("broker_ids", I32S)]),
            f("configs", each![f("name", TEXT), f("value", TEXT)]),
        ],
    ),
    f("timeout_ms", I32),
    f("validate_only", BOOL),
];

const CREATE_TOPICS_RESPONSE: &[Field] = &[
    f("throttle_time_ms", I32),
    f(
        "topics",
        each![
            f("name", TEXT),
            f("topic_id", UUID).since(7),
            f("error_code", I16),
            f("error_message", TEXT),
            f("topic_config_error_code", I16).since(5).tagged(0),
            f("num_partitions", I32).since(5),
            f("replication_factor", I16).since(5),
            f(
                "configs",
                each![
                    f("name", TEXT),
                    f("value", TEXT),
                    f("read_only", BOOL),
                    f("config_source", I8),
                    f("is_sensitive", BOOL),
                ]
            )
            .since(5),
        ],
    ),
];

const DELETE_TOPICS_REQUEST: &[Field] = &[
    f("topics", each![f("name", TEXT), f("topic_id", UUID)]).since(6),
    f("topic_names", TEXTS).until(5),
    f("timeout_ms", I32),
];

const DELETE_TOPICS_RESPONSE: &[Field] = &[
    f("throttle_time_ms", I32),
    f(
        "responses",
        each![
            f("name", TEXT),
            f("topic_id", UUID).since(6),
            f("error_code", I16),
            f("error_message", TEXT).since(5),
        ],
    ),
];

const INIT_PRODUCER_ID_REQUEST: &[Field] = &[
    f("transactional_id", TEXT),
    f("transaction_timeout_ms", I32),
    f("producer_id", I64).since(3),
    f("producer_epoch", I16).since(3),
];

const INIT_PRODUCER_ID_RESPONSE: &[Field] = &[
    f("throttle_time_ms", I32),
    f("error_code", I16),
    f("producer_id", I64),
    f("producer_epoch", I16),
];

const ADD_PARTITIONS_TOPICS: Kind = each![f("name", TEXT), f("partitions", I32S)];

const ADD_PARTITIONS_TO_TXN_REQUEST: &[Field] = &[
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

const ADD_PARTITIONS_TO_TXN_RESPONSE: &[Field] = &[
    f("throttle_time_ms", I32),
    f("error_code", I16).since(4),
    f(
        "results_by_transaction",
        each![f("transactional_id", TEXT), f("topic_results", ADD_PARTITIONS_RESULTS)],
    )
    .since(4),
    f("results_by_topic_v3_and_below", ADD_PARTITIONS_RESULTS).until(3),
];

const END_TXN_REQUEST: &[Field] = &[
    f("transactional_id", TEXT),
    f("producer_id", I64),
    f("producer_epoch", I16),
    f("committed", BOOL),
];

const END_TXN_RESPONSE: &[Field] = &[
    f("throttle_time_ms", I32),
    f("error_code", I16),
    f("producer_id", I64).since(5),
    f("producer_epoch", I16).since(5),
];

const DESCRIBE_CONFIGS_REQUEST: &[Field] = &[
    f(
        "resources",
        each![f("resource_type", I8), f("resource_name", TEXT), f("configuration_keys", TEXTS)],
    ),
    f("include_synonyms", BOOL),
    f("include_documentation", BOOL).since(3),
];

const DESCRIBE_CONFIGS_RESPONSE: &[Field] = &[
    f("throttle_time_ms", I32),
    f(
        "results",
        each![
            f("error_code", I16),
            f("error_message", TEXT),
            f("resource_type", I8),
            f("resource_name", TEXT),
            f(
                "configs",
                each![
                    f("name", TEXT),
                    f("value", TEXT),
                    f("read_only", BOOL),
                    f("config_source", I8),
                    f("is_sensitive", BOOL),
                    f("synonyms", each![f("name", TEXT), f("value", TEXT), f("source", I8)]),
                    f("config_type", I8).since(3),
                    f("documentation", TEXT).since(3),
                ]
            ),
        ],
    ),
];

const DESCRIBE_TRANSACTIONS_REQUEST: &[Field] = &[f("transactional_ids", TEXTS)];

const DESCRIBE_TRANSACTIONS_RESPONSE: &[Field] = &[
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

const LIST_TRANSACTIONS_REQUEST: &[Field] = &[
    f("state_filters", TEXTS),
    f("producer_id_filters", I64S),
    f("duration_filter", I64).since(1),
    f("transactional_id_pattern", TEXT).since(2),
];

const LIST_TRANSACTIONS_RESPONSE: &[Field] = &[
    f("throttle_time_ms", I32),
    f("error_code", I16),
    f("unknown_state_filters", TEXTS),
    f(
        "transaction_states",
        each![f("transactional_id", TEXT), f("producer_id", I64), f("transaction_state", TEXT)],
    ),
];
