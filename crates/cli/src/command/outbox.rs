//! `cortex outbox`.

use crate::connect;
use crate::context::Context;
use crate::escape::{one_line, value};
use crate::exit::{Exit, Failure};
use cortex_api::{OutboxList, OutboxQuery, OutboxRow};
use cortex_types::{OutboxId, OutboxStatus};

/// Look at the messages on their way out
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List messages, newest first
    List {
        /// Only these: pending, leased, delivered, dead, suppressed or discarded
        #[arg(long)]
        status: Option<OutboxStatus>,
        #[command(flatten)]
        page: Page,
    },
    /// List the dead letters
    Dead {
        #[command(flatten)]
        page: Page,
    },
    /// Show one message
    Show { message: OutboxId },
    /// Try a dead or discarded message again
    Retry { message: OutboxId },
    /// Give a message up
    Discard { message: OutboxId },
}

#[derive(Debug, clap::Args)]
struct Page {
    /// Only messages for this connector
    #[arg(long)]
    source: Option<String>,
    #[arg(long, short = 'n', default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=500))]
    limit: u32,
    /// The cursor of the page before
    #[arg(long, value_name = "CURSOR")]
    before: Option<String>,
}

impl Page {
    fn query(&self, status: Option<OutboxStatus>) -> OutboxQuery {
        OutboxQuery {
            status,
            source: self.source.clone(),
            limit: Some(self.limit),
            before: self.before.clone(),
        }
    }
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let client = connect::client(context)?;
    let runtime = context.client_runtime()?;
    let about = |message: &OutboxId| Failure::about(format!("message {message}"), "cortex outbox list");
    match &args.action {
        Action::List { status, page } => {
            list(&runtime.block_on(client.outbox(&page.query(*status)))?, context)?
        }
        Action::Dead { page } => list(&runtime.block_on(client.outbox_dead(&page.query(None)))?, context)?,
        Action::Show { message } => {
            show(&runtime.block_on(client.outbox_row(message)).map_err(about(message))?, context)?
        }
        Action::Retry { message } => {
            show(&runtime.block_on(client.retry_message(message)).map_err(about(message))?, context)?
        }
        Action::Discard { message } => {
            show(&runtime.block_on(client.discard_message(message)).map_err(about(message))?, context)?
        }
    }
    Ok(Exit::Ok)
}

fn list(list: &OutboxList, context: &Context) -> Result<(), Failure> {
    if context.terminal.json {
        return context.terminal.print_json(list);
    }
    let rows: Vec<Vec<String>> = list.items.iter().map(cells).collect();
    context
        .terminal
        .print_table(&["message", "status", "queued", "source", "topic", "tries", "text"], &rows)?;
    super::inbox::more(list.next_cursor.as_deref());
    Ok(())
}

fn cells(row: &OutboxRow) -> Vec<String> {
    vec![
        row.message_id.to_string(),
        row.status.to_string(),
        row.created_at.0.to_rfc3339(),
        one_line(&row.source, 20),
        one_line(&row.topic_key, 30),
        row.attempts.to_string(),
        one_line(row.last_error.as_deref().unwrap_or(&row.text), 60),
    ]
}

fn show(row: &OutboxRow, context: &Context) -> Result<(), Failure> {
    let terminal = &context.terminal;
    if terminal.json {
        return terminal.print_json(row);
    }
    let mut lines = vec![
        format!("message   {}", row.message_id),
        format!("status    {} (attempts: {})", row.status, row.attempts),
        format!("source    {}", row.source),
        format!("topic     {}", value(&row.topic_key)),
        format!("queued    {}", row.created_at.0.to_rfc3339()),
        format!("changed   {}", row.updated_at.0.to_rfc3339()),
    ];
    lines.extend(row.event_id.as_ref().map(|event| format!("event     {event}")));
    lines.extend(row.last_error.as_ref().map(|error| format!("error     {}", value(error))));
    lines.push(format!("text      {}", value(&row.text)));
    terminal.print(&lines.join("\n"))
}
