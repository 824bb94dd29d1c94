//! What is done to the cluster, and to which broker.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use millstream_protocol_client::{KafkaClient, TransactionFilter};
use millstream_testcontainers::KafkaCluster;
use millstream_tests::random::Random;
use millstream_tests::wire;

const LIMIT: Duration = Duration::from_secs(120);
const TOPIC: &str = super::load::NUMBERED;

/// Which broker it meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victim {
    /// The leader of the first partition.
    Leader,
    /// The coordinator of the transactional id.
    TransactionCoordinator,
    /// The coordinator of the group.
    GroupCoordinator,
}

/// What happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It ends in an orderly way, handing over what it leads and coordinates, and comes back.
    Restart,
    /// SIGKILL, and it comes back.
    Kill,
    /// For this long nothing passes between it and clients or other brokers.
    Isolate(Duration),
    /// Leaders go back to the replicas that are preferred.
    ElectPreferred,
}

/// The steps, in an order of their own.
pub(crate) fn shuffled(
    mut steps: Vec<(Fault, Victim)>,
    random: &mut Random,
) -> Vec<(Fault, Victim)> {
    for index in (1..steps.len()).rev() {
        let other = random.number(0..index as u64 + 1);
        steps.swap(index, usize::try_from(other).unwrap());
    }
    steps
}

/// Does one step, and returns when all replicas are in sync again.
pub(crate) async fn strike(
    cluster: &KafkaCluster,
    client: &KafkaClient,
    fault: Fault,
    victim: Victim,
) -> String {
    let started = Instant::now();
    let broker = find(cluster, client, victim).await;
    let moved = tokio::task::block_in_place(|| {
        let led_before = led_by(cluster, broker, &[]);
        match fault {
            Fault::Restart => {
                cluster.stop_broker(broker).unwrap();
                wait_until_it_leads_nothing(cluster, broker);
                cluster.start_broker(broker).unwrap();
            }
            Fault::Kill => {
                cluster.kill_broker(broker).unwrap();
                wait_until_it_leads_nothing(cluster, broker);
                cluster.start_broker(broker).unwrap();
            }
            Fault::Isolate(time) => {
                let end = Instant::now() + time;
                cluster.isolate_broker(broker);
                wait_until_it_leads_nothing(cluster, broker);
                // How long the cut lasts is what the test is about.
                std::thread::sleep(end.saturating_duration_since(Instant::now()));
                cluster.rejoin_broker(broker);
            }
            Fault::ElectPreferred => elect_preferred(cluster),
        }
        wait_until_in_sync(cluster);
        led_before
    });
    format!(
        "{fault:?} of {victim:?} (broker {}), which led {} partitions: {:.1} s",
        broker + 1,
        moved,
        started.elapsed().as_secs_f64()
    )
}

/// The index of the broker.
async fn find(cluster: &KafkaCluster, client: &KafkaClient, victim: Victim) -> usize {
    let deadline = Instant::now() + LIMIT;
    loop {
        let node = match victim {
            Victim::Leader => {
                let described = client.describe_topic(TOPIC).await.unwrap().expect("the topic");
                Some(described.partitions[0].leader)
            }
            Victim::TransactionCoordinator => {
                let listed = client.list_transactions(&TransactionFilter::default()).await;
                let listed = listed.unwrap_or_default();
                let found =
                    listed.iter().find(|l| l.transactional_id == super::load::TRANSACTIONAL);
                found.map(|found| found.coordinator)
            }
            Victim::GroupCoordinator => {
                let listed = client.list_groups().await.unwrap_or_default();
                let found = listed.iter().find(|listed| listed.group_id == super::load::GROUP);
                found.map(|found| found.coordinator)
            }
        };
        match node.map(|node| usize::try_from(node - 1)) {
            Some(Ok(index)) if index < cluster.broker_count() => return index,
            _ => assert!(Instant::now() < deadline, "no {victim:?} was found"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Leader and in-sync replicas of each partition, as a broker other than `without` tells.
fn partitions(cluster: &KafkaCluster, without: &[usize]) -> Option<Vec<(i32, BTreeSet<i32>)>> {
    let direct = cluster.direct_bootstrap_servers();
    let asked: Vec<&str> = direct
        .split(',')
        .enumerate()
        .filter(|(index, _)| !without.contains(index))
        .map(|(_, address)| address)
        .collect();
    let answer = wire::try_metadata(&asked.join(","), TOPIC)?;
    let topic = answer.topics.first().filter(|topic| topic.error_code == 0)?;
    let of =
        |p: &millstream_protocol::messages::kp::metadata_response::MetadataResponsePartition| {
            (p.leader_id.0, p.isr_nodes.iter().map(|node| node.0).collect())
        };
    Some(topic.partitions.iter().map(of).collect())
}

fn led_by(cluster: &KafkaCluster, broker: usize, without: &[usize]) -> usize {
    let id = i32::try_from(broker + 1).unwrap();
    let found = partitions(cluster, without).unwrap_or_default();
    found.iter().filter(|(leader, _)| *leader == id).count()
}

/// Without this a cut could pass by unnoticed.
fn wait_until_it_leads_nothing(cluster: &KafkaCluster, broker: usize) {
    let id = i32::try_from(broker + 1).unwrap();
    wait("the others lead everything", || {
        let found = partitions(cluster, &[broker]);
        found.is_some_and(|all| all.iter().all(|(leader, _)| *leader != id && *leader >= 0))
    });
}

/// All replicas in sync as every broker sees it, so that the next step meets a whole cluster.
fn wait_until_in_sync(cluster: &KafkaCluster) {
    let count = cluster.broker_count();
    wait("all replicas are in sync", || {
        (0..count).all(|broker| {
            let others: Vec<usize> = (0..count).filter(|other| *other != broker).collect();
            let found = partitions(cluster, &others);
            found.is_some_and(|all| {
                all.iter().all(|(leader, isr)| *leader > 0 && isr.len() == count)
            })
        })
    });
}

#[track_caller]
fn wait(what: &str, condition: impl FnMut() -> bool) {
    millstream_tests::wait::wait_until(what, LIMIT, condition);
}

fn elect_preferred(cluster: &KafkaCluster) {
    let servers = cluster.tool_bootstrap_servers();
    let args = ["--bootstrap-server", &servers, "--election-type", "PREFERRED"];
    let args = [&args[..], &["--all-topic-partitions"]].concat();
    cluster.run_tool("org.apache.kafka.tools.LeaderElectionCommand", &args).unwrap();
}
