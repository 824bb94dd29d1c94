//! Old and new shapes of one API.
//!
//! Some APIs were reshaped when they learned to ask for several things at once: FindCoordinator 4, OffsetFetch 8,
//! DeleteTopics 6, LeaveGroup 3. Who fills only the newer shape can have it written in an older version: here it is turned into the
//! older shape. A message that already has the older shape passes unchanged. FindCoordinator, OffsetFetch and LeaveGroup messages
//! of an older version come out of the decoder with both shapes filled, so that one way of reading serves all versions.

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
        let key = std::mem::take(&mut newer.key);
        if newer.coordinator_keys.is_empty() {
            newer.coordinator_keys.push(key);
        }
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

/// Adds the newer shape to a request just decoded.
pub(super) fn newer_find_coordinator_request(
    mut request: kp::FindCoordinatorRequest,
    version: i16,
) -> kp::FindCoordinatorRequest {
    if version < 4 {
        request.coordinator_keys = vec![request.key.clone()];
    }
    request
}

/// FindCoordinator responses: `coordinators`, one coordinator in the response itself below version 4.
pub(super) fn find_coordinator_response(
    response: &kp::FindCoordinatorResponse,
    version: i16,
) -> Result<Cow<'_, kp::FindCoordinatorResponse>, &'static str> {
    match response.coordinators.as_slice() {
        [] => Ok(Cow::Borrowed(response)),
        coordinators if version >= 4 => {
            let newer = kp::FindCoordinatorResponse::default()
                .with_throttle_time_ms(response.throttle_time_ms)
                .with_coordinators(coordinators.to_vec());
            Ok(Cow::Owned(newer))
        }
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

/// Adds the newer shape to a response just decoded. The coordinator's key is empty: the old form does not repeat it.
pub(super) fn newer_find_coordinator_response(
    mut response: kp::FindCoordinatorResponse,
    version: i16,
) -> kp::FindCoordinatorResponse {
    if version < 4 {
        let coordinator = kp::find_coordinator_response::Coordinator::default()
            .with_node_id(response.node_id)
            .with_host(response.host.clone())
            .with_port(response.port)
            .with_error_code(response.error_code)
            .with_error_message(response.error_message.clone());
        response.coordinators = vec![coordinator];
    }
    response
}

/// OffsetFetch requests: `groups`, one group in the request itself below version 8.
pub(super) fn offset_fetch_request(
    request: &kp::OffsetFetchRequest,
    version: i16,
) -> Result<Cow<'_, kp::OffsetFetchRequest>, &'static str> {
    if version >= 8 {
        let groups = match request.groups.as_slice() {
            [] if request.group_id.is_empty() => Vec::new(),
            [] => vec![inner_group(request)],
            groups => groups.to_vec(),
        };
        let newer = kp::OffsetFetchRequest::default()
            .with_groups(groups)
            .with_require_stable(request.require_stable);
        return Ok(Cow::Owned(newer));
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

/// Adds the newer shape to a request just decoded.
pub(super) fn newer_offset_fetch_request(
    mut request: kp::OffsetFetchRequest,
    version: i16,
) -> kp::OffsetFetchRequest {
    if version < 8 {
        request.groups = vec![inner_group(&request)];
    }
    request
}

fn inner_group(
    request: &kp::OffsetFetchRequest,
) -> kp::offset_fetch_request::OffsetFetchRequestGroup {
    let topics = request.topics.as_ref().map(|topics| {
        let newer = topics.iter().map(|topic| {
            kp::offset_fetch_request::OffsetFetchRequestTopics::default()
                .with_name(topic.name.clone())
                .with_partition_indexes(topic.partition_indexes.clone())
        });
        newer.collect()
    });
    kp::offset_fetch_request::OffsetFetchRequestGroup::default()
        .with_group_id(request.group_id.clone())
        .with_topics(topics)
}

/// OffsetFetch responses: `groups`, one group in the response itself below version 8.
pub(super) fn offset_fetch_response(
    response: &kp::OffsetFetchResponse,
    version: i16,
) -> Result<Cow<'_, kp::OffsetFetchResponse>, &'static str> {
    match response.groups.as_slice() {
        [] => Ok(Cow::Borrowed(response)),
        groups if version >= 8 => {
            let newer = kp::OffsetFetchResponse::default()
                .with_throttle_time_ms(response.throttle_time_ms)
                .with_groups(groups.to_vec());
            Ok(Cow::Owned(newer))
        }
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

/// Adds the newer shape to a response just decoded. The group's id is empty: the old form does not repeat it.
pub(super) fn newer_offset_fetch_response(
    mut response: kp::OffsetFetchResponse,
    version: i16,
) -> kp::OffsetFetchResponse {
    if version >= 8 {
        return response;
    }
    let topics = response.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter().map(|partition| {
            kp::offset_fetch_response::OffsetFetchResponsePartitions::default()
                .with_partition_index(partition.partition_index)
                .with_committed_offset(partition.committed_offset)
                .with_committed_leader_epoch(partition.committed_leader_epoch)
                .with_metadata(partition.metadata.clone())
                .with_error_code(partition.error_code)
        });
        kp::offset_fetch_response::OffsetFetchResponseTopics::default()
            .with_name(topic.name.clone())
            .with_partitions(partitions.collect())
    });
    let group = kp::offset_fetch_response::OffsetFetchResponseGroup::default()
        .with_topics(topics.collect())
        .with_error_code(response.error_code);
    response.groups = vec![group];
    response
}

/// DeleteTopics requests: `topics`, only `topic_names` below version 6.
pub(super) fn delete_topics_request(
    request: &kp::DeleteTopicsRequest,
    version: i16,
) -> Result<Cow<'_, kp::DeleteTopicsRequest>, &'static str> {
    if version >= 6 {
        if request.topic_names.is_empty() {
            return Ok(Cow::Borrowed(request));
        }
        let mut newer = request.clone();
        let topics = newer.topic_names.drain(..).map(|name| {
            kp::delete_topics_request::DeleteTopicState::default().with_name(Some(name))
        });
        newer.topics.extend(topics);
        return Ok(Cow::Owned(newer));
    }
    if request.topics.is_empty() {
        return Ok(Cow::Borrowed(request));
    }
    let names = request.topics.iter().map(|topic| topic.name.clone());
    let mut names = names.collect::<Option<Vec<_>>>().ok_or("a topic without a name")?;
    names.extend_from_slice(&request.topic_names);
    let older = kp::DeleteTopicsRequest::default()
        .with_topic_names(names)
        .with_timeout_ms(request.timeout_ms);
    Ok(Cow::Owned(older))
}

/// LeaveGroup requests: `members`, one `member_id` below version 3.
pub(super) fn leave_group_request(
    request: &kp::LeaveGroupRequest,
    version: i16,
) -> Result<Cow<'_, kp::LeaveGroupRequest>, &'static str> {
    if version >= 3 {
        if request.member_id.is_empty() {
            return Ok(Cow::Borrowed(request));
        }
        let mut newer = request.clone();
        let member_id = std::mem::take(&mut newer.member_id);
        if newer.members.is_empty() {
            let member = kp::leave_group_request::MemberIdentity::default();
            newer.members.push(member.with_member_id(member_id));
        }
        return Ok(Cow::Owned(newer));
    }
    match request.members.as_slice() {
        [] => Ok(Cow::Borrowed(request)),
        // A static member can only be removed by its instance id, which this version does not carry.
        [member] if member.group_instance_id.is_some() => Err("a member with an instance id"),
        [member] => {
            let older = kp::LeaveGroupRequest::default()
                .with_group_id(request.group_id.clone())
                .with_member_id(member.member_id.clone());
            Ok(Cow::Owned(older))
        }
        _ => Err("more than one member"),
    }
}

/// Adds the newer shape to a request just decoded.
pub(super) fn newer_leave_group_request(
    mut request: kp::LeaveGroupRequest,
    version: i16,
) -> kp::LeaveGroupRequest {
    if version < 3 {
        let member = kp::leave_group_request::MemberIdentity::default()
            .with_member_id(request.member_id.clone());
        request.members = vec![member];
    }
    request
}

/// LeaveGroup responses: `members`, one error in the response itself below version 3.
pub(super) fn leave_group_response(
    response: &kp::LeaveGroupResponse,
    version: i16,
) -> Result<Cow<'_, kp::LeaveGroupResponse>, &'static str> {
    match response.members.as_slice() {
        [] => Ok(Cow::Borrowed(response)),
        _ if version >= 3 => Ok(Cow::Borrowed(response)),
        [member] => {
            let code =
                if response.error_code == 0 { member.error_code } else { response.error_code };
            let older = kp::LeaveGroupResponse::default()
                .with_throttle_time_ms(response.throttle_time_ms)
                .with_error_code(code);
            Ok(Cow::Owned(older))
        }
        _ => Err("more than one member"),
    }
}

/// Adds the newer shape to a response just decoded. The member's id is empty: the old form does not repeat it.
pub(super) fn newer_leave_group_response(
    mut response: kp::LeaveGroupResponse,
    version: i16,
) -> kp::LeaveGroupResponse {
    if version < 3 {
        let member = kp::leave_group_response::MemberResponse::default()
            .with_group_instance_id(None)
            .with_error_code(response.error_code);
        response.members = vec![member];
    }
    response
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

#[cfg(test)]
mod tests;
