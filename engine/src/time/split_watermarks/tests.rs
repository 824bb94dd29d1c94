use std::time::Duration;

use millstream_protocol::Timestamp;

use super::super::watermark_strategy::Generator;
use super::*;

const BOUND: Generator = Generator::BoundedOutOfOrderness { bound_ms: 10 };
const TIMEOUT: Duration = Duration::from_secs(3);

fn splits(count: usize) -> SplitWatermarks {
    SplitWatermarks::new(BOUND, Some(TIMEOUT), vec![(None, false); count])
}

fn seconds(seconds: u64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

fn watermark(watermark: i64) -> WatermarkProgress {
    WatermarkProgress { watermark: Some(watermark), ..WatermarkProgress::default() }
}

const QUIET: WatermarkProgress = WatermarkProgress { active: false, watermark: None, idle: false };

/// Answers "nothing to read" for `split` once a second in `from..=to`.
fn answer(watermarks: &mut SplitWatermarks, split: usize, from: u64, to: u64) {
    for at in from..=to {
        watermarks.caught_up(split, seconds(at));
    }
}

#[test]
fn the_slowest_split_holds_the_watermark() {
    let mut watermarks = splits(2);
    watermarks.on_element(0, 100);
    assert_eq!(watermarks.progress(), QUIET, "split 1 has shown nothing");
    watermarks.on_element(1, 50);
    assert_eq!(watermarks.progress(), watermark(39));
    watermarks.on_element(0, 300);
    assert_eq!(watermarks.progress(), QUIET);
    watermarks.on_element(1, 30);
    assert_eq!(watermarks.progress(), QUIET, "watermarks never fall");
}

#[test]
fn an_idle_split_holds_nothing_back_and_data_brings_it_back() {
    let mut watermarks = splits(2);
    watermarks.on_element(0, 100);
    answer(&mut watermarks, 1, 0, 2);
    assert_eq!(watermarks.progress(), QUIET, "idle for 2 s only");
    answer(&mut watermarks, 1, 3, 3);
    assert_eq!(watermarks.progress(), watermark(89));
    watermarks.on_element(1, 95);
    watermarks.on_element(0, 200);
    assert_eq!(watermarks.progress(), QUIET, "split 1 is waited for again");
    watermarks.on_element(1, 120);
    assert_eq!(watermarks.progress(), watermark(109));
}

#[test]
fn data_starts_the_idle_time_again() {
    let mut watermarks = splits(1);
    answer(&mut watermarks, 0, 0, 2);
    watermarks.on_element(0, 100);
    answer(&mut watermarks, 0, 3, 5);
    assert_eq!(watermarks.progress(), watermark(89));
    answer(&mut watermarks, 0, 6, 6);
    assert_eq!(watermarks.progress(), WatermarkProgress { idle: true, ..QUIET });
}

#[test]
fn time_in_which_nobody_answered_makes_no_split_idle() {
    let mut watermarks = splits(2);
    watermarks.on_element(0, 100);
    watermarks.caught_up(1, seconds(0));
    // An hour without a broker, or with the process stopped.
    watermarks.caught_up(1, seconds(3600));
    assert_eq!(watermarks.progress(), QUIET);
    watermarks.caught_up(1, seconds(3601));
    assert_eq!(watermarks.progress(), watermark(89), "2 s of the hour count, and 1 s after it");
}

#[test]
fn a_stream_of_idle_splits_only_is_idle_and_as_far_as_the_farthest() {
    let mut watermarks = splits(2);
    watermarks.on_element(0, 100);
    watermarks.on_element(1, 50);
    assert_eq!(watermarks.progress(), watermark(39));
    answer(&mut watermarks, 0, 0, 3);
    answer(&mut watermarks, 1, 0, 3);
    let idle = WatermarkProgress { watermark: Some(89), idle: true, active: false };
    assert_eq!(watermarks.progress(), idle);
    assert!(watermarks.on_element(1, 70), "the stream must be declared active first");
    assert!(!watermarks.on_element(1, 71));
    assert_eq!(watermarks.progress(), QUIET);
}

#[test]
fn a_reader_without_splits_is_idle_at_once() {
    assert_eq!(splits(0).progress(), WatermarkProgress { idle: true, ..QUIET });
}

#[test]
fn a_finished_split_holds_nothing_back_and_does_not_push() {
    let mut watermarks = splits(2);
    watermarks.on_element(0, 100);
    watermarks.on_element(1, 500);
    watermarks.finish(1);
    assert_eq!(watermarks.progress(), watermark(89));
    assert_eq!(watermarks.state(1), (Some(500), true));
}

#[test]
fn restored_splits_have_come_as_far_as_before() {
    let states = vec![(Some(100), false), (Some(70), false), (Some(5), true)];
    let mut watermarks = SplitWatermarks::new(BOUND, Some(TIMEOUT), states);
    assert_eq!(watermarks.progress(), watermark(59));
}

#[test]
fn without_idleness_a_silent_split_holds_for_ever() {
    let mut watermarks = SplitWatermarks::new(BOUND, None, vec![(None, false); 2]);
    watermarks.on_element(0, 100);
    answer(&mut watermarks, 1, 0, 1000);
    assert_eq!(watermarks.progress(), QUIET);
}
