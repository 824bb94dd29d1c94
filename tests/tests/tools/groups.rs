//! `group`, and `consume --group`.

use serde_json::{Value, json};

use crate::fixtures::{Cluster, kafka, unique, wait_for};

fn write(cluster: &Cluster, topic: &str, from: u32, to: u32) {
    let lines: String = (from..to).map(|n| format!("{n}\n")).collect();
    cluster.tool(&format!("produce {topic} --partition 0")).input(lines).ok();
}

fn described(cluster: &Cluster, group: &str) -> Value {
    cluster.tool(&format!("group describe {group}")).rows().remove(0)
}

fn committed(cluster: &Cluster, group: &str) -> Vec<Value> {
    let partitions = described(cluster, group)["partitions"].clone();
    let partitions = partitions.as_array().unwrap().iter();
    partitions.map(|p| p["committed"].clone()).collect()
}

/// Reads on as a member of each protocol: what was printed is committed, no more and no less.
fn reads_on(cluster: &Cluster, protocol: &str) {
    let (topic, group) = (cluster.new_topic(1), unique("readers"));
    write(cluster, &topic, 0, 10);
    let consume = |options: &str| {
        let line =
            format!("consume {topic} --group {group} -X group.protocol={protocol} {options}");
        cluster.tool(&line).ok().replace('\n', "")
    };
    assert_eq!(consume("--max-messages 4"), "0123");
    assert_eq!(committed(cluster, &group), [json!(4)]);
    assert_eq!(consume(""), "456789");
    assert_eq!(consume(""), "");
    write(cluster, &topic, 10, 12);
    let behind = described(cluster, &group);
    assert_eq!((&behind["state"], &behind["lag"]), (&json!("Empty"), &json!(2)));
    assert_eq!(consume(""), "1011");
    assert_eq!(described(cluster, &group)["lag"], json!(0));
}

#[test]
fn member_of_a_classic_group_reads_on_where_it_left() {
    let Some(cluster) = kafka("member_of_a_classic_group_reads_on_where_it_left") else { return };
    reads_on(cluster, "classic");
}

#[test]
fn member_of_a_consumer_group_reads_on_where_it_left() {
    let Some(cluster) = kafka("member_of_a_consumer_group_reads_on_where_it_left") else { return };
    reads_on(cluster, "consumer");
}

/// A static member that another one with its name has replaced: exit code 76 tells a supervisor not to start it again.
#[test]
fn replaced_static_member_says_that_it_was_fenced() {
    let Some(cluster) = kafka("replaced_static_member_says_that_it_was_fenced") else { return };
    let (topic, group) = (cluster.new_topic(1), unique("static"));
    write(cluster, &topic, 0, 3);
    let member = format!(
        "consume {topic} --group {group} -X group.protocol=classic -X group.instance.id=one --follow"
    );
    let first = cluster.tool(&member).start();
    wait_for("the first member", || first.out().ends_with("2\n"));
    let second = cluster.tool(&member).start();
    let said = first.wait();
    assert_eq!(said.code, 76, "{}", said.err);
    assert!(said.err.contains("group.instance.id"), "{}", said.err);
    write(cluster, &topic, 3, 4);
    wait_for("the second member", || second.out().ends_with("3\n"));
    second.interrupt();
    second.wait();
}

#[test]
fn offsets_are_planned_moved_and_deleted() {
    let Some(cluster) = kafka("offsets_are_planned_moved_and_deleted") else { return };
    let (topic, group) = (cluster.new_topic(2), unique("movers"));
    write(cluster, &topic, 0, 10);
    cluster.tool(&format!("consume {topic} --group {group}")).ok();
    assert_eq!(committed(cluster, &group), [json!(10)], "there was nothing in the other");
    let reset = |options: &str| {
        cluster.tool(&format!("group reset-offsets {group} --topic {topic}:0 {options}"))
    };
    let plan = reset("--to 3 --dry-run").run();
    assert_eq!(plan.code, 0);
    assert!(plan.err.contains("dry run"), "{}", plan.err);
    let cells: Vec<_> = plan.out.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(cells, [topic.as_str(), "0", "10", "3", "-7"]);
    reset("--to 3").refused(2, &["--yes"]);
    assert_eq!(committed(cluster, &group), [json!(10)], "nothing was moved");

    let row = |from: i64, to: i64| json!({"group": group, "topic": topic, "partition": 0, "from": from, "to": to, "applied": true});
    assert_eq!(reset("--to 3 --yes").rows(), [row(10, 3)]);
    assert_eq!(reset("--shift-by -2 --yes").rows(), [row(3, 1)]);
    assert_eq!(reset("--to end --yes").rows(), [row(1, 10)]);
    let beyond = reset("--to 99 --dry-run").run();
    assert!(beyond.err.contains("has no offset 99: the nearest is 10"), "{}", beyond.err);
    assert_eq!(reset("--to beginning --yes").rows(), [row(10, 0)]);
    assert_eq!(committed(cluster, &group), [json!(0)]);
    let all = format!("group reset-offsets {group} --all-topics --to end --yes");
    assert_eq!(cluster.tool(&all).rows(), [row(0, 10)]);
    let other = format!("group reset-offsets {group} --topic {topic} --to 0 --yes");
    assert_eq!(cluster.tool(&other).rows().len(), 2);
    assert_eq!(committed(cluster, &group), [json!(0), json!(0)]);
    let missing = format!("group reset-offsets {group} --topic {topic}:7 --to end --yes");
    cluster.tool(&missing).refused(69, &["has 2 partitions", "7"]);

    let listed = cluster.tool("group list --state empty").rows();
    let listed: Vec<_> = listed.iter().filter(|row| row["group"] == json!(group)).collect();
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(listed[0]["type"], json!("classic"));
    let delete = format!("group delete {group}");
    cluster.tool(&delete).refused(2, &["--yes"]);
    assert_eq!(
        cluster.tool(&delete).arg("--yes").rows(),
        [json!({"group": group, "deleted": true})]
    );
    cluster.tool(&format!("group describe {group}")).refused(69, &[&group, "GROUP_ID_NOT_FOUND"]);
}

#[test]
fn group_with_members_is_shown_and_left_alone() {
    let Some(cluster) = kafka("group_with_members_is_shown_and_left_alone") else { return };
    let (topic, group) = (cluster.new_topic(1), unique("busy"));
    write(cluster, &topic, 0, 1);
    let member = cluster.tool(&format!("consume {topic} --follow --group {group}")).start();
    wait_for("the record is printed", || member.out() == "0\n");
    let busy = described(cluster, &group);
    assert_eq!(busy["state"], json!("Stable"));
    assert_eq!(busy["members"][0]["client_id"], json!("millstream"));
    assert_eq!(busy["partitions"][0]["member"], busy["members"][0]["member"]);
    let text = cluster.tool(&format!("group describe {group}")).ok();
    assert!(text.contains("Stable") && text.contains("1 member,"), "{text}");
    let reset = format!("group reset-offsets {group} --topic {topic} --to beginning --yes");
    cluster.tool(&reset).refused(69, &["has 1 member", "stop it first"]);
    cluster.tool(&format!("group delete {group} --yes")).refused(69, &["NON_EMPTY_GROUP"]);
    member.interrupt();
    let said = member.wait();
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    assert_eq!(committed(cluster, &group), [json!(1)], "it left in an orderly way");
}

#[test]
fn what_waits_behind_an_open_transaction_is_to_be_read_as_well() {
    let Some(cluster) = kafka("what_waits_behind_an_open_transaction_is_to_be_read_as_well") else {
        return;
    };
    let (topic, group) = (cluster.new_topic(1), unique("readers"));
    write(cluster, &topic, 0, 2);
    cluster.tool(&format!("consume {topic} --group {group}")).ok();
    assert_eq!(described(cluster, &group)["lag"], json!(0));
    let mut open = cluster.tool(&format!("produce {topic} --transactional")).start();
    open.write("of the transaction\n");
    wait_for("its record counts", || described(cluster, &group)["lag"] == json!(1));
    write(cluster, &topic, 2, 5);
    assert_eq!(described(cluster, &group)["lag"], json!(4));
    assert_eq!(cluster.tool(&format!("consume {topic}")).ok(), "0\n1\n", "nothing behind it yet");
    open.interrupt();
    assert_eq!(open.wait().code, 130);
}
