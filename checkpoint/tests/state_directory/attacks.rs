//! Attacks on a state directory: every byte changed, files removed, cut, exchanged, older ones and another job's put in. What
//! a start makes of it is the right state or a stop with a name, never a wrong state.

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use millstream_checkpoint::{LedgerFact, Positions};

use crate::job::{LAST, copy_folder, expected, files, ledger, recover, run_job, trim_journals};

/// A state directory that can be spoilt again and again.
struct Victim {
    pristine: PathBuf,
    working: PathBuf,
    ledger: LedgerFact,
    mutant: bool,
    /// Named stops, and right states, by their count.
    outcomes: BTreeMap<String, usize>,
    wrong: Vec<String>,
}

impl Victim {
    fn new(pristine: &Path, working: &Path, ledger: LedgerFact) -> Self {
        let (pristine, working) = (pristine.to_owned(), working.to_owned());
        copy_folder(&pristine, &working);
        let (outcomes, wrong) = (BTreeMap::new(), Vec::new());
        Self { pristine, working, ledger, mutant: false, outcomes, wrong }
    }

    /// Starts a job on what was made of the directory, and makes it as it was.
    fn start(&mut self, what: &str) {
        let recovered =
            catch_unwind(AssertUnwindSafe(|| recover(&self.working, 1, &self.ledger, self.mutant)));
        let outcome = match recovered {
            Ok(Ok((positions, contents))) => {
                if (positions, contents) == (positions_of(&self.ledger), expected(1, LAST)) {
                    "right state".to_owned()
                } else {
                    self.wrong.push(what.to_owned());
                    "WRONG STATE".to_owned()
                }
            }
            Ok(Err(stop)) => format!("stop: {stop}"),
            Err(_) => {
                self.wrong.push(format!("panic: {what}"));
                "PANIC".to_owned()
            }
        };
        *self.outcomes.entry(outcome).or_default() += 1;
        fs::remove_dir_all(&self.working).unwrap();
        copy_folder(&self.pristine, &self.working);
    }

    fn total(&self) -> usize {
        self.outcomes.values().sum()
    }
}

fn positions_of(ledger: &LedgerFact) -> Positions {
    ledger.record.positions.clone()
}

/// A job that died at checkpoint 9 of which the ledger knows, an older copy of its directory, and another job's.
struct Stage {
    _folder: tempfile::TempDir,
    root: PathBuf,
    ledger: LedgerFact,
}

impl Stage {
    fn new() -> Self {
        // In memory where that is possible: thousands of stores are opened.
        let memory = Path::new("/dev/shm");
        let folder = match memory.is_dir() {
            true => tempfile::tempdir_in(memory),
            false => tempfile::tempdir(),
        };
        let folder = folder.unwrap();
        let root = folder.path().to_owned();
        run_job(&root.join("own"), 1, 5);
        copy_folder(&root.join("own"), &root.join("older"));
        let digest = run_job(&root.join("own"), 1, LAST);
        run_job(&root.join("other"), 2, LAST);
        for name in ["own", "older", "other"] {
            trim_journals(&root.join(name).join("store"));
        }
        Self { _folder: folder, root, ledger: ledger(1, LAST, digest) }
    }

    fn victim(&self, name: &str) -> Victim {
        Victim::new(&self.root.join("own"), &self.root.join(name), self.ledger.clone())
    }
}

#[test]
fn an_untouched_directory_gives_the_right_state() {
    let stage = Stage::new();
    let mut victim = stage.victim("work");
    victim.start("untouched");
    assert_eq!(victim.outcomes, BTreeMap::from([("right state".to_owned(), 1)]));
}

#[test]
fn every_byte_flipped_gives_the_right_state_or_a_named_stop() {
    let stage = Stage::new();
    let all = files(&stage.root.join("own"));
    let lanes = std::thread::available_parallelism().map_or(2, usize::from).min(4);
    let mut victims: Vec<Victim> = Vec::new();
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        for lane in 0..lanes {
            let (stage, all) = (&stage, &all);
            running.push(scope.spawn(move || {
                let mut victim = stage.victim(&format!("work-{lane}"));
                let mut number = 0_usize;
                for file in
                    all.iter().filter(|file| !file.ends_with("LOCK") && !file.ends_with("lock"))
                {
                    let whole = fs::read(stage.root.join("own").join(file)).unwrap();
                    for byte in 0..whole.len() {
                        number += 1;
                        if number % lanes != lane {
                            continue;
                        }
                        let mut spoilt = whole.clone();
                        // Another bit in each byte, so that all of them have their turn.
                        spoilt[byte] ^= 1 << (byte % 8);
                        fs::write(victim.working.join(file), &spoilt).unwrap();
                        victim.start(&format!("{} byte {byte}", file.display()));
                    }
                }
                victim
            }));
        }
        victims.extend(running.into_iter().map(|lane| lane.join().unwrap()));
    });
    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    let mut wrong = Vec::new();
    for victim in victims {
        for (outcome, count) in victim.outcomes {
            *outcomes.entry(outcome).or_default() += count;
        }
        wrong.extend(victim.wrong);
    }
    let total: usize = outcomes.values().sum();
    println!("{total} flipped bytes in {} files: {outcomes:#?}", all.len());
    assert!(wrong.is_empty(), "{} wrong: {:?}", wrong.len(), &wrong[..wrong.len().min(40)]);
    assert!(total > 3000, "{total}");
}

#[test]
fn files_removed_cut_exchanged_and_put_back_give_the_right_state_or_a_named_stop() {
    let stage = Stage::new();
    let own = stage.root.join("own");
    let all = files(&own);
    let mut victim = stage.victim("work");
    for file in &all {
        let path = victim.working.join(file);
        let shown = file.display().to_string();
        fs::remove_file(&path).unwrap();
        victim.start(&format!("{shown} removed"));
        let whole = fs::read(own.join(file)).unwrap();
        for length in [0, 1, whole.len() / 2, whole.len().saturating_sub(1)] {
            fs::write(&path, &whole[..length.min(whole.len())]).unwrap();
            victim.start(&format!("{shown} cut to {length}"));
        }
        fs::write(&path, [&whole[..], &[0; 7]].concat()).unwrap();
        victim.start(&format!("{shown} with bytes behind its end"));
        for from in ["older", "other"] {
            let theirs = stage.root.join(from).join(file);
            if theirs.is_file() {
                fs::copy(theirs, &path).unwrap();
                victim.start(&format!("{shown} of {from}"));
            }
        }
        for other in all.iter().filter(|other| other > &file && other.parent() == file.parent()) {
            let second = victim.working.join(other);
            fs::copy(own.join(other), &path).unwrap();
            fs::copy(own.join(file), &second).unwrap();
            victim.start(&format!("{shown} and {} exchanged", other.display()));
        }
    }
    // Whole folders: the store, the deltas, each keyspace.
    let mut folders: Vec<PathBuf> = vec!["store".into(), "deltas".into(), "store/keyspaces".into()];
    for entry in fs::read_dir(own.join("store/keyspaces")).unwrap() {
        let name = entry.unwrap().file_name();
        folders.push(Path::new("store/keyspaces").join(&name));
        folders.push(Path::new("store/keyspaces").join(&name).join("tables"));
    }
    for folder in &folders {
        let path = victim.working.join(folder);
        fs::remove_dir_all(&path).unwrap();
        victim.start(&format!("folder {} removed", folder.display()));
        for from in ["older", "other"] {
            let theirs = stage.root.join(from).join(folder);
            if theirs.is_dir() {
                let path = victim.working.join(folder);
                fs::remove_dir_all(&path).unwrap();
                copy_folder(&theirs, &path);
                victim.start(&format!("folder {} of {from}", folder.display()));
            }
        }
    }
    for from in ["older", "other"] {
        fs::remove_dir_all(&victim.working).unwrap();
        copy_folder(&stage.root.join(from), &victim.working);
        victim.start(&format!("the whole directory of {from}"));
    }
    println!("{} attacks on files and folders: {:#?}", victim.total(), victim.outcomes);
    assert!(victim.wrong.is_empty(), "{:?}", victim.wrong);
    assert!(victim.total() > 200, "{}", victim.total());
}

#[test]
fn a_start_that_replays_nothing_is_found_out() {
    let stage = Stage::new();
    let mut victim = stage.victim("work");
    victim.mutant = true;
    victim.start("the mutant");
    assert_eq!(victim.outcomes, BTreeMap::from([("WRONG STATE".to_owned(), 1)]));
    assert_eq!(victim.wrong, ["the mutant"]);
}
