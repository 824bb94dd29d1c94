//! State directories and savepoints as earlier versions wrote them: every later version opens them, or refuses them by name.
//!
//! A version that no longer reads a format expects its refusal here, with both versions named, and adds fixtures of its own.
//! `state-v1` has delta files of version 2 and the states of [`crate::job`]; `state-v2`, with delta files of version 3, is of a
//! real job with every kind of state, and read by `tests/tests/savepoints/fixtures.rs` too, which wrote it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream_checkpoint::{RealDisk, Savepoint, savepoint_of_directory};

use crate::job::{
    Contents, LAST, at, copy_folder, description, expected, files, ledger, positions, recover,
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
        (".delta", b"MSDELTA\n\0"),
        ("SAVEPOINT", b"MSSAVEP\n\0\x01"),
        (".data", b"MSSTATE\n\0\x01"),
        ("version", b"FJL\x03"),
    ];
    let mut looked_at = 0;
    for fixture in ["state-v1", "savepoint-v1", "state-v2", "savepoint-v2"] {
        let mut deltas = 0;
        for file in files(&testdata(fixture)) {
            let name = file.display().to_string();
            if let Some((_, begin)) = magic.iter().find(|(end, _)| name.ends_with(end)) {
                let content = fs::read(testdata(fixture).join(&file)).unwrap();
                assert!(content.starts_with(begin), "{name}: {:?}", &content[..12]);
                if name.ends_with(".delta") {
                    assert_eq!(content[9], if fixture == "state-v1" { 2 } else { 3 }, "{name}");
                    deltas += 1;
                }
                looked_at += 1;
            }
        }
        assert_eq!(deltas > 0, fixture.starts_with("state"), "{fixture}");
    }
    assert!(looked_at >= 20, "{looked_at}");
}

#[test]
fn a_state_directory_of_version_2_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let (state, again) = (folder.path().join("state"), folder.path().join("savepoint"));
    copy_folder(&testdata("state-v2"), &state);
    let kept = Savepoint::open(Arc::new(RealDisk), &testdata("savepoint-v2")).unwrap();
    let manifest = kept.manifest();
    savepoint_of_directory(&state, &again, 0, Some(manifest.at)).unwrap();
    let found = Savepoint::open(Arc::new(RealDisk), &again).unwrap();
    assert_eq!(found.manifest().description, manifest.description);
    assert_eq!(found.manifest().positions, manifest.positions);
    assert_eq!(found.manifest().watermarks, manifest.watermarks);
    let contents = contents_of(&found);
    assert!(contents.len() > 100, "{}", contents.len());
    assert_eq!(contents, contents_of(&kept));
}

fn digest_of(state: &Path) -> millstream_checkpoint::DeltaDigest {
    let inspection = millstream_checkpoint::Inspection::of(&RealDisk, state).unwrap();
    let last = inspection.deltas.into_iter().find(|delta| delta.at == at(1, LAST));
    last.unwrap().content.unwrap().digest
}
