//! What to do about an error of the operating system: one text for each kind, said by every error that carries one.

use std::error::Error;
use std::io::{self, ErrorKind};

// Linux gives these no kind of their own.
const EIO: i32 = 5;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;

/// The next step for a system's error, beginning with "; ", to stand behind its text.
pub(crate) fn next_step(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(EIO) => {
            return "; the device or its driver failed: look at the system's log (dmesg), and restore from a copy if it is broken";
        }
        Some(EMFILE | ENFILE) => {
            return "; too many files are open: raise the limit (ulimit -n, LimitNOFILE)";
        }
        _ => {}
    }
    match error.kind() {
        ErrorKind::PermissionDenied => {
            "; the user that this process runs as has no right to it: run it as the owner of the files, or give it the right (chown, chmod)"
        }
        ErrorKind::ReadOnlyFilesystem => {
            "; the file system is mounted read-only: mount it writable, or give a folder on another one"
        }
        ErrorKind::NotADirectory => {
            "; a part of this path is a file where a folder has to be: give another path, or move that file away"
        }
        ErrorKind::IsADirectory => {
            "; a folder stands where a file has to be: move it away, or give another path"
        }
        ErrorKind::NotFound => {
            "; it was removed meanwhile, or this file system takes no new files there: give a path on another one"
        }
        ErrorKind::InvalidFilename => {
            "; a name or the whole path is too long for the file system (a name usually has at most 255 bytes): give a shorter one"
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "; free some space, or have the quota raised"
        }
        ErrorKind::FileTooLarge => {
            "; the file system or a limit (ulimit -f) takes no file of that size: give a folder on another one"
        }
        ErrorKind::CrossesDevices => {
            "; a folder of this path is another file system: give a path that stays on one"
        }
        ErrorKind::DirectoryNotEmpty => {
            "; other files are in the folder: move them away, or give another path"
        }
        ErrorKind::StaleNetworkFileHandle => {
            "; the network file system has lost it: mount it again"
        }
        ErrorKind::AlreadyExists => {
            "; something of that name is there: move it away, or give another path"
        }
        ErrorKind::ResourceBusy | ErrorKind::ExecutableFileBusy => {
            "; something else uses it: end that, then try again"
        }
        ErrorKind::OutOfMemory => "; memory ran out: give the process more",
        ErrorKind::Unsupported => {
            "; this file system can not do that: give a folder on a local one"
        }
        ErrorKind::UnexpectedEof => {
            "; the file was cut short meanwhile: see what else writes to it, or restore it from a copy"
        }
        _ => "; look at the system's log (dmesg, journalctl) for the reason, then try again",
    }
}

/// The same for an error that has one of the system's among its causes; else nothing.
pub(crate) fn next_step_of(error: &(dyn Error + 'static)) -> &'static str {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return next_step(error);
        }
        next = error.source();
    }
    ""
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use super::*;
    use crate::disk::RealDisk;
    use crate::ids::{Fingerprint, JobName};
    use crate::{ControlServer, Inspection, Savepoint, StateDirectory, StateError};

    #[test]
    fn what_the_system_refuses_comes_with_a_next_step_whoever_was_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "no folder").unwrap();
        let open = |path: &std::path::Path| {
            let job = JobName::new("orders").unwrap();
            StateDirectory::open(Arc::new(RealDisk), path, &job, Fingerprint([1; 16]))
        };
        let below = open(&file.join("state")).unwrap_err().to_string();
        assert!(below.contains("file where a folder has to be"), "{below}");
        let long = open(&folder.path().join("x".repeat(300))).unwrap_err().to_string();
        assert!(long.contains("give a shorter one"), "{long}");
        let state = folder.path().join("state");
        fs::create_dir_all(state.join("META")).unwrap();
        let looked = Inspection::of(&RealDisk, &state).unwrap().meta.unwrap_err().to_string();
        assert!(looked.contains("a folder stands where a file has to be"), "{looked}");
        let long = Savepoint::open(Arc::new(RealDisk), &folder.path().join("x".repeat(300)));
        let long = long.err().unwrap().to_string();
        assert!(long.contains("give a shorter one"), "{long}");
        let served = ControlServer::open(&file).unwrap_err().to_string();
        assert!(served.contains("file where a folder has to be"), "{served}");
    }

    #[test]
    fn every_kind_has_a_next_step_of_its_own() {
        let of = |code| {
            let source = io::Error::from_raw_os_error(code);
            StateError::Io { operation: "locking", path: "d/LOCK".into(), source }.to_string()
        };
        // As Linux numbers them.
        for (code, step) in [
            (13, "chown"),
            (1, "chown"),
            (30, "mount it writable"),
            (20, "has to be"),
            (21, "has to be"),
            (2, "another one"),
            (36, "shorter"),
            (5, "dmesg"),
            (24, "ulimit -n"),
            (27, "ulimit -f"),
            (116, "mount it again"),
            (99, "journalctl"),
        ] {
            let text = of(code);
            assert!(text.starts_with("locking failed for d/LOCK: "), "{text}");
            assert!(text.contains(step), "{code}: {text}");
        }
        let inside = crate::StateFileError::Io(io::Error::from_raw_os_error(13)).to_string();
        assert!(inside.contains("chown"), "{inside}");
        let source = Box::new(io::Error::from_raw_os_error(30));
        let place = "d/store".to_owned();
        let store = crate::StoreError::Backend { place, operation: "opening", source }.to_string();
        assert!(store.contains("mount it writable"), "{store}");
    }
}
