use std::collections::BTreeMap;

use millstream_protocol::records::{BatchView, DecodeLimits, Decompressor};

use super::*;

const OPTIONS: BatchOptions = BatchOptions {
    batch_bytes: 200,
    max_request_bytes: 1000,
    buffer_bytes: 10_000,
    linger: Duration::from_millis(5),
    max_in_flight: 2,
    compression: Compression::None,
    compression_level: None,
    ignore_keys: false,
};

fn batches(options: BatchOptions) -> OpenBatches {
    let mut batches = OpenBatches::new(options, 1);
    batches.describe(&Arc::from("t"), &[true; 4], Instant::now());
    batches
}

fn append(batches: &mut OpenBatches, record: &ProducerRecord<'_>) -> Result<Taken, SendError> {
    batches.append(record, 7, || true)
}

/// Values of a batch in their order.
fn values(ready: Ready) -> Vec<Vec<u8>> {
    let view = BatchView::parse(ready.batch.into_bytes()).unwrap();
    let block = view.records(&DecodeLimits::default(), &mut Decompressor::new()).unwrap();
    block.iter().map(|record| record.unwrap().value.unwrap().to_vec()).collect()
}

#[test]
fn records_of_a_partition_keep_their_order_across_batches() {
    let mut batches = batches(OPTIONS);
    let mut seen: BTreeMap<i32, Vec<Vec<u8>>> = BTreeMap::new();
    let mut sent: BTreeMap<i32, Vec<Vec<u8>>> = BTreeMap::new();
    let mut closed = Vec::new();
    for number in 0..500_u32 {
        let (key, value) = ((number % 17).to_be_bytes(), number.to_be_bytes());
        let record = ProducerRecord::to("t", &value).key(&key);
        let taken = append(&mut batches, &record).unwrap();
        let partition = taken.delivery.topic_partition().partition;
        assert_eq!(partition, partition_for_key(&key, 4));
        sent.entry(partition).or_default().push(value.to_vec());
        closed.extend(taken.ready.map(|ready| *ready));
    }
    assert!(closed.len() > 10, "a batch has a bound");
    batches.close_all(&mut closed).unwrap();
    for ready in closed {
        assert!(ready.batch.size_bytes() <= OPTIONS.batch_bytes);
        seen.entry(ready.topic_partition.partition).or_default().extend(values(ready));
    }
    assert_eq!(seen, sent);
}

#[test]
fn a_batch_is_closed_when_its_time_is_up() {
    let mut batches = batches(OPTIONS);
    assert!(append(&mut batches, &ProducerRecord::to("t", b"a").partition(1)).unwrap().first);
    assert!(!append(&mut batches, &ProducerRecord::to("t", b"b").partition(2)).unwrap().first);
    let mut ready = Vec::new();
    let next = batches.close_due(Instant::now() - OPTIONS.linger, &mut ready).unwrap();
    assert!(ready.is_empty() && next.is_some());
    assert_eq!(batches.close_due(Instant::now() + OPTIONS.linger, &mut ready).unwrap(), None);
    assert_eq!(ready.len(), 2);
    assert!(append(&mut batches, &ProducerRecord::to("t", b"c").partition(1)).unwrap().first);
}

#[test]
fn a_batch_that_could_not_be_sent_yet_goes_on_taking_records() {
    let mut batches = batches(OPTIONS);
    let far = Instant::now() + 10 * OPTIONS.linger;
    let mut under_way = Vec::new();
    for value in [b"a", b"b"] {
        append(&mut batches, &ProducerRecord::to("t", value).partition(1)).unwrap();
        batches.close_due(far, &mut under_way).unwrap();
        under_way.last().unwrap().fate.begin();
    }
    assert_eq!(under_way.len(), 2);
    let mut ready = Vec::new();
    for value in [b"c", b"d"] {
        append(&mut batches, &ProducerRecord::to("t", value).partition(1)).unwrap();
        append(&mut batches, &ProducerRecord::to("t", value).partition(2)).unwrap();
        assert_eq!(batches.close_due(far, &mut ready).unwrap(), None);
    }
    let partitions: Vec<_> = ready.iter().map(|ready| ready.topic_partition.partition).collect();
    assert_eq!(partitions, [2, 2], "nothing of partition 2 is under way here");
    ready.clear();

    let settled = under_way.pop().unwrap();
    settled.fate.end();
    assert!(batches.settled(settled.batch), "one waits for it");
    batches.close_due(far, &mut ready).unwrap();
    assert_eq!(values(ready.pop().unwrap()), [b"c", b"d"]);
    let settled = under_way.pop().unwrap();
    settled.fate.end();
    assert!(!batches.settled(settled.batch));
}

#[test]
fn whoever_flushes_waits_for_no_other_batch() {
    let mut batches = batches(BatchOptions { max_in_flight: 0, ..OPTIONS });
    append(&mut batches, &ProducerRecord::to("t", b"a")).unwrap();
    let mut ready = Vec::new();
    batches.close_due(Instant::now() + OPTIONS.linger, &mut ready).unwrap();
    assert!(ready.is_empty());
    batches.close_all(&mut ready).unwrap();
    assert_eq!(ready.len(), 1);
}

#[test]
fn without_room_no_batch_is_begun_and_nothing_is_lost() {
    let mut batches = batches(OPTIONS);
    let record = ProducerRecord::to("t", &[b'x'; 100]).partition(0);
    let full = batches.append(&record, 7, || false);
    assert!(matches!(full, Err(SendError::Full { .. })), "{full:?}");
    append(&mut batches, &record).unwrap();
    // The open batch has no room for the second, and there is none for another batch.
    assert!(matches!(batches.append(&record, 7, || false), Err(SendError::Full { .. })));
    let taken = append(&mut batches, &record).unwrap();
    assert_eq!(taken.ready.map(|ready| values(*ready)).map(|values| values.len()), Some(1));
}

#[test]
fn what_can_not_be_written_is_refused_by_name() {
    let mut batches = batches(OPTIONS);
    let large = [0; 2000];
    let refused = [
        (ProducerRecord::to("t", &large), "t-"),
        (ProducerRecord::to("t", b"").partition(9), "there is no partition 9"),
        (ProducerRecord::to("t", b"").partition(-1), "there is no partition -1"),
        (ProducerRecord::to("u", b""), "topic 'u' was not prepared"),
    ];
    for (record, expected) in refused {
        let error = append(&mut batches, &record).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let mut ready = Vec::new();
    batches.close_all(&mut ready).unwrap();
    assert!(ready.is_empty());
}

#[test]
fn a_record_that_no_request_carries_is_refused_whatever_batch_is_open() {
    let large = [0; 1001];
    for (max_request_bytes, taken) in [(1000, 1), (150, 0)] {
        let mut batches = batches(BatchOptions { max_request_bytes, ..OPTIONS });
        append(&mut batches, &ProducerRecord::to("t", b"kept").partition(0)).unwrap();
        let mut ready = Vec::new();
        let mut refused = 0;
        for value in [&large[..], &large[..120]] {
            match append(&mut batches, &ProducerRecord::to("t", value).partition(0)) {
                Ok(taken) => ready.extend(taken.ready.map(|ready| *ready)),
                Err(SendError::RecordTooLarge { .. }) => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
        batches.close_all(&mut ready).unwrap();
        let kept: Vec<_> = ready.into_iter().flat_map(values).collect();
        assert_eq!((kept[0].as_slice(), kept.len(), refused), (&b"kept"[..], 1 + taken, 2 - taken));
    }
}

#[test]
fn records_without_a_key_fill_one_batch_after_the_other_and_avoid_leaderless_partitions() {
    let mut batches = OpenBatches::new(OPTIONS, 3);
    batches.describe(&Arc::from("t"), &[true, false, true], Instant::now());
    let mut partitions = Vec::new();
    for _ in 0..2000 {
        let taken = append(&mut batches, &ProducerRecord::to("t", b"0123456789")).unwrap();
        partitions.push(taken.delivery.topic_partition().partition);
    }
    assert!(partitions.iter().all(|partition| [0, 2].contains(partition)));
    assert!(partitions.contains(&0) && partitions.contains(&2));
    let changes = partitions.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(changes < 2000 / 8, "{changes} changes: records were not kept together");
}

#[test]
fn with_keys_ignored_they_do_not_choose_the_partition() {
    let mut batches = batches(BatchOptions { ignore_keys: true, ..OPTIONS });
    let mut partitions = std::collections::BTreeSet::new();
    for _ in 0..2000 {
        let record = ProducerRecord::to("t", b"0123456789").key(b"one");
        partitions
            .insert(append(&mut batches, &record).unwrap().delivery.topic_partition().partition);
    }
    assert_eq!(partitions.len(), 4);
}
