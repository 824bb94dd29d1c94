//! What a coordinator answers to EndTxn in every state, asked request by request; and what our client makes of it.

use millstream_protocol::records::Compression;
use millstream_protocol::{ErrorCode, IsolationLevel, ProducerIdAndEpoch, TopicPartition};
use millstream_protocol_client::{ProduceError, ProducerRecord, SendError};
use millstream_testcontainers::{FaultHandle, FaultRule, JavaRecord, api_key};
use millstream_tests::records::{consume_all, send_in_transaction};

use crate::clusters::{Arena, LIMIT, eventually, matched, partition, settled, unique};
use crate::raw::RawTransaction;

const NONE: ErrorCode = ErrorCode::NONE;
const STATE: ErrorCode = ErrorCode::INVALID_TXN_STATE;
const FENCED: ErrorCode = ErrorCode::PRODUCER_FENCED;
const BUSY: ErrorCode = ErrorCode::CONCURRENT_TRANSACTIONS;
const COMMIT: bool = true;
const ABORT: bool = false;

/// A transaction in some state.
struct InState {
    transaction: RawTransaction,
    /// Of the last EndTxn or, before any, of the owner.
    ended: ProducerIdAndEpoch,
    /// What the coordinator holds now.
    current: ProducerIdAndEpoch,
}

/// Markers stay where they are until this is dropped: what is prepared is not completed.
fn hold_markers(arena: &Arena) -> Option<Vec<FaultHandle>> {
    let kafka = arena.kafka()?;
    let brokers = 0..kafka.broker_count();
    let ways = brokers.clone().flat_map(|from| brokers.clone().map(move |to| (from, to)));
    let rule = FaultRule::requests(api_key::WRITE_TXN_MARKERS).hold();
    let rules = ways.map(|(from, to)| Some(kafka.link(from, to)?.add_rule(rule.clone())));
    rules.collect()
}

/// A new id, brought to `state` by EndTxn of `version`.
fn bring_to(arena: &Arena, tp: &TopicPartition, state: &str, version: i16) -> InState {
    let mut transaction = RawTransaction::new(&arena.servers(), &unique("end-txn"));
    transaction.init();
    // An epoch that somebody held before.
    let ended = transaction.init();
    assert_eq!(ended.producer_epoch, 1);
    if state != "Empty" {
        transaction.add_partition(ended, tp);
    }
    if !matches!(state, "Empty" | "Ongoing") {
        let commit = state.ends_with("Commit");
        assert_eq!(transaction.end(version, ended, commit), NONE);
    }
    let current = transaction.wait_for(state);
    InState { transaction, ended, current }
}

/// Asks in a state; each question gets a transaction of its own, for most answers change the state.
fn answers(
    arena: &Arena,
    tp: &TopicPartition,
    state: &str,
    version: i16,
    identity: impl Fn(&InState) -> ProducerIdAndEpoch,
) -> [ErrorCode; 2] {
    [COMMIT, ABORT].map(|commit| {
        let held = state.starts_with("Prepare").then(|| hold_markers(arena));
        let mut found = bring_to(arena, tp, state, version);
        let asked = identity(&found);
        let answer = found.transaction.end(version, asked, commit);
        drop(held);
        answer
    })
}

/// The states that this cluster can be kept in.
fn states(arena: &Arena) -> Vec<&'static str> {
    let lasting = ["Empty", "Ongoing", "CompleteCommit", "CompleteAbort"];
    // The dev broker has no markers to be held; its own tests have these states, also as they are while no marker is under
    // way, which no client of a real broker meets.
    let prepared =
        hold_markers(arena).map_or([].as_slice(), |_| &["PrepareCommit", "PrepareAbort"]);
    [&lasting, prepared].concat()
}

async fn place(arena: &Arena) -> TopicPartition {
    let client = arena.client(&unique("end-txn"), &[]).await;
    partition(&arena.topic(&client, 1, &[]).await, 0)
}

fn earlier(identity: ProducerIdAndEpoch) -> ProducerIdAndEpoch {
    ProducerIdAndEpoch { producer_epoch: identity.producer_epoch - 1, ..identity }
}

/// Below version 5 the answer depends on state and epoch; the epoch stays.
pub(crate) async fn end_txn_every_answer_of_version_4(arena: &'static Arena) {
    let tp = place(arena).await;
    for state in states(arena) {
        let expected = match state {
            "Empty" => [STATE, STATE],
            "Ongoing" => [NONE, NONE],
            // Markers are under way, and nothing else counts until they are written.
            "PrepareCommit" | "PrepareAbort" => [BUSY, BUSY],
            "CompleteCommit" => [NONE, STATE],
            _ => [STATE, NONE],
        };
        assert_eq!(answers(arena, &tp, state, 4, |at| at.current), expected, "{state}");
        let fenced = answers(arena, &tp, state, 4, |at| earlier(at.current));
        assert_eq!(fenced, [FENCED, FENCED], "an earlier epoch in {state}");
    }
    let mut unknown = RawTransaction::new(&arena.servers(), &unique("end-txn"));
    let nobody = ProducerIdAndEpoch { producer_id: 1, producer_epoch: 0 };
    assert_eq!(unknown.end(4, nobody, COMMIT), ErrorCode::INVALID_PRODUCER_ID_MAPPING);
}

/// From version 5 on each end takes the next epoch, so that a repeated request is told from the next end.
pub(crate) async fn end_txn_every_answer_of_version_5(arena: &'static Arena) {
    let tp = place(arena).await;
    for state in states(arena) {
        let (current, again) = match state {
            "Empty" => ([STATE, NONE], [FENCED, FENCED]),
            "Ongoing" => ([NONE, NONE], [FENCED, FENCED]),
            "PrepareCommit" | "PrepareAbort" => ([BUSY, BUSY], [BUSY, BUSY]),
            "CompleteCommit" => ([STATE, NONE], [NONE, STATE]),
            _ => ([STATE, NONE], [STATE, NONE]),
        };
        assert_eq!(answers(arena, &tp, state, 5, |at| at.current), current, "{state}");
        let repeated = answers(arena, &tp, state, 5, |at| earlier(at.current));
        assert_eq!(repeated, again, "the epoch before in {state}");
        let fenced = answers(arena, &tp, state, 5, |at| earlier(earlier(at.current)));
        let is_complete = state.starts_with("Complete");
        assert!(!is_complete || fenced == [FENCED, FENCED], "two epochs before in {state}");
    }
}

/// Why a transaction is finished in the mode that it was written in, and in no other.
pub(crate) async fn end_txn_replay_in_the_wrong_mode(arena: &'static Arena) {
    let tp = place(arena).await;
    let mut by_4 = bring_to(arena, &tp, "CompleteCommit", 4);
    let looks_aborted = by_4.transaction.end(5, by_4.ended, COMMIT);
    assert_eq!(looks_aborted, STATE, "although it is committed");
    let mut by_5 = bring_to(arena, &tp, "CompleteCommit", 5);
    let looks_superseded = by_5.transaction.end(4, by_5.ended, COMMIT);
    assert_eq!(looks_superseded, FENCED, "although it is committed");
}

/// Whoever starts while a former owner's transaction is being aborted waits for that, within `max.block.ms`.
pub(crate) async fn end_txn_start_during_an_abort_is_bounded(arena: &'static Arena) {
    let id = unique("end-txn");
    let client = arena.client(&id, &["max.block.ms=700"]).await;
    let tp = partition(&arena.topic(&client, 1, &[]).await, 0);
    let mut former = RawTransaction::new(&arena.servers(), &id);
    let identity = former.init();
    former.add_partition(identity, &tp);
    let held = hold_markers(arena).expect("a real broker's markers can be held");
    let producer = client.record_producer(Some(&id));
    let started = tokio::time::Instant::now();
    let refused = producer.init_transactions().await;
    assert!(
        matches!(refused, Err(ProduceError::ConcurrentTransactions { .. })),
        "markers are held: {refused:?}"
    );
    let waited = started.elapsed();
    assert!((700..10_000).contains(&waited.as_millis()), "{waited:?}");
    drop(held);
    former.wait_for("CompleteAbort");
    producer.init_transactions().await.unwrap();
}

/// The answer to a commit, and to an abort, is lost: our client asks again and is told.
pub(crate) async fn end_txn_lost_answer(arena: &'static Arena) {
    let id = unique("end-txn");
    let client = arena.client(&id, &[]).await;
    let topic = arena.topic(&client, 1, &[]).await;
    for commit in [true, false, true] {
        let lost = FaultRule::requests(api_key::END_TXN).of_client(&id).times(1).cut_after();
        let rules = arena.rule(&lost);
        let value = if commit { b"committed".as_slice() } else { b"aborted" };
        let records = [JavaRecord { value: Some(value.to_vec()), ..JavaRecord::default() }];
        let within = send_in_transaction(&client, &id, &topic, Compression::None, &records, commit);
        tokio::time::timeout(LIMIT, within).await.unwrap();
        assert!(matched(&rules) > 0);
    }
    settled(&client, &partition(&topic, 0)).await;
    let read = consume_all(&client, &topic, IsolationLevel::ReadCommitted).await;
    let values: Vec<_> = read.into_iter().map(|record| record.value.unwrap()).collect();
    assert_eq!(values, [b"committed".to_vec(), b"committed".to_vec()]);
}

/// Who gave up waiting for a commit can wait again, and nobody aborts what is being committed. A producer that initializes
/// anew drops what it had open.
pub(crate) async fn end_txn_commit_that_nobody_waited_for(arena: &'static Arena) {
    let id = unique("end-txn");
    let client = arena.client(&id, &[]).await;
    let topic = arena.topic(&client, 1, &[]).await;
    let producer = client.record_producer(Some(&id));
    let write = async |value: &[u8]| {
        producer.begin_transaction().await.unwrap();
        producer.send(&ProducerRecord::to(&topic, value).partition(0)).await.unwrap()
    };
    let is_refused = |ended: Result<(), SendError>| {
        matches!(ended, Err(SendError::Producer(ProduceError::InvalidState { .. })))
    };
    producer.init_transactions().await.unwrap();
    write(b"first").await;
    let held = arena.rule(&FaultRule::requests(api_key::END_TXN).of_client(&id).times(1).hold());
    let is_held = async || (matched(&held) > 0).then_some(());
    tokio::select! {
        ended = producer.commit_transaction() => panic!("EndTxn is held: {ended:?}"),
        () = eventually("EndTxn", is_held) => {}
    }
    assert!(is_refused(producer.abort_transaction().await));
    let release = async { held.iter().for_each(FaultHandle::release) };
    // The commit is asked for before EndTxn is let go.
    let (committed, ()) = tokio::join!(producer.commit_transaction(), release);
    committed.unwrap();
    assert!(is_refused(producer.commit_transaction().await), "there is none any more");

    let dropped = write(b"dropped").await;
    producer.init_transactions().await.unwrap();
    assert!(dropped.wait().await.is_err());
    write(b"second").await;
    producer.commit_transaction().await.unwrap();
    settled(&client, &partition(&topic, 0)).await;
    let read = consume_all(&client, &topic, IsolationLevel::ReadCommitted).await;
    let values: Vec<_> = read.into_iter().map(|record| record.value.unwrap()).collect();
    assert_eq!(values, [b"first".to_vec(), b"second".to_vec()]);
}
