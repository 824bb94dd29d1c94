//! The verdict: what the output topic really holds, read back as any read_committed consumer would, held against a plain loop.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use millstream_engine::kafka::{
    IsolationLevel, KafkaClient, ReadUntil, TopicPartition, control_markers, read_fetches,
    read_topic,
};

use super::flight::Landings;
use super::stage::Stage;
use crate::command::CommandError;

/// No transaction of the job is open when the verdict is taken, so nothing should stand still.
const PATIENCE: Duration = Duration::from_secs(20);

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// Input events that the plain recomputation read.
    pub(crate) records_in: usize,
    /// Output records that a read_committed consumer sees.
    pub(crate) windows_out: usize,
    /// Expected results that are nowhere in the output.
    pub(crate) lost: usize,
    /// Output records that repeat an expected result.
    pub(crate) duplicated: usize,
    /// Output records that no plain recomputation gives.
    pub(crate) wrong: usize,
    /// Transactions that the brokers marked committed.
    pub(crate) committed: usize,
    /// Transactions that the brokers marked aborted.
    pub(crate) aborted: usize,
    /// Transactions of the job that are still open.
    pub(crate) open: usize,
}

impl Verdict {
    /// Reads the output and the ledger of the job and compares with `expected`.
    pub(crate) async fn take(
        stage: &Stage,
        records_in: usize,
        expected: &[Landings],
    ) -> Result<Self, CommandError> {
        let client = &stage.client;
        let mut verdict = Self { records_in, ..Self::default() };
        let outputs = partitions_of(client, &stage.output_topic).await?;
        let mut missing: BTreeMap<&Landings, usize> = BTreeMap::new();
        for row in expected {
            *missing.entry(row).or_default() += 1;
        }
        let mut undecodable = 0;
        let mut found: Vec<Landings> = Vec::new();
        read_topic(client, &outputs, ReadUntil::HighWatermark, PATIENCE, |_, record| match record
            .value
            .map(serde_json::from_slice)
        {
            Some(Ok(row)) => found.push(row),
            _ => undecodable += 1,
        })
        .await?;
        verdict.windows_out = found.len() + undecodable;
        verdict.wrong = undecodable;
        for row in &found {
            match missing.get_mut(row) {
                Some(0) => verdict.duplicated += 1,
                Some(left) => *left -= 1,
                None => verdict.wrong += 1,
            }
        }
        verdict.lost = missing.values().sum();

        // Every transaction has one identity (id and epoch), so distinct identities on the markers count transactions. The
        // ledger is part of every committed one; an aborted one may have touched only the output.
        let mut all = outputs;
        all.extend(partitions_of(client, &stage.ledger_topic).await?);
        let (mut committed, mut aborted) = (BTreeSet::new(), BTreeSet::new());
        let isolation = IsolationLevel::ReadUncommitted;
        read_fetches(
            client,
            &all,
            ReadUntil::HighWatermark,
            isolation,
            PATIENCE,
            |fetched, position| {
                for marker in control_markers(fetched, position)? {
                    let set = if marker.committed { &mut committed } else { &mut aborted };
                    set.insert(marker.producer);
                }
                Ok(())
            },
        )
        .await?;
        (verdict.committed, verdict.aborted) = (committed.len(), aborted.len());
        verdict.open = client.list_open_transactions(&format!("{}/", stage.job)).await?.len();
        Ok(verdict)
    }

    /// True if every expected result is there exactly once and nothing else is.
    pub(crate) fn is_clean(&self) -> bool {
        self.lost == 0 && self.duplicated == 0 && self.wrong == 0 && self.open == 0
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.is_clean() { "exactly once" } else { "NOT exactly once" };
        writeln!(out, "verdict      {verdict}")?;
        writeln!(out, "  records in     {:>9}", self.records_in)?;
        writeln!(out, "  windows out    {:>9}", self.windows_out)?;
        writeln!(out, "  lost           {:>9}", self.lost)?;
        writeln!(out, "  duplicated     {:>9}", self.duplicated)?;
        writeln!(out, "  wrong          {:>9}", self.wrong)?;
        writeln!(
            out,
            "  transactions   {:>9} committed, {} aborted, {} left open",
            self.committed, self.aborted, self.open
        )
    }
}

/// Every partition of `topic`, from its first offset.
async fn partitions_of(
    client: &KafkaClient,
    topic: &str,
) -> Result<BTreeMap<TopicPartition, i64>, CommandError> {
    let description = client
        .describe_topic(topic)
        .await?
        .ok_or_else(|| format!("topic {topic:?} does not exist on the cluster"))?;
    Ok(description
        .partitions
        .iter()
        .map(|found| (TopicPartition::new(topic, found.partition), 0))
        .collect())
}
