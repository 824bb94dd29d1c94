//! Authentication and permissions.

use super::super::schema::{BYTES, Field, I8, I16, I32, I64, Kind, TEXT, TEXTS, f};

pub(super) const SASL_HANDSHAKE_REQUEST: &[Field] = &[f("mechanism", TEXT)];

pub(super) const SASL_HANDSHAKE_RESPONSE: &[Field] =
    &[f("error_code", I16), f("mechanisms", TEXTS)];

pub(super) const SASL_AUTHENTICATE_REQUEST: &[Field] = &[f("auth_bytes", BYTES)];

pub(super) const SASL_AUTHENTICATE_RESPONSE: &[Field] = &[
    f("error_code", I16),
    f("error_message", TEXT),
    f("auth_bytes", BYTES),
    f("session_lifetime_ms", I64).since(1),
];

pub(super) const DESCRIBE_ACLS_REQUEST: &[Field] = &[
    f("resource_type_filter", I8),
    f("resource_name_filter", TEXT),
    f("pattern_type_filter", I8),
    f("principal_filter", TEXT),
    f("host_filter", TEXT),
    f("operation", I8),
    f("permission_type", I8),
];

pub(super) const DESCRIBE_ACLS_RESPONSE: &[Field] = &[
    f("throttle_time_ms", I32),
    f("error_code", I16),
    f("error_message", TEXT),
    f(
        "resources",
        each![
            f("resource_type", I8),
            f("resource_name", TEXT),
            f("pattern_type", I8),
            f(
                "acls",
                each![
                    f("principal", TEXT),
                    f("host", TEXT),
                    f("operation", I8),
                    f("permission_type", I8)
                ]
            )
        ],
    ),
];
