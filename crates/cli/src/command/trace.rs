//! `cortex trace`.

use crate::context::Context;
use crate::escape::one_line;
use crate::exit::{Exit, Failure};
use crate::{connect, duration};
use cortex_types::EventId;

/// Letters of one line; `--json` shows more.
const LINE_LETTERS_MAX: usize = 400;

/// Show the whole way of an event: received, claimed, each step, sent, acknowledged, with times
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The event's id, as `cortex inbox list` shows it
    event: EventId,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let client = connect::client(context)?;
    let trace = context.client_runtime()?.block_on(client.trace(&args.event));
    let trace = trace.map_err(Failure::about(format!("event {}", args.event), "cortex inbox list"))?;
    let terminal = &context.terminal;
    if terminal.json {
        terminal.print_json(&trace)?;
        return Ok(Exit::Ok);
    }
    let event = &trace.event;
    let head = format!("{}  {}  {}", event.event_id, event.status, one_line(&event.text, 80));
    terminal.print(&head)?;
    let start = trace.entries.first().map(|entry| entry.at.0).unwrap_or_default();
    let rows: Vec<Vec<String>> = trace
        .entries
        .iter()
        .map(|entry| {
            let after = u64::try_from(entry.at.0.since(start).as_millis()).unwrap_or(u64::MAX);
            vec![
                entry.at.0.to_rfc3339(),
                format!("+{}", duration::shown(after)),
                entry.what.as_str().to_owned(),
                one_line(&entry.detail, LINE_LETTERS_MAX),
            ]
        })
        .collect();
    terminal.print_table(&["at", "after", "what", "detail"], &rows)?;
    Ok(Exit::Ok)
}
