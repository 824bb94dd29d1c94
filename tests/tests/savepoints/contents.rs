//! What a savepoint holds, decoded by hand, and what it should hold by its own positions.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use millstream_engine::checkpoint::{RealDisk, Savepoint, SavepointManifest};

use crate::job::{Event, Sum, partition_of, sums_of};

pub(crate) fn open(path: &Path) -> Savepoint {
    Savepoint::open(Arc::new(RealDisk), path).unwrap()
}

/// The sums in a savepoint.
pub(crate) fn sums(path: &Path) -> BTreeMap<String, Sum> {
    let savepoint = open(path);
    let states = &savepoint.manifest().states;
    let index = states.iter().position(|saved| &*saved.state.operator_uid == "sums").unwrap();
    let entries = savepoint.entries(index).unwrap().map(Result::unwrap);
    entries.map(|(key, value)| (text(&key[2..]), sum(&value))).collect()
}

/// Holds the sums against the events that the savepoint's own positions say were read.
pub(crate) fn assert_consistent(path: &Path, events: &[Event]) -> SavepointManifest {
    let manifest = open(path).manifest().clone();
    let mut read = Vec::new();
    for (uid, position) in manifest.positions.iter().filter(|(uid, _)| &***uid == "events") {
        assert_eq!((&**uid, &*position.topic), ("events", "in"));
        let of_partition = events.iter().filter(|event| partition_of(event) == position.partition);
        read.extend(of_partition.take(usize::try_from(position.offset).unwrap()));
    }
    assert_eq!(sums(path), sums_of(read), "the state is not that of the positions");
    manifest
}

/// A string as postcard writes it.
fn text(mut bytes: &[u8]) -> String {
    let length = varint(&mut bytes);
    assert_eq!(bytes.len() as u64, length);
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn sum(mut bytes: &[u8]) -> Sum {
    let count = varint(&mut bytes);
    let zigzag = varint(&mut bytes);
    assert!(bytes.is_empty());
    Sum { count, total: (zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed() }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (byte, rest) = bytes.split_first().unwrap();
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    value
}
