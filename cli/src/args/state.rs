//! `millstream checkpoint …`, `millstream savepoint …`, `millstream ledger …`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::cluster::ClusterArguments;
use crate::output::OutputFormat;

/// How results are written, for tools that look at no cluster.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct OutputArguments {
    /// How results are written
    #[arg(
        long,
        value_name = "FORMAT",
        value_enum,
        default_value_t = OutputFormat::Text,
        global = true
    )]
    pub(crate) output: OutputFormat,
}

/// Checkpoints in a state directory. Nothing is changed there; a running job may change it meanwhile.
#[derive(Clone, Debug, Args)]
pub(crate) struct CheckpointArguments {
    #[command(flatten)]
    pub(crate) output: OutputArguments,

    #[command(subcommand)]
    pub(crate) command: CheckpointCommand,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum CheckpointCommand {
    /// List META and the delta files, with what is wrong with them
    List(DirectoryArguments),
    /// Show what META or a delta file says: positions, watermarks, operators
    Show(CheckpointShowArguments),
    /// Read every file and hold every checksum against it
    Verify(CheckpointVerifyArguments),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct DirectoryArguments {
    /// State directory of a job
    #[arg(long, value_name = "FOLDER")]
    pub(crate) state_dir: PathBuf,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct CheckpointShowArguments {
    /// Number of the checkpoint (default: META's)
    #[arg(value_name = "CHECKPOINT")]
    pub(crate) checkpoint: Option<u64>,

    #[command(flatten)]
    pub(crate) directory: DirectoryArguments,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct CheckpointVerifyArguments {
    #[command(flatten)]
    pub(crate) directory: DirectoryArguments,

    /// Also open a copy of the state store and read all of it, as a start of the job does: it must not run meanwhile. The
    /// copy is made in TMPDIR (default /tmp), needs as much room there as the directory has and up to 64 MiB more, and is
    /// removed again; with TMPDIR on the directory's file system most of it is only linked
    #[arg(long)]
    pub(crate) store: bool,
}

/// Savepoints: all state of a job in a folder of its own.
#[derive(Clone, Debug, Args)]
pub(crate) struct SavepointArguments {
    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,

    #[command(subcommand)]
    pub(crate) command: SavepointCommand,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum SavepointCommand {
    /// Take a savepoint of the state directory of a job that does not run. Nothing is changed there: a copy of it is made in
    /// TMPDIR (default /tmp) and removed again; with TMPDIR on the directory's file system most of it is only linked
    Create(SavepointCreateArguments),
    /// Have a running job take a savepoint, and stop after it if asked to
    Trigger(SavepointTriggerArguments),
    /// List the savepoints in a folder
    List(SavepointListArguments),
    /// Show what savepoints hold
    Show(SavepointPathArguments),
    /// Read savepoints whole and hold every checksum against them
    Verify(SavepointPathArguments),
    /// Delete savepoints
    Delete(SavepointDeleteArguments),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct SavepointCreateArguments {
    #[command(flatten)]
    pub(crate) directory: DirectoryArguments,

    /// Folder of the savepoint; it must not exist yet. Where the job was killed, only the ledger knows what its last
    /// checkpoint is: give -b as well
    #[arg(value_name = "TARGET")]
    pub(crate) target: PathBuf,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct SavepointTriggerArguments {
    #[command(flatten)]
    pub(crate) directory: DirectoryArguments,

    /// Folder of the savepoint, which the job's process writes; it must not exist yet
    #[arg(value_name = "TARGET")]
    pub(crate) target: PathBuf,

    /// End the job with it: nothing is processed behind the savepoint
    #[arg(long)]
    pub(crate) stop: bool,

    /// End the sources first, so that event time comes to its end and all windows fire
    #[arg(long, requires = "stop")]
    pub(crate) drain: bool,

    /// Wait for so long; what the job has not begun with by then is withdrawn, as it is by Ctrl-C
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "10m",
        value_parser = humantime::parse_duration
    )]
    pub(crate) timeout: Duration,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct SavepointListArguments {
    /// Folder with savepoints in it
    #[arg(value_name = "FOLDER", default_value = ".")]
    pub(crate) folder: PathBuf,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct SavepointPathArguments {
    /// Folders of savepoints
    #[arg(required = true, value_name = "SAVEPOINT")]
    pub(crate) savepoints: Vec<PathBuf>,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct SavepointDeleteArguments {
    /// Folders of savepoints, also of one that was not finished
    #[arg(required = true, value_name = "SAVEPOINT")]
    pub(crate) savepoints: Vec<PathBuf>,

    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// The ledger of a job. Nothing is fenced, created or written.
#[derive(Clone, Debug, Args)]
pub(crate) struct LedgerArguments {
    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,

    #[command(subcommand)]
    pub(crate) command: LedgerCommand,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum LedgerCommand {
    /// Show the last committed checkpoint, beside what a state directory holds, and what a start would do
    Show(LedgerShowArguments),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct LedgerShowArguments {
    /// Name of the job
    #[arg(value_name = "JOB", value_parser = job_name)]
    pub(crate) job: millstream_engine::checkpoint::JobName,

    /// State directory of the job
    #[arg(long, value_name = "FOLDER")]
    pub(crate) state_dir: Option<PathBuf>,
}

fn job_name(name: &str) -> Result<millstream_engine::checkpoint::JobName, String> {
    millstream_engine::checkpoint::JobName::new(name).map_err(|error| error.to_string())
}
