//! `millstream ledger`: what Kafka says of a job beside what its state directory says.

use std::path::Path;

use millstream_engine::checkpoint::{
    Decision, Fingerprint, Inspection, JobName, JobStatus, LocalState, Look, StopReason,
};
use millstream_engine::{LedgerView, preview_recovery, view_ledger};
use millstream_protocol_client::KafkaClient;
use serde::Serialize;

use super::CommandError;
use super::state::{
    SplitRow, holder_of, inspect_folder, note_running, split_rows, splits_text, topic_id_text,
};
use crate::args::state::{LedgerArguments, LedgerCommand, LedgerShowArguments};
use crate::output::{self, Column, OutputFormat, Table, note, time_text};

#[derive(Serialize)]
struct Shown {
    job: String,
    ledger: Option<LedgerSide>,
    directory: Option<DirectorySide>,
    /// What a start on that directory would do.
    decision: Option<DecisionSide>,
}

#[derive(Serialize)]
struct LedgerSide {
    topic: String,
    partition: i32,
    topic_id: Option<String>,
    cleanup_policy: Option<String>,
    records: usize,
    last_stable_offset: i64,
    high_watermark: i64,
    /// Null if nothing was committed.
    last: Option<RecordSide>,
}

#[derive(Serialize)]
struct RecordSide {
    checkpoint: u64,
    nonce: String,
    parent_nonce: Option<String>,
    offset: i64,
    owner: String,
    /// Milliseconds since 1970, by the writer's clock.
    written: i64,
    status: &'static str,
    fingerprint: String,
    delta_digest: Option<String>,
    positions: Vec<SplitRow>,
}

#[derive(Serialize)]
struct DirectorySide {
    path: String,
    /// Process that holds it; null if no job runs there.
    held_by: Option<String>,
    /// The last checkpoint that it knows to be committed.
    checkpoint: Option<u64>,
    nonce: Option<String>,
    /// Checkpoints behind it, of which only the ledger knows.
    undecided: Vec<u64>,
    ledger_offset: Option<i64>,
    ledger_topic_id: Option<String>,
    fingerprint: Option<String>,
    lineage: Option<String>,
    restored_from: Option<String>,
    /// What can not be read there.
    error: Option<String>,
}

#[derive(Serialize)]
struct DecisionSide {
    /// `in-use` while a job holds the directory, `wait` while a transaction is open that may hold what the ledger lacks, else
    /// `first-start`, `commit-first-record`, `confirm`, `resume`, `fenced` or `stop`.
    kind: &'static str,
    text: String,
}

pub(crate) fn run(arguments: LedgerArguments) -> Result<(), CommandError> {
    let LedgerArguments { cluster, command } = arguments;
    let LedgerCommand::Show(show) = command;
    let output = cluster.output;
    // Before the cluster is asked: a wrong folder ends it here.
    let directory = show.state_dir.as_deref().map(look_at).transpose()?;
    cluster.with_client(|client| async move {
        let seen = see(&client, &show.job, directory).await?;
        print(&show, &seen, output)
    })
}

/// Tries to see ledger and directory at one moment. A job of 100 ms a checkpoint leaves time enough for one of a few.
const TRIES_MAX: usize = 20;

/// A directory, and the process that holds it.
type Looked = (Inspection, Option<String>);

struct Seen {
    ledger: Option<LedgerView>,
    directory: Option<Looked>,
    /// The directory was the same before and after the ledger was read. It is otherwise if a job goes on there.
    one_moment: bool,
}

fn look_at(path: &Path) -> Result<Looked, CommandError> {
    let inspection = inspect_folder(path)?;
    Ok((inspection, holder_of(path)?))
}

/// Reads the ledger between two looks at the directory, until these are the same: then ledger and directory fit together.
async fn see(
    client: &KafkaClient,
    job: &JobName,
    first: Option<Looked>,
) -> Result<Seen, CommandError> {
    let Some(mut before) = first else {
        let ledger = view_ledger(client, job).await?;
        return Ok(Seen { ledger, directory: None, one_moment: true });
    };
    let mut tries = 0;
    loop {
        let ledger = view_ledger(client, job).await?;
        let after = look_at(&before.0.path)?;
        let one_moment = before.1 == after.1 && before.0.local_state() == after.0.local_state();
        tries += 1;
        if one_moment || tries == TRIES_MAX {
            return Ok(Seen { ledger, directory: Some(after), one_moment });
        }
        before = after;
    }
}

fn print(
    show: &LedgerShowArguments,
    seen: &Seen,
    output: OutputFormat,
) -> Result<(), CommandError> {
    let (ledger, directory) = (seen.ledger.as_ref(), seen.directory.as_ref());
    if let Some((inspection, Some(process))) = directory {
        note_running(&inspection.path, process);
    }
    if !seen.one_moment {
        note(
            "it goes on too fast to be seen at one moment: the directory is shown as it was after the ledger was read",
        );
    }
    if let Some(view) = ledger.filter(|view| view.high_watermark > view.last_stable_offset) {
        note(&format!(
            "a transaction is open from offset {} on: what it wrote is not shown",
            view.last_stable_offset
        ));
    }
    let decision = directory.and_then(|(inspection, holder)| {
        if let Some(process) = holder {
            return Some(in_use(process));
        }
        // What a start would do is said of one moment only: of two it may be the wrong advice.
        let local = inspection.local_state().filter(|_| seen.one_moment)?;
        let fingerprint = fingerprint(inspection, ledger);
        Some(decision(&show.job, fingerprint, &local, ledger))
    });
    let shown = Shown {
        job: show.job.to_string(),
        ledger: ledger.map(ledger_side),
        directory: directory.map(|(inspection, holder)| directory_side(inspection, holder)),
        decision,
    };
    match output {
        OutputFormat::Json => Ok(output::print_json([shown])?),
        OutputFormat::Text => Ok(output::print(text(&shown).as_bytes())?),
    }
}

/// Of the program that wrote the directory: the one that would start is not known here.
fn fingerprint(inspection: &Inspection, ledger: Option<&LedgerView>) -> Fingerprint {
    let of_meta = inspection.meta.as_ref().ok().and_then(Option::as_ref).map(|m| m.fingerprint);
    let described = inspection.description.as_ref().ok().and_then(Option::as_ref);
    let of_ledger = ledger.and_then(|view| view.last.as_ref()).map(|last| last.record.fingerprint);
    of_meta.or(described.map(|d| d.fingerprint())).or(of_ledger).unwrap_or_default()
}

fn in_use(process: &str) -> DecisionSide {
    let text = format!(
        "a job is running here (process {process}); a start would be refused while it runs"
    );
    DecisionSide { kind: "in-use", text }
}

fn decision(
    job: &JobName,
    fingerprint: Fingerprint,
    local: &LocalState,
    ledger: Option<&LedgerView>,
) -> DecisionSide {
    let open = ledger.is_some_and(|view| view.high_watermark > view.last_stable_offset);
    let (kind, text) = match preview_recovery(job, fingerprint, local, ledger) {
        // What seems to be lost may be in the transaction that a killed process left open, or that lacks its markers.
        Ok(Decision::Stop(StopReason::LedgerBehind { .. } | StopReason::LedgerLost { .. }))
            if open =>
        {
            (
                "wait",
                "end the open transaction first, and then decide; look again once it has ended"
                    .to_owned(),
            )
        }
        Ok(Decision::FirstStart) => {
            ("first-start", "begin at the sources' starting offsets".to_owned())
        }
        Ok(Decision::CommitRecordZero(point)) => (
            "commit-first-record",
            format!("commit the first record, of checkpoint {}, and go on from it", point.at),
        ),
        Ok(Decision::Confirm(point)) => (
            "confirm",
            format!(
                "go on from checkpoint {}, which the ledger holds and the directory has a delta file of",
                point.at
            ),
        ),
        Ok(Decision::Resume(point)) => ("resume", format!("go on from checkpoint {}", point.at)),
        Ok(Decision::Fenced(reason)) | Err(Look::Fenced(reason)) => ("fenced", reason.to_string()),
        Ok(Decision::Stop(reason)) | Err(Look::Stop(reason)) => ("stop", reason.to_string()),
        Err(Look::Continue) => ("resume", String::new()),
    };
    DecisionSide { kind, text }
}

fn ledger_side(view: &LedgerView) -> LedgerSide {
    LedgerSide {
        topic: view.place.topic.to_string(),
        partition: view.place.partition,
        topic_id: topic_id_text(view.topic_id),
        cleanup_policy: view.cleanup_policy.clone(),
        records: view.records,
        last_stable_offset: view.last_stable_offset,
        high_watermark: view.high_watermark,
        last: view.last.as_ref().map(|last| {
            let record = &last.record;
            RecordSide {
                checkpoint: record.checkpoint.0,
                nonce: record.nonce.to_string(),
                parent_nonce: record.parent.map(|parent| parent.nonce.to_string()),
                offset: last.offset,
                owner: record.owner.to_string(),
                written: record.wall_time_ms,
                status: match record.status {
                    JobStatus::Running => "running",
                    JobStatus::Finished => "finished",
                },
                fingerprint: record.fingerprint.to_string(),
                delta_digest: record.delta_digest.map(|digest| digest.to_string()),
                positions: split_rows(&record.positions),
            }
        }),
    }
}

fn directory_side(inspection: &Inspection, holder: &Option<String>) -> DirectorySide {
    let local = inspection.local_state();
    let confirmed = local.as_ref().and_then(LocalState::confirmed);
    let meta = inspection.meta.as_ref().ok().and_then(Option::as_ref);
    let after = |local: &LocalState| {
        let after = confirmed.map(|at| local.after(at.checkpoint)).unwrap_or_default();
        after.iter().map(|at| at.checkpoint.0).collect()
    };
    let restored = inspection.restored.as_ref().ok().and_then(Option::as_ref);
    let damaged = inspection.meta.as_ref().err().or(inspection.restored.as_ref().err());
    DirectorySide {
        path: inspection.path.display().to_string(),
        held_by: holder.clone(),
        checkpoint: confirmed.map(|at| at.checkpoint.0),
        nonce: confirmed.map(|at| at.nonce.to_string()),
        undecided: local.as_ref().map(after).unwrap_or_default(),
        ledger_offset: meta.and_then(|meta| meta.ledger_offset),
        ledger_topic_id: meta.and_then(|meta| topic_id_text(meta.ledger_topic_id)),
        fingerprint: meta.map(|meta| meta.fingerprint.to_string()),
        lineage: meta.map(|meta| meta.lineage.to_string()),
        restored_from: restored.map(ToString::to_string),
        error: damaged.map(ToString::to_string),
    }
}

fn text(shown: &Shown) -> String {
    let mut table =
        Table::new(&[Column::Left(""), Column::Left("LEDGER"), Column::Left("DIRECTORY")]);
    let (ledger, directory) = (shown.ledger.as_ref(), shown.directory.as_ref());
    let last = ledger.and_then(|ledger| ledger.last.as_ref());
    let mut row = |name: &str, left: Option<String>, right: Option<String>| {
        let cell = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        table.row([name.to_owned(), cell(left), cell(right)]);
    };
    row(
        "place",
        ledger.map(|ledger| format!("{}-{}", ledger.topic, ledger.partition)),
        directory.map(|directory| directory.path.clone()),
    );
    row(
        "checkpoint",
        last.map(|last| last.checkpoint.to_string()),
        directory.and_then(|d| d.checkpoint).map(|n| n.to_string()),
    );
    row(
        "nonce",
        last.map(|last| last.nonce.clone()),
        directory.and_then(|directory| directory.nonce.clone()),
    );
    row(
        "offset",
        last.map(|last| last.offset.to_string()),
        directory.and_then(|d| d.ledger_offset).map(|offset| offset.to_string()),
    );
    row(
        "topic id",
        ledger.and_then(|ledger| ledger.topic_id.clone()),
        directory.and_then(|directory| directory.ledger_topic_id.clone()),
    );
    row(
        "fingerprint",
        last.map(|last| last.fingerprint.clone()),
        directory.and_then(|directory| directory.fingerprint.clone()),
    );
    row("owner", last.map(|last| last.owner.clone()), None);
    row("written", last.map(|last| time_text(last.written)), None);
    row("status", last.map(|last| last.status.to_owned()), None);
    row("policy", ledger.and_then(|ledger| ledger.cleanup_policy.clone()), None);
    row("lineage", None, directory.and_then(|directory| directory.lineage.clone()));
    let undecided = directory.filter(|directory| !directory.undecided.is_empty());
    row("undecided", None, undecided.map(|d| format!("{:?}", d.undecided)));
    row("began from", None, directory.and_then(|directory| directory.restored_from.clone()));
    row(
        "held by",
        None,
        directory.and_then(|d| d.held_by.clone()).map(|id| format!("process {id}")),
    );
    let mut text = format!("job {}\n\n{}", shown.job, table.text());
    if ledger.is_none() {
        text.push_str("\nthe cluster holds no ledger of this job: it never ran there, or the topic was deleted\n");
    }
    if let Some(last) = last {
        text.push_str(&splits_text(&last.positions));
    }
    if let Some(error) = directory.and_then(|directory| directory.error.as_ref()) {
        text.push_str(&format!("\na start would stop: {error}\n"));
    }
    if let Some(decision) = &shown.decision {
        let text_of = &decision.text;
        text.push_str(&match decision.kind {
            "in-use" => format!("\n{text_of}\n"),
            "stop" | "fenced" => format!("\na start on this directory would stop: {text_of}\n"),
            _ => format!("\na start on this directory would {text_of}\n"),
        });
    }
    text
}
