//! `savepoint create`.

use millstream_engine::checkpoint::{
    CheckpointRef, Inspection, JobName, RealDisk, SavepointTaken, savepoint_of_directory,
};
use millstream_engine::view_ledger;

use crate::args::state::SavepointCreateArguments;
use crate::cluster::ClusterArguments;
use crate::command::CommandError;
use crate::command::state::{existing_folder, now_ms};
use crate::exit_code;
use crate::output::OutputFormat;

pub(super) fn run(
    cluster: &ClusterArguments,
    arguments: &SavepointCreateArguments,
    output: OutputFormat,
) -> Result<(), CommandError> {
    let directory = &arguments.directory.state_dir;
    existing_folder(directory)?;
    let asks = cluster.bootstrap_server.is_some()
        || cluster.command_config.is_some()
        || !cluster.properties.is_empty();
    let committed = if asks { committed(cluster, arguments)? } else { None };
    let manifest = savepoint_of_directory(directory, &arguments.target, now_ms(), committed)?;
    let taken = SavepointTaken {
        id: manifest.id,
        at: manifest.at,
        entries: manifest.entries(),
        state_bytes: manifest.state_bytes(),
        job: manifest.description.job,
    };
    super::tell(&arguments.target, &taken, output)
}

/// The ledger's last checkpoint, once nothing can change it any more but a start of the job.
fn committed(
    cluster: &ClusterArguments,
    arguments: &SavepointCreateArguments,
) -> Result<Option<CheckpointRef>, CommandError> {
    let directory = &arguments.directory.state_dir;
    let Some(meta) = Inspection::of(&RealDisk, directory)?.meta? else { return Ok(None) };
    let job: JobName = meta.job;
    let mut found = None;
    let answer = &mut found;
    cluster.with_client(|client| async move {
        let Some(ledger) = view_ledger(&client, &job).await? else {
            let text = format!("the cluster holds no ledger of job {job}");
            return Err(CommandError::says(exit_code::STATE, text));
        };
        if ledger.high_watermark > ledger.last_stable_offset {
            let text = format!(
                "a transaction of job {job} is open: what it wrote may still be committed. Try again when it has expired (transaction.timeout.ms), or start the job and stop it"
            );
            return Err(CommandError::says(exit_code::UNAVAILABLE, text));
        }
        *answer = ledger.last.map(|last| last.record.at());
        Ok(())
    })?;
    Ok(found)
}
