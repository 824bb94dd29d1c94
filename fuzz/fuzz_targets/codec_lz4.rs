//! See `millstream-fuzz-targets`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| (millstream_fuzz_targets::target("codec_lz4").run)(input));
