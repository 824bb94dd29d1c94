//! KIP-219: how long a broker asks to be left alone.

use std::time::Duration;

use crate::messages::Response;

/// The throttle time of an answer, if its version is one that brokers send before throttling, else zero: older
/// brokers have already waited.
pub(super) fn throttle_time(response: &Response, version: i16) -> Duration {
    let (ms, first_version) = match response {
        Response::Produce(r) => (r.throttle_time_ms, 6),
        Response::Fetch(r) => (r.throttle_time_ms, 8),
        Response::ListOffsets(r) => (r.throttle_time_ms, 3),
        Response::Metadata(r) => (r.throttle_time_ms, 6),
        Response::OffsetCommit(r) => (r.throttle_time_ms, 4),
        Response::OffsetFetch(r) => (r.throttle_time_ms, 4),
        Response::FindCoordinator(r) => (r.throttle_time_ms, 2),
        Response::ApiVersions(r) => (r.throttle_time_ms, 2),
        Response::CreateTopics(r) => (r.throttle_time_ms, 3),
        Response::DeleteTopics(r) => (r.throttle_time_ms, 2),
        Response::InitProducerId(r) => (r.throttle_time_ms, 1),
        Response::AddPartitionsToTxn(r) => (r.throttle_time_ms, 1),
        Response::EndTxn(r) => (r.throttle_time_ms, 1),
        Response::DescribeConfigs(r) => (r.throttle_time_ms, 2),
        Response::DescribeTransactions(r) => (r.throttle_time_ms, 0),
        Response::ListTransactions(r) => (r.throttle_time_ms, 0),
        Response::JoinGroup(r) => (r.throttle_time_ms, 3),
        Response::Heartbeat(r) => (r.throttle_time_ms, 2),
        Response::LeaveGroup(r) => (r.throttle_time_ms, 2),
        Response::SyncGroup(r) => (r.throttle_time_ms, 2),
        Response::DescribeGroups(r) => (r.throttle_time_ms, 2),
        Response::ListGroups(r) => (r.throttle_time_ms, 2),
        Response::DeleteRecords(r) => (r.throttle_time_ms, 1),
        Response::OffsetForLeaderEpoch(r) => (r.throttle_time_ms, 2),
        Response::AddOffsetsToTxn(r) => (r.throttle_time_ms, 1),
        Response::TxnOffsetCommit(r) => (r.throttle_time_ms, 1),
        Response::DescribeAcls(r) => (r.throttle_time_ms, 1),
        Response::CreatePartitions(r) => (r.throttle_time_ms, 1),
        Response::DeleteGroups(r) => (r.throttle_time_ms, 1),
        Response::IncrementalAlterConfigs(r) => (r.throttle_time_ms, 0),
        Response::OffsetDelete(r) => (r.throttle_time_ms, 0),
        Response::DescribeCluster(r) => (r.throttle_time_ms, 0),
        Response::DescribeProducers(r) => (r.throttle_time_ms, 0),
        Response::ConsumerGroupHeartbeat(r) => (r.throttle_time_ms, 0),
        Response::ConsumerGroupDescribe(r) => (r.throttle_time_ms, 0),
        // These carry none.
        Response::SaslHandshake(_)
        | Response::SaslAuthenticate(_)
        | Response::WriteTxnMarkers(_) => (0, 0),
    };
    let ms = if version >= first_version { ms } else { 0 };
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}
