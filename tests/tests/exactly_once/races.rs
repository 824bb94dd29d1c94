//! Two processes that want one job for minutes.

use std::time::{Duration, Instant};

use millstream_testcontainers::{KafkaCluster, Signal, real_kafka_or_skip};
use millstream_tests::copy_folder;
use millstream_tests::flights::{Query, SteadyFeed};

use crate::stage::{BOUNDED_LIMIT, Stage, setting, wait_until_it_runs};

#[test]
fn the_loser_is_restarted_again_and_again_on_a_copy_of_the_winners_directory() {
    if !real_kafka_or_skip("a race for minutes") {
        return;
    }
    let time = Duration::from_secs(setting("MILLSTREAM_RACE_SECONDS", 10));
    for level in [2, 0] {
        let stage = Stage::new(KafkaCluster::builder().transaction_version(level), Query::Q1);
        let bootstrap = stage.cluster.bootstrap_servers();
        let feed = SteadyFeed::start(&bootstrap, &stage.input, 10, Duration::from_millis(20));
        let mut folder = tempfile::tempdir().expect("a folder");
        let mut winner = stage.command().state_dir(folder.path()).start(false);
        wait_until_it_runs(&mut winner);
        let begun = Instant::now();
        let mut takeovers = 0;
        while begun.elapsed() < time {
            winner.signal(Signal::Stop);
            let copy = tempfile::tempdir().expect("a folder");
            copy_folder(folder.path(), copy.path());
            let mut loser = stage.command().state_dir(copy.path()).start(false);
            wait_until_it_runs(&mut loser);
            winner.signal(Signal::Cont);
            let code = winner.exit_code(Duration::from_secs(30));
            assert_eq!(code, 76, "TV{level}, takeover {takeovers}:\n{}", winner.output());
            (winner, folder) = (loser, copy);
            takeovers += 1;
        }
        println!("TV{level}: {takeovers} takeovers in {:?}", begun.elapsed());
        assert!(takeovers > 2, "{takeovers} takeovers");
        let lines = feed.stop();
        winner.stop();
        stage.command().state_dir(folder.path()).run_bounded(BOUNDED_LIMIT);
        assert_eq!(stage.check_totals(&lines), Ok(()), "TV{level}");
        stage.assert_nothing_open();
    }
}
