//! The cache: what it takes, what it keeps, what it reports, when it asks.

use std::sync::Arc;
use std::time::Duration;

use super::script::{Script, cluster, topic};
use crate::messages::StrBytes;
use crate::messages::kp::MetadataResponse;
use crate::network::{Leader, Metadata, MetadataNews, NetworkEvent};
use crate::{ErrorCode, NodeId, Request, Response, TopicPartition};

fn leader(metadata: &Metadata, partition: i32) -> Option<(i32, i32)> {
    let leader = metadata.leader(&TopicPartition::new("t", partition));
    leader.map(|Leader { node, epoch }| (node.0, epoch))
}

fn update(metadata: &mut Metadata, response: &MetadataResponse) -> Vec<MetadataNews> {
    metadata.update(response, 12, |name| name == "t")
}

#[test]
fn leader_epochs_never_go_backwards() {
    let mut metadata = Metadata::default();
    update(&mut metadata, &cluster(3, vec![topic("t", 1, &[(1, 5), (2, 5)])]));
    update(&mut metadata, &cluster(3, vec![topic("t", 1, &[(3, 4), (3, 6)])]));
    assert_eq!((leader(&metadata, 0), leader(&metadata, 1)), (Some((1, 5)), Some((3, 6))));
    update(&mut metadata, &cluster(3, vec![topic("t", 1, &[(-1, 7)])]));
    assert_eq!(leader(&metadata, 0), None, "an election is news, too");
}

#[test]
fn partitions_left_out_for_a_moment_stay() {
    let mut metadata = Metadata::default();
    update(&mut metadata, &cluster(3, vec![topic("t", 1, &[(1, 5), (2, 5)])]));
    update(&mut metadata, &cluster(3, vec![topic("t", 1, &[(1, 5)])]));
    assert_eq!(metadata.partition_count("t"), Some(2));
    update(&mut metadata, &cluster(3, vec![]));
    assert_eq!(metadata.partition_count("t"), Some(2));
    update(&mut metadata, &MetadataResponse::default());
    assert_eq!(metadata.brokers().len(), 3, "an answer without brokers tells nothing");
}

/// B086: brokers that have all been restarted do not know epochs at first. The last real one stays, and still orders answers.
#[test]
fn unknown_epochs_keep_the_last_known_one() {
    let mut metadata = Metadata::default();
    update(&mut metadata, &cluster(3, vec![topic("t", 1, &[(1, 5)])]));
    for _ in 0..10 {
        update(&mut metadata, &cluster(3, vec![topic("t", 1, &[(2, -1)])]));
        assert_eq!(leader(&metadata, 0), Some((2, 5)));
    }
    update(&mut metadata, &cluster(3, vec![topic("t", 1, &[(3, 4)])]));
    assert_eq!(leader(&metadata, 0), Some((2, 5)), "older than what is known");
    update(&mut metadata, &cluster(3, vec![topic("t", 1, &[(3, 6)])]));
    assert_eq!(leader(&metadata, 0), Some((3, 6)));
}

/// B100: what one writes to or reads is asked for each time, and an answer that leaves it out does not evict it.
#[test]
fn topics_in_use_are_never_evicted() {
    let mut script = Script::with_brokers(1);
    for name in ["t", "u"] {
        script.client.track_topic(script.now, &Arc::from(name));
    }
    script.pass(Duration::from_millis(125));
    script.accept();
    let both = vec![topic("t", 1, &[(1, 1)]), topic("u", 2, &[(1, 1)])];
    script.answer(Response::Metadata(cluster(1, both)));
    for turn in 0..10 {
        script.client.request_metadata_update(script.now);
        script.drain();
        script.pass(Duration::from_secs(2));
        let sent = script.next();
        let Request::Metadata(request) = &sent.request else { panic!("{sent:?}") };
        assert_eq!(request.topics.as_ref().map(Vec::len), Some(2));
        let partial =
            if turn % 2 == 0 { topic("t", 1, &[(1, 1)]) } else { topic("u", 2, &[(1, 1)]) };
        script.reply(&sent, Response::Metadata(cluster(1, vec![partial])));
        for name in ["t", "u"] {
            assert_eq!(script.client.metadata().partition_count(name), Some(1), "{name}");
        }
    }
}

/// B102: a broker that is still starting knows neither brokers nor topics. The old view stays, and is asked for again.
#[test]
fn empty_metadata_of_a_starting_broker_are_ignored() {
    let mut script = Script::with_brokers(2);
    script.client.track_topic(script.now, &Arc::from("t"));
    script.pass(Duration::from_millis(125));
    script.accept();
    script.answer(Response::Metadata(cluster(2, vec![topic("t", 1, &[(2, 1)])])));
    script.client.request_metadata_update(script.now);
    script.drain();
    script.pass(Duration::from_secs(2));
    script.answer(Response::Metadata(MetadataResponse::default()));
    assert_eq!(script.client.metadata().brokers().len(), 2);
    assert_eq!(leader(script.client.metadata(), 0), Some((2, 1)));
    script.pass(Duration::from_secs(2));
    assert_eq!(script.sent.len(), 1, "asked again");
}

/// Found by the lying broker: such a node was taken for a bootstrap address, and the client never asked any broker again.
#[test]
fn a_broker_with_a_negative_id_is_none() {
    let mut metadata = Metadata::default();
    update(&mut metadata, &cluster(2, vec![]));
    let mut lie = cluster(1, vec![]);
    lie.brokers[0].node_id = (-2_147_483_647).into();
    update(&mut metadata, &lie);
    let known: Vec<_> = metadata.brokers().keys().copied().collect();
    assert_eq!(known, [NodeId(1), NodeId(2)]);
}

/// B096: the news name both ids.
#[test]
fn another_topic_of_the_same_name_is_reported_and_starts_afresh() {
    let mut metadata = Metadata::default();
    update(&mut metadata, &cluster(3, vec![topic("t", 1, &[(1, 5), (2, 5)])]));
    let news = update(&mut metadata, &cluster(3, vec![topic("t", 2, &[(3, 0)])]));
    let topic = Arc::from("t");
    assert_eq!(news, [MetadataNews::TopicRecreated { topic, old_id: [1; 16], new_id: [2; 16] }]);
    assert_eq!((leader(&metadata, 0), leader(&metadata, 1)), (Some((3, 0)), None));
}

#[test]
fn another_cluster_is_reported() {
    let mut metadata = Metadata::default();
    update(&mut metadata, &cluster(1, vec![]));
    let other = cluster(1, vec![]).with_cluster_id(Some(StrBytes::from_static_str("other")));
    let news = update(&mut metadata, &other);
    assert!(matches!(news.as_slice(), [MetadataNews::ClusterIdChanged { .. }]), "{news:?}");
}

#[test]
fn epochs_of_old_answers_are_not_relied_on() {
    let mut metadata = Metadata::default();
    let response = cluster(3, vec![topic("t", 0, &[(1, 5)])]);
    metadata.update(&response, 8, |_| true);
    assert_eq!(leader(&metadata, 0), Some((1, -1)));
    metadata.update(&cluster(3, vec![topic("t", 0, &[(2, 4)])]), 8, |_| true);
    assert_eq!(leader(&metadata, 0), Some((2, -1)));
}

#[test]
fn hints_are_taken_if_newer_and_the_broker_is_known() {
    let mut metadata = Metadata::default();
    update(&mut metadata, &cluster(3, vec![topic("t", 1, &[(1, 5)])]));
    let partition = TopicPartition::new("t", 0);
    assert!(!metadata.apply_leader_hint(&partition, NodeId(2), 5));
    assert!(!metadata.apply_leader_hint(&partition, NodeId(9), 6));
    assert!(metadata.apply_leader_hint(&partition, NodeId(2), 6));
    assert_eq!(leader(&metadata, 0), Some((2, 6)));
}

#[test]
fn a_tracked_topic_is_asked_for_until_every_partition_has_a_leader() {
    let mut script = Script::with_brokers(1);
    script.client.track_topic(script.now, &Arc::from("t"));
    script.pass(Duration::from_millis(125));
    script.accept();
    let sent = script.next();
    let Request::Metadata(request) = &sent.request else { panic!("{sent:?}") };
    assert!(!request.allow_auto_topic_creation);
    assert_eq!(request.topics.as_ref().map(Vec::len), Some(1));
    let mut unknown = topic("t", 0, &[]);
    unknown.error_code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0;
    script.reply(&sent, Response::Metadata(cluster(1, vec![unknown])));
    script.pass(Duration::from_millis(125));
    script.answer(Response::Metadata(cluster(1, vec![topic("t", 1, &[(-1, 0)])])));
    assert!(script.sent.is_empty());
    script.pass(Duration::from_millis(250));
    script.answer(Response::Metadata(cluster(1, vec![topic("t", 1, &[(1, 1)])])));
    assert_eq!(leader(script.client.metadata(), 0), Some((1, 1)));
    script.pass(Duration::from_secs(290));
    assert!(script.sent.is_empty(), "settled until the metadata are old");
    script.pass(Duration::from_secs(20));
    assert_eq!(script.sent.len(), 1);
}

#[test]
fn a_recreated_topic_is_an_event() {
    let mut script = Script::with_brokers(1);
    script.client.track_topic(script.now, &Arc::from("t"));
    script.pass(Duration::from_millis(125));
    script.accept();
    script.answer(Response::Metadata(cluster(1, vec![topic("t", 1, &[(1, 1)])])));
    script.client.request_metadata_update(script.now);
    script.pass(Duration::from_millis(125));
    script.answer(Response::Metadata(cluster(1, vec![topic("t", 2, &[(1, 0)])])));
    assert!(script.events.iter().any(|event| matches!(
        event,
        NetworkEvent::MetadataNews(MetadataNews::TopicRecreated { new_id, .. }) if *new_id == [2; 16]
    )));
    script.client.untrack_topic("t");
    assert!(script.client.metadata().topic("t").is_none());
}
