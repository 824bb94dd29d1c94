//! `checkpoint verify`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream_engine::checkpoint::{
    DirectoryCopy, FjallOptions, FjallStore, Inspection, KeyRange, RealDisk, StateDirectory,
    StateStore, StoreFacts, replay_plan,
};
use serde::Serialize;

use super::inspect;
use crate::command::CommandError;
use crate::command::state::note_holder;
use crate::exit_code;
use crate::output::{self, OutputFormat, count};

#[derive(Serialize)]
struct Row {
    file: String,
    ok: bool,
    /// What it holds, or what is wrong with it.
    found: String,
}

pub(super) fn run(
    directory: &Path,
    with_store: bool,
    output: OutputFormat,
) -> Result<(), CommandError> {
    let inspection = inspect(directory)?;
    let holder = note_holder(directory)?;
    let mut rows = Vec::new();
    files(&inspection, &mut rows);
    if with_store {
        if let Some(process) = holder {
            let text = format!(
                "the state store can not be opened while process {process} holds {}: stop the job, or leave out --store",
                directory.display()
            );
            return Err(CommandError::says(exit_code::STATE, text));
        }
        rows.extend(store(&inspection));
    } else if holder.is_none() {
        rows.push(store_files(&inspection));
    }
    let failed = rows.iter().filter(|row| !row.ok).count();
    match output {
        OutputFormat::Json => output::print_json(rows)?,
        OutputFormat::Text => {
            let line = |row: &Row| {
                format!("{:<6}{}: {}\n", if row.ok { "ok" } else { "FAIL" }, row.file, row.found)
            };
            let text: String = rows.iter().map(line).collect();
            output::print(text.as_bytes())?;
        }
    }
    match failed {
        0 => Ok(()),
        n => {
            let text = format!(
                "{} of {} can not be used: restore the directory, or what is named above, from a copy",
                count(n, "file"),
                directory.display()
            );
            Err(CommandError::says(exit_code::STATE, text))
        }
    }
}

fn files(inspection: &Inspection, rows: &mut Vec<Row>) {
    let path = |name: &str| inspection.path.join(name).display().to_string();
    let fingerprint = inspection.meta.as_ref().ok().and_then(Option::as_ref).map(|m| m.fingerprint);
    match &inspection.meta {
        Ok(None) => rows.push(Row { file: path("META"), ok: false, found: "missing".to_owned() }),
        Ok(Some(meta)) => rows.push(Row {
            file: path("META"),
            ok: true,
            found: format!("job {}, checkpoint {}", meta.job, meta.at()),
        }),
        Err(error) => rows.push(Row { file: path("META"), ok: false, found: error.to_string() }),
    }
    match &inspection.description {
        Ok(None) => {}
        Ok(Some(description)) => {
            let ok = fingerprint.is_none_or(|of_meta| of_meta == description.fingerprint());
            let operators = description.operators.len();
            let found = match ok {
                true => count(operators, "operator"),
                false => "it describes another job than META is of".to_owned(),
            };
            rows.push(Row { file: path("JOB"), ok, found });
        }
        Err(error) => rows.push(Row { file: path("JOB"), ok: false, found: error.to_string() }),
    }
    match &inspection.restored {
        Ok(None) => {}
        Ok(Some(restored)) => {
            rows.push(Row { file: path("RESTORED"), ok: true, found: restored.to_string() });
        }
        Err(error) => {
            rows.push(Row { file: path("RESTORED"), ok: false, found: error.to_string() });
        }
    }
    for delta in &inspection.deltas {
        let (ok, found) = match &delta.content {
            Ok(summary) => {
                (true, format!("{}, digest {}", count(summary.file_bytes, "byte"), summary.digest))
            }
            Err(error) => (false, error.to_string()),
        };
        rows.push(Row { file: delta.path.display().to_string(), ok, found });
    }
    let aside = |path: &PathBuf, found: &str| Row {
        file: path.display().to_string(),
        ok: true,
        found: found.to_owned(),
    };
    rows.extend(inspection.quarantined.iter().map(|q| aside(&q.path, "put aside, not read")));
    rows.extend(inspection.temporary.iter().map(|path| aside(path, "not finished, not read")));
}

/// Reads the store's files without opening it.
fn store_files(inspection: &Inspection) -> Row {
    let place = inspection.path.join("store");
    let (ok, found) = match FjallStore::verify_files(&place) {
        Ok(found) => {
            (true, format!("{}, {}", count(found.tables, "table"), count(found.bytes, "byte")))
        }
        Err(error) => (false, error.to_string()),
    };
    Row { file: place.display().to_string(), ok, found }
}

/// Opens a copy of the store as a start of the job does the store itself, and reads every entry, so that the checksum of every block is looked at.
fn store(inspection: &Inspection) -> Vec<Row> {
    let place = inspection.path.join("store").display().to_string();
    let failed = |error: &CommandError| millstream_engine::error_chain(&*error.cause);
    let found = match DirectoryCopy::of(&inspection.path) {
        Err(error) => Err(failed(&error.into())),
        // What is wrong with the copy is wrong with the directory.
        Ok(copy) => read_store(inspection, &copy).map_err(|error| {
            let (copied, own) = (copy.path().display(), inspection.path.display());
            failed(&error).replace(&copied.to_string(), &own.to_string())
        }),
    };
    found.unwrap_or_else(|found| vec![Row { file: place, ok: false, found }])
}

fn read_store(inspection: &Inspection, copy: &DirectoryCopy) -> Result<Vec<Row>, CommandError> {
    let Ok(Some(meta)) = &inspection.meta else {
        return Err(CommandError::says(
            exit_code::STATE,
            "without META it is not known whose it is",
        ));
    };
    let directory =
        StateDirectory::open(Arc::new(RealDisk), copy.path(), &meta.job, meta.fingerprint)?;
    let store = FjallStore::open(&directory.store_path(), FjallOptions::default())?;
    let local = directory.local();
    let target = local.confirmed().unwrap_or(meta.at());
    let plan = replay_plan(&local, &StoreFacts::of(&store)?, target)?;
    let place = inspection.path.join("store").display().to_string();
    let floor = store.floor()?.map_or_else(|| "nothing".to_owned(), |floor| floor.to_string());
    let mut rows = vec![Row {
        file: place.clone(),
        ok: true,
        found: match plan.deltas.len() {
            1 => format!("holds {floor}, 1 delta file leads to {target}"),
            more => format!("holds {floor}, {more} delta files lead to {target}"),
        },
    }];
    for state in store.states()? {
        let mut entries = 0_u64;
        for entry in store.scan(&state, &KeyRange::all())? {
            entry?;
            entries += 1;
        }
        let file = format!("{place} state {state}");
        rows.push(Row { file, ok: true, found: count(entries, "entry") });
    }
    Ok(rows)
}
