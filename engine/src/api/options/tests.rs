use super::*;
use crate::api::StreamExecutionEnvironment;

fn with(options: &[(&str, &str)]) -> Result<ExecutionConfig, OptionError> {
    let mut env = StreamExecutionEnvironment::new("job");
    for (name, value) in options {
        env = env.option(name, value)?;
    }
    Ok(env.config().clone())
}

#[test]
fn options_are_named_and_written_as_in_flink() {
    let config = with(&[
        ("execution.checkpointing.interval", "10 s"),
        ("execution.checkpointing.timeout", "2min"),
        ("execution.checkpointing.min-pause", "500"),
        ("execution.checkpointing.tolerable-failed-checkpoints", "3"),
        ("execution.checkpointing.dirty-bytes", "16mb"),
        ("execution.checkpointing.num-retained", "5"),
        ("web.checkpoints.history", "100"),
    ])
    .expect("valid options");
    assert_eq!(config.checkpoint_interval, Duration::from_secs(10));
    let checkpoints = crate::api::CheckpointConfig {
        timeout: Duration::from_secs(120),
        min_pause: Duration::from_millis(500),
        tolerable_failed_checkpoints: 3,
        dirty_bytes_max: 16 << 20,
        num_retained: 5,
        history_size: 100,
    };
    assert_eq!(config.checkpoints, checkpoints);
}

#[test]
fn each_restart_strategy_has_its_own_options_and_flinks_defaults() {
    let strategy = |options: &[(&str, &str)]| with(options).map(|it| it.restart_strategy);
    let second = Duration::from_secs(1);
    assert_eq!(strategy(&[]), Ok(RestartStrategy::exponential_delay()));
    assert_eq!(strategy(&[(STRATEGY, "off")]), Ok(RestartStrategy::NoRestart));
    assert_eq!(
        strategy(&[(STRATEGY, "fixed-delay"), (FIXED_ATTEMPTS, "3")]),
        Ok(RestartStrategy::fixed_delay(3, second))
    );
    assert_eq!(
        strategy(&[(STRATEGY, "failure-rate"), (RATE_INTERVAL, "5 min")]),
        Ok(RestartStrategy::failure_rate(1, Duration::from_secs(300), second))
    );
    assert_eq!(
        strategy(&[(FIXED_ATTEMPTS, "3")]),
        Err(OptionError::OtherStrategy { name: FIXED_ATTEMPTS, belongs_to: "fixed-delay" })
    );
    let exponential = strategy(&[
        (INITIAL_BACKOFF, "10 ms"),
        (MAX_BACKOFF, "1 h"),
        (MULTIPLIER, "2"),
        (RESET_THRESHOLD, "1 d"),
        (JITTER, "0"),
        (EXPONENTIAL_ATTEMPTS, "infinite"),
    ]);
    let expected = RestartStrategy::ExponentialDelay {
        initial_backoff: Duration::from_millis(10),
        max_backoff: Duration::from_secs(3600),
        backoff_multiplier: 2.0,
        reset_backoff_threshold: Duration::from_secs(86_400),
        jitter_factor: 0.0,
        attempts_before_reset_backoff: u32::MAX,
    };
    assert_eq!(exponential, Ok(expected));
}

#[test]
fn what_is_no_option_or_no_value_is_refused_with_what_it_should_be() {
    let said = |name: &str, value: &str| with(&[(name, value)]).unwrap_err().to_string();
    let misspelt = said("execution.checkpointing.intervall", "1 s");
    assert!(misspelt.contains("did you mean execution.checkpointing.interval?"), "{misspelt}");
    assert_eq!(said("colour", "red"), "unknown option \"colour\"");
    for (name, value, word) in [
        (INTERVAL, "1 fortnight", "10 s"),
        (INTERVAL, "soon", "10 s"),
        (INTERVAL, "99999999999999999999 d", "10 s"),
        (DIRTY_BYTES, "1 barrel", "64mb"),
        (TOLERABLE_FAILED, "-1", "infinite"),
        (NUM_RETAINED, "-3", "from 1 on"),
        (NUM_RETAINED, "0", "from 1 on"),
        (PARALLELISM, "0", "from 1 on"),
        (HISTORY, "-1", "from 0 on"),
        (MULTIPLIER, "NaN", "1.5"),
        (STRATEGY, "sometimes", "fixed-delay"),
    ] {
        let text = said(name, value);
        assert!(text.contains(word) && text.contains(value), "{text}");
    }
}

/// Whether a job may have it.
fn is_allowed(config: &ExecutionConfig) -> bool {
    let problem = config.checkpoints.problem().or_else(|| config.restart_strategy.problem());
    problem.is_none() && !config.checkpoint_interval.is_zero()
}

#[test]
fn the_document_lists_every_option_with_its_default_and_bounds() {
    let document = include_str!("../../../../docs/options.md");
    let (_, options) = document.split_once("## Options of a job").expect("the chapter");
    let (options, _) = options.split_once("\n## ").expect("the chapter behind it");
    let mut listed = Vec::new();
    for row in options.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, value, default, bounds, _] = cells[..] else { panic!("five cells: {row}") };
        let name = name.trim_matches('`');
        listed.push(name);
        let strategy = ["fixed-delay", "failure-rate", "exponential-delay"]
            .into_iter()
            .find(|strategy| name.contains(strategy))
            .unwrap_or("exponential-delay");
        let set = |value: &str| with(&[(STRATEGY, strategy), (name, value)]);
        let said = set("no such value").unwrap_err().to_string();
        let word = match value {
            "time" => "a time such as",
            "size" => "a size such as",
            "count" => "or infinite",
            "number" => "a number",
            "name" => "one of",
            other => panic!("{other} is no type: {row}"),
        };
        assert!(said.contains(word), "{name} is no {value}: {said}");
        if default.starts_with('`') {
            let unset = with(&[(STRATEGY, strategy)]);
            assert_eq!(set(default.trim_matches('`')), unset, "the default of {name}");
        }
        let allowed = |value: &str| set(value).is_ok_and(|config| is_allowed(&config));
        let mut named = bounds.split('`').skip(1).step_by(2);
        if bounds.starts_with("above `") {
            assert!(named.next().is_some_and(|least| !allowed(least)), "{name} is {bounds}");
        } else if bounds.starts_with("from `") {
            let least = named.next().expect("a bound");
            assert!(allowed(least), "{name} is {bounds}");
            assert!(least == "0" || !allowed("0"), "{name} is {bounds}");
        } else {
            assert!(named.all(allowed), "{name} is one of {bounds}");
        }
    }
    let mut known = NAMES.to_vec();
    known.sort_unstable();
    listed.sort_unstable();
    assert_eq!(listed, known, "docs/options.md has a row for every option, and for no other");
}
