//! Groups of both protocols, with Kafka's console consumer as their member.

use std::thread::{JoinHandle, spawn};

use millstream_protocol::{ErrorCode, IsolationLevel};
use millstream_protocol_client::{
    ClientError, GroupDescription, GroupType, KafkaClient, ResetTarget,
};
use millstream_testcontainers::KafkaCluster;

use crate::fixtures::{code, eventually, kafka, new_topic, only, partition, run, unique, write};

/// A console consumer in a group, which leaves when it has read so many records.
fn member(
    cluster: &'static KafkaCluster,
    topic: &str,
    group: &str,
    protocol: &str,
    records: usize,
) -> JoinHandle<()> {
    let [topic, group] = [topic, group].map(str::to_owned);
    let protocol = format!("group.protocol={protocol}");
    spawn(move || {
        let (servers, records) = (cluster.tool_bootstrap_servers(), records.to_string());
        let mut args = vec!["--bootstrap-server", &servers, "--topic", &topic, "--group", &group];
        args.extend(["--from-beginning", "--max-messages", &records]);
        args.extend(["--timeout-ms", "100000", "--consumer-property", &protocol]);
        cluster.run_tool("org.apache.kafka.tools.consumer.ConsoleConsumer", &args).unwrap();
    })
}

async fn describe(client: &KafkaClient, group: &str) -> Result<GroupDescription, ClientError> {
    only(client.describe_groups(&[group]).await.unwrap())
}

/// Waits until the group has a member that owns both partitions.
async fn with_owner(client: &KafkaClient, group: &str) -> GroupDescription {
    eventually("a member that owns its partitions", || async {
        let described = describe(client, group).await.ok()?;
        let owner = described.members.first()?;
        (described.state == "Stable" && owner.assignment.len() == 2).then_some(described)
    })
    .await
}

async fn life_of_a_group(client: &KafkaClient, cluster: &'static KafkaCluster, protocol: &str) {
    let topic = new_topic(client, 2, &[]).await;
    let group = unique("group");
    let member = member(cluster, &topic, &group, protocol, 3);
    let described = with_owner(client, &group).await;
    let both = [partition(&topic, 0), partition(&topic, 1)];
    let owner = &described.members[0];
    assert_eq!(owner.assignment, both.clone().into());
    assert_eq!(owner.subscribed_topics, [topic.clone()].into());
    assert!(owner.client_id.starts_with("console-consumer"), "{owner:?}");
    assert_eq!(owner.client_host, "/127.0.0.1");
    assert_eq!(described.protocol_type, "consumer");
    match protocol {
        "consumer" => {
            assert_eq!(described.group_type, GroupType::Consumer);
            assert_eq!(described.assignor, "uniform");
            assert_eq!(owner.target_assignment, Some(both.clone().into()));
            assert!(described.group_epoch >= owner.member_epoch, "{described:?}");
        }
        _ => {
            assert_eq!(described.group_type, GroupType::Classic);
            assert_eq!(described.assignor, "range");
            assert_eq!((described.group_epoch, owner.member_epoch), (None, None));
        }
    }
    let listed = client.list_groups().await.unwrap();
    let listed = listed.into_iter().find(|listed| listed.group_id == group).unwrap();
    assert_eq!(listed.group_type, described.group_type);
    assert_eq!((listed.state.as_str(), listed.coordinator), ("Stable", 1));

    // What a member holds is neither deleted nor moved under it.
    assert_eq!(code(&only(client.delete_groups(&[&group]).await)), ErrorCode::NON_EMPTY_GROUP);
    let moved = client.alter_group_offsets(&group, &[(both[0].clone(), 1, -1)]).await;
    let text = moved.clone().unwrap_err().to_string();
    assert!(matches!(moved, Err(ClientError::GroupNotEmpty { members: 1, .. })), "{moved:?}");
    assert!(text.contains("has 1 member (Stable); stop it first"), "{text}");
    let refused = client.delete_group_offsets(&group, &both).await.unwrap();
    assert_eq!(code(&refused[&both[0]]), ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC);

    // It reads its fill, commits and leaves.
    write(client, &topic, &[1, 2, 3]).await;
    member.join().unwrap();
    let left = describe(client, &group).await.unwrap();
    assert_eq!((left.state.as_str(), left.members.len()), ("Empty", 0));
    write(client, &topic, &[4, 5]).await;
    let lag = client.group_lag(&group, IsolationLevel::ReadCommitted).await.unwrap();
    assert_eq!(lag[&both[0]].committed, Some(3));
    assert_eq!(lag[&both[0]].offsets_behind(), Some(2));
    let args = ["--bootstrap-server", &cluster.tool_bootstrap_servers(), "--describe", "--group"];
    let args = [&args[..], &[&group]].concat();
    let class = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand";
    let told = cluster.run_tool(class, &args).unwrap().stdout;
    let line: Vec<_> = told
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .find(|words| words.get(1..3) == Some(&[topic.as_str(), "0"]))
        .unwrap_or_else(|| panic!("{told}"));
    assert_eq!(line[3..6], ["3", "5", "2"], "Kafka's tool: committed, end, lag");

    let target = ResetTarget::Shift(-2);
    let moves = client.plan_offset_reset(&group, &both, target).await.unwrap();
    let to = moves[&both[0]].to;
    assert_eq!((moves[&both[0]].from, to), (Some(3), 1));
    client.alter_group_offsets(&group, &[(both[0].clone(), to, -1)]).await.unwrap();
    let committed = client.fetch_all_offsets(&group, true).await.unwrap();
    assert_eq!(committed[&both[0]].offset, 1);

    let deleted = client.delete_group_offsets(&group, &both[..1]).await.unwrap();
    assert_eq!(only(deleted), Ok(()));
    assert!(!client.fetch_all_offsets(&group, true).await.unwrap().contains_key(&both[0]));
    assert_eq!(only(client.delete_groups(&[&group]).await), Ok(()));
    assert_eq!(code(&describe(client, &group).await), ErrorCode::GROUP_ID_NOT_FOUND);
}

#[test]
fn life_of_a_classic_group() {
    let Some(cluster) = kafka("life_of_a_classic_group") else { return };
    run(cluster, |client| async move { life_of_a_group(&client, cluster, "classic").await });
}

#[test]
fn life_of_a_group_whose_coordinator_assigns() {
    let Some(cluster) = kafka("life_of_a_group_whose_coordinator_assigns") else { return };
    run(cluster, |client| async move { life_of_a_group(&client, cluster, "consumer").await });
}

#[test]
fn group_that_does_not_exist_is_named() {
    let Some(cluster) = kafka("group_that_does_not_exist_is_named") else { return };
    run(cluster, |client| async move {
        let described = describe(&client, "nobody").await;
        assert_eq!(code(&described), ErrorCode::GROUP_ID_NOT_FOUND);
        let text = described.unwrap_err().to_string();
        assert!(text.starts_with("describe group 'nobody': "), "{text}");
        let deleted = only(client.delete_groups(&["nobody"]).await);
        assert_eq!(code(&deleted), ErrorCode::GROUP_ID_NOT_FOUND);
        let partitions = [partition("any", 0)];
        let offsets = client.delete_group_offsets("nobody", &partitions).await;
        assert_eq!(code(&offsets), ErrorCode::GROUP_ID_NOT_FOUND);
        let lag = client.group_lag("nobody", IsolationLevel::ReadCommitted).await;
        assert_eq!(code(&lag), ErrorCode::GROUP_ID_NOT_FOUND);
        assert!(client.fetch_all_offsets("nobody", true).await.unwrap().is_empty());
    });
}
