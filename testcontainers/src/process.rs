//! Child processes that can not outlive the process that started them.
//!
//! Each child runs under a small `sh` that holds the reading end of a pipe from us. When the pipe closes, however we ended
//! (return, panic, SIGKILL), the shell kills the child and removes its folder. The same pipe carries signals for the child, so
//! no process id is ever used after the child was reaped.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// `$1` standard output of the child, `$2` its standard error, `$3` shell text to run after the child when we are gone (or empty),
/// the rest is the child's command line.
const WATCHDOG: &str = r#"
exec 3<&0
out=$1; err=$2; abandoned=$3
shift 3
"$@" </dev/null >>"$out" 2>>"$err" 3<&- &
child=$!
echo "$child"
(
    while read -r signal <&3; do
        kill -s "$signal" "$child" 2>/dev/null
        echo done
    done
    kill -s KILL "$child" 2>/dev/null
    exit 9
) &
watch=$!
exec 1>&- 3<&-
wait "$child" 2>/dev/null
status=$?
kill -s TERM "$watch" 2>/dev/null
wait "$watch" 2>/dev/null
if [ $? = 9 ]; then
    eval "$abandoned"
fi
exit $status
"#;

/// Signals that tests send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Ends the process at once; nothing is flushed.
    Kill,
    /// Asks the process to end.
    Term,
    /// What Ctrl-C sends.
    Int,
    /// Freezes the process.
    Stop,
    /// Lets a frozen process go on.
    Cont,
}

impl Signal {
    fn name(self) -> &'static str {
        match self {
            Self::Kill => "KILL",
            Self::Term => "TERM",
            Self::Int => "INT",
            Self::Stop => "STOP",
            Self::Cont => "CONT",
        }
    }
}

/// What to run, and where its output goes.
#[derive(Clone, Debug)]
pub struct GuardedCommand {
    program: OsString,
    args: Vec<OsString>,
    envs: Vec<(OsString, OsString)>,
    current_dir: Option<PathBuf>,
    stdout: PathBuf,
    stderr: PathBuf,
    when_abandoned: OsString,
}

impl GuardedCommand {
    /// A command whose output is thrown away.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            envs: Vec::new(),
            current_dir: None,
            stdout: PathBuf::from("/dev/null"),
            stderr: PathBuf::from("/dev/null"),
            when_abandoned: OsString::new(),
        }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable; the rest of the environment is ours.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.envs.push((name.into(), value.into()));
        self
    }

    /// The folder that the child starts in.
    #[must_use]
    pub fn current_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.current_dir = Some(folder.into());
        self
    }

    /// Appends standard output to a file.
    #[must_use]
    pub fn stdout(mut self, file: impl Into<PathBuf>) -> Self {
        self.stdout = file.into();
        self
    }

    /// Appends standard error to a file; it may be the same as for standard output.
    #[must_use]
    pub fn stderr(mut self, file: impl Into<PathBuf>) -> Self {
        self.stderr = file.into();
        self
    }

    /// Shell text that the watchdog runs after it killed the child because this process ended without dropping it. Quote what
    /// goes into it with [`shell_quoted`].
    #[must_use]
    pub fn when_abandoned(mut self, shell_text: impl Into<OsString>) -> Self {
        self.when_abandoned = shell_text.into();
        self
    }

    /// Starts the child.
    ///
    /// # Errors
    ///
    /// If `sh` can not be started. A program that does not exist shows as exit code 127.
    pub fn spawn(&self) -> io::Result<GuardedProcess> {
        for file in [&self.stdout, &self.stderr] {
            if file.is_absolute() && file != Path::new("/dev/null") {
                File::options().create(true).append(true).open(file)?;
            }
        }
        let mut command = Command::new("sh");
        command.args(["-c", WATCHDOG, "watchdog"]);
        command.arg(&self.stdout).arg(&self.stderr).arg(&self.when_abandoned);
        command.arg(&self.program).args(&self.args);
        command.envs(self.envs.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.current_dir {
            command.current_dir(folder);
        }
        let mut watchdog = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(stdin), Some(stdout)) = (watchdog.stdin.take(), watchdog.stdout.take()) else {
            return Err(io::Error::other("no pipe to the watchdog"));
        };
        let mut answers = BufReader::new(stdout);
        let mut line = String::new();
        answers.read_line(&mut line)?;
        let process_id = line.trim().parse().map_err(|_| {
            io::Error::other(format!("the watchdog answered {line:?} instead of a process id"))
        })?;
        Ok(GuardedProcess {
            watchdog,
            pipe: Mutex::new(Pipe { stdin, answers }),
            process_id,
            exit_code: None,
        })
    }
}

/// `text` as one word of a shell.
#[must_use]
pub fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// A running (or ended) child. Dropping it kills the child.
#[derive(Debug)]
pub struct GuardedProcess {
    watchdog: Child,
    // A signal and its answer belong together, and callers may share the process between threads.
    pipe: Mutex<Pipe>,
    process_id: u32,
    exit_code: Option<i32>,
}

#[derive(Debug)]
struct Pipe {
    stdin: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl GuardedProcess {
    /// The child's process id, for reading its `/proc` entry; signals go through [`signal`](Self::signal).
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.process_id
    }

    /// Sends a signal and returns when it took effect (for SIGSTOP) or was sent. A child that has ended takes no notice.
    pub fn signal(&self, signal: Signal) {
        let Ok(mut pipe) = self.pipe.lock() else { return };
        // Both fail only if the child has ended and its watchdog with it.
        if writeln!(pipe.stdin, "{}", signal.name()).is_ok() {
            let _ = pipe.answers.read_line(&mut String::new());
        }
        if signal == Signal::Stop {
            // Threads that run on another core stop a moment later.
            let deadline = Instant::now() + Duration::from_secs(10);
            while !self.stands_still() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Whether the child is frozen, or gone.
    fn stands_still(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process_id));
        // The state follows the name, which stands in parentheses.
        let state = stat.ok().and_then(|stat| stat.rsplit(')').next()?.trim_start().chars().next());
        matches!(state, None | Some('T' | 't' | 'Z' | 'X'))
    }

    /// The exit code if the child has ended; 128 + n if signal n ended it.
    ///
    /// # Errors
    ///
    /// If the operating system can not tell.
    pub fn try_wait(&mut self) -> io::Result<Option<i32>> {
        if self.exit_code.is_none() {
            let status = self.watchdog.try_wait()?;
            self.exit_code = status.map(|status| status.code().unwrap_or(137));
        }
        Ok(self.exit_code)
    }

    /// Waits until the child has ended, `None` if it still runs after `limit`.
    ///
    /// # Errors
    ///
    /// If the operating system can not tell.
    pub fn wait(&mut self, limit: Duration) -> io::Result<Option<i32>> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(code) = self.try_wait()? {
                return Ok(Some(code));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// SIGKILL, and waits until the child is gone.
    ///
    /// # Errors
    ///
    /// If the operating system can not tell how it ended.
    pub fn kill(&mut self) -> io::Result<i32> {
        self.signal(Signal::Kill);
        let status = self.watchdog.wait()?;
        let code = *self.exit_code.get_or_insert(status.code().unwrap_or(137));
        Ok(code)
    }
}

impl Drop for GuardedProcess {
    fn drop(&mut self) {
        // Failure means that it is gone already.
        let _ = self.kill();
    }
}

#[cfg(test)]
mod tests;
