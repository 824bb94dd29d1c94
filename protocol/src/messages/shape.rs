//! One shape per API, whatever the version.
//!
//! Some APIs were reshaped when they learned to ask for several things at once: FindCoordinator 4, OffsetFetch 8,
//! DeleteTopics 6. Callers fill and read the newer shape only; here it is turned into the older one for an older
//! version, and back. A message that already has the older shape passes unchanged.

use std::borrow::Cow;

use crate::messages::kp;

/// FindCoordinator requests: `coordinator_keys`, one `key` below version 4.
pub(super) fn find_coordinator_request(
    request: &kp::FindCoordinatorRequest,
    version: i16,
) -> Result<Cow<'_, kp::FindCoordinatorRequest>, &'static str> {
    if version >= 4 {
        if request.key.is_empty() {
            return Ok(Cow::Borrowed(request));
        }
        let mut newer = request.clone();
        newer.coordinator_keys.push(std::mem::take(&mut newer.key));
        return Ok(Cow::Owned(newer));
    }
    match request.coordinator_keys.as_slice() {
        [] => Ok(Cow::Borrowed(request)),
        [key] => {
            let mut older = request.clone();
            older.key = key.clone();
            older.coordinator_keys.clear();
            Ok(Cow::Owned(older))
        }
        _ => Err("more than one coordinator key"),
    }
}

/// The newer shape of a request just decoded.
pub(super) fn newer_find_coordinator_request(
    mut request: kp::FindCoordinatorRequest,
    version: i16,
) -> kp::FindCoordinatorRequest {
    if version < 4 {
        request.coordinator_keys = vec![std::mem::take(&mut request.key)];
    }
    request
}

/// FindCoordinator responses: `coordinators`, one coordinator in the response itself below version 4.
pub(super) fn find_coordinator_response(
    response: &kp::FindCoordinatorResponse,
    version: i16,
) -> Result<Cow<'_, kp::FindCoordinatorResponse>, &'static str> {
    match response.coordinators.as_slice() {
        _ if version >= 4 => Ok(Cow::Borrowed(response)),
        [] => Ok(Cow::Borrowed(response)),
        [coordinator] => {
            let older = kp::FindCoordinatorResponse::default()
                .with_throttle_time_ms(response.throttle_time_ms)
                .with_error_code(coordinator.error_code)
                .with_error_message(coordinator.error_message.clone())
                .with_node_id(coordinator.node_id)
                .with_host(coordinator.host.clone())
                .with_port(coordinator.port);
            Ok(Cow::Owned(older))
        }
        _ => Err("more than one coordinator"),
    }
}

/// The newer shape of a response just decoded. The coordinator's key is empty: the old form does not repeat it.
pub(super) fn newer_find_coordinator_response(
    response: kp::FindCoordinatorResponse,
    version: i16,
) -> kp::FindCoordinatorResponse {
    if version >= 4 {
        return response;
    }
    let coordinator = kp::find_coordinator_response::Coordinator::default()
        .with_node_id(response.node_id)
        .with_host(response.host)
        .with_port(response.port)
        .with_error_code(response.error_code)
        .with_error_message(response.error_message);
    kp::FindCoordinatorResponse::default()
        .with_throttle_time_ms(response.throttle_time_ms)
        .with_coordinators(vec![coordinator])
}

/// OffsetFetch requests: `groups`, one group in the request itself below version 8.
pub(super) fn offset_fetch_request(
    request: &kp::OffsetFetchRequest,
    version: i16,
) -> Result<Cow<'_, kp::OffsetFetchRequest>, &'static str> {
    if version >= 8 {
        let newer = request.groups.is_empty() && !request.group_id.is_empty();
        return Ok(if newer {
            Cow::Owned(with_group_inside(request.clone()))
        } else {
            Cow::Borrowed(request)
        });
    }
    match request.groups.as_slice() {
        [] => Ok(Cow::Borrowed(request)),
        [group] => {
            let topics = group.topics.as_ref().map(|topics| {
                let older = topics.iter().map(|topic| {
                    kp::offset_fetch_request::OffsetFetchRequestTopic::default()
                        .with_name(topic.name.clone())
                        .with_partition_indexes(topic.partition_indexes.clone())
                });
                older.collect()
            });
            let older = kp::OffsetFetchRequest::default()
                .with_group_id(group.group_id.clone())
                .with_topics(topics)
                .with_require_stable(request.require_stable);
            Ok(Cow::Owned(older))
        }
        _ => Err("more than one group"),
    }
}

/// The newer shape of a request just decoded.
pub(super) fn newer_offset_fetch_request(
    request: kp::OffsetFetchRequest,
    version: i16,
) -> kp::OffsetFetchRequest {
    if version < 8 { with_group_inside(request) } else { request }
}

fn with_group_inside(request: kp::OffsetFetchRequest) -> kp::OffsetFetchRequest {
    let topics = request.topics.map(|topics| {
        let newer = topics.into_iter().map(|topic| {
            kp::offset_fetch_request::OffsetFetchRequestTopics::default()
                .with_name(topic.name)
                .with_partition_indexes(topic.partition_indexes)
        });
        newer.collect()
    });
    let group = kp::offset_fetch_request::OffsetFetchRequestGroup::default()
        .with_group_id(request.group_id)
        .with_topics(topics);
    kp::OffsetFetchRequest::default()
        .with_groups(vec![group])
        .with_require_stable(request.require_stable)
}

/// OffsetFetch responses: `groups`, one group in the response itself below version 8.
pub(super) fn offset_fetch_response(
    response: &kp::OffsetFetchResponse,
    version: i16,
) -> Result<Cow<'_, kp::OffsetFetchResponse>, &'static str> {
    match response.groups.as_slice() {
        _ if version >= 8 => Ok(Cow::Borrowed(response)),
        [] => Ok(Cow::Borrowed(response)),
        [group] => {
            let topics = group.topics.iter().map(|topic| {
                let partitions = topic.partitions.iter().map(|partition| {
                    kp::offset_fetch_response::OffsetFetchResponsePartition::default()
                        .with_partition_index(partition.partition_index)
                        .with_committed_offset(partition.committed_offset)
                        .with_committed_leader_epoch(partition.committed_leader_epoch)
                        .with_metadata(partition.metadata.clone())
                        .with_error_code(partition.error_code)
                });
                kp::offset_fetch_response::OffsetFetchResponseTopic::default()
                    .with_name(topic.name.clone())
                    .with_partitions(partitions.collect())
            });
            let older = kp::OffsetFetchResponse::default()
                .with_throttle_time_ms(response.throttle_time_ms)
                .with_topics(topics.collect())
                .with_error_code(group.error_code);
            Ok(Cow::Owned(older))
        }
        _ => Err("more than one group"),
    }
}

/// The newer shape of a response just decoded. The group's id is empty: the old form does not repeat it.
pub(super) fn newer_offset_fetch_response(
    response: kp::OffsetFetchResponse,
    version: i16,
) -> kp::OffsetFetchResponse {
    if version >= 8 {
        return response;
    }
    let topics = response.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.into_iter().map(|partition| {
            kp::offset_fetch_response::OffsetFetchResponsePartitions::default()
                .with_partition_index(partition.partition_index)
                .with_committed_offset(partition.committed_offset)
                .with_committed_leader_epoch(partition.committed_leader_epoch)
                .with_metadata(partition.metadata)
                .with_error_code(partition.error_code)
        });
        kp::offset_fetch_response::OffsetFetchResponseTopics::default()
            .with_name(topic.name)
            .with_partitions(partitions.collect())
    });
    let group = kp::offset_fetch_response::OffsetFetchResponseGroup::default()
        .with_topics(topics.collect())
        .with_error_code(response.error_code);
    kp::OffsetFetchResponse::default()
        .with_throttle_time_ms(response.throttle_time_ms)
        .with_groups(vec![group])
}

/// DeleteTopics requests: `topics`, only `topic_names` below version 6.
pub(super) fn delete_topics_request(
    request: &kp::DeleteTopicsRequest,
    version: i16,
) -> Result<Cow<'_, kp::DeleteTopicsRequest>, &'static str> {
    if version >= 6 {
        return Ok(if request.topic_names.is_empty() {
            Cow::Borrowed(request)
        } else {
            Cow::Owned(newer_delete_topics_request(request.clone(), 0))
        });
    }
    if request.topics.is_empty() {
        return Ok(Cow::Borrowed(request));
    }
    let names = request.topics.iter().map(|topic| topic.name.clone());
    let names = names.collect::<Option<Vec<_>>>().ok_or("a topic without a name")?;
    let older = kp::DeleteTopicsRequest::default()
        .with_topic_names(names)
        .with_timeout_ms(request.timeout_ms);
    Ok(Cow::Owned(older))
}

/// The newer shape of a request just decoded.
pub(super) fn newer_delete_topics_request(
    mut request: kp::DeleteTopicsRequest,
    version: i16,
) -> kp::DeleteTopicsRequest {
    if version < 6 {
        let topics = request.topic_names.drain(..).map(|name| {
            kp::delete_topics_request::DeleteTopicState::default().with_name(Some(name))
        });
        request.topics.extend(topics);
    }
    request
}

/// ListOffsets responses: no leader epochs below version 4.
pub(super) fn list_offsets_response(
    response: &kp::ListOffsetsResponse,
    version: i16,
) -> Cow<'_, kp::ListOffsetsResponse> {
    if version >= 4 {
        return Cow::Borrowed(response);
    }
    let mut older = response.clone();
    for partition in older.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
        partition.leader_epoch = -1;
    }
    Cow::Owned(older)
}
