//! `cortex ops`.

use crate::connect;
use crate::context::Context;
use crate::escape::{one_line, value};
use crate::exit::{Exit, Failure};
use cortex_api::{OpQuery, OpRow};
use cortex_types::{OpId, OpStatus};

/// Look at work that is done elsewhere
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List ops, newest first
    List {
        /// Only these: pending, completed, failed, gardened or archived
        #[arg(long)]
        status: Option<OpStatus>,
        #[arg(long, short = 'n', default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: u32,
        /// The cursor of the page before
        #[arg(long, value_name = "CURSOR")]
        before: Option<String>,
    },
    /// Show one op with its result
    Show { op: OpId },
    /// Give up waiting for an op; its conversation is told
    Cancel { op: OpId },
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let client = connect::client(context)?;
    let runtime = context.client_runtime()?;
    let about = |op: &OpId| Failure::about(format!("op {op}"), "cortex ops list");
    match &args.action {
        Action::List { status, limit, before } => {
            let query = OpQuery { status: *status, limit: Some(*limit), before: before.clone() };
            let list = runtime.block_on(client.ops(&query))?;
            if context.terminal.json {
                context.terminal.print_json(&list)?;
            } else {
                let rows: Vec<Vec<String>> = list.items.iter().map(cells).collect();
                let head = ["op", "status", "dispatched", "type", "source", "topic", "description"];
                context.terminal.print_table(&head, &rows)?;
                super::inbox::more(list.next_cursor.as_deref());
            }
        }
        Action::Show { op } => show(&runtime.block_on(client.op(op)).map_err(about(op))?, context)?,
        Action::Cancel { op } => {
            show(&runtime.block_on(client.cancel_op(op)).map_err(about(op))?, context)?;
        }
    }
    Ok(Exit::Ok)
}

fn cells(row: &OpRow) -> Vec<String> {
    vec![
        row.op_id.to_string(),
        status(row),
        row.dispatched_at.0.to_rfc3339(),
        one_line(&row.kind, 20),
        one_line(&row.source, 20),
        one_line(&row.topic_key, 30),
        one_line(&row.description, 60),
    ]
}

/// An end that no turn has seen yet is unread.
fn status(row: &OpRow) -> String {
    match (row.completed_at, row.acknowledged_at) {
        (Some(_), None) => format!("{} (unread)", row.status),
        (Some(_) | None, _) => row.status.to_string(),
    }
}

fn show(row: &OpRow, context: &Context) -> Result<(), Failure> {
    let terminal = &context.terminal;
    if terminal.json {
        return terminal.print_json(row);
    }
    let mut lines = vec![
        format!("op           {}", row.op_id),
        format!("status       {}", status(row)),
        format!("type         {}", row.kind),
        format!("asked by     {} in {} {}", row.user_id, row.source, row.topic_key),
        format!("dispatched   {}", row.dispatched_at.0.to_rfc3339()),
    ];
    lines.extend(row.completed_at.map(|at| format!("ended        {}", at.0.to_rfc3339())));
    lines.extend(row.run_id.as_ref().map(|run| format!("run          {run}")));
    lines.push(format!("description  {}", value(&row.description)));
    lines.extend(row.result.as_ref().map(|result| format!("result       {}", value(result))));
    terminal.print(&lines.join("\n"))
}
