//! `cortex gardener`.

use crate::connect;
use crate::context::Context;
use crate::escape::one_line;
use crate::exit::{Exit, Failure};
use crate::terminal::talk;
use cortex_api::{GardenerReport, GardenerRow, GardenerThinks};
use cortex_types::GardenerTask;

/// Look at the chores that are done in the background, or have one done now
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Show each task: when it ran, what came of it, when it is due
    Status,
    /// Run a task now: compactor, extractor, evictor or harvester
    Run { task: GardenerTask },
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let client = connect::client(context)?;
    let runtime = context.client_runtime()?;
    match &args.action {
        Action::Status => {
            status(&runtime.block_on(client.gardener())?, context)?;
            Ok(Exit::Ok)
        }
        Action::Run { task } => {
            let answer = runtime.block_on(client.run_gardener(*task))?;
            if context.terminal.json {
                context.terminal.print_json(&answer)?;
            } else {
                context.terminal.print(&answer.report)?;
            }
            Ok(if answer.done { Exit::Ok } else { Exit::Error })
        }
    }
}

fn status(report: &GardenerReport, context: &Context) -> Result<(), Failure> {
    if context.terminal.json {
        return context.terminal.print_json(report);
    }
    let rows: Vec<Vec<String>> = report.tasks.iter().map(cells).collect();
    context.terminal.print_table(&["task", "last run", "next run", "runs", "report"], &rows)?;
    match report.thinks_with {
        GardenerThinks::Model => {
            let most = report.tokens_per_day.map_or("no limit".to_owned(), |most| format!("of {most}"));
            talk(&format!("tokens today: {} ({most})", report.tokens_today));
        }
        GardenerThinks::Rules => talk("no model is configured: fixed rules do what they can"),
    }
    Ok(())
}

fn cells(row: &GardenerRow) -> Vec<String> {
    let never = || "never".to_owned();
    vec![
        row.task.to_string(),
        row.last_run_at.map_or_else(never, |at| at.0.to_rfc3339()),
        if row.is_running { "runs now".to_owned() } else { row.next_run_at.0.to_rfc3339() },
        row.runs.to_string(),
        one_line(row.last_report.as_deref().unwrap_or_default(), 80),
    ]
}
