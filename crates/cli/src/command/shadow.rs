//! `cortex shadow`.

use crate::connect;
use crate::context::Context;
use crate::escape::one_line;
use crate::exit::{Exit, Failure};
use cortex_api::{OutboxRow, ShadowQuery, ShadowRow};

/// See what channels in shadow would have said
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// What would have been sent, beside what was, newest first
    Report {
        #[arg(long, short = 'n', default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: u32,
    },
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let Action::Report { limit } = args.action;
    let client = connect::client(context)?;
    let query = ShadowQuery { limit: Some(limit) };
    let report = context.client_runtime()?.block_on(client.shadow(&query))?;
    if context.terminal.json {
        context.terminal.print_json(&report)?;
        return Ok(Exit::Ok);
    }
    let rows: Vec<Vec<String>> = report.items.iter().flat_map(lines).collect();
    let head = ["event", "from", "heard", "would have sent", "to", "why not", "sent"];
    context.terminal.print_table(&head, &rows)?;
    Ok(Exit::Ok)
}

/// A line for each message that was held back, the first with the event and with what was sent.
fn lines(row: &ShadowRow) -> Vec<Vec<String>> {
    let sent: Vec<String> =
        row.sent.iter().map(|message| format!("{}: {}", message.source, message.text)).collect();
    let line = |(number, message): (usize, &OutboxRow)| {
        let first = |text: String| if number == 0 { text } else { String::new() };
        vec![
            first(row.event.event_id.to_string()),
            first(one_line(&row.event.source, 20)),
            first(one_line(&row.event.text, 40)),
            one_line(&message.text, 40),
            one_line(&format!("{} {}", message.source, message.topic_key), 30),
            one_line(message.last_error.as_deref().unwrap_or_default(), 50),
            first(one_line(&sent.join("; "), 40)),
        ]
    };
    row.would_have_been_sent.iter().enumerate().map(line).collect()
}
