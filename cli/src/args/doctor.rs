//! `millstream doctor`.

use clap::Args;

use crate::cluster::ClusterArguments;

/// Resolves, connects, shakes hands, authenticates, then looks at versions, features and the limits of transactions.
/// Asks only; nothing changes. Exit code 0 if a job could run.
#[derive(Clone, Debug, Args)]
pub(crate) struct DoctorArguments {
    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,
}
