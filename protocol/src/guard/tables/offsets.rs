//! Offsets of partitions and of groups.

use super::super::schema::{BOOL, Field, I8, I16, I32, I32S, I64, Kind, TEXT, f};

pub(super) const LIST_OFFSETS_REQUEST: &[Field] = &[
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

pub(super) const LIST_OFFSETS_RESPONSE: &[Field] = &[
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

pub(super) const OFFSET_FOR_LEADER_EPOCH_REQUEST: &[Field] = &[
    f("replica_id", I32).since(3),
    f(
        "topics",
        each![
            f("topic", TEXT),
            f(
                "partitions",
                each![f("partition", I32), f("current_leader_epoch", I32), f("leader_epoch", I32)]
            )
        ],
    ),
];

pub(super) const OFFSET_FOR_LEADER_EPOCH_RESPONSE: &[Field] = &[
    f("throttle_time_ms", I32),
    f(
        "topics",
        each![
            f("topic", TEXT),
            f(
                "partitions",
                each![
                    f("error_code", I16),
                    f("partition", I32),
                    f("leader_epoch", I32),
                    f("end_offset", I64)
                ]
            )
        ],
    ),
];

pub(super) const OFFSET_COMMIT_REQUEST: &[Field] = &[
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

pub(super) const OFFSET_COMMIT_RESPONSE: &[Field] = &[
    f("throttle_time_ms", I32).since(3),
    f(
        "topics",
        each![
            f("name", TEXT),
            f("partitions", each![f("partition_index", I32), f("error_code", I16)]),
        ],
    ),
];

pub(super) const OFFSET_FETCH_REQUEST: &[Field] = &[
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

pub(super) const OFFSET_FETCH_RESPONSE: &[Field] = &[
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

pub(super) const OFFSET_DELETE_REQUEST: &[Field] = &[
    f("group_id", TEXT),
    f("topics", each![f("name", TEXT), f("partitions", each![f("partition_index", I32)])]),
];

pub(super) const OFFSET_DELETE_RESPONSE: &[Field] = &[
    f("error_code", I16),
    f("throttle_time_ms", I32),
    f(
        "topics",
        each![
            f("name", TEXT),
            f("partitions", each![f("partition_index", I32), f("error_code", I16)])
        ],
    ),
];
