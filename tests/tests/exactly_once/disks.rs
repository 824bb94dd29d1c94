//! A disk that is full, and one that fails.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use millstream_testcontainers::{KafkaCluster, real_kafka_or_skip};
use millstream_tests::flights::{Query, SteadyFeed};
use millstream_tests::wait::wait_until;

use crate::stage::{BOUNDED_LIMIT, Stage, wait_until_it_runs};

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn a_full_disk_is_waited_out() {
    if !real_kafka_or_skip("a full disk") {
        return;
    }
    let stage = Stage::new(KafkaCluster::builder(), Query::Q1);
    let bootstrap = stage.cluster.bootstrap_servers();
    let feed = SteadyFeed::start(&bootstrap, &stage.input, 10, Duration::from_millis(20));
    // How often the job tries in vain: a stop while the disk is full would end with its error.
    for (fault, tries) in
        [("DeltaWrite:5-9:full", 5), ("DeltaSync:5-9:full", 5), ("MetaCreate:2-4:full", 3)]
    {
        let mut job = stage.command().environment("MILLSTREAM_DISK_FAULT", fault).start(false);
        wait_until("the disk is full", LIMIT, || {
            job.output().matches("disk full, retrying").count() >= tries || job.has_ended()
        });
        wait_until("the job runs again", LIMIT, || {
            let said = job.output();
            said.rfind("running from checkpoint") > said.rfind("disk full, retrying")
                || job.has_ended()
        });
        let written = feed.written();
        wait_until("more input", LIMIT, || feed.written() > written + 500);
        assert!(!job.has_ended(), "{fault}:\n{}", job.output());
        job.stop();
    }
    let lines = feed.stop();
    stage.command().run_bounded(BOUNDED_LIMIT);
    assert_eq!(stage.check_totals(&lines), Ok(()));
    stage.assert_nothing_open();
}

/// What a failed fsync left on the disk is known only after it was read again: no retry, no restart in process.
#[test]
fn a_failed_fsync_ends_the_process_and_the_next_one_goes_on() {
    if !real_kafka_or_skip("a failed fsync") {
        return;
    }
    let stage = Stage::new(KafkaCluster::builder(), Query::Q1);
    let bootstrap = stage.cluster.bootstrap_servers();
    let feed = SteadyFeed::start(&bootstrap, &stage.input, 10, Duration::from_millis(20));
    for fault in ["DeltaSync:5:io", "DeltaSyncDir:5:io", "MetaSync:1:io", "MetaSyncDir:1:io"] {
        let mut job = stage.command().environment("MILLSTREAM_DISK_FAULT", fault).start(false);
        assert_eq!(job.exit_code(LIMIT), 73, "{fault}:\n{}", job.output());
        let said = job.output();
        assert!(said.contains("injected: the disk failed"), "{fault}:\n{said}");
        assert!(!said.contains("restarted"), "{fault}:\n{said}");
    }
    let lines = feed.stop();
    stage.command().run_bounded(BOUNDED_LIMIT);
    assert_eq!(stage.check_totals(&lines), Ok(()));
    stage.assert_nothing_open();
}

/// A file system in memory, unmounted when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(size: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let option = format!("size={size}");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &option, "tmpfs"])
            .arg(folder.path())
            .status();
        assert!(mounted.is_ok_and(|status| status.success()), "mounting needs root");
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
#[ignore = "mounts a file system, which needs root"]
fn a_small_disk_that_fills_up_is_waited_out() {
    if !real_kafka_or_skip("a small disk") {
        return;
    }
    for level in [2, 0] {
        let disk = SmallDisk::mount("32m");
        let state = disk.path().join("state");
        let stage = Stage::new(KafkaCluster::builder().transaction_version(level), Query::Q1);
        let bootstrap = stage.cluster.bootstrap_servers();
        let feed = SteadyFeed::start(&bootstrap, &stage.input, 10, Duration::from_millis(20));
        let command = stage.command().state_dir(&state);
        let mut job = command.start(false);
        wait_until_it_runs(&mut job);
        for time in 1..=3 {
            let filler = disk.path().join("filler");
            fill(&filler);
            wait_until("the disk is full", LIMIT, || {
                job.output().matches("disk full, retrying").count() >= time || job.has_ended()
            });
            let runs = || job.output().matches("running from checkpoint").count();
            std::fs::remove_file(&filler).expect("room again");
            let before = runs();
            let written = feed.written();
            wait_until("more input", LIMIT, || feed.written() > written + 500);
            println!("TV{level}, time {time}: {before} runs before, {} after", runs());
            assert!(!job.has_ended(), "TV{level}:\n{}", job.output());
        }
        let lines = feed.stop();
        job.stop();
        command.run_bounded(BOUNDED_LIMIT);
        assert_eq!(stage.check_totals(&lines), Ok(()), "TV{level}");
        stage.assert_nothing_open();
    }
}

/// Writes a file until there is no room for another byte.
fn fill(path: &Path) {
    let mut file = std::fs::File::create(path).expect("a file");
    for block in [vec![0_u8; 1 << 16], vec![0_u8; 1]] {
        while file.write_all(&block).is_ok() {}
    }
}
