//! The connectors that the running server keeps.

use super::Check;
use crate::connect;
use crate::context::Context;
use cortex_api::{ConnectorRow, ConnectorState};

/// One look for each connector; none when no server can be asked, which another check tells.
pub(super) async fn connectors(context: &Context) -> Vec<Check> {
    let Ok(client) = connect::client(context) else { return Vec::new() };
    let Ok(list) = client.connectors().await else { return Vec::new() };
    list.items.iter().map(check).collect()
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
