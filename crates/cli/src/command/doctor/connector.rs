//! The connectors that the running server keeps.

use super::Check;
use crate::connect;
use crate::context::Context;
use crate::escape::one_line;
use cortex_api::{ConnectorRow, ConnectorState, LocalConnectorRow};

/// One look for each connector; none when no server can be asked, which another check tells.
pub(super) async fn connectors(context: &Context) -> Vec<Check> {
    let Ok(client) = connect::client(context) else { return Vec::new() };
    let Ok(list) = client.connectors().await else { return Vec::new() };
    list.items.iter().map(check).chain(list.local.iter().map(local)).collect()
}

fn local(row: &LocalConnectorRow) -> Check {
    let name = one_line(&row.connector_id, 60);
    match &row.trusted_source {
        Some(source) => {
            let source = one_line(source, 60);
            let what =
                format!("{name} needs no key for the source {source}; `cortex connector untrust` ends that");
            Check::ok("connector", what)
        }
        None => Check::warning(
            "connector",
            format!(
                "{name} came without a key and sees only its own conversation; \
                 `cortex connector trust {name}` lets it in if it is yours"
            ),
        ),
    }
}

fn check(row: &ConnectorRow) -> Check {
    let name = &row.name;
    let reason = row.last_error.as_deref().unwrap_or("no reason is known");
    match row.state {
        ConnectorState::Running => Check::ok("connector", format!("{name} runs")),
        ConnectorState::Backoff => {
            Check::warning("connector", format!("{name} ended and is started again: {reason}"))
        }
        ConnectorState::Misconfigured => Check::problem(
            "connector",
            format!("{name} is misconfigured: {reason}; mend it and `cortex restart`"),
        ),
    }
}
