//! What the cluster is, and its configuration.

use std::collections::BTreeMap;

use millstream_protocol::ErrorCode;
use millstream_protocol_client::{
    ClientError, ConfigChange, ConfigResource, ConfigSource, KafkaClient,
};

use crate::fixtures::{code, kafka, new_topic, only, run};

#[test]
fn cluster_tells_brokers_id_and_features() {
    let Some(cluster) = kafka("cluster_tells_brokers_id_and_features") else { return };
    run(cluster, |client| async move {
        let described = client.describe_cluster().await.unwrap();
        let brokers: Vec<_> =
            described.brokers.iter().map(|b| (b.id, format!("{}:{}", b.host, b.port))).collect();
        assert_eq!(brokers, [(1, cluster.bootstrap_servers())]);
        assert!(!described.brokers[0].is_fenced);
        assert_eq!(described.controller, Some(1));
        assert_eq!(described.cluster_id.len(), 22, "{described:?}");
        let level = |name: &str| {
            described.finalized_features.iter().find(|f| f.name == name).map(|f| f.max_level)
        };
        assert_eq!(level("transaction.version"), Some(client.transaction_version()));
        assert!(level("metadata.version") > Some(0), "{described:?}");
        let supported = &described.supported_features;
        assert!(supported.iter().any(|f| f.name == "group.version"), "{supported:?}");
    });
}

fn set(name: &str, value: &str) -> ConfigChange {
    ConfigChange::Set { name: name.to_owned(), value: value.to_owned() }
}

async fn change(
    client: &KafkaClient,
    resource: &ConfigResource,
    changes: &[ConfigChange],
) -> Result<(), ClientError> {
    let changes = BTreeMap::from([(resource.clone(), changes.to_vec())]);
    only(client.alter_configs(&changes, false).await)
}

/// The values of two topic properties, each with where it comes from.
async fn values(client: &KafkaClient, resource: &ConfigResource) -> Vec<(String, ConfigSource)> {
    let names = ["cleanup.policy", "retention.ms"];
    // A change is in the controller's log before the broker that answers has seen it.
    let entries = client.describe_config_entries(resource, &names).await.unwrap();
    entries.into_iter().map(|entry| (entry.value.unwrap(), entry.source)).collect()
}

async fn become_these(
    client: &KafkaClient,
    resource: &ConfigResource,
    expected: [(&str, ConfigSource); 2],
) {
    let expected = expected.map(|(value, source)| (value.to_owned(), source));
    crate::fixtures::eventually(&format!("{expected:?}"), || async {
        (values(client, resource).await == expected).then_some(())
    })
    .await;
}

#[test]
fn topic_properties_are_set_deleted_appended_and_subtracted() {
    let name = "topic_properties_are_set_deleted_appended_and_subtracted";
    let Some(cluster) = kafka(name) else { return };
    run(cluster, |client| async move {
        let topic = new_topic(&client, 1, &[]).await;
        let resource = ConfigResource::Topic(topic);
        let of_file = values(&client, &resource).await[1].clone();
        assert_eq!(of_file.1, ConfigSource::File, "the cluster's own log.retention.ms");

        let append =
            ConfigChange::Append { name: "cleanup.policy".into(), value: "compact".into() };
        change(&client, &resource, &[set("retention.ms", "3600000"), append]).await.unwrap();
        let both = ("delete,compact", ConfigSource::Topic);
        become_these(&client, &resource, [both, ("3600000", ConfigSource::Topic)]).await;

        let subtract =
            ConfigChange::Subtract { name: "cleanup.policy".into(), value: "delete".into() };
        let delete = ConfigChange::Delete { name: "retention.ms".into() };
        change(&client, &resource, &[subtract, delete]).await.unwrap();
        let compact = ("compact", ConfigSource::Topic);
        become_these(&client, &resource, [compact, (&of_file.0, of_file.1)]).await;
    });
}

#[test]
fn changes_are_refused_as_a_whole_and_for_their_resource_alone() {
    let name = "changes_are_refused_as_a_whole_and_for_their_resource_alone";
    let Some(cluster) = kafka(name) else { return };
    run(cluster, |client| async move {
        let [bad, good] = [(); 2].map(|()| new_topic(&client, 1, &[]));
        let [bad, good] = [bad.await, good.await].map(ConfigResource::Topic);
        let missing = ConfigResource::Topic("no-such-topic".to_owned());
        let before = values(&client, &bad).await;
        let changes = BTreeMap::from([
            (bad.clone(), vec![set("retention.ms", "5"), set("retention.mss", "5")]),
            (good.clone(), vec![set("retention.ms", "7200000")]),
            (missing.clone(), vec![set("retention.ms", "5")]),
        ]);
        let results = client.alter_configs(&changes, false).await;
        assert_eq!(code(&results[&bad]), ErrorCode::INVALID_CONFIG);
        let text = results[&bad].clone().unwrap_err().to_string();
        assert!(text.contains("retention.mss"), "{text}");
        assert!(text.starts_with(&format!("change the configuration of {bad}: ")), "{text}");
        assert_eq!(results[&good], Ok(()));
        let no_topic = &results[&missing];
        assert!(matches!(no_topic, Err(ClientError::UnknownTopic { .. })), "{no_topic:?}");
        let policy = ("delete", ConfigSource::Default);
        become_these(&client, &good, [policy, ("7200000", ConfigSource::Topic)]).await;
        assert_eq!(values(&client, &bad).await, before);

        // Nothing is changed by looking whether it could be.
        let valid = BTreeMap::from([(bad.clone(), vec![set("retention.ms", "5")])]);
        assert_eq!(only(client.alter_configs(&valid, true).await), Ok(()));
        assert_eq!(values(&client, &bad).await, before);
    });
}

#[test]
fn properties_of_one_broker_and_of_all() {
    let Some(cluster) = kafka("properties_of_one_broker_and_of_all") else { return };
    run(cluster, |client| async move {
        let (one, all) = (ConfigResource::Broker(1), ConfigResource::AllBrokers);
        let name = "log.cleaner.backoff.ms";
        let is = |value: &'static str, source: ConfigSource| {
            let (client, one) = (&client, &one);
            crate::fixtures::eventually(value, move || async move {
                let entries = client.describe_config_entries(one, &[name]).await.unwrap();
                let entry = entries.into_iter().next().unwrap();
                (entry.value.as_deref() == Some(value) && entry.source == source).then_some(())
            })
        };
        change(&client, &all, &[set(name, "14000")]).await.unwrap();
        is("14000", ConfigSource::AllBrokers).await;
        change(&client, &one, &[set(name, "13000")]).await.unwrap();
        is("13000", ConfigSource::Broker).await;
        change(&client, &one, &[ConfigChange::Delete { name: name.to_owned() }]).await.unwrap();
        is("14000", ConfigSource::AllBrokers).await;
        change(&client, &all, &[ConfigChange::Delete { name: name.to_owned() }]).await.unwrap();
        is("15000", ConfigSource::Default).await;

        let read_only = change(&client, &one, &[set("node.id", "7")]).await;
        assert_eq!(code(&read_only), ErrorCode::INVALID_REQUEST);
        let entries = client.describe_config_entries(&one, &["node.id"]).await.unwrap();
        assert!(entries[0].is_read_only, "{entries:?}");
    });
}
