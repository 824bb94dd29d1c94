use super::*;
use crate::store::{FjallOptions, FjallStore, StateStore};

/// What fjall has made when it is killed, one step after the other.
const STEPS: usize = 6;

fn cut_short(path: &Path, steps: usize) {
    fs::create_dir_all(path).unwrap();
    for step in 0..steps {
        match step {
            0 => fs::write(path.join("lock"), []).unwrap(),
            1 => fs::create_dir(path.join("keyspaces")).unwrap(),
            2 => fs::write(path.join("0.jnl"), []).unwrap(),
            3 => fs::write(path.join("0.jnl"), vec![0; 1 << 20]).unwrap(),
            4 => fs::write(path.join("version"), []).unwrap(),
            _ => fs::write(path.join("version"), b"FJL").unwrap(),
        }
    }
}

fn open(path: &Path) -> Result<FjallStore, StoreError> {
    FjallStore::open(path, FjallOptions::default())
}

#[test]
fn a_store_whose_making_was_cut_short_is_made_anew() {
    for steps in 0..=STEPS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        cut_short(&path, steps);
        let verified = check(&path, READ_BYTES_MAX).unwrap();
        assert_eq!(verified, VerifiedFiles::default(), "{steps} steps");
        assert_eq!(open(&path).unwrap().floor().unwrap(), None, "{steps} steps");
        // And it is a whole one from then on.
        assert_eq!(open(&path).unwrap().floor().unwrap(), None, "{steps} steps");
    }
}

#[test]
fn what_was_in_use_is_never_taken_for_unfinished() {
    type Spoil = fn(&Path);
    let spoils: [Spoil; 4] = [
        |path| fs::write(path.join("0.jnl"), b"an entry").unwrap(),
        |path| fs::create_dir(path.join("keyspaces/0")).unwrap(),
        |path| fs::write(path.join("version"), b"FJL\x03").unwrap(),
        |path| fs::write(path.join("1.jnl"), []).unwrap(),
    ];
    for (number, spoil) in spoils.iter().enumerate() {
        let folder = tempfile::tempdir().unwrap();
        cut_short(folder.path(), STEPS);
        spoil(folder.path());
        assert!(!is_unfinished(folder.path()).unwrap(), "{number}");
    }
}
