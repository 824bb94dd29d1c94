//! Brokers, coordinators, features.

use super::super::schema::{BOOL, Field, I8, I16, I32, I32S, Kind, TEXT, TEXTS, UUID, f};

pub(super) const METADATA_REQUEST: &[Field] = &[
    f("topics", each![f("topic_id", UUID).since(10), f("name", TEXT)]),
    f("allow_auto_topic_creation", BOOL).since(4),
    f("include_cluster_authorized_operations", BOOL).since(8).until(10),
    f("include_topic_authorized_operations", BOOL).since(8),
];

pub(super) const METADATA_RESPONSE: &[Field] = &[
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

pub(super) const FIND_COORDINATOR_REQUEST: &[Field] =
    &[f("key", TEXT).until(3), f("key_type", I8).since(1), f("coordinator_keys", TEXTS).since(4)];

pub(super) const FIND_COORDINATOR_RESPONSE: &[Field] = &[
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

pub(super) const DESCRIBE_CLUSTER_REQUEST: &[Field] = &[
    f("include_cluster_authorized_operations", BOOL),
    f("endpoint_type", I8).since(1),
    f("include_fenced_brokers", BOOL).since(2),
];

pub(super) const DESCRIBE_CLUSTER_RESPONSE: &[Field] = &[
    f("throttle_time_ms", I32),
    f("error_code", I16),
    f("error_message", TEXT),
    f("endpoint_type", I8).since(1),
    f("cluster_id", TEXT),
    f("controller_id", I32),
    f(
        "brokers",
        each![
            f("broker_id", I32),
            f("host", TEXT),
            f("port", I32),
            f("rack", TEXT),
            f("is_fenced", BOOL).since(2)
        ],
    ),
    f("cluster_authorized_operations", I32),
];
