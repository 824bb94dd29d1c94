//! A state directory and a savepoint as earlier versions wrote them: every later version opens them, or refuses them by name.
//!
//! A version that no longer reads a format expects its refusal here, with both versions named, and adds fixtures of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream_checkpoint::{RealDisk, Savepoint, savepoint_of_directory};

use crate::job::{
    Contents, LAST, at, copy_folder, description, expected, files, ledger, positions, recover,
    run_job, trim_journals,
};

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata").join(name)
}

fn contents_of(savepoint: &Savepoint) -> Contents {
    let mut contents = Contents::new();
    for (index, saved) in savepoint.manifest().states.iter().enumerate() {
        for entry in savepoint.entries(index).unwrap() {
            let (key, value) = entry.unwrap();
            contents.insert((saved.state.clone(), key), value);
        }
    }
    contents
}

#[test]
fn a_state_directory_of_version_1_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    copy_folder(&testdata("state-v1"), &state);
    let digest = digest_of(&state);
    let found = recover(&state, 1, &ledger(1, LAST, Some(digest)), false);
    assert_eq!(found, Ok((positions(LAST), expected(1, LAST))));
}

#[test]
fn a_savepoint_of_version_1_is_opened() {
    let savepoint = Savepoint::open(Arc::new(RealDisk), &testdata("savepoint-v1")).unwrap();
    let manifest = savepoint.manifest();
    assert_eq!((manifest.at, &manifest.positions), (at(1, LAST), &positions(LAST)));
    assert_eq!(manifest.description, description(1));
    assert_eq!(contents_of(&savepoint), expected(1, LAST));
}

#[test]
fn every_file_begins_with_its_magic_and_a_version() {
    let magic: [(&str, &[u8]); 6] = [
        ("META", b"MSMETA\r\n\0\x02"),
        ("JOB", b"MSJOB\r\n\0\0\x01"),
        (".delta", b"MSDELTA\n\0\x02"),
        ("SAVEPOINT", b"MSSAVEP\n\0\x01"),
        (".data", b"MSSTATE\n\0\x01"),
        ("version", b"FJL\x03"),
    ];
    let mut looked_at = 0;
    for fixture in ["state-v1", "savepoint-v1"] {
        for file in files(&testdata(fixture)) {
            let name = file.display().to_string();
            if let Some((_, begin)) = magic.iter().find(|(end, _)| name.ends_with(end)) {
                let content = fs::read(testdata(fixture).join(&file)).unwrap();
                assert!(content.starts_with(begin), "{name}: {:?}", &content[..12]);
                looked_at += 1;
            }
        }
    }
    assert!(looked_at >= 9, "{looked_at}");
}

fn digest_of(state: &Path) -> millstream_checkpoint::DeltaDigest {
    let inspection = millstream_checkpoint::Inspection::of(&RealDisk, state).unwrap();
    let last = inspection.deltas.into_iter().find(|delta| delta.at == at(1, LAST));
    last.unwrap().content.unwrap().digest
}

/// Writes the fixtures of this version; run it once for each new format version, and keep what it wrote.
#[test]
#[ignore = "it writes testdata/"]
fn write_the_fixtures() {
    let folder = tempfile::tempdir().unwrap();
    let (state, copy) = (folder.path().join("state"), folder.path().join("copy"));
    run_job(&state, 1, 5);
    run_job(&state, 1, LAST);
    trim_journals(&state.join("store"));
    fs::remove_file(state.join("LOCK")).unwrap();
    copy_folder(&state, &testdata("state-v1"));
    copy_folder(&state, &copy);
    savepoint_of_directory(&copy, &testdata("savepoint-v1"), 0, Some(at(1, LAST))).unwrap();
}
