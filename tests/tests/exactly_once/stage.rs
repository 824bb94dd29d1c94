//! What every test here needs: a cluster, topics, a state directory, and the check at the end.

use std::time::Duration;

use millstream_engine::kafka::{ClientConfig, KafkaClient, ReadUntil, TopicPartition, read_topic};
use millstream_testcontainers::{ConsumeEnd, KafkaCluster, KafkaClusterBuilder};
use millstream_tests::flights::{
    Expected, FlightsCommand, FlightsJob, OutputRecord, PARTITIONS, Query,
};
pub(crate) use millstream_tests::setting;
use millstream_tests::wait::wait_until_ok;
use tokio::runtime::Runtime;

/// A console consumer that hears nothing for so long has read everything.
const IDLE: Duration = Duration::from_secs(8);

/// A bounded run over the whole year ends within this.
pub(crate) const BOUNDED_LIMIT: Duration = Duration::from_secs(120);

/// What a job says once it has recovered.
const RUNNING: &str = "running from checkpoint";

/// A cluster with the topics of one query.
pub(crate) struct Stage {
    pub(crate) cluster: KafkaCluster,
    pub(crate) state: tempfile::TempDir,
    pub(crate) query: Query,
    pub(crate) input: String,
    pub(crate) output: String,
}

impl Stage {
    pub(crate) fn new(builder: KafkaClusterBuilder, query: Query) -> Self {
        let cluster = builder.start().expect("a Kafka cluster");
        let (input, output) = ("flights".to_owned(), format!("{}-out", query.name()));
        let partitions = PARTITIONS.unsigned_abs();
        for topic in [&input, &output] {
            cluster.create_topic(topic, partitions, &["retention.ms=-1"]).expect("a topic");
        }
        let state = tempfile::tempdir().expect("a state directory");
        Self { cluster, state, query, input, output }
    }

    pub(crate) fn command(&self) -> FlightsCommand {
        let bootstrap = self.cluster.bootstrap_servers();
        FlightsCommand::new(self.query, &bootstrap, &self.input, &self.output, self.state.path())
    }

    /// What is wrong with the output for `inputs` events of the year.
    pub(crate) fn check(&self, inputs: usize) -> Result<(), String> {
        Expected::of_the_year(self.query).check(&self.read_output(), inputs)
    }

    /// What is wrong with the running totals by carrier (q1) of `lines`, if anything.
    pub(crate) fn check_totals(&self, lines: &[String]) -> Result<(), String> {
        Expected::totals_of(lines).check(&self.read_output(), lines.len())
    }

    /// A client of the cluster, and a runtime to call it on.
    pub(crate) fn client(&self) -> (tokio::runtime::Runtime, KafkaClient) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let config = ClientConfig::new(self.cluster.direct_bootstrap_servers());
        let client = runtime.block_on(KafkaClient::connect(config)).expect("a client");
        (runtime, client)
    }

    /// Records of the output that are committed now.
    pub(crate) fn count_output(&self, runtime: &Runtime, client: &KafkaClient) -> usize {
        let starts = (0..PARTITIONS)
            .map(|partition| (TopicPartition::new(self.output.as_str(), partition), 0))
            .collect();
        let mut count = 0;
        let until = ReadUntil::LastStableOffset;
        let patience = Duration::from_secs(60);
        let read = read_topic(client, &starts, until, patience, |_, _| count += 1);
        runtime.block_on(read).expect("the output");
        count
    }

    /// The transactional id of the job.
    pub(crate) fn transactional_id(&self) -> String {
        format!("flights-{}/0", self.query.name())
    }

    /// The output, read by Kafka's console consumer under read_committed.
    pub(crate) fn read_output(&self) -> Vec<OutputRecord> {
        let records = self.cluster.console_consume(&self.output, ConsumeEnd::Idle(IDLE));
        records
            .expect("the console consumer")
            .into_iter()
            .map(|record| OutputRecord {
                partition: record.partition,
                offset: record.offset,
                key: record.key,
                value: record.value,
            })
            .collect()
    }

    /// No transaction of any job may hold readers back.
    pub(crate) fn assert_nothing_open(&self) {
        let listed = self.cluster.list_transactions().expect("the transactions tool");
        let open: Vec<_> = listed.iter().filter(|transaction| transaction.is_open()).collect();
        assert!(open.is_empty(), "open transactions: {open:?}");
        assert!(!listed.is_empty(), "the job's transactional id is unknown to the cluster");
    }
}

/// Waits until the job runs.
pub(crate) fn wait_until_it_runs(job: &mut FlightsJob) {
    wait_until_ok("the job runs or has ended", Duration::from_secs(60), || {
        let ended = job.has_ended();
        let output = job.output();
        if ended || output.contains(RUNNING) { Ok(()) } else { Err(output) }
    });
    assert!(job.output().contains(RUNNING), "{}", job.output());
}
