//! `cortex connector status`.

use crate::connect;
use crate::context::Context;
use crate::escape::one_line;
use crate::exit::{Exit, Failure};
use crate::terminal::talk;
use cortex_api::{ConnectorRow, LocalConnectorRow};

pub(super) fn run(context: &Context) -> Result<Exit, Failure> {
    let client = connect::client(context)?;
    let list = context.client_runtime()?.block_on(client.connectors())?;
    if context.terminal.json {
        context.terminal.print_json(&list)?;
        return Ok(Exit::Ok);
    }
    if list.items.is_empty() {
        talk("the server runs no connectors; enable one in server.json and restart it");
    } else {
        let rows: Vec<Vec<String>> = list.items.iter().map(cells).collect();
        let titles = ["connector", "state", "pid", "since", "restarts", "last error"];
        context.terminal.print_table(&titles, &rows)?;
    }
    if !list.local.is_empty() {
        let rows: Vec<Vec<String>> = list.local.iter().map(local_cells).collect();
        context.terminal.print_table(&["without a key", "claims", "trusted for", "last seen"], &rows)?;
    }
    Ok(Exit::Ok)
}

fn local_cells(row: &LocalConnectorRow) -> Vec<String> {
    vec![
        one_line(&row.connector_id, 60),
        one_line(&row.source, 60),
        row.trusted_source.as_deref().map_or_else(|| "–".to_owned(), |source| one_line(source, 60)),
        row.last_seen_at.0.to_rfc3339(),
    ]
}

fn cells(row: &ConnectorRow) -> Vec<String> {
    vec![
        row.name.clone(),
        row.state.as_str().to_owned(),
        row.pid.map_or_else(|| "–".to_owned(), |pid| pid.to_string()),
        row.since.0.to_rfc3339(),
        row.restarts.to_string(),
        one_line(row.last_error.as_deref().unwrap_or_default(), 100),
    ]
}
