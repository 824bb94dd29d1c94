//! A job as the coordinator runs it, without Kafka: what it leaves when it dies, and what a start makes of that.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use millstream_checkpoint::{
    CheckpointId, CheckpointRef, Decision, DeltaHeader, DescribedOperator, DescribedState, Facts,
    FjallOptions, FjallStore, FrozenDelta, JobDescription, JobName, JobStatus, LayeredState,
    LedgerFact, LedgerPlace, LedgerRecord, LineageId, Look, Meta, Nonce, OwnerId, OwnershipPhase,
    Positions, RealDisk, SourcePosition, StateDelta, StateDirectory, StateId, StateStore,
    StoreFacts, TopicId, decide, look_before_fence, replay, replay_plan,
};

pub(crate) type Contents = BTreeMap<(StateId, Bytes), Bytes>;

/// The last checkpoint, the last one in META, and the last one whose changes were in the store when the job died.
pub(crate) const LAST: u64 = 9;
pub(crate) const META_AT: u64 = 6;

pub(crate) fn at(job: u8, checkpoint: u64) -> CheckpointRef {
    CheckpointRef::new(CheckpointId(checkpoint), Nonce([job.wrapping_mul(16) | 1; 16]))
}

pub(crate) fn description(job: u8) -> JobDescription {
    let operator = |uid: &str, states: &[&str]| DescribedOperator {
        uid: uid.into(),
        kind: "aggregate".into(),
        states: states
            .iter()
            .map(|name| DescribedState { name: (*name).into(), schema: "u8 -> u8".into() })
            .collect(),
    };
    JobDescription {
        job: JobName::new(&format!("job-{job}")).unwrap(),
        max_parallelism: 16,
        operators: vec![operator("a", &["one"]), operator("b", &["two"])],
    }
}

pub(crate) fn positions(checkpoint: u64) -> Positions {
    let mut positions = Positions::new();
    let position = SourcePosition {
        topic: "in".into(),
        topic_id: TopicId([2; 16]),
        partition: 0,
        offset: i64::try_from(checkpoint).unwrap() * 100,
        leader_epoch: 0,
        max_event_time: None,
        finished: false,
    };
    positions.insert("source", position);
    positions
}

pub(crate) fn meta(job: u8, checkpoint: u64) -> Meta {
    Meta {
        job: description(job).job,
        checkpoint: CheckpointId(checkpoint),
        nonce: at(job, checkpoint).nonce,
        positions: positions(checkpoint),
        watermarks: Vec::new(),
        status: JobStatus::Running,
        ledger_partition: 0,
        ledger_offset: Some(i64::try_from(checkpoint).unwrap()),
        ledger_topic_id: TopicId([3; 16]),
        lineage: LineageId([job; 16]),
        fingerprint: description(job).fingerprint(),
    }
}

/// Changes of one checkpoint: a key that changes always, one that is made and removed, one that stays. State `b` rests in
/// every second checkpoint.
pub(crate) fn changes(job: u8, checkpoint: u64) -> Vec<StateDelta> {
    let key = |name: String| {
        Bytes::from([&[0, u8::try_from(name.len()).unwrap()], name.as_bytes()].concat())
    };
    let n = u8::try_from(checkpoint).unwrap();
    let delta = |state: StateId| {
        let mut entries = vec![
            (key("always".to_owned()), Some(Bytes::from(vec![job, n]))),
            (key(format!("once-{checkpoint}")), Some(Bytes::from(vec![job; usize::from(n)]))),
        ];
        if checkpoint > 1 {
            entries.push((key(format!("once-{}", checkpoint - 1)), None));
        }
        entries.sort();
        StateDelta { state, entries }
    };
    let mut deltas = vec![delta(StateId::new("a", "one"))];
    if checkpoint % 2 == 1 {
        let mut rests = delta(StateId::new("b", "two"));
        rests.entries.retain(|(_, value)| value.is_some());
        deltas.push(rests);
    }
    deltas
}

pub(crate) fn expected(job: u8, last: u64) -> Contents {
    let mut contents = Contents::new();
    for checkpoint in 1..=last {
        for StateDelta { state, entries } in changes(job, checkpoint) {
            for (key, value) in entries {
                match value {
                    Some(value) => drop(contents.insert((state.clone(), key), value)),
                    None => drop(contents.remove(&(state.clone(), key))),
                }
            }
        }
    }
    contents
}

/// Runs a job up to checkpoint `last` as the coordinator does, and lets it die: META and the store are behind.
pub(crate) fn run_job(
    path: &Path,
    job: u8,
    last: u64,
) -> Option<millstream_checkpoint::DeltaDigest> {
    let description = description(job);
    let directory = StateDirectory::open_described(Arc::new(RealDisk), path, &description).unwrap();
    let store: Arc<dyn StateStore> =
        Arc::new(FjallStore::open(&directory.store_path(), options()).unwrap());
    let newest = directory.local().newest();
    if newest > 0 {
        let marks = StoreFacts::of(&*store).unwrap();
        let plan = replay_plan(&directory.local(), &marks, at(job, newest)).unwrap();
        replay(&directory, &*store, &plan).unwrap();
    }
    let layered = LayeredState::new(store).unwrap();
    if directory.local().meta.is_none() {
        directory.write_meta(&Meta { ledger_offset: None, ..meta(job, 0) }).unwrap();
    }
    let first = directory.local().newest() + 1;
    let mut digest = None;
    for checkpoint in first..=last {
        let header = DeltaHeader {
            job: description.job.clone(),
            at: at(job, checkpoint),
            parent: at(job, checkpoint - 1),
            parent_ledger_offset: Some(i64::try_from(checkpoint).unwrap() - 1),
            positions: positions(checkpoint),
            watermarks: Vec::new(),
            status: JobStatus::Running,
            fingerprint: description.fingerprint(),
            producer: Some((1, 1)),
        };
        let delta = Arc::new(FrozenDelta::from_parts(changes(job, checkpoint)).unwrap());
        layered.push_frozen(header.at, Arc::clone(&delta)).unwrap();
        digest = Some(directory.write_delta(&header, &delta).unwrap());
        layered.confirm(header.at).unwrap();
        if checkpoint % 3 == 0 && checkpoint <= META_AT {
            while layered.apply_confirmed(1 << 20).unwrap().is_some() {}
            let floor = layered.persist().unwrap().unwrap();
            directory.write_meta(&meta(job, checkpoint)).unwrap();
            directory.delete_applied(floor.checkpoint).unwrap();
        }
    }
    digest
}

pub(crate) fn options() -> FjallOptions {
    FjallOptions { cache_bytes: 1 << 20, worker_threads: 1 }
}

/// fjall makes its journal 64 MiB long at once; what is behind the last byte written says nothing.
pub(crate) fn trim_journals(store: &Path) {
    for entry in fs::read_dir(store).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "jnl") {
            let bytes = fs::read(&path).unwrap();
            let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            fs::write(&path, &bytes[..used]).unwrap();
        }
    }
}

pub(crate) fn ledger(
    job: u8,
    last: u64,
    digest: Option<millstream_checkpoint::DeltaDigest>,
) -> LedgerFact {
    let record = LedgerRecord {
        parent: Some(at(job, last - 1)),
        delta_digest: digest,
        ..LedgerRecord::zero(&meta(job, last), OwnerId([7; 16]), 0)
    };
    let record = LedgerRecord { checkpoint: CheckpointId(last), ..record };
    LedgerFact { record, offset: i64::try_from(last).unwrap() }
}

/// What a start finds: R0 to R5 as the coordinator goes through them. `Err` is the name of the stop. `mutant`: without R5's
/// replay, which gives a state that looks well and is old.
pub(crate) fn recover(
    path: &Path,
    job: u8,
    ledger: &LedgerFact,
    mutant: bool,
) -> Result<(Positions, Contents), String> {
    let name = |error: &dyn std::fmt::Debug| {
        let text = format!("{error:?}");
        text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
    };
    let description = description(job);
    let directory = StateDirectory::open_described(Arc::new(RealDisk), path, &description)
        .map_err(|error| name(&error))?;
    let local = directory.local();
    let facts = Facts {
        job: &description.job,
        fingerprint: description.fingerprint(),
        local: &local,
        ledger: Some(ledger),
        ledger_place: &LedgerPlace { topic: "ledger".into(), partition: 0 },
        ledger_topic_id: TopicId([3; 16]),
        phase: OwnershipPhase::Starter,
        newer_owner: false,
        failed_takeovers: 0,
    };
    match look_before_fence(&facts) {
        Look::Continue => {}
        Look::Stop(stop) => return Err(name(&stop)),
        Look::Fenced(reason) => return Err(name(&reason)),
    }
    let point = match decide(&facts) {
        Decision::Confirm(point) | Decision::Resume(point) => point,
        Decision::Stop(stop) => return Err(name(&stop)),
        other => return Err(name(&other)),
    };
    for dead in &point.quarantine {
        directory.quarantine(*dead).map_err(|error| name(&error))?;
    }
    let store =
        FjallStore::open(&directory.store_path(), options()).map_err(|error| name(&error))?;
    let marks = StoreFacts::of(&store).map_err(|error| name(&error))?;
    let plan = replay_plan(&directory.local(), &marks, point.at).map_err(|error| name(&error))?;
    if !mutant {
        replay(&directory, &store, &plan).map_err(|error| name(&error))?;
    }
    let store: Arc<dyn StateStore> = Arc::new(store);
    let layered = LayeredState::new(Arc::clone(&store)).map_err(|error| name(&error))?;
    let mut contents = Contents::new();
    for (state, scan) in layered.snapshot().map_err(|error| name(&error))?.scans {
        for entry in scan {
            let (key, value) = entry.map_err(|error| name(&error))?;
            // A point read goes another way than a scan.
            let read = layered.get(&state, &key).map_err(|error| name(&error))?;
            assert_eq!(read.as_ref(), Some(&value), "get and scan disagree about {state}");
            contents.insert((state.clone(), key), value);
        }
    }
    for key in expected(job, LAST).keys() {
        if !contents.contains_key(key) {
            let read = layered.get(&key.0, &key.1).map_err(|error| name(&error))?;
            assert_eq!(read, None, "get and scan disagree about {}", key.0);
        }
    }
    Ok((point.positions, contents))
}

pub(crate) fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.metadata().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
        }
    }
}

/// Every file below a folder, relative to it.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(folder).unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}
