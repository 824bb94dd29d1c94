//! `examples/flights` as a child process.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use millstream_testcontainers::{GuardedCommand, GuardedProcess, Signal};

use crate::example;

/// Which query the job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Query {
    /// Running totals by carrier: one output record for each input.
    Q1,
    /// Landings by origin and hour.
    Q2,
}

impl Query {
    /// As on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Q1 => "q1",
            Self::Q2 => "q2",
        }
    }
}

/// A command line of the job.
#[derive(Clone, Debug)]
pub struct FlightsCommand {
    /// The query.
    pub query: Query,
    /// `--bootstrap-server`.
    pub bootstrap_server: String,
    /// `--input-topic`.
    pub input_topic: String,
    /// `--output-topic`.
    pub output_topic: String,
    /// `--state-dir`.
    pub state_dir: PathBuf,
    /// `--job`, if not the default.
    pub job: Option<String>,
    /// `--parallelism`.
    pub parallelism: usize,
    /// `--checkpoint-interval`.
    pub checkpoint_interval: Duration,
    /// `-X` properties.
    pub properties: Vec<String>,
    /// `-D` options and other arguments, as they are.
    pub arguments: Vec<String>,
    /// Environment, for crash points and mutants.
    pub environment: Vec<(&'static str, String)>,
}

impl FlightsCommand {
    /// The job of the acceptance tests: two workers, 100 ms between checkpoints.
    #[must_use]
    pub fn new(
        query: Query,
        bootstrap_server: &str,
        input: &str,
        output: &str,
        state_dir: &Path,
    ) -> Self {
        Self {
            query,
            bootstrap_server: bootstrap_server.to_owned(),
            input_topic: input.to_owned(),
            output_topic: output.to_owned(),
            state_dir: state_dir.to_owned(),
            job: None,
            parallelism: 2,
            checkpoint_interval: Duration::from_millis(100),
            properties: Vec::new(),
            arguments: Vec::new(),
            environment: Vec::new(),
        }
    }

    /// Adds a `-X` property.
    #[must_use]
    pub fn property(mut self, property: &str) -> Self {
        self.properties.push(property.to_owned());
        self
    }

    /// Adds a `-D` option.
    #[must_use]
    pub fn option(self, option: &str) -> Self {
        self.argument("-D").argument(option)
    }

    /// Adds an argument.
    #[must_use]
    pub fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// Sets an environment variable of the job.
    #[must_use]
    pub fn environment(mut self, name: &'static str, value: &str) -> Self {
        self.environment.push((name, value.to_owned()));
        self
    }

    /// With another state directory.
    #[must_use]
    pub fn state_dir(mut self, state_dir: &Path) -> Self {
        state_dir.clone_into(&mut self.state_dir);
        self
    }

    /// Starts it.
    ///
    /// # Panics
    ///
    /// If it can not be started.
    #[must_use]
    pub fn start(&self, bounded: bool) -> FlightsJob {
        let program = example("flights");
        let log = tempfile::Builder::new().prefix("flights-").suffix(".log").tempfile();
        let log = log.expect("a log file").into_temp_path();
        let mut args: Vec<OsString> = Vec::new();
        let mut arg = |name: &str, value: &dyn AsRef<std::ffi::OsStr>| {
            args.push(name.into());
            args.push(value.as_ref().to_owned());
        };
        arg("--query", &self.query.name());
        arg("--bootstrap-server", &self.bootstrap_server);
        arg("--input-topic", &self.input_topic);
        arg("--output-topic", &self.output_topic);
        arg("--state-dir", &self.state_dir);
        arg("--parallelism", &self.parallelism.to_string());
        arg("--checkpoint-interval", &format!("{}ms", self.checkpoint_interval.as_millis()));
        if let Some(job) = &self.job {
            arg("--job", job);
        }
        for property in &self.properties {
            arg("-X", property);
        }
        args.extend(self.arguments.iter().map(OsString::from));
        if bounded {
            args.push("--bounded".into());
        }
        let mut command = GuardedCommand::new(program).args(args).stdout(&*log).stderr(&*log);
        for (name, value) in &self.environment {
            command = command.env(name, value);
        }
        let process = command.spawn().expect("the flights job starts");
        FlightsJob { process, log }
    }

    /// Runs it to its end with `--bounded`.
    ///
    /// # Panics
    ///
    /// If it does not end with 0 within `limit`.
    pub fn run_bounded(&self, limit: Duration) {
        let mut job = self.start(true);
        job.expect_exit(0, limit);
    }
}

/// A running job. Dropping it kills it.
#[derive(Debug)]
pub struct FlightsJob {
    process: GuardedProcess,
    log: tempfile::TempPath,
}

impl FlightsJob {
    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Kills it and waits until it is gone.
    ///
    /// # Panics
    ///
    /// If it had ended by itself, with what it said.
    pub fn kill(mut self) {
        if let Ok(Some(code)) = self.process.try_wait() {
            panic!("the job ended with {code} before it was killed:\n{}", self.output());
        }
        self.process.signal(Signal::Kill);
        assert!(
            matches!(self.process.wait(Duration::from_secs(10)), Ok(Some(_))),
            "a killed process does not end"
        );
    }

    /// Asks it to end; it takes a last checkpoint.
    ///
    /// # Panics
    ///
    /// If it does not end with 0 within 10 s.
    pub fn stop(mut self) {
        self.process.signal(Signal::Term);
        self.expect_exit(0, Duration::from_secs(10));
    }

    /// The exit code once it has ended.
    ///
    /// # Panics
    ///
    /// If it still runs after `limit`.
    pub fn exit_code(&mut self, limit: Duration) -> i32 {
        match self.process.wait(limit) {
            Ok(Some(code)) => code,
            other => panic!("the job did not end within {limit:?} ({other:?}):\n{}", self.output()),
        }
    }

    /// Waits for its end.
    ///
    /// # Panics
    ///
    /// If it ends otherwise or not within `limit`.
    pub fn expect_exit(&mut self, code: i32, limit: Duration) {
        let found = self.exit_code(limit);
        assert_eq!(found, code, "exit code of the job; it said:\n{}", self.output());
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(Some(_)))
    }

    /// Everything it has printed.
    #[must_use]
    pub fn output(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }
}
