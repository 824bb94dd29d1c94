//! `millstream demo`: real data through Kafka exactly once, under the eyes of the user.

mod crash;
mod feed;
mod flight;
pub(crate) mod job;
mod progress;
mod verdict;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use millstream_dev_broker::{DevBroker, DevBrokerConfig};
use millstream_engine::kafka::{ClientConfig, KafkaClient, NewTopic};
use millstream_engine::ledger_topic;

use self::crash::Recovery;
use self::feed::{Fed, PARTITIONS};
use self::job::{Place, Report};
use self::progress::Progress;
use self::verdict::Verdict;
use super::CommandError;
use crate::args::DemoArguments;

/// How often the progress of a job in this process is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

pub(crate) fn run(arguments: &DemoArguments) -> Result<(), CommandError> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(demo(arguments))
}

async fn demo(arguments: &DemoArguments) -> Result<(), CommandError> {
    let lines = flight::read_lines(arguments.input.as_deref())?;
    let expected = flight::recompute(&lines)?;

    let broker = match &arguments.bootstrap_server {
        Some(_) => None,
        None => {
            let listen = "127.0.0.1:0".to_owned();
            Some(DevBroker::start(DevBrokerConfig { listen, ..DevBrokerConfig::default() })?)
        }
    };
    let bootstrap_server = match (&arguments.bootstrap_server, &broker) {
        (Some(address), _) => address.clone(),
        (None, Some(broker)) => broker.address().to_string(),
        (None, None) => return Err("no broker".into()),
    };
    let client = KafkaClient::connect(ClientConfig::new(&bootstrap_server)).await?;

    // Names of their own on a cluster that others use; they stay there, so that the result can be looked at.
    let stamp = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    let job = format!("millstream-demo-{stamp}");
    let (input_topic, output_topic) = (format!("{job}-flights"), format!("{job}-landings"));
    // An empty root, as of a container made of this binary alone, has no folder for temporary files yet.
    std::fs::create_dir_all(std::env::temp_dir())?;
    let state = tempfile::Builder::new().prefix("millstream-demo-").tempdir()?;
    for name in [&input_topic, &output_topic] {
        client.create_topic(NewTopic::new(name, PARTITIONS, 1)).await?;
    }
    let place = Place {
        bootstrap_server: &bootstrap_server,
        input_topic: &input_topic,
        output_topic: &output_topic,
        state_dir: state.path(),
        job: &job,
        parallelism: arguments.parallelism,
        checkpoint_interval: arguments.checkpoint_interval,
        bounded: arguments.crash == 0,
    };
    introduce(arguments, &place, lines.len(), broker.is_some());

    let fed = Fed::new(AtomicUsize::new(0));
    let mut progress = Progress::start(lines.len());
    let begun = Instant::now();
    let recoveries = if arguments.crash == 0 {
        feed::feed(&client, &input_topic, &lines, Duration::ZERO, &fed).await?;
        progress.line(&format!("{} events loaded", lines.len()));
        run_here(&place, &mut progress).await?;
        Vec::new()
    } else {
        run_crashing(arguments, &client, &place, lines.clone(), &fed, &mut progress).await?
    };
    progress.finish();
    let took = begun.elapsed();

    let ledger = ledger_topic(&job);
    let verdict =
        Verdict::take(&client, &job, &output_topic, &ledger, lines.len(), &expected).await?;
    let mut out = std::io::stdout().lock();
    verdict.print(&mut out)?;
    print_recoveries(&mut out, &recoveries)?;
    writeln!(out, "  took           {:>9.1} s", took.as_secs_f64())?;
    drop(out);
    client.close().await;
    if let Some(broker) = broker {
        broker.stop().await;
    }
    if recoveries.len() != arguments.crash as usize {
        return Err("not every kill was followed by a recovery".into());
    }
    if verdict.is_clean() { Ok(()) } else { Err("the output is not exactly once".into()) }
}

fn introduce(arguments: &DemoArguments, place: &Place<'_>, events: usize, dev_broker: bool) {
    let kind = if dev_broker { "development broker, in this process" } else { "your cluster" };
    eprintln!("broker       {} ({kind})", place.bootstrap_server);
    eprintln!(
        "input        {} ({events} flight events, {PARTITIONS} partitions)",
        place.input_topic
    );
    eprintln!("output       {}", place.output_topic);
    eprintln!(
        "job          landings per origin and hour, exactly once, {} workers, checkpoint every {:?}",
        place.parallelism, place.checkpoint_interval
    );
    if arguments.crash > 0 {
        eprintln!("crashes      {} times SIGKILL at random moments", arguments.crash);
    }
}

/// Runs the bounded job on threads of this process.
async fn run_here(place: &Place<'_>, progress: &mut Progress) -> Result<(), CommandError> {
    let handle = job::start(place)?;
    let monitor = handle.monitor();
    let mut waiting = tokio::task::spawn_blocking(move || handle.wait());
    loop {
        tokio::select! {
            ended = &mut waiting => {
                progress.show(&Report::of(&monitor));
                return Ok(ended??);
            }
            () = tokio::time::sleep(LOOK_INTERVAL) => progress.show(&Report::of(&monitor)),
        }
    }
}

/// Paces the input while the job runs in child processes that get killed.
async fn run_crashing(
    arguments: &DemoArguments,
    client: &KafkaClient,
    place: &Place<'_>,
    lines: Vec<String>,
    fed: &Fed,
    progress: &mut Progress,
) -> Result<Vec<Recovery>, CommandError> {
    let seed = arguments.seed.unwrap_or_else(random_seed);
    progress.line(&format!("the moments of the kills come from --seed {seed}"));
    let over = crash::pace(arguments.crash);
    let moments = crash::moments(arguments.crash, over, seed);
    let total = lines.len();
    let (client, topic, counter) = (client.clone(), place.input_topic.to_owned(), Arc::clone(fed));
    let feeding =
        tokio::spawn(async move { feed::feed(&client, &topic, &lines, over, &counter).await });
    let recoveries = crash::run(place, &moments, total, fed, progress).await?;
    feeding.await??;
    Ok(recoveries)
}

fn print_recoveries(out: &mut impl Write, recoveries: &[Recovery]) -> std::io::Result<()> {
    if recoveries.is_empty() {
        return Ok(());
    }
    writeln!(out, "  kills          {:>9} (SIGKILL)", recoveries.len())?;
    let resumed = recoveries.iter().filter(|recovery| recovery.resumed_from > 0).count();
    writeln!(out, "  state resumed  {resumed:>9} times")?;
    for (index, recovery) in recoveries.iter().enumerate() {
        let took = recovery.took.as_millis();
        writeln!(out, "    {} from checkpoint {} in {took} ms", index + 1, recovery.resumed_from)?;
    }
    Ok(())
}

fn random_seed() -> u64 {
    // The hasher's keys are random for each process: a seed without one more dependency.
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish() % 1_000_000
}
