//! Groups and their members.

use super::super::schema::{BOOL, BYTES, Field, I8, I16, I32, I32S, Kind, TEXT, TEXTS, UUID, f};

pub(super) const JOIN_GROUP_REQUEST: &[Field] = &[
    f("group_id", TEXT),
    f("session_timeout_ms", I32),
    f("rebalance_timeout_ms", I32).since(1),
    f("member_id", TEXT),
    f("group_instance_id", TEXT).since(5),
    f("protocol_type", TEXT),
    f("protocols", each![f("name", TEXT), f("metadata", BYTES)]),
    f("reason", TEXT).since(8),
];

pub(super) const JOIN_GROUP_RESPONSE: &[Field] = &[
    f("throttle_time_ms", I32).since(2),
    f("error_code", I16),
    f("generation_id", I32),
    f("protocol_type", TEXT).since(7),
    f("protocol_name", TEXT),
    f("leader", TEXT),
    f("skip_assignment", BOOL).since(9),
    f("member_id", TEXT),
    f(
        "members",
        each![f("member_id", TEXT), f("group_instance_id", TEXT).since(5), f("metadata", BYTES)],
    ),
];

pub(super) const SYNC_GROUP_REQUEST: &[Field] = &[
    f("group_id", TEXT),
    f("generation_id", I32),
    f("member_id", TEXT),
    f("group_instance_id", TEXT).since(3),
    f("protocol_type", TEXT).since(5),
    f("protocol_name", TEXT).since(5),
    f("assignments", each![f("member_id", TEXT), f("assignment", BYTES)]),
];

pub(super) const SYNC_GROUP_RESPONSE: &[Field] = &[
    f("throttle_time_ms", I32).since(1),
    f("error_code", I16),
    f("protocol_type", TEXT).since(5),
    f("protocol_name", TEXT).since(5),
    f("assignment", BYTES),
];

pub(super) const HEARTBEAT_REQUEST: &[Field] = &[
    f("group_id", TEXT),
    f("generation_id", I32),
    f("member_id", TEXT),
    f("group_instance_id", TEXT).since(3),
];

pub(super) const HEARTBEAT_RESPONSE: &[Field] =
    &[f("throttle_time_ms", I32).since(1), f("error_code", I16)];

pub(super) const LEAVE_GROUP_REQUEST: &[Field] = &[
    f("group_id", TEXT),
    f("member_id", TEXT).until(2),
    f(
        "members",
        each![f("member_id", TEXT), f("group_instance_id", TEXT), f("reason", TEXT).since(5)],
    )
    .since(3),
];

pub(super) const LEAVE_GROUP_RESPONSE: &[Field] = &[
    f("throttle_time_ms", I32).since(1),
    f("error_code", I16),
    f("members", each![f("member_id", TEXT), f("group_instance_id", TEXT), f("error_code", I16)])
        .since(3),
];

pub(super) const CONSUMER_GROUP_HEARTBEAT_REQUEST: &[Field] = &[
    f("group_id", TEXT),
    f("member_id", TEXT),
    f("member_epoch", I32),
    f("instance_id", TEXT),
    f("rack_id", TEXT),
    f("rebalance_timeout_ms", I32),
    f("subscribed_topic_names", TEXTS),
    f("subscribed_topic_regex", TEXT).since(1),
    f("server_assignor", TEXT),
    f("topic_partitions", each![f("topic_id", UUID), f("partitions", I32S)]),
];

pub(super) const CONSUMER_GROUP_HEARTBEAT_RESPONSE: &[Field] = &[
    f("throttle_time_ms", I32),
    f("error_code", I16),
    f("error_message", TEXT),
    f("member_id", TEXT),
    f("member_epoch", I32),
    f("heartbeat_interval_ms", I32),
    f(
        "assignment",
        Kind::Nullable(&[f("topic_partitions", each![f("topic_id", UUID), f("partitions", I32S)])]),
    ),
];

pub(super) const DESCRIBE_GROUPS_REQUEST: &[Field] =
    &[f("groups", TEXTS), f("include_authorized_operations", BOOL).since(3)];

pub(super) const DESCRIBE_GROUPS_RESPONSE: &[Field] = &[
    f("throttle_time_ms", I32).since(1),
    f(
        "groups",
        each![
            f("error_code", I16),
            f("error_message", TEXT).since(6),
            f("group_id", TEXT),
            f("group_state", TEXT),
            f("protocol_type", TEXT),
            f("protocol_data", TEXT),
            f(
                "members",
                each![
                    f("member_id", TEXT),
                    f("group_instance_id", TEXT).since(4),
                    f("client_id", TEXT),
                    f("client_host", TEXT),
                    f("member_metadata", BYTES),
                    f("member_assignment", BYTES)
                ]
            ),
            f("authorized_operations", I32).since(3)
        ],
    ),
];

pub(super) const CONSUMER_GROUP_DESCRIBE_REQUEST: &[Field] =
    &[f("group_ids", TEXTS), f("include_authorized_operations", BOOL)];

pub(super) const CONSUMER_GROUP_DESCRIBE_RESPONSE: &[Field] = &[
    f("throttle_time_ms", I32),
    f(
        "groups",
        each![
            f("error_code", I16),
            f("error_message", TEXT),
            f("group_id", TEXT),
            f("group_state", TEXT),
            f("group_epoch", I32),
            f("assignment_epoch", I32),
            f("assignor_name", TEXT),
            f(
                "members",
                each![
                    f("member_id", TEXT),
                    f("instance_id", TEXT),
                    f("rack_id", TEXT),
                    f("member_epoch", I32),
                    f("client_id", TEXT),
                    f("client_host", TEXT),
                    f("subscribed_topic_names", TEXTS),
                    f("subscribed_topic_regex", TEXT),
                    f(
                        "assignment",
                        Kind::Struct(&[f(
                            "topic_partitions",
                            each![
                                f("topic_id", UUID),
                                f("topic_name", TEXT),
                                f("partitions", I32S)
                            ]
                        )])
                    ),
                    f(
                        "target_assignment",
                        Kind::Struct(&[f(
                            "topic_partitions",
                            each![
                                f("topic_id", UUID),
                                f("topic_name", TEXT),
                                f("partitions", I32S)
                            ]
                        )])
                    ),
                    f("member_type", I8).since(1)
                ]
            ),
            f("authorized_operations", I32)
        ],
    ),
];

pub(super) const LIST_GROUPS_REQUEST: &[Field] =
    &[f("states_filter", TEXTS).since(4), f("types_filter", TEXTS).since(5)];

pub(super) const LIST_GROUPS_RESPONSE: &[Field] = &[
    f("throttle_time_ms", I32).since(1),
    f("error_code", I16),
    f(
        "groups",
        each![
            f("group_id", TEXT),
            f("protocol_type", TEXT),
            f("group_state", TEXT).since(4),
            f("group_type", TEXT).since(5)
        ],
    ),
];

pub(super) const DELETE_GROUPS_REQUEST: &[Field] = &[f("groups_names", TEXTS)];

pub(super) const DELETE_GROUPS_RESPONSE: &[Field] =
    &[f("throttle_time_ms", I32), f("results", each![f("group_id", TEXT), f("error_code", I16)])];
