//! `cortex inbox`.

use crate::connect;
use crate::context::Context;
use crate::escape::{one_line, value};
use crate::exit::{Exit, Failure};
use cortex_api::{InboxQuery, InboxRow};
use cortex_types::{EventId, InboxStatus};

/// Look at the accepted events
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List events, newest first
    List {
        /// Only these: pending, processing, waiting, done or failed
        #[arg(long)]
        status: Option<InboxStatus>,
        #[arg(long, short = 'n', default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: u32,
        /// The cursor of the page before
        #[arg(long, value_name = "CURSOR")]
        before: Option<String>,
    },
    /// Show one event
    Show { event: EventId },
    /// Try a failed event again
    Retry { event: EventId },
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let client = connect::client(context)?;
    let runtime = context.client_runtime()?;
    let about = |event: &EventId| Failure::about(format!("event {event}"), "cortex inbox list");
    match &args.action {
        Action::List { status, limit, before } => {
            let query = InboxQuery { status: *status, limit: Some(*limit), before: before.clone() };
            let list = runtime.block_on(client.inbox(&query))?;
            if context.terminal.json {
                context.terminal.print_json(&list)?;
            } else {
                let rows: Vec<Vec<String>> = list.items.iter().map(cells).collect();
                context
                    .terminal
                    .print_table(&["event", "status", "received", "source", "topic", "text"], &rows)?;
                super::inbox::more(list.next_cursor.as_deref());
            }
        }
        Action::Show { event } => {
            show(&runtime.block_on(client.inbox_row(event)).map_err(about(event))?, context)?
        }
        Action::Retry { event } => {
            show(&runtime.block_on(client.retry_event(event)).map_err(about(event))?, context)?
        }
    }
    Ok(Exit::Ok)
}

/// Says how to get the next page.
pub(super) fn more(cursor: Option<&str>) {
    if let Some(cursor) = cursor {
        crate::terminal::talk(&format!("more: --before {cursor}"));
    }
}

fn cells(row: &InboxRow) -> Vec<String> {
    vec![
        row.event_id.to_string(),
        row.status.to_string(),
        row.created_at.0.to_rfc3339(),
        one_line(&row.source, 20),
        one_line(&row.topic_key, 30),
        one_line(&row.text, 60),
    ]
}

fn show(row: &InboxRow, context: &Context) -> Result<(), Failure> {
    let terminal = &context.terminal;
    if terminal.json {
        return terminal.print_json(row);
    }
    let mut lines = vec![
        format!("event     {}", row.event_id),
        format!("status    {} (attempts: {})", row.status, row.attempts),
        format!("source    {} {}", row.source, row.external_message_id),
        format!("topic     {}", value(&row.topic_key)),
        format!("user      {}", value(&row.user_id)),
        format!("received  {}", row.created_at.0.to_rfc3339()),
        format!("changed   {}", row.updated_at.0.to_rfc3339()),
    ];
    lines.extend(row.error.as_ref().map(|error| format!("error     {}", value(error))));
    lines.push(format!("text      {}", value(&row.text)));
    terminal.print(&lines.join("\n"))
}
