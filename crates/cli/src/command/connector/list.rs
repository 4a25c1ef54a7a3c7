//! `cortex connector list`.

use crate::assemble;
use crate::config::KNOWN_CONNECTORS;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use serde::Serialize;

/// A connector as the settings have it.
#[derive(Serialize)]
struct KnownConnector {
    name: &'static str,
    configured: bool,
    /// Whether `cortex serve` runs it.
    enabled: bool,
}

pub(super) fn run(context: &Context) -> Result<Exit, Failure> {
    let settings = assemble::settings(&context.config()?)?;
    let enabled = settings.connectors.enabled();
    let known = KNOWN_CONNECTORS.iter().map(|name| KnownConnector {
        name,
        configured: settings.connectors.is_configured(name),
        enabled: enabled.contains(name),
    });
    // It has no settings: whoever needs it runs it.
    let stdio = KnownConnector { name: "stdio", configured: true, enabled: false };
    let rows: Vec<KnownConnector> = known.chain([stdio]).collect();
    if context.terminal.json {
        context.terminal.print_json(&rows)?;
        return Ok(Exit::Ok);
    }
    let word = |is_so: bool| if is_so { "yes" } else { "no" }.to_owned();
    let cells: Vec<Vec<String>> =
        rows.iter().map(|row| vec![row.name.to_owned(), word(row.configured), word(row.enabled)]).collect();
    context.terminal.print_table(&["connector", "configured", "enabled"], &cells)?;
    Ok(Exit::Ok)
}
