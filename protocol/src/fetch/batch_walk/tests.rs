use super::*;

#[test]
fn next_offset_comes_from_the_batch_end_even_without_records() {
    let set = [batch(50, 9, 3), batch(60, 4, 4)].concat();
    assert_eq!(
        walk(&set, 57),
        BatchWalk { whole_bytes: 122, next_offset: 65, leader_epoch: 4, defect: None }
    );
}

#[test]
fn batch_cut_off_at_any_byte_ends_the_walk_silently() {
    let whole = batch(0, 0, 1);
    let cut = batch(1, 0, 1);
    for at in 0..cut.len() {
        let set = [&whole[..], &cut[..at]].concat();
        assert_eq!(
            walk(&set, 0),
            BatchWalk { whole_bytes: 61, next_offset: 1, leader_epoch: 1, defect: None },
            "cut at {at}"
        );
    }
}

#[test]
fn batches_below_the_position_do_not_move_it_back() {
    assert_eq!(walk(&batch(10, 2, 1), 40).next_offset, 40);
}

/// KIP-724: a compressed message bears the offset of its last record, so that the next follows it.
#[test]
fn messages_of_older_formats_are_whole_by_their_length() {
    let message = |offset: i64, magic: u8| {
        let mut bytes = batch(offset, 9, 5)[..30].to_vec();
        bytes[8..12].copy_from_slice(&18_i32.to_be_bytes());
        bytes[16] = magic;
        bytes
    };
    let old = [message(6, 0), message(9, 1)].concat();
    assert_eq!(
        walk(&[&old[..], &message(10, 1)[..20]].concat(), 6),
        BatchWalk { whole_bytes: 60, next_offset: 10, leader_epoch: -1, defect: None }
    );
    let upgraded = [&old[..], &batch(10, 1, 4)].concat();
    assert_eq!(
        walk(&upgraded, 6),
        BatchWalk { whole_bytes: 121, next_offset: 12, leader_epoch: 4, defect: None }
    );
}

#[test]
fn bytes_that_are_no_batch_are_a_defect_behind_the_whole_ones() {
    let cases = [
        (
            with(with(batch(7, 0, 1), 16, &[1]), 8, &13_i32.to_be_bytes()),
            Defect::Corrupt { offset: 7, detail: "impossible length" },
        ),
        (with(batch(7, 0, 1), 16, &[3]), Defect::Corrupt { offset: 7, detail: "unknown magic" }),
        (
            with(batch(7, 0, 1), 8, &48_i32.to_be_bytes()),
            Defect::Corrupt { offset: 7, detail: "impossible length" },
        ),
        (
            with(batch(7, 0, 1), 8, &(-1_i32).to_be_bytes()),
            Defect::Corrupt { offset: 7, detail: "impossible length" },
        ),
        (
            with(batch(7, 0, 1), 23, &(-1_i32).to_be_bytes()),
            Defect::Corrupt { offset: 7, detail: "negative last offset delta" },
        ),
        (
            batch(i64::MAX, 0, 1),
            Defect::Corrupt { offset: i64::MAX, detail: "offset beyond the largest one" },
        ),
        (batch(-5, 0, 1), Defect::Corrupt { offset: -5, detail: "negative base offset" }),
    ];
    for (bad, defect) in cases {
        let set = [batch(6, 0, 1), bad].concat();
        assert_eq!(
            walk(&set, 6),
            BatchWalk { whole_bytes: 61, next_offset: 7, leader_epoch: 1, defect: Some(defect) }
        );
    }
}

#[test]
fn huge_length_is_a_cut_batch_and_allocates_nothing() {
    let set = with(batch(0, 0, 1), 8, &i32::MAX.to_be_bytes());
    assert_eq!(walk(&set, 0).whole_bytes, 0);
    assert_eq!(walk(&set, 0).defect, None);
}

/// A batch header without records.
pub(in crate::fetch) fn batch(
    base_offset: i64,
    last_offset_delta: i32,
    leader_epoch: i32,
) -> Vec<u8> {
    let mut bytes = vec![0; 61];
    bytes[..8].copy_from_slice(&base_offset.to_be_bytes());
    bytes[8..12].copy_from_slice(&49_i32.to_be_bytes());
    bytes[12..16].copy_from_slice(&leader_epoch.to_be_bytes());
    bytes[16] = 2;
    bytes[23..27].copy_from_slice(&last_offset_delta.to_be_bytes());
    bytes
}

fn with(mut bytes: Vec<u8>, at: usize, patch: &[u8]) -> Vec<u8> {
    bytes[at..at + patch.len()].copy_from_slice(patch);
    bytes
}
