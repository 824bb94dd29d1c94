//! What a job needs of the cluster as a whole: APIs, features, limits of transactions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use millstream_protocol::ApiKey;
use millstream_protocol::messages::ApiVersionsResponse;
use millstream_protocol_client::{
    BrokerProbe, ClientConfig, ClusterDescription, ConfigResource, KafkaClient,
};

use super::report::{Check, Report};
use crate::command::CommandError;
use crate::output::count;

pub(super) async fn examine(
    config: &ClientConfig,
    probes: &[BrokerProbe],
    report: &mut Report,
) -> Result<(), CommandError> {
    report.begin("cluster")?;
    apis(probes, report)?;
    let client = KafkaClient::connect(config.clone()).await?;
    let cluster = client.describe_cluster().await?;
    brokers(&cluster, report)?;
    features(&cluster, report)?;
    let limits = limits(&client, &cluster, report).await?;
    transaction_timeout(config, &limits, report)?;
    for topic in [TRANSACTION_LOG, OFFSETS_LOG] {
        internal_topic(&client, &cluster, &limits, topic, report).await?;
    }
    for (name, reason) in config.ignored() {
        let found = format!("{name} has no effect: {reason}");
        report.add(Check::warning("properties", found, "leave it out"))?;
    }
    client.close().await;
    Ok(())
}

fn apis(probes: &[BrokerProbe], report: &mut Report) -> Result<(), CommandError> {
    let answers: Vec<_> = probes
        .iter()
        .filter_map(|probe| Some((&probe.address, probe.api_versions.as_ref()?)))
        .collect();
    let lacks = |api: ApiKey| {
        let without = answers.iter().filter(|(_, versions)| !is_common(versions, api));
        without.map(|(address, _)| address.as_str()).collect::<Vec<_>>()
    };
    let mut missing = Vec::new();
    for api in NEEDED {
        let without = lacks(api);
        if !without.is_empty() {
            missing.push(format!("{api} ({})", without.join(", ")));
        }
    }
    if !missing.is_empty() {
        let found = format!("no common version of {}", missing.join(", "));
        report.add(Check::failed("APIs", found, "upgrade these brokers to Kafka 2.5 or later"))?;
        return Ok(());
    }
    let others = ApiKey::ALL.into_iter().filter(|api| !lacks(*api).is_empty());
    let others: BTreeSet<_> = others.filter_map(purpose).collect();
    let others: Vec<_> = others.into_iter().collect();
    let found = if others.is_empty() {
        "all that this client uses are there".to_owned()
    } else {
        format!("all that a job needs are there; not there: {}", others.join(", "))
    };
    Ok(report.add(Check::ok("APIs", found))?)
}

fn is_common(versions: &ApiVersionsResponse, api: ApiKey) -> bool {
    let ours = api.client_versions();
    versions.api_keys.iter().any(|theirs| {
        theirs.api_key == api.code()
            && theirs.min_version <= *ours.end()
            && theirs.max_version >= *ours.start()
    })
}

/// What is not possible without it; `None` for what was needed on the way here.
fn purpose(api: ApiKey) -> Option<&'static str> {
    match api {
        ApiKey::SaslHandshake | ApiKey::SaslAuthenticate | ApiKey::ApiVersions => None,
        ApiKey::ConsumerGroupHeartbeat | ApiKey::ConsumerGroupDescribe => Some("groups by KIP-848"),
        ApiKey::AddOffsetsToTxn | ApiKey::TxnOffsetCommit => Some("offsets in transactions"),
        ApiKey::DescribeProducers | ApiKey::WriteTxnMarkers => {
            Some("finding and ending hanging transactions")
        }
        ApiKey::DescribeTransactions | ApiKey::ListTransactions => Some("seeing transactions"),
        ApiKey::OffsetForLeaderEpoch => Some("detection of truncated logs"),
        ApiKey::JoinGroup
        | ApiKey::Heartbeat
        | ApiKey::LeaveGroup
        | ApiKey::SyncGroup
        | ApiKey::DescribeGroups
        | ApiKey::ListGroups
        | ApiKey::DeleteGroups
        | ApiKey::OffsetDelete => Some("groups with members"),
        _ => Some("some administration"),
    }
}

fn brokers(cluster: &ClusterDescription, report: &mut Report) -> Result<(), CommandError> {
    let fenced: Vec<_> =
        cluster.brokers.iter().filter(|b| b.is_fenced).map(|b| b.id.to_string()).collect();
    let count = cluster.brokers.len();
    let check = if fenced.is_empty() {
        Check::ok("brokers", format!("{count} of cluster {}", cluster.cluster_id))
    } else {
        let found = format!("{count}, of which do not serve: {}", fenced.join(", "));
        Check::warning(
            "brokers",
            found,
            "see why these brokers are fenced: down, or cut off from the controllers",
        )
    };
    Ok(report.add(check)?)
}

fn features(cluster: &ClusterDescription, report: &mut Report) -> Result<(), CommandError> {
    let level = |list: &[millstream_protocol_client::ClusterFeature]| {
        list.iter().find(|f| f.name == TRANSACTION_VERSION).map_or(0, |f| f.max_level)
    };
    let (now, possible) = (level(&cluster.finalized_features), level(&cluster.supported_features));
    let others = cluster.finalized_features.iter().filter(|f| f.name != TRANSACTION_VERSION);
    let others: String = others.map(|f| format!(", {} {}", f.name, f.max_level)).collect();
    let found = format!("{TRANSACTION_VERSION} {now}{others}");
    let check = if now >= 2 {
        Check::ok("features", found)
    } else if possible >= 2 {
        Check::warning(
            "features",
            found,
            "jobs work, with one more request per checkpoint; `kafka-features upgrade --feature transaction.version=2` saves it and keeps transactions from hanging",
        )
    } else {
        Check::warning(
            "features",
            found,
            "jobs work, with one more request per checkpoint; Kafka 4.0 and later keep transactions from hanging",
        )
    };
    Ok(report.add(check)?)
}

/// The properties of all brokers that matter; of a number, the least that any has.
async fn limits(
    client: &KafkaClient,
    cluster: &ClusterDescription,
    report: &mut Report,
) -> Result<BTreeMap<String, i64>, CommandError> {
    let mut limits: BTreeMap<String, i64> = BTreeMap::new();
    let mut unknown = BTreeSet::new();
    for broker in cluster.brokers.iter().filter(|broker| !broker.is_fenced) {
        match client.describe_configs(ConfigResource::Broker(broker.id), &LIMITS).await {
            Ok(found) => {
                for (name, value) in found {
                    let Ok(value) = value.parse::<i64>() else { continue };
                    limits
                        .entry(name)
                        .and_modify(|least| *least = value.min(*least))
                        .or_insert(value);
                }
            }
            Err(error) => {
                unknown.insert(error.to_string());
            }
        }
    }
    for error in unknown {
        let advice =
            "the user needs DESCRIBE_CONFIGS on the cluster for this check; jobs do without";
        report.add(Check::warning("limits", error, advice))?;
    }
    Ok(limits)
}

fn transaction_timeout(
    config: &ClientConfig,
    limits: &BTreeMap<String, i64>,
    report: &mut Report,
) -> Result<(), CommandError> {
    let Some(most) = limits.get(MAX_TIMEOUT).and_then(|ms| u64::try_from(*ms).ok()) else {
        return Ok(());
    };
    let ours = config.transaction_timeout;
    let found =
        format!("transaction.timeout.ms {} of at most {most} ({MAX_TIMEOUT})", ours.as_millis());
    let check = if ours > Duration::from_millis(most) {
        let advice = format!(
            "set transaction.timeout.ms to at most {most}, or raise {MAX_TIMEOUT} on the brokers"
        );
        Check::failed("transactions", found, advice)
    } else {
        Check::ok("transactions", found)
    };
    Ok(report.add(check)?)
}

/// Where Kafka keeps transactions and offsets: a cluster too small for its copies fails with the first of them.
async fn internal_topic(
    client: &KafkaClient,
    cluster: &ClusterDescription,
    limits: &BTreeMap<String, i64>,
    topic: InternalTopic,
    report: &mut Report,
) -> Result<(), CommandError> {
    let InternalTopic { name, check, factor } = topic;
    let Some(description) = client.describe_topic(name).await? else {
        let Some(copies) = limits.get(factor) else { return Ok(()) };
        let serving = cluster.brokers.iter().filter(|broker| !broker.is_fenced).count();
        let found = format!("{name} will be made on first use, with {copies} copies");
        let enough = usize::try_from(*copies).is_ok_and(|copies| copies <= serving);
        let check = if enough {
            Check::ok(check, found)
        } else {
            let advice = format!(
                "only {serving} brokers serve, so that will fail: set {factor} to at most {serving} on the brokers, or add brokers"
            );
            Check::failed(check, found, advice)
        };
        return Ok(report.add(check)?);
    };
    let partitions = &description.partitions;
    let leaderless = partitions.iter().filter(|p| p.leader < 0).count();
    let behind = partitions.iter().filter(|p| p.in_sync_replicas.len() < p.replicas.len()).count();
    let copies = partitions.iter().map(|p| p.replicas.len()).min().unwrap_or(0);
    let found = format!(
        "{name}, {}, {}",
        count(partitions.len(), "partition"),
        if copies == 1 { "1 copy".to_owned() } else { format!("{copies} copies") }
    );
    let check = if leaderless > 0 {
        let found = format!("{found}; {leaderless} without leader");
        Check::failed(check, found, "bring the brokers back that have these partitions")
    } else if behind > 0 {
        let found = format!("{found}; {behind} under-replicated");
        Check::warning(check, found, "see which brokers are down or slow")
    } else {
        Check::ok(check, found)
    };
    Ok(report.add(check)?)
}

/// A topic that Kafka keeps state in.
#[derive(Clone, Copy, Debug)]
struct InternalTopic {
    name: &'static str,
    check: &'static str,
    factor: &'static str,
}

const TRANSACTION_LOG: InternalTopic = InternalTopic {
    name: "__transaction_state",
    check: "transaction log",
    factor: "transaction.state.log.replication.factor",
};

const OFFSETS_LOG: InternalTopic = InternalTopic {
    name: "__consumer_offsets",
    check: "offsets log",
    factor: "offsets.topic.replication.factor",
};

const TRANSACTION_VERSION: &str = "transaction.version";
const MAX_TIMEOUT: &str = "transaction.max.timeout.ms";
const LIMITS: [&str; 3] = [MAX_TIMEOUT, TRANSACTION_LOG.factor, OFFSETS_LOG.factor];

/// What every job asks.
const NEEDED: [ApiKey; 10] = [
    ApiKey::Produce,
    ApiKey::Fetch,
    ApiKey::ListOffsets,
    ApiKey::Metadata,
    ApiKey::FindCoordinator,
    ApiKey::InitProducerId,
    ApiKey::AddPartitionsToTxn,
    ApiKey::EndTxn,
    ApiKey::CreateTopics,
    ApiKey::DescribeConfigs,
];
