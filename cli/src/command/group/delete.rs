//! `group delete`.

use millstream_protocol_client::KafkaClient;
use serde::Serialize;

use crate::args::group::GroupDeleteArguments;
use crate::command::{CommandError, Failures};
use crate::confirm;
use crate::output::{self, OutputFormat};

#[derive(Serialize)]
struct Row<'a> {
    group: &'a str,
    deleted: bool,
}

pub(super) async fn run(
    client: &KafkaClient,
    arguments: &GroupDeleteArguments,
    output: OutputFormat,
) -> Result<(), CommandError> {
    let names: Vec<_> = arguments.groups.iter().map(String::as_str).collect();
    let question = format!("delete {} with all committed offsets?", names.join(", "));
    confirm::ask(arguments.yes, &question).await?;
    let mut failures = Failures::default();
    for (group, result) in &client.delete_groups(&names).await {
        match result {
            Err(error) => failures.push(error.clone()),
            Ok(()) if output == OutputFormat::Json => {
                output::print_json([Row { group, deleted: true }])?;
            }
            Ok(()) => output::print(format!("{group}: deleted\n").as_bytes())?,
        }
    }
    failures.into_result()
}
