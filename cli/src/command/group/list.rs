//! `group list`.

use millstream_protocol_client::KafkaClient;
use serde::Serialize;

use crate::args::group::GroupListArguments;
use crate::command::CommandError;
use crate::output::{self, Column, OutputFormat, Table};

#[derive(Serialize)]
struct Row {
    group: String,
    /// `classic`, `consumer`, `share`, `streams`.
    r#type: String,
    state: String,
    /// What the members are: `consumer`, `connect`; empty for a group that only keeps offsets.
    protocol_type: String,
    coordinator: i32,
}

pub(super) async fn run(
    client: &KafkaClient,
    arguments: &GroupListArguments,
    output: OutputFormat,
) -> Result<(), CommandError> {
    let wanted = |state: &str| {
        let states = &arguments.states;
        states.is_empty() || states.iter().any(|wanted| wanted == state)
    };
    let groups = client.list_groups().await?.into_iter();
    let rows = groups.filter(|group| wanted(&group.state)).map(|group| Row {
        group: group.group_id,
        r#type: group.group_type.to_string(),
        state: group.state,
        protocol_type: group.protocol_type,
        coordinator: group.coordinator,
    });
    if output == OutputFormat::Json {
        return Ok(output::print_json(rows)?);
    }
    let mut table = Table::new(&[
        Column::Left("GROUP"),
        Column::Left("TYPE"),
        Column::Left("STATE"),
        Column::Left("MEMBERS ARE"),
        Column::Right("COORDINATOR"),
    ]);
    for row in rows {
        let protocol = if row.protocol_type.is_empty() { "-".into() } else { row.protocol_type };
        table.row([row.group, row.r#type, row.state, protocol, row.coordinator.to_string()]);
    }
    Ok(output::print(table.text().as_bytes())?)
}
