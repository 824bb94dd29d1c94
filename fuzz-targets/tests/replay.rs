//! Every kept and every generated input, through the function that libFuzzer runs.

use std::time::{Duration, Instant};

use millstream_fuzz_targets::{Damage, Random, TARGETS, corpus, damage, seeds};

#[test]
fn kept_inputs_break_no_promise() {
    for target in TARGETS {
        let kept = corpus::read(target.name).expect("the kept inputs");
        let generated = seeds(target.name);
        assert!(!generated.is_empty(), "{} has no seeds", target.name);
        for input in kept.iter().chain(&generated) {
            let begun = Instant::now();
            (target.run)(input);
            let took = begun.elapsed();
            assert!(took < SLOW, "{}: {took:?} for {}", target.name, input.escape_ascii());
        }
    }
}

/// A little fuzzing without coverage, the same each time.
#[test]
fn damaged_inputs_break_no_promise() {
    for target in TARGETS {
        let mut random = Random::new(0x6d69_6c6c);
        let mut inputs = seeds(target.name);
        inputs.extend(corpus::read(target.name).expect("the kept inputs"));
        for round in 0..ROUNDS {
            let input = &inputs[random.below(inputs.len())];
            let how = Damage::ALL[round % Damage::ALL.len()];
            let spared = random.below(3);
            (target.run)(&damage(&mut random, input, spared, how));
        }
    }
}

/// Every file of kept inputs belongs to a target.
#[test]
fn nothing_is_kept_that_nobody_replays() {
    let folder = corpus::path("frame");
    let folder = folder.parent().expect("a folder");
    for file in folder.read_dir().expect("the folder of kept inputs") {
        let path = file.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        assert!(TARGETS.iter().any(|target| target.name == name), "{name} is no target");
    }
}

/// libFuzzer gives up at ten seconds; on a busy machine one of these takes milliseconds.
const SLOW: Duration = Duration::from_secs(5);
const ROUNDS: usize = 1000;
