use super::*;
use crate::records::{BatchBuilder, Compression};

const IDENTITY: ProducerIdAndEpoch = ProducerIdAndEpoch { producer_id: 7, producer_epoch: 1 };

fn queued(records: usize) -> QueuedBatch {
    QueuedBatch { batch: batch(records), tag: 0, enqueued_at: Timestamp::ZERO, report: None }
}

#[test]
fn sequences_count_records_and_wrap_to_zero() {
    let mut window = PartitionWindow::new(IDENTITY);
    window.next_sequence = i32::MAX - 1;
    let sequences: Vec<i32> = [1, 3, 1]
        .into_iter()
        .map(|records| window.push(queued(records), true).batch.header().base_sequence)
        .collect();
    assert_eq!(sequences, vec![i32::MAX - 1, i32::MAX, 2]);
}

#[test]
fn identity_changes_only_when_nothing_is_unresolved() {
    let mut window = PartitionWindow::new(IDENTITY);
    window.push(queued(2), false);
    let next = ProducerIdAndEpoch { producer_epoch: 2, ..IDENTITY };
    window.adopt(next);
    assert_eq!(window.identity, IDENTITY);
    window.batches.clear();
    window.adopt(next);
    assert_eq!((window.identity, window.next_sequence), (next, 0));
}

#[test]
fn retries_go_oldest_first_and_hold_back_what_is_new() {
    let (here, there) = (NodeId(1), NodeId(2));
    let mut window = PartitionWindow::new(IDENTITY);
    assert_eq!(window.next(here, 5, Timestamp::ZERO), Next::New);
    for token in 0..3 {
        window.push(queued(1), true).status = Status::InFlight(RequestToken(token), here);
    }
    assert_eq!(window.next(here, 5, Timestamp::ZERO), Next::New);
    assert_eq!(window.next(here, 3, Timestamp::ZERO), Next::Nothing);
    assert_eq!(
        window.next(there, 5, Timestamp::ZERO),
        Next::Nothing,
        "it may lack what is under way"
    );
    window.batches[1].status = Status::Waiting;
    assert_eq!(window.next(here, 5, Timestamp::ZERO), Next::Nothing, "an older one is unresolved");
    window.batches[0].status = Status::Waiting;
    assert_eq!(window.next(here, 5, Timestamp::ZERO), Next::Retry);
    assert_eq!(window.next(there, 5, Timestamp::ZERO), Next::Retry);
    window.retry_at = Some(Timestamp::from_micros(9));
    assert_eq!(window.next(here, 5, Timestamp::from_micros(8)), Next::Nothing);
    assert_eq!(window.next(here, 5, Timestamp::from_micros(9)), Next::Retry);
}

fn batch(records: usize) -> SealedBatch {
    let mut builder = BatchBuilder::new(Compression::None, 1 << 20);
    for _ in 0..records {
        builder.append(0, None, Some(b"x"), &[]).unwrap();
    }
    builder.build().unwrap().unwrap()
}
