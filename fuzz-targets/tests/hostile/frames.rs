//! A million hostile frames, for every API and version that the client uses.

use std::collections::HashMap;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use bytes::Bytes;
use kafka_protocol::protocol::Decodable;
use millstream_fuzz_targets::Random;
use millstream_protocol::group::consumer_protocol::{Assignment, Subscription};
use millstream_protocol::messages::FetchResponse;
use millstream_protocol::network::Destination;
use millstream_protocol::records::{DecodeLimits, VisibleBatches};
use millstream_protocol::{ApiKey, IsolationLevel, Response};

use crate::capped::peak_bytes;
use crate::lab::{Lab, NODE, golden_answers};

/// `MILLSTREAM_HOSTILE_FRAMES` sets another number, `MILLSTREAM_SEED` another course.
#[test]
fn a_million_hostile_frames_are_borne() {
    let frames = number("MILLSTREAM_HOSTILE_FRAMES", 1_000_000);
    let seed = seed("a_million_hostile_frames_are_borne");
    let golden = golden_answers();
    let workers = std::thread::available_parallelism().map_or(2, usize::from).min(4) as u64;
    let (news, heard) = mpsc::channel();
    for worker in 0..workers {
        let (golden, news) = (Arc::clone(&golden), news.clone());
        let share = frames / workers + u64::from(worker == 0) * (frames % workers);
        std::thread::spawn(move || attack(&golden, seed.wrapping_add(worker), share, &news));
    }
    drop(news);
    let (mut done, mut decoded) = (0, 0);
    loop {
        match heard.recv_timeout(SILENCE) {
            Ok(News { frames, whole }) => {
                done += frames;
                decoded += whole;
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("a frame takes longer than {SILENCE:?}"),
        }
    }
    println!(
        "{done} hostile frames, {decoded} of them still messages; at most {} KiB allocated at a time",
        peak_bytes() >> 10
    );
    assert!(done >= frames, "a worker has failed after {done} of {frames} frames");
    assert!(decoded > frames / 100, "damage that leaves nothing to decode tries little");
}

struct News {
    frames: u64,
    /// Answers that were spoiled and decoded all the same.
    whole: u64,
}

/// API after API, version after version, until `share` frames have been sent.
fn attack(golden: &Arc<HashMap<(ApiKey, i16), Bytes>>, seed: u64, share: u64, news: &Sender<News>) {
    let mut plain = Lab::new(golden, seed, false);
    let mut secured = Lab::new(golden, seed, true);
    plain.learn();
    secured.learn();
    let mut left = share;
    while left > 0 {
        for api in ApiKey::ALL {
            let of_login = matches!(api, ApiKey::SaslHandshake | ApiKey::SaslAuthenticate);
            let lab = if of_login { &mut secured } else { &mut plain };
            let before = lab.frames;
            let mut whole = 0;
            for version in api.client_versions() {
                whole += attack_version(lab, api, version);
            }
            let frames = lab.frames - before;
            left = left.saturating_sub(frames);
            // Nobody listens after a failure elsewhere.
            let _ = news.send(News { frames, whole });
        }
    }
}

/// A round of answers in one version, then an honest one, which must arrive.
fn attack_version(lab: &mut Lab, api: ApiKey, version: i16) -> u64 {
    let mut whole = 0;
    lab.attacked = Some(api);
    for _ in 0..ROUND {
        match api {
            // The machine asks these by itself, on its way to something else.
            ApiKey::ApiVersions | ApiKey::SaslHandshake | ApiKey::SaslAuthenticate => {
                lab.disconnect_all();
                let _ = lab.ask(ApiKey::ListTransactions, 0, Destination::AnyBroker);
            }
            ApiKey::FindCoordinator => {
                let coordinator = Destination::TransactionCoordinator(Arc::from("tx"));
                lab.client.invalidate_coordinator(lab.now, &coordinator);
                let _ = lab.ask(ApiKey::EndTxn, 0, coordinator);
            }
            ApiKey::Metadata if lab.random.one_in(2) => {
                lab.client.track_topic(lab.now, &Arc::from("t"));
                let _ = lab.ask(ApiKey::ListTransactions, 0, Destination::AnyBroker);
                lab.client.untrack_topic("t");
            }
            _ => {
                if let Ok(response) = lab.ask(api, version, NODE) {
                    whole += 1;
                    use_answer(&response);
                }
            }
        }
    }
    lab.learn();
    let one_in = std::mem::replace(&mut lab.one_in, usize::MAX);
    let honest = lab.ask(ApiKey::ListTransactions, 0, NODE);
    assert!(honest.is_ok(), "after {api} {version}: {honest:?}");
    lab.one_in = one_in;
    whole
}

/// What a reader does with an answer that looks well.
fn use_answer(response: &Response) {
    match response {
        Response::Fetch(response) => read_records(response),
        Response::JoinGroup(response) => {
            for member in &response.members {
                let _ = Subscription::decode(member.metadata.clone());
            }
        }
        Response::SyncGroup(response) => drop(Assignment::decode(response.assignment.clone())),
        _ => {}
    }
}

fn read_records(response: &FetchResponse) {
    let limits = DecodeLimits { max_decompressed_batch_bytes: 8 << 20 };
    for partition in response.topics.iter().flat_map(|topic| &topic.partitions) {
        let aborted = partition.aborted_transactions.iter().flatten();
        let aborted = aborted.copied().collect();
        let (records, isolation) = (partition.records.clone(), IsolationLevel::ReadCommitted);
        for batch in VisibleBatches::new(records, 0, aborted, isolation, limits) {
            let Ok(batch) = batch else { break };
            for record in batch.records.iter().flatten() {
                let Ok(record) = record else { break };
                for header in record.headers {
                    std::hint::black_box(header);
                }
            }
        }
    }
}

/// Case B001, and what the guard is for: the decoder behind it takes a length at its word. This test is run by the next one, and
/// dies.
#[test]
#[ignore = "aborts the process; the test after it runs it in another"]
fn mutant_without_the_guard() {
    let mut body = Bytes::from_static(&[0x03, 0x3c, 0x0c, 0x00, 0xb6]);
    let decoded = kafka_protocol::messages::MetadataRequest::decode(&mut body, 0);
    println!("decoded without an abort: {}", decoded.is_ok());
}

/// The cap bites: a decoder without the guard does not get past it.
#[test]
fn a_decoder_without_the_guard_is_noticed() {
    let mutant = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "frames::mutant_without_the_guard", "--ignored", "--nocapture"])
        .output()
        .expect("this program again");
    let said = String::from_utf8_lossy(&mutant.stderr);
    assert!(!mutant.status.success(), "the mutant lives: {said}");
    assert!(said.contains("above the cap of 64 MiB"), "{said}");
}

/// The seed of a test, printed past the capture of output: an abort loses what is captured.
pub(crate) fn seed(test: &str) -> u64 {
    use std::io::Write;
    let given = std::env::var("MILLSTREAM_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Random::new(since.map_or(0, |since| u64::from(since.subsec_nanos()))).number() >> 16
    });
    let line = format!("{test}: repeat with MILLSTREAM_SEED={seed}\n");
    std::io::stderr().write_all(line.as_bytes()).expect("standard error");
    seed
}

/// A number from the environment.
pub(crate) fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Frames of one version before the next.
const ROUND: usize = 50;
/// Longer than any round takes.
const SILENCE: Duration = Duration::from_secs(60);

/// How long an attack on one API takes says where time is lost; for people, not for CI.
#[test]
#[ignore = "prints a table"]
fn table_of_costs() {
    let golden = golden_answers();
    for api in ApiKey::ALL {
        let mut lab =
            Lab::new(&golden, 1, matches!(api, ApiKey::SaslHandshake | ApiKey::SaslAuthenticate));
        lab.learn();
        let begun = Instant::now();
        for version in api.client_versions() {
            attack_version(&mut lab, api, version);
        }
        let micros = begun.elapsed().as_micros() / u128::from(lab.frames.max(1));
        println!("{api:<24} {:>8} frames {micros:>6} µs each", lab.frames);
    }
}
