//! `cortex connector status`.

use crate::connect;
use crate::context::Context;
use crate::escape::{for_terminal, one_line};
use crate::exit::{Exit, Failure};
use crate::terminal::talk;
use cortex_api::{ConnectorRow, LocalConnectorRow, WireTime};
use cortex_connectors::{Notebook, Refusals};
use serde::Serialize;

#[derive(Serialize)]
struct ConnectorReports {
    items: Vec<ConnectorReport>,
    /// Those that came without a key.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    local: Vec<LocalConnectorRow>,
}

/// A connector's process, and what its platform refused.
#[derive(Serialize)]
struct ConnectorReport {
    #[serde(flatten)]
    row: ConnectorRow,
    refusals: ShownRefusals,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownRefusals {
    count: u64,
    last_error: Option<String>,
    last_at: Option<WireTime>,
}

impl From<Refusals> for ShownRefusals {
    fn from(Refusals { count, last_error, last_at }: Refusals) -> Self {
        Self { count, last_error, last_at: last_at.map(Into::into) }
    }
}

pub(super) fn run(context: &Context) -> Result<Exit, Failure> {
    let client = connect::client(context)?;
    let list = context.client_runtime()?.block_on(client.connectors())?;
    let home = context.home()?;
    let report = |row: ConnectorRow| ConnectorReport {
        refusals: Notebook::refusals(&home.connector(&row.name)).unwrap_or_default().into(),
        row,
    };
    let items: Vec<ConnectorReport> = list.items.into_iter().map(report).collect();
    if context.terminal.json {
        context.terminal.print_json(&ConnectorReports { items, local: list.local })?;
        return Ok(Exit::Ok);
    }
    if items.is_empty() {
        talk("the server runs no connectors; enable one in server.json and restart it");
    } else {
        let rows: Vec<Vec<String>> = items.iter().map(cells).collect();
        let head =
            ["connector", "state", "pid", "since", "restarts", "last error", "refused", "last refusal"];
        context.terminal.print_table(&head, &rows)?;
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
        match &row.other_source {
            Some(other) => format!("{}, then {}", one_line(&row.source, 60), one_line(other, 60)),
            None => one_line(&row.source, 60),
        },
        row.trusted_source.as_deref().map_or_else(|| "–".to_owned(), |source| one_line(source, 60)),
        row.last_seen_at.0.to_rfc3339(),
    ]
}

fn cells(report: &ConnectorReport) -> Vec<String> {
    let ConnectorReport { row, refusals } = report;
    let refusal = refusals.last_error.as_deref().map(|error| {
        let at = refusals.last_at.map(|at| format!("{}: ", at.0.to_rfc3339())).unwrap_or_default();
        format!("{at}{}", one_line(&for_terminal(error), 100))
    });
    vec![
        row.name.clone(),
        row.state.as_str().to_owned(),
        row.pid.map_or_else(|| "–".to_owned(), |pid| pid.to_string()),
        row.since.0.to_rfc3339(),
        row.restarts.to_string(),
        one_line(row.last_error.as_deref().unwrap_or_default(), 100),
        refusals.count.to_string(),
        refusal.unwrap_or_default(),
    ]
}
