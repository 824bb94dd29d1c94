//! `millstream demo`: real data through Kafka exactly once, under the eyes of the user.

mod crash;
mod feed;
mod flight;
pub(crate) mod job;
mod progress;
mod stage;
mod verdict;

use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use millstream_engine::JobHandle;

pub(crate) use self::crash::ChildEnded;
use self::crash::Recovery;
use self::feed::{Fed, PARTITIONS};
use self::flight::Events;
use self::job::{Place, Report};
use self::progress::Progress;
use self::stage::Stage;
use self::verdict::Verdict;
use super::CommandError;
use crate::args::DemoArguments;
use crate::output::{self, count, note};
use crate::signals::Signals;

/// How often the progress of a job in this process is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Over how long the input of a job that is not killed is spread: time for dozens of checkpoints, and to see them.
const PACE: Duration = Duration::from_secs(5);

/// The demo ran, and its result is not what was promised.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("the output is not exactly once")]
    Output,
    #[error("not every kill was followed by a recovery")]
    Recovery,
}

pub(crate) fn run(arguments: &DemoArguments) -> Result<(), CommandError> {
    let events = Events::read(arguments.input.as_deref())?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(demo(arguments, &events))
}

async fn demo(arguments: &DemoArguments, events: &Events) -> Result<(), CommandError> {
    let mut signals = Signals::listen()?;
    let stage = tokio::select! {
        stage = Stage::open(arguments.bootstrap_server.as_deref()) => stage?,
        signal = signals.next() => return Err(signal.into()),
    };
    let outcome = perform(arguments, events, &stage, &mut signals).await;
    // An output that is wrong is worth a look.
    let keep =
        arguments.keep_topics || matches!(&outcome, Err(error) if error.cause.is::<Broken>());
    stage.close(keep).await;
    outcome
}

async fn perform(
    arguments: &DemoArguments,
    events: &Events,
    stage: &Stage,
    signals: &mut Signals,
) -> Result<(), CommandError> {
    tokio::select! {
        created = stage.create_topics() => created?,
        signal = signals.next() => return Err(signal.into()),
    }
    let over = if arguments.crash == 0 { PACE } else { crash::pace(arguments.crash) };
    let place = stage.place(arguments, events.out_of_orderness);
    introduce(arguments, &place, events.lines.len(), over, stage);

    let fed = Fed::new(AtomicUsize::new(0));
    let mut progress = Progress::start(events.lines.len(), &fed, arguments.crash > 0);
    let begun = Instant::now();
    let feeding = feed::feed(&stage.client, place.input_topic, &events.lines, over, &fed);
    let recoveries = if arguments.crash == 0 {
        let running = run_here(&place, events.lines.len(), &fed, &mut progress, signals);
        tokio::try_join!(running, feeding)?;
        Vec::new()
    } else {
        let seed = arguments.seed.unwrap_or_else(random_seed);
        progress.line(&format!("the moments of the kills come from --seed {seed}"));
        let moments = crash::moments(arguments.crash, over, seed);
        let running = crash::run(&place, &moments, events.lines.len(), &fed, &mut progress);
        tokio::select! {
            // Dropping the running future kills the child.
            joined = async { tokio::try_join!(running, feeding) } => joined?.0,
            signal = signals.next() => return Err(signal.into()),
        }
    };
    progress.finish();
    let took = begun.elapsed();

    let verdict = tokio::select! {
        verdict = Verdict::take(stage, events.lines.len(), &events.expected) => verdict?,
        signal = signals.next() => return Err(signal.into()),
    };
    let mut text = verdict.to_string();
    print_recoveries(&mut text, &recoveries)?;
    writeln!(text, "  took           {:>9.1} s", took.as_secs_f64())?;
    output::print(text.as_bytes())?;
    if !verdict.is_clean() {
        return Err(Broken::Output.into());
    }
    if recoveries.len() != arguments.crash as usize {
        return Err(Broken::Recovery.into());
    }
    Ok(())
}

fn introduce(
    arguments: &DemoArguments,
    place: &Place<'_>,
    events: usize,
    over: Duration,
    stage: &Stage,
) {
    let kind =
        if stage.is_foreign() { "your cluster" } else { "development broker, in this process" };
    note(&format!("broker       {} ({kind})", place.bootstrap_server));
    note(&format!(
        "input        {} ({events} flight events, spread over {} s and {PARTITIONS} partitions)",
        place.input_topic,
        over.as_secs()
    ));
    note(&format!("output       {}", place.output_topic));
    note(&format!(
        "job          landings per origin and hour, exactly once, {} workers, checkpoint every {:?}",
        place.parallelism, place.checkpoint_interval
    ));
    if arguments.crash > 0 {
        note(&format!("crashes      {} times SIGKILL at random moments", arguments.crash));
    }
}

/// Runs the job on threads of this process while it is fed, and once more for the rest: the end of a bounded input closes the last
/// windows.
async fn run_here(
    place: &Place<'_>,
    total: usize,
    fed: &Fed,
    progress: &mut Progress,
    signals: &mut Signals,
) -> Result<(), CommandError> {
    let all_fed = || fed.load(Ordering::Relaxed) >= total;
    let handle = job::start(&Place { bounded: false, ..place.clone() })?;
    let first = watch(handle, all_fed, Report::default(), progress, signals).await?;
    let handle = job::start(&Place { bounded: true, ..place.clone() })?;
    watch(handle, || false, first, progress, signals).await?;
    Ok(())
}

/// Shows the job's progress, added to that of the runs `before`, until it has ended. It is asked to end as soon as `enough` says so,
/// or by a signal; a second signal does not wait for it.
async fn watch(
    handle: JobHandle,
    enough: impl Fn() -> bool,
    before: Report,
    progress: &mut Progress,
    signals: &mut Signals,
) -> Result<Report, CommandError> {
    let monitor = handle.monitor();
    let mut interrupted = None;
    while !handle.is_finished() {
        if enough() {
            handle.stop();
        }
        tokio::select! {
            signal = signals.next() => {
                if interrupted.replace(signal).is_some() {
                    return Err(signal.into());
                }
                handle.stop();
            }
            () = tokio::time::sleep(LOOK_INTERVAL) => progress.show(&Report::of(&monitor).after(&before)),
        }
    }
    let last = Report::of(&monitor).after(&before);
    progress.show(&last);
    handle.wait()?;
    interrupted.map_or(Ok(last), |signal| Err(signal.into()))
}

fn print_recoveries(text: &mut String, recoveries: &[Recovery]) -> std::fmt::Result {
    if recoveries.is_empty() {
        return Ok(());
    }
    let resumed = recoveries.iter().filter(|recovery| recovery.resumed_from > 0).count();
    writeln!(
        text,
        "  kills          {:>9} (SIGKILL), each followed by a restart",
        recoveries.len()
    )?;
    write!(text, "  state resumed  {resumed:>9} of {}", count(recoveries.len(), "restart"))?;
    match recoveries.len() - resumed {
        0 => writeln!(text)?,
        anew => {
            writeln!(text, "; {anew} from the beginning, no checkpoint had been committed yet")?
        }
    }
    for (index, recovery) in recoveries.iter().enumerate() {
        writeln!(text, "    {} {recovery}", index + 1)?;
    }
    Ok(())
}

fn random_seed() -> u64 {
    // The hasher's keys are random for each process: a seed without one more dependency.
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish() % 1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restart_without_a_checkpoint_is_not_called_resumed() {
        let recovery = |resumed_from| Recovery { resumed_from, took: Duration::from_millis(7) };
        let mut text = String::new();
        print_recoveries(&mut text, &[recovery(0), recovery(12)]).expect("text");
        assert_eq!(
            text,
            "  kills                  2 (SIGKILL), each followed by a restart\n  \
             state resumed          1 of 2 restarts; 1 from the beginning, no checkpoint had been committed yet\n    \
             1 from the beginning in 7 ms\n    \
             2 from checkpoint 12 in 7 ms\n"
        );
    }
}
