//! The newer shape alone can be written in every version, and what comes back holds it.

use kafka_protocol::messages::{GroupId, TopicName};

use crate::messages::{ApiKey, Request, Response, kp, str_bytes};
use crate::wire::ResponseHeader;

fn request_through_the_wire(request: &Request, version: i16) -> Request {
    let frame = request.encode(version, 1, "client").expect("expressible");
    Request::decode(frame.to_bytes().slice(4..)).expect("our own frame").1
}

fn response_through_the_wire(response: &Response, version: i16) -> Response {
    let api = response.api_key();
    let frame = response.encode(version, 1).expect("expressible").to_bytes().slice(4..);
    let (_, body) = ResponseHeader::decode(api, version, frame).expect("our own header");
    Response::decode(api, version, body).expect("our own frame")
}

#[test]
fn coordinator_of_one_key_is_asked_for_in_every_version() {
    let keys = vec![str_bytes("job-1")];
    let request = kp::FindCoordinatorRequest::default().with_coordinator_keys(keys.clone());
    let coordinator = kp::find_coordinator_response::Coordinator::default()
        .with_node_id(3.into())
        .with_host(str_bytes("broker-3"))
        .with_port(9092)
        .with_error_message(None);
    let response = kp::FindCoordinatorResponse::default().with_coordinators(vec![coordinator]);
    for version in ApiKey::FindCoordinator.codec_versions() {
        let decoded = request_through_the_wire(&request.clone().into(), version);
        let Request::FindCoordinator(decoded) = decoded else { panic!("{decoded:?}") };
        assert_eq!(decoded.coordinator_keys, keys, "version {version}");
        let decoded = response_through_the_wire(&response.clone().into(), version);
        let Response::FindCoordinator(decoded) = decoded else { panic!("{decoded:?}") };
        assert_eq!(decoded.coordinators.len(), 1);
        assert_eq!(decoded.coordinators[0].node_id, 3, "version {version}");
        assert_eq!(decoded.coordinators[0].host, response.coordinators[0].host);
        // What came back in an older version can be written in a newer one.
        for newer in ApiKey::FindCoordinator.codec_versions() {
            let again = response_through_the_wire(&decoded.clone().into(), newer);
            let Response::FindCoordinator(again) = again else { panic!("{again:?}") };
            assert_eq!(again.coordinators[0].port, 9092);
        }
    }
    let two = vec![str_bytes("a"), str_bytes("b")];
    let two = Request::from(kp::FindCoordinatorRequest::default().with_coordinator_keys(two));
    let error = two.encode(3, 1, "client").expect_err("one key at most");
    assert!(error.to_string().contains("more than one coordinator key"), "{error}");
}

#[test]
fn offsets_of_one_group_are_asked_for_in_every_version() {
    use kp::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
    use kp::offset_fetch_response::{
        OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
    };

    let topic = TopicName(str_bytes("flights"));
    let wanted = OffsetFetchRequestTopics::default()
        .with_name(topic.clone())
        .with_partition_indexes(vec![0, 1]);
    let group = OffsetFetchRequestGroup::default()
        .with_group_id(GroupId(str_bytes("job")))
        .with_topics(Some(vec![wanted]));
    let request = kp::OffsetFetchRequest::default().with_groups(vec![group.clone()]);
    let offset = OffsetFetchResponsePartitions::default()
        .with_partition_index(1)
        .with_committed_offset(57)
        .with_metadata(Some(str_bytes("note")));
    let offsets =
        OffsetFetchResponseTopics::default().with_name(topic).with_partitions(vec![offset]);
    let answer = OffsetFetchResponseGroup::default().with_topics(vec![offsets]);
    let response = kp::OffsetFetchResponse::default().with_groups(vec![answer.clone()]);
    for version in ApiKey::OffsetFetch.codec_versions() {
        let decoded = request_through_the_wire(&request.clone().into(), version);
        let Request::OffsetFetch(decoded) = decoded else { panic!("{decoded:?}") };
        assert_eq!(decoded.groups, std::slice::from_ref(&group), "version {version}");
        let decoded = response_through_the_wire(&response.clone().into(), version);
        let Response::OffsetFetch(decoded) = decoded else { panic!("{decoded:?}") };
        assert_eq!(decoded.groups, std::slice::from_ref(&answer), "version {version}");
    }
}

#[test]
fn topics_are_deleted_by_name_in_every_version() {
    let topic = kp::delete_topics_request::DeleteTopicState::default()
        .with_name(Some(TopicName(str_bytes("flights"))));
    let request = kp::DeleteTopicsRequest::default().with_topics(vec![topic.clone()]);
    for version in ApiKey::DeleteTopics.codec_versions() {
        let decoded = request_through_the_wire(&request.clone().into(), version);
        let Request::DeleteTopics(decoded) = decoded else { panic!("{decoded:?}") };
        if version >= 6 {
            assert_eq!(decoded.topics, std::slice::from_ref(&topic));
        } else {
            assert_eq!(decoded.topic_names, [TopicName(str_bytes("flights"))]);
        }
    }
}

#[test]
fn one_member_leaves_a_group_in_every_version() {
    use kp::leave_group_request::MemberIdentity;
    use kp::leave_group_response::MemberResponse;

    let member = MemberIdentity::default().with_member_id(str_bytes("member-1"));
    let request = kp::LeaveGroupRequest::default()
        .with_group_id(GroupId(str_bytes("job")))
        .with_members(vec![member.clone()]);
    let answer = MemberResponse::default().with_error_code(25);
    let response = kp::LeaveGroupResponse::default().with_members(vec![answer]);
    for version in ApiKey::LeaveGroup.codec_versions() {
        let decoded = request_through_the_wire(&request.clone().into(), version);
        let Request::LeaveGroup(decoded) = decoded else { panic!("{decoded:?}") };
        assert_eq!(decoded.members, std::slice::from_ref(&member), "version {version}");
        let decoded = response_through_the_wire(&response.clone().into(), version);
        let Response::LeaveGroup(decoded) = decoded else { panic!("{decoded:?}") };
        assert_eq!(decoded.members.len(), 1);
        assert_eq!(decoded.members[0].error_code, 25, "version {version}");
        assert_eq!(decoded.error_code, if version < 3 { 25 } else { 0 });
    }
    let two = request.clone().with_members(vec![member.clone(), member.clone()]);
    let error = Request::from(two).encode(2, 1, "client").expect_err("one member at most");
    assert!(error.to_string().contains("more than one member"), "{error}");
    let of_instance = member.with_group_instance_id(Some(str_bytes("instance")));
    let of_instance = request.with_members(vec![of_instance]);
    let error = Request::from(of_instance).encode(2, 1, "client").expect_err("not by instance");
    assert!(error.to_string().contains("a member with an instance id"), "{error}");
}

#[test]
fn leader_epochs_are_left_out_where_a_version_has_none() {
    use kp::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};

    let partition = ListOffsetsPartitionResponse::default().with_offset(9).with_leader_epoch(4);
    let topic = ListOffsetsTopicResponse::default().with_partitions(vec![partition]);
    let response = Response::from(kp::ListOffsetsResponse::default().with_topics(vec![topic]));
    for version in ApiKey::ListOffsets.codec_versions() {
        let decoded = response_through_the_wire(&response, version);
        let Response::ListOffsets(decoded) = decoded else { panic!("{decoded:?}") };
        let epoch = decoded.topics[0].partitions[0].leader_epoch;
        assert_eq!(epoch, if version >= 4 { 4 } else { -1 });
    }
}

#[test]
fn field_that_a_version_cannot_carry_leaves_no_frame() {
    let request = kp::InitProducerIdRequest::default().with_producer_id(7.into());
    let error = Request::from(request).encode(2, 1, "client").expect_err("version 3 field");
    assert_eq!(
        error.to_string(),
        "InitProducerId request cannot be expressed in version 2: A field is set that is not available on the \
         selected protocol version"
    );
}
