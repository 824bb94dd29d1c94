//! The binary as a user meets it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail as tests do"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use millstream_engine::kafka::{ClientConfig, KafkaClient, ReadUntil, TopicPartition, read_topic};
use millstream_engine::ledger_topic;

fn millstream(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_millstream"))
        .args(arguments)
        .output()
        .expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The number after a label of the verdict.
fn figure(verdict: &str, label: &str) -> u64 {
    let line = verdict.lines().find(|line| line.trim_start().starts_with(label));
    let line = line.unwrap_or_else(|| panic!("{label:?} is missing in:\n{verdict}"));
    let number = line.trim_start().trim_start_matches(label).split_whitespace().next();
    number.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no number in {line:?}"))
}

#[test]
fn the_demo_ends_with_a_clean_verdict() {
    let output = millstream(&["demo"]);
    let (verdict, progress) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{verdict}{progress}");
    assert_eq!(figure(&verdict, "records in"), 26_390, "{verdict}");
    assert!(figure(&verdict, "windows out") > 1_000, "{verdict}");
    for label in ["lost", "duplicated", "wrong"] {
        assert_eq!(figure(&verdict, label), 0, "{verdict}");
    }
    // One every 100 ms is what the demo says of itself; a machine under load may take longer.
    assert!(figure(&verdict, "transactions") > 10, "{verdict}");
    for counted in ["of 26390 events loaded", "events read", "transactions committed"] {
        assert!(progress.contains(counted), "plain lines where there is no terminal:\n{progress}");
    }
    assert!(!progress.contains('\u{1b}'), "colours in a pipe:\n{progress}");
}

#[test]
fn the_demo_survives_kills_and_says_how_it_recovered() {
    let output = millstream(&["demo", "--crash", "3"]);
    let (verdict, progress) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{verdict}{progress}");
    assert_eq!(figure(&verdict, "lost") + figure(&verdict, "duplicated"), 0, "{verdict}");
    assert_eq!(figure(&verdict, "kills"), 3, "{verdict}");
    assert!(figure(&verdict, "state resumed") >= 2, "{verdict}");
    assert!(verdict.contains("of 3 restarts"), "{verdict}");
    assert_eq!(progress.matches("; restarted from").count(), 3, "{progress}");
}

const FLIGHT: &str = r#"{"origin":"JFK","dep_delay":1,"arr_delay":2,"landed_ms":3}"#;

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text.as_bytes()).expect("compressed");
    encoder.finish().expect("compressed")
}

#[test]
fn input_that_can_not_be_used_is_refused_with_its_name_and_a_next_step() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = gzip(&format!("{FLIGHT}\n").repeat(1000));
    let files: [(&str, Vec<u8>, i32, &[&str]); 6] = [
        (
            "no-flight",
            format!("{FLIGHT}\n{{\"origin\":\"JFK\"}}\n").into(),
            65,
            &["line 2", "give JSON"],
        ),
        ("latin-1", b"{\"origin\":\"\xe9\"}\n".to_vec(), 65, &["line 1", "UTF-8"]),
        ("empty", b" \n\n".to_vec(), 65, &["no lines", "give a file"]),
        ("cut", whole[..whole.len() / 2].to_vec(), 65, &["not whole gzip", "gzip -t"]),
        (
            "overflow",
            FLIGHT.replace(":2,", ":9223372036854775807,").into(),
            65,
            &["arr_delay", "line 1"],
        ),
        ("wide", "x".repeat(3_000_000).into(), 65, &["line 1", "longer"]),
    ];
    for (name, bytes, code, words) in files {
        let file = folder.path().join(name);
        std::fs::write(&file, bytes).expect("a file");
        refused(
            &["demo", "--input", &file.display().to_string()],
            code,
            &[words, &[name]].concat(),
        );
    }
    let folder = folder.path().display().to_string();
    refused(&["demo", "--input", &folder], 66, &[&folder, "is a directory", "give one file"]);
    refused(&["demo", "--input", "no/such/file"], 66, &["no/such/file", "give the path"]);
    refused(&["dev", "--load", "flights=no/such/file"], 66, &["no/such/file", "give the path"]);
}

/// Runs `arguments` and expects the exit code and all of `words` on standard error.
fn refused(arguments: &[&str], code: i32, words: &[&str]) {
    let output = millstream(arguments);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    for word in words {
        assert!(said.contains(word), "{word:?} is missing of {arguments:?} in: {said}");
    }
}

#[test]
fn exit_codes_are_those_of_the_readme() {
    refused(&["demo", "-b", "localhost"], 78, &["bootstrap.servers", "host:port"]);
    refused(&["demo", "-b", ""], 78, &["bootstrap.servers"]);
    refused(&["dev", "--listen", "no-port"], 78, &["no-port"]);
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    refused(&["dev", "--listen", &address], 78, &[&address]);
    std::thread::spawn(move || {
        for stream in taken.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut heard = [0; 64];
            let _ = stream.read(&mut heard);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    refused(&["demo", "-b", &address], 69, &[&address, "HTTP"]);
    // A port that was free a moment ago.
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address = free.expect("a free port").to_string();
    refused(&["demo", "-b", &address], 69, &[&address, "refused"]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("a file");
    let data_dir = file.display().to_string();
    refused(&["dev", "--listen", "127.0.0.1:0", "--data-dir", &data_dir], 73, &["data folder"]);
    for wrong in [
        ["demo", "--checkpoint-interval", "0ms"],
        ["demo", "--checkpoint-interval", "10h"],
        ["demo", "--crash", "1001"],
        ["dev", "--topic", "flights:0"],
        ["dev", "--load", "flights"],
    ] {
        refused(&wrong, 2, &[wrong[2]]);
    }
}

/// Where the readme's table of exit codes would be wrong without anybody noticing.
#[test]
fn the_readme_lists_every_exit_code() {
    let readme = include_str!("../../README.md");
    for code in ["0", "1", "2", "65", "66", "69", "70", "73", "74", "76", "78", "101", "129", "130"]
    {
        assert!(readme.contains(&format!("\n| {code}")), "{code} is missing");
    }
}

/// Standard output as a pipe that nobody reads.
fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

#[test]
fn standard_output_that_takes_nothing_is_no_reason_to_panic() {
    let folder = tempfile::tempdir().expect("a folder");
    let one = folder.path().join("one.jsonl");
    std::fs::write(&one, FLIGHT).expect("a file");
    let one = one.display().to_string();
    let commands: [&[&str]; 5] = [
        &["completions", "bash"],
        &["completions", "zsh"],
        &["version"],
        &["--help"],
        &["demo", "--input", &one],
    ];
    for arguments in commands {
        let run = |stdout: Stdio| {
            let output = Command::new(env!("CARGO_BIN_EXE_millstream"))
                .args(arguments)
                .stdout(stdout)
                .stderr(Stdio::piped())
                .output()
                .expect("the binary runs");
            let said = text(&output.stderr);
            assert!(!said.contains("panicked"), "{arguments:?}: {said}");
            output.status.code()
        };
        assert_eq!(run(closed_pipe()), Some(0), "{arguments:?} into a closed pipe");
        if let Ok(full) = std::fs::File::options().write(true).open("/dev/full")
            && arguments != ["--help"]
        {
            assert_eq!(run(full.into()), Some(74), "{arguments:?} into a full disk");
        }
    }
    // Nor is standard error.
    let status = Command::new(env!("CARGO_BIN_EXE_millstream"))
        .args(["demo", "--input", "no/such/file"])
        .stderr(closed_pipe())
        .status();
    assert_eq!(status.expect("the binary runs").code(), Some(66));
}

/// A development broker as a child process.
struct Broker {
    child: Child,
    address: String,
    notes: Option<ChildStderr>,
}

impl Broker {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_millstream"))
            .arg("dev")
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let notes = child.stderr.take();
        Self { child, address: line.trim().to_owned(), notes }
    }

    /// Ends it by a signal; what it has said on standard error.
    fn stop(mut self) -> String {
        signal(&self.child, "-TERM");
        let status = ended(&mut self.child);
        let said = all_of(self.notes.take());
        assert!(status.success(), "{status}: {said}");
        said
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn signal(child: &Child, signal: &str) {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

fn ended(child: &mut Child) -> ExitStatus {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match child.try_wait().expect("a status") {
            Some(status) => return status,
            None => assert!(Instant::now() < deadline, "it does not end"),
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn all_of(pipe: Option<impl Read>) -> String {
    let mut said = String::new();
    pipe.expect("a pipe").read_to_string(&mut said).expect("text");
    said
}

#[test]
fn the_development_broker_prints_its_address_and_ends_by_a_signal() {
    let broker = Broker::start(&["--listen", "127.0.0.1:0"]);
    assert!(std::net::TcpStream::connect(&broker.address).is_ok(), "{:?}", broker.address);
    assert!(!broker.stop().contains("warning"), "loopback is no reason to warn");
}

#[test]
fn an_open_broker_is_warned_of_and_an_address_can_be_used_as_printed() {
    let broker = Broker::start(&["--listen", "0.0.0.0:0"]);
    let port = broker.address.strip_prefix("127.0.0.1:").expect("loopback").to_owned();
    let said = broker.stop();
    assert!(said.contains(&format!("0.0.0.0:{port}")) && said.contains("warning"), "{said}");
    // Where the machine has IPv6.
    if TcpListener::bind("[::1]:0").is_ok() {
        let broker = Broker::start(&["--listen", "[::1]:0", "--topic", "t:2"]);
        assert!(broker.address.starts_with("[::1]:"), "{}", broker.address);
        assert!(broker.stop().contains("topic t, 2 partitions"));
    }
}

#[test]
fn files_are_loaded_once_and_spread_over_the_partitions() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("a.txt"), "1\n2\n\n3\r\n").expect("a file");
    std::fs::write(path("b.gz"), gzip("4\n5\n")).expect("a file");
    let (a, b) = (format!("numbers={}", path("a.txt")), format!("numbers={}", path("b.gz")));
    let data_dir = path("data");
    let arguments: &[&str] =
        &["--listen", "127.0.0.1:0", "--data-dir", &data_dir, "--topic", "numbers:2"];
    let loading = [arguments, &["--load", &a, "--load", &b]].concat();
    let broker = Broker::start(&loading);
    assert_eq!(values(&broker.address, "numbers", 2), [["1", "3", "4"].as_slice(), &["2", "5"]]);
    let said = broker.stop();
    assert!(said.contains("3 records loaded") && said.contains("2 records loaded"), "{said}");

    let broker = Broker::start(&loading);
    let found: usize = values(&broker.address, "numbers", 2).iter().map(Vec::len).sum();
    assert_eq!(found, 5, "nothing is loaded twice");
    assert!(broker.stop().contains("holds 5 records already"));

    let other = ["dev", "--listen", "127.0.0.1:0", "--data-dir", &data_dir, "--topic", "numbers:3"];
    refused(&other, 78, &["numbers", "2 partitions"]);
}

fn on_a_client<T>(address: &str, ask: impl AsyncFnOnce(&KafkaClient) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let client = KafkaClient::connect(ClientConfig::new(address)).await.expect("connected");
        let answer = ask(&client).await;
        client.close().await;
        answer
    })
}

/// The values in each partition of `topic`.
fn values(address: &str, topic: &str, partitions: i32) -> Vec<Vec<String>> {
    let mut found = vec![Vec::new(); partitions as usize];
    on_a_client(address, async |client| {
        let starts = (0..partitions).map(|partition| (TopicPartition::new(topic, partition), 0));
        let patience = Duration::from_secs(20);
        let until = ReadUntil::HighWatermark;
        read_topic(client, &starts.collect(), until, patience, |place, record| {
            found[place.partition as usize].push(text(record.value.expect("a value")));
        })
        .await
        .expect("read");
    });
    found
}

/// The demo's topics on a cluster: those of `names` that are there.
fn topics_of_the_demo(address: &str, progress: &str) -> Vec<String> {
    let line = progress.lines().find(|line| line.starts_with("output")).expect("the output topic");
    let output = line.split_whitespace().nth(1).expect("a name");
    let job = output.strip_suffix("-landings").expect("a job's name");
    let names = [output.to_owned(), format!("{job}-flights"), ledger_topic(job)];
    on_a_client(address, async |client| {
        let mut found = Vec::new();
        for name in names {
            if client.describe_topic(&name).await.expect("an answer").is_some() {
                found.push(name);
            }
        }
        found
    })
}

#[test]
fn the_demo_leaves_nothing_on_a_cluster_unless_it_is_told_to() {
    let broker = Broker::start(&["--listen", "127.0.0.1:0"]);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("one.jsonl");
    std::fs::write(&file, FLIGHT).expect("a file");
    let file = file.display().to_string();
    let demo = ["demo", "-b", &broker.address, "--input", &file];
    let gone = millstream(&demo);
    assert!(gone.status.success(), "{}", text(&gone.stderr));
    assert_eq!(topics_of_the_demo(&broker.address, &text(&gone.stderr)), Vec::<String>::new());
    let kept = millstream(&[demo.as_slice(), &["--keep-topics"]].concat());
    let said = text(&kept.stderr);
    let topics = topics_of_the_demo(&broker.address, &said);
    assert_eq!(topics.len(), 3, "{said}");
    let listed = said.split_once("stay on the cluster").expect("a list").1;
    assert!(topics.iter().all(|topic| listed.contains(topic)), "{said}");
}

#[test]
fn a_signal_ends_the_demo_and_cleans_up_behind_it() {
    let broker = Broker::start(&["--listen", "127.0.0.1:0"]);
    let ways: [(&[&str], &str, i32); 3] = [
        (&[], "-TERM", 143),
        (&["--crash", "3"], "-INT", 130),
        (&["--bootstrap-server", &broker.address], "-INT", 130),
    ];
    for (arguments, name, code) in ways {
        let temporary = tempfile::tempdir().expect("a folder");
        let mut child = Command::new(env!("CARGO_BIN_EXE_millstream"))
            .arg("demo")
            .args(arguments)
            .env("TMPDIR", temporary.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut notes = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut said = String::new();
        // The job is at work: its first checkpoint counts.
        while !said
            .lines()
            .any(|line| line.contains("(checkpoint") && !line.contains("(checkpoint 0)"))
        {
            assert_ne!(notes.read_line(&mut said).expect("a line"), 0, "it ended:\n{said}");
        }
        assert_ne!(std::fs::read_dir(temporary.path()).expect("a folder").count(), 0, "no state");
        signal(&child, name);
        assert_eq!(ended(&mut child).code(), Some(code), "{arguments:?}");
        notes.read_to_string(&mut said).expect("text");
        let left: Vec<_> = std::fs::read_dir(temporary.path()).expect("a folder").collect();
        assert!(left.is_empty(), "{arguments:?} left {left:?}:\n{said}");
        if !arguments.is_empty() && arguments[0] != "--crash" {
            assert_eq!(topics_of_the_demo(&broker.address, &said), Vec::<String>::new());
        }
    }
}

#[test]
fn version_completions_and_usage() {
    let version = text(&millstream(&["version"]).stdout);
    assert!(version.starts_with(concat!("millstream ", env!("CARGO_PKG_VERSION"))), "{version}");
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = millstream(&["completions", shell]);
        assert!(script.status.success() && text(&script.stdout).contains("demo"), "{shell}");
    }
    let wrong = millstream(&["dmeo"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("demo"), "the nearest command is named");
}
