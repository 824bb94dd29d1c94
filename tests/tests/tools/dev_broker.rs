//! What the development broker serves, the tools do there too; what it does not, they name.

use millstream_tests::LocalBroker;
use serde_json::json;

use crate::tool::tool;

#[test]
fn topics_records_and_transactions_are_handled_on_the_development_broker() {
    let broker = LocalBroker::start();
    let run = |line: &str| tool(&broker.address(), line);
    run("topic create flights --partitions 2 --config cleanup.policy=compact").ok();
    let listed = run("topic list").ok();
    assert_eq!(listed, "TOPIC    PARTITIONS  REPLICAS  STATE\nflights           2         1  ok\n");
    let described = run("topic describe flights").ok();
    assert!(described.contains("cleanup.policy  compact  topic"), "{described}");
    let written = run("produce flights --transactional --key-separator = -p 1").input("k=v\n").ok();
    assert_eq!(written, "flights: 1 record written to partition 1 (offset 0)\n");
    assert_eq!(run("consume flights --format %t-%p@%o:%k=%v;").ok(), "flights-1@0:k=v;");
    let rows = run("txn list").rows();
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0]["state"], json!("CompleteCommit"));
    run("group list").refused(69, &["ListGroups", "a newer version of Kafka has it"]);
    let healthy = run("doctor").ok();
    assert!(healthy.contains("all that a job needs are there; not there: "), "{healthy}");
    run("topic delete flights --yes").ok();
    assert_eq!(run("topic list").rows(), [json!(null); 0]);
}
