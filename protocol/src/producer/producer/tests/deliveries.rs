//! What is told of batches that were sent with a name.

use super::*;
use crate::producer::{BatchId, Delivered, Delivery};

/// Batch, first record and number of records of each part, and where it is.
type Told = Vec<(u64, i32, i32, Result<Option<i64>, ProduceError>)>;

fn deliveries(producer: &mut Producer) -> Told {
    let told = |event| match event {
        ProducerEvent::Delivered(Delivery {
            batch_id, first_record, record_count, result, ..
        }) => Some((batch_id.0, first_record, record_count, result.map(|at| at.base_offset))),
        _ => None,
    };
    events(producer).into_iter().filter_map(told).collect()
}

fn send(producer: &mut Producer, partition: i32, records: usize, id: u64) {
    producer.send_reported_batch(T0, key(partition), batch(records), 1, BatchId(id), T0);
}

#[test]
fn an_acknowledged_batch_is_told_with_its_offset_before_the_flush_ends() {
    let mut producer = registered();
    send(&mut producer, 0, 3, 8);
    producer.flush(T0, 1);
    let request = requests(&mut producer, T0).remove(0);
    let answer = ProducePartitionResponse {
        base_offset: 40,
        log_append_time_ms: 77,
        ..ProducePartitionResponse::default()
    };
    respond(&mut producer, &request, vec![answer]);
    let delivered = Delivered { base_offset: Some(40), log_append_time_ms: Some(77) };
    let events = events(&mut producer);
    let [ProducerEvent::Delivered(delivery), ProducerEvent::Flushed { .. }] = events.as_slice()
    else {
        panic!("{events:?}")
    };
    assert_eq!((delivery.batch_id, &delivery.result), (BatchId(8), &Ok(delivered)));
    assert_eq!(delivery.batch.record_count(), 3);
}

#[test]
fn a_batch_written_in_parts_is_told_of_part_by_part() {
    let mut producer = registered();
    send(&mut producer, 0, 5, 8);
    let request = requests(&mut producer, T0).remove(0);
    fail(&mut producer, &request, 0, ErrorCode::MESSAGE_TOO_LARGE);
    let first = requests(&mut producer, T0).remove(0);
    let [(_, batches)] = &sent(std::slice::from_ref(&first))[..] else { panic!("{first:?}") };
    let of_first = batches[0].1;
    acknowledge(&mut producer, &first, &[(0, 100)]);
    // The second half is too large still.
    let second = requests(&mut producer, T0).remove(0);
    fail(&mut producer, &second, 0, ErrorCode::MESSAGE_TOO_LARGE);
    let mut offset = 100 + i64::from(of_first);
    while let Some(request) = requests(&mut producer, T0).pop() {
        let records = sent(std::slice::from_ref(&request))[0].1[0].1;
        acknowledge(&mut producer, &request, &[(0, offset)]);
        offset += i64::from(records);
    }
    let told = deliveries(&mut producer);
    assert_eq!(told.len(), 3, "{told:?}");
    let mut next = 0;
    for (id, first_record, record_count, result) in told {
        assert_eq!((id, first_record), (8, next));
        assert_eq!(result, Ok(Some(100 + i64::from(first_record))));
        next += record_count;
    }
    assert_eq!(next, 5);
}

#[test]
fn whatever_ends_a_batch_is_told_once() {
    let lost: [fn(&mut Producer); 5] = [
        |producer| {
            let request = requests(producer, T0).remove(0);
            fail(producer, &request, 0, ErrorCode::INVALID_TIMESTAMP);
        },
        |producer| producer.abort_transaction(T0),
        |producer| producer.discard(T0),
        |producer| producer.init_transactions(T0),
        |producer| producer.handle_timeout(T0.after(Duration::from_secs(1000))),
    ];
    for lose in lost {
        let mut producer = registered();
        send(&mut producer, 0, 1, 1);
        send(&mut producer, 0, 2, 2);
        lose(&mut producer);
        producer.init_transactions(T0);
        let told = deliveries(&mut producer);
        let mut ids: Vec<_> = told.iter().map(|told| told.0).collect();
        ids.sort_unstable();
        assert_eq!(ids, [1, 2], "{told:?}");
        assert!(told.iter().all(|told| told.3.is_err()), "{told:?}");
    }
}

#[test]
fn a_batch_that_is_refused_at_once_is_told_too() {
    let mut producer = registered();
    producer.send_reported_batch(T0, key(0), batch(1), 0, BatchId(1), T0);
    // The transaction has failed by now.
    send(&mut producer, 0, 1, 2);
    let told = deliveries(&mut producer);
    assert_eq!(told.iter().map(|told| told.0).collect::<Vec<_>>(), [1, 2]);
    assert!(told.iter().all(|told| told.3.is_err()));
}

#[test]
fn delivery_is_timed_from_the_first_record_of_a_batch() {
    let mut producer = registered();
    let delivery_timeout = Duration::from_secs(120);
    let handed_over = T0.after(delivery_timeout / 2);
    // It has no leader.
    producer.send_reported_batch(handed_over, key(9), batch(1), 1, BatchId(1), T0);
    producer.handle_timeout(T0.after(delivery_timeout - Duration::from_millis(1)));
    assert_eq!(deliveries(&mut producer), []);
    producer.handle_timeout(T0.after(delivery_timeout));
    let told = deliveries(&mut producer);
    assert!(matches!(told[..], [(1, 0, 1, Err(_))]), "{told:?}");
}
