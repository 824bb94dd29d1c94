//! Topics, their configuration, and that of brokers.

use super::super::schema::{BOOL, Field, I8, I16, I32, I32S, I64, Kind, TEXT, TEXTS, UUID, f};

pub(super) const CREATE_TOPICS_REQUEST: &[Field] = &[
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

pub(super) const CREATE_TOPICS_RESPONSE: &[Field] = &[
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

pub(super) const DELETE_TOPICS_REQUEST: &[Field] = &[
    f("topics", each![f("name", TEXT), f("topic_id", UUID)]).since(6),
    f("topic_names", TEXTS).until(5),
    f("timeout_ms", I32),
];

pub(super) const DELETE_TOPICS_RESPONSE: &[Field] = &[
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

pub(super) const CREATE_PARTITIONS_REQUEST: &[Field] = &[
    f(
        "topics",
        each![f("name", TEXT), f("count", I32), f("assignments", each![f("broker_ids", I32S)])],
    ),
    f("timeout_ms", I32),
    f("validate_only", BOOL),
];

pub(super) const CREATE_PARTITIONS_RESPONSE: &[Field] = &[
    f("throttle_time_ms", I32),
    f("results", each![f("name", TEXT), f("error_code", I16), f("error_message", TEXT)]),
];

pub(super) const DELETE_RECORDS_REQUEST: &[Field] = &[
    f(
        "topics",
        each![f("name", TEXT), f("partitions", each![f("partition_index", I32), f("offset", I64)])],
    ),
    f("timeout_ms", I32),
];

pub(super) const DELETE_RECORDS_RESPONSE: &[Field] = &[
    f("throttle_time_ms", I32),
    f(
        "topics",
        each![
            f("name", TEXT),
            f(
                "partitions",
                each![f("partition_index", I32), f("low_watermark", I64), f("error_code", I16)]
            )
        ],
    ),
];

pub(super) const DESCRIBE_CONFIGS_REQUEST: &[Field] = &[
    f(
        "resources",
        each![f("resource_type", I8), f("resource_name", TEXT), f("configuration_keys", TEXTS)],
    ),
    f("include_synonyms", BOOL),
    f("include_documentation", BOOL).since(3),
];

pub(super) const DESCRIBE_CONFIGS_RESPONSE: &[Field] = &[
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

pub(super) const INCREMENTAL_ALTER_CONFIGS_REQUEST: &[Field] = &[
    f(
        "resources",
        each![
            f("resource_type", I8),
            f("resource_name", TEXT),
            f("configs", each![f("name", TEXT), f("config_operation", I8), f("value", TEXT)])
        ],
    ),
    f("validate_only", BOOL),
];

pub(super) const INCREMENTAL_ALTER_CONFIGS_RESPONSE: &[Field] = &[
    f("throttle_time_ms", I32),
    f(
        "responses",
        each![
            f("error_code", I16),
            f("error_message", TEXT),
            f("resource_type", I8),
            f("resource_name", TEXT)
        ],
    ),
];
