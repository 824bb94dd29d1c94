//! The binary as a child process.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

/// A machine may be busy with more than this test.
const LIMIT: Duration = Duration::from_secs(120);

/// A command line.
#[derive(Clone, Debug)]
pub(crate) struct Tool {
    arguments: Vec<String>,
    input: Vec<u8>,
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A command that runs. Dropping it kills it.
pub(crate) struct Running {
    child: Child,
    out: Arc<Mutex<Vec<u8>>>,
    readers: Vec<JoinHandle<Vec<u8>>>,
}

/// `millstream` with arguments, split at blanks, for the cluster at `servers`.
pub(crate) fn tool(servers: &str, line: &str) -> Tool {
    let arguments = line.split_whitespace().map(str::to_owned);
    let tool = Tool { arguments: arguments.collect(), input: Vec::new() };
    tool.arg("--bootstrap-server").arg(servers)
}

impl Tool {
    /// One more argument, blanks and all.
    pub(crate) fn arg(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// With JSON for output.
    pub(crate) fn json(self) -> Self {
        self.arg("--output").arg("json")
    }

    /// With standard input.
    pub(crate) fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    /// Starts it with a standard input that stays open.
    pub(crate) fn start(&self) -> Running {
        self.start_as(Command::new(binary()))
    }

    /// The same as in a terminal, or as by nohup, whatever this test was started by.
    pub(crate) fn start_with_hangup(&self, is_ignored: bool) -> Running {
        let mut env = Command::new("env");
        env.arg(if is_ignored { "--ignore-signal=HUP" } else { "--default-signal=HUP" });
        env.arg(binary());
        self.start_as(env)
    }

    fn start_as(&self, mut command: Command) -> Running {
        let mut child = command
            .args(&self.arguments)
            .env_remove("MILLSTREAM_LOG")
            .env_remove("RUST_LOG")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let out = Arc::new(Mutex::new(Vec::new()));
        let stdout = child.stdout.take().unwrap();
        let stderr = child.stderr.take().unwrap();
        let readers = vec![collect(stdout, Some(Arc::clone(&out))), collect(stderr, None)];
        Running { child, out, readers }
    }

    /// Runs it to its end.
    pub(crate) fn run(&self) -> Said {
        let mut running = self.start();
        let mut stdin = running.child.stdin.take().unwrap();
        let input = self.input.clone();
        // A command that ends before it has read everything is no failure of the writer.
        let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let said = running.wait();
        writer.join().unwrap();
        said
    }

    /// Runs it, expects 0, and gives what it printed.
    #[track_caller]
    pub(crate) fn ok(&self) -> String {
        let said = self.run();
        assert_eq!(said.code, 0, "{:?}: {}\n{}", self.arguments, said.err, said.out);
        said.out
    }

    /// Runs it with JSON for output, expects 0, and gives its lines.
    #[track_caller]
    pub(crate) fn rows(self) -> Vec<Value> {
        rows(&self.json().ok())
    }

    /// Runs it, and expects this exit code and these words on standard error.
    #[track_caller]
    pub(crate) fn refused(&self, code: i32, words: &[&str]) -> Said {
        let said = self.run();
        assert_eq!(said.code, code, "{:?}: {}\n{}", self.arguments, said.err, said.out);
        for word in words {
            assert!(said.err.contains(word), "{word:?} is missing in {}", said.err);
        }
        said
    }
}

impl Running {
    /// Writes to its standard input.
    pub(crate) fn write(&mut self, text: &str) {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(text.as_bytes()).and_then(|()| stdin.flush()).unwrap();
    }

    /// Ends its standard input, and waits for its end.
    pub(crate) fn end(mut self) -> Said {
        self.child.stdin = None;
        self.wait()
    }

    /// What it has printed so far.
    pub(crate) fn out(&self) -> String {
        String::from_utf8_lossy(&self.out.lock().unwrap()).into_owned()
    }

    /// What Ctrl-C does.
    pub(crate) fn interrupt(&self) {
        self.signal("-INT");
    }

    /// What the end of a terminal does.
    pub(crate) fn hang_up(&self) {
        self.signal("-HUP");
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &id]).status().unwrap();
        assert!(sent.success());
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self) -> Said {
        let deadline = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "it did not end; it printed {}", self.out());
            std::thread::sleep(Duration::from_millis(5));
        };
        let err = self.readers.pop().unwrap().join().unwrap();
        self.readers.pop().unwrap().join().unwrap();
        let err = String::from_utf8_lossy(&err).into_owned();
        Said { code: status.code().unwrap_or(-1), out: self.out(), err }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Each line as JSON.
#[track_caller]
pub(crate) fn rows(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn collect(
    mut pipe: impl Read + Send + 'static,
    shared: Option<Arc<Mutex<Vec<u8>>>>,
) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        let mut buffer = [0; 8192];
        while let Ok(read @ 1..) = pipe.read(&mut buffer) {
            all.extend(&buffer[..read]);
            if let Some(shared) = &shared {
                shared.lock().unwrap().extend(&buffer[..read]);
            }
        }
        all
    })
}

/// The binary that `cargo test --workspace` has built.
pub(crate) fn binary() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    // <target>/<profile>/deps/<test>
    let path = test.ancestors().nth(2).unwrap().join("millstream");
    assert!(
        path.exists(),
        "{} is missing; build it with: cargo build -p millstream",
        path.display()
    );
    path
}
