//! Compressed bytes of a stranger: decoded within the cap or refused, the same by a decoder that was used before.

use millstream_protocol::records::{
    BatchBuilder, Compression, DecodeLimits, Decompressor, RecordSet,
};

pub(super) fn codec(codec: Compression, input: &[u8]) {
    let limits = DecodeLimits { max_decompressed_batch_bytes: LIMIT_BYTES };
    let mut used = Decompressor::new();
    let first = used.decompress(codec, input, &limits);
    if let Ok(output) = &first {
        assert!(output.len() <= LIMIT_BYTES);
    }
    assert_eq!(used.decompress(codec, input, &limits), first, "what came before must not matter");
    assert_eq!(Decompressor::new().decompress(codec, input, &limits), first);

    let mut builder = BatchBuilder::new(codec, 1 << 20);
    builder.append(0, None, Some(input), &[]).expect("a small record");
    let batch = builder.build().expect("a batch").expect("of one record");
    let batch = RecordSet::new(batch.into_bytes()).next().expect("one batch").expect("a good one");
    let records = batch.records(&limits, &mut used).expect("what we wrote");
    let record = records.iter().next().expect("one record").expect("a good one");
    assert_eq!(record.value, Some(input));
}

const LIMIT_BYTES: usize = 1 << 20;
