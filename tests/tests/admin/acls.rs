//! Permissions made by Kafka's tool are listed.

use millstream_protocol_client::{
    Acl, AclFilter, AclOperation, AclPatternType, AclPermission, AclResourceType,
};

use crate::fixtures::{eventually, kafka, run, unique};

#[test]
fn permissions_are_listed_by_filter() {
    let Some(cluster) = kafka("permissions_are_listed_by_filter") else { return };
    let servers = cluster.tool_bootstrap_servers();
    let (topic, user) = (unique("guarded"), unique("User:alice"));
    let class = "org.apache.kafka.tools.AclCommand";
    let add = ["--bootstrap-server", &servers, "--add", "--topic", &topic];
    let allow = ["--resource-pattern-type", "prefixed", "--allow-principal", &user];
    let allow = [&add[..], &allow, &["--operation", "Read", "--operation", "Describe"]].concat();
    cluster.run_tool(class, &allow).unwrap();
    let deny = ["--deny-principal", &user, "--deny-host", "10.0.0.7", "--operation", "Write"];
    cluster.run_tool(class, &[&add[..], &deny].concat()).unwrap();
    run(cluster, |client| async move {
        let allowed = |operation| Acl {
            resource_type: AclResourceType::Topic,
            resource_name: topic.clone(),
            pattern_type: AclPatternType::Prefixed,
            principal: user.clone(),
            host: "*".to_owned(),
            operation,
            permission: AclPermission::Allow,
        };
        let denied = Acl {
            pattern_type: AclPatternType::Literal,
            host: "10.0.0.7".to_owned(),
            permission: AclPermission::Deny,
            ..allowed(AclOperation::Write)
        };
        let mut all =
            vec![denied.clone(), allowed(AclOperation::Read), allowed(AclOperation::Describe)];
        all.sort();
        let of_user = AclFilter { principal: Some(user.clone()), ..AclFilter::default() };
        // The tool is answered when the controller has written them; the broker learns them after.
        let found = eventually("both permissions", || async {
            let found = client.list_acls(&of_user).await.unwrap();
            (found.len() == all.len()).then_some(found)
        })
        .await;
        assert_eq!(found, all);

        let only_denied = AclFilter { permission: Some(AclPermission::Deny), ..of_user.clone() };
        assert_eq!(client.list_acls(&only_denied).await.unwrap(), [denied]);
        let read = AclFilter {
            resource_type: Some(AclResourceType::Topic),
            resource_name: Some(topic.clone()),
            pattern_type: Some(AclPatternType::Prefixed),
            operation: Some(AclOperation::Read),
            ..AclFilter::default()
        };
        assert_eq!(client.list_acls(&read).await.unwrap(), [allowed(AclOperation::Read)]);
        let group = AclFilter { resource_type: Some(AclResourceType::Group), ..of_user };
        assert_eq!(client.list_acls(&group).await.unwrap(), []);
    });
}
