//! `cortex approvals`.

use crate::connector::{Connector, Ended, News, SOURCE, held_line, waiting_line};
use crate::context::Context;
use crate::escape::{for_terminal, one_line};
use crate::exit::{Exit, Failure};
use crate::question::{Press, indented};
use crate::terminal::talk;
use crate::{connect, duration};
use cortex_api::{ApprovalList, ApprovalQuery, ApprovalRow, Client, GrantList, GrantRequest, GrantRow};
use cortex_types::limits::LIST_ROWS_MAX;
use cortex_types::{ApprovalId, GrantId};
use serde_json::json;
use std::time::Duration;

const WHERE: &str = "cortex approvals list --all";
const WHERE_GRANTS: &str = "cortex approvals grants";

/// Answer the assistant when it asks before it does something
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List open questions, newest first
    List {
        /// Also those that are answered or expired
        #[arg(long)]
        all: bool,
        #[arg(long, short = 'n', default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: u32,
    },
    /// Show one question with exactly what would run
    Show { approval: ApprovalId },
    /// Let the call run, once
    Approve {
        approval: ApprovalId,
        #[command(flatten)]
        patience: Patience,
    },
    /// Do not let the call run
    Deny {
        approval: ApprovalId,
        #[command(flatten)]
        patience: Patience,
    },
    /// Allow exactly this call again for a while, without asking
    Grant {
        approval: ApprovalId,
        /// How long: 30m, 2h, at most 24h
        #[arg(long = "for", value_name = "TIME", value_parser = duration::parse)]
        lasting: Duration,
    },
    /// List grants, newest first
    Grants,
    /// End a grant
    Revoke { grant: GrantId },
}

#[derive(Debug, clap::Args)]
struct Patience {
    /// How long to wait for what the assistant says then, when it was asked from the command line; 0 does not wait
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = duration::parse)]
    wait: Duration,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let client = connect::client(context)?;
    context.client_runtime()?.block_on(act(&args.action, &client, context))?;
    Ok(Exit::Ok)
}

async fn act(action: &Action, client: &Client, context: &Context) -> Result<(), Failure> {
    let about = |id: &ApprovalId| Failure::about(format!("approval {id}"), WHERE);
    match action {
        Action::List { all, limit } => {
            // One more than is shown tells whether there are more.
            let query = ApprovalQuery { all: *all, limit: Some(limit.saturating_add(1).min(LIST_ROWS_MAX)) };
            let mut found = client.approvals(&query).await?;
            let shown = usize::try_from(*limit).unwrap_or(usize::MAX);
            let has_more = found.items.len() > shown;
            found.items.truncate(shown);
            list(&found, *all, context)?;
            if has_more {
                talk(&format!(
                    "there are more than these {shown}; `-n {LIST_ROWS_MAX}` shows up to {LIST_ROWS_MAX}"
                ));
            }
            Ok(())
        }
        Action::Show { approval } => {
            show(&client.approval(approval).await.map_err(about(approval))?, context)
        }
        Action::Approve { approval, patience } => {
            let row = client.approve(approval).await.map_err(about(approval))?;
            decided(&row, Press::Approve, patience.wait, client, context).await
        }
        Action::Deny { approval, patience } => {
            let row = client.deny(approval).await.map_err(about(approval))?;
            decided(&row, Press::Deny, patience.wait, client, context).await
        }
        Action::Grant { approval, lasting } => {
            let seconds = whole_seconds(*lasting)?;
            let made = client.grant(approval, &GrantRequest { seconds }).await.map_err(about(approval))?;
            if context.terminal.json {
                return context.terminal.print_json(&made);
            }
            context.terminal.print(made.grant_id.as_str())?;
            let time = duration::shown(u64::from(seconds) * 1_000);
            talk(&format!(
                "exactly this call runs without asking for {time}; a question that is open stays open"
            ));
            Ok(())
        }
        Action::Grants => grants(&client.grants().await?, context),
        Action::Revoke { grant } => {
            let about = Failure::about(format!("grant {grant} in force"), WHERE_GRANTS);
            client.revoke_grant(grant).await.map_err(about)?;
            match context.terminal.json {
                true => context.terminal.print_json(&json!({"grantId": grant, "revoked": true})),
                false => context.terminal.print(&format!("revoked {grant}")),
            }
        }
    }
}

fn whole_seconds(lasting: Duration) -> Result<u32, Failure> {
    let seconds = u32::try_from(lasting.as_secs()).ok().filter(|seconds| *seconds > 0);
    seconds.ok_or_else(|| Failure::Usage("--for must be between 1s and 24h".to_owned()))
}

/// Tells what was decided. Whoever asked at the command line is here: what the assistant says next is shown at once.
async fn decided(
    row: &ApprovalRow,
    press: Press,
    patience: Duration,
    client: &Client,
    context: &Context,
) -> Result<(), Failure> {
    if context.terminal.json {
        return context.terminal.print_json(row);
    }
    if row.source != SOURCE || patience.is_zero() {
        let line = format!("{} {}: {}", row.status, row.tool_name, row.tool_arguments_json);
        return context.terminal.print(&line);
    }
    let mut connector = Connector::new(client, &context.home()?);
    connector.skip_said(&row.event_id).await?;
    let mut show = |news: News<'_>| match news {
        News::Preview(_) | News::PreviewVoid => Ok(()),
        News::Waiting(why) => {
            talk(&waiting_line(why));
            Ok(())
        }
        News::Elsewhere(sent) => {
            talk(&sent.line());
            Ok(())
        }
        News::Held { reason } => {
            talk(&held_line(reason));
            Ok(())
        }
        News::Reply(arrival) | News::Other(arrival) => {
            if arrival.topic_key != row.topic_key {
                talk(&format!("(in {})", arrival.topic_key));
            }
            context.terminal.print(&arrival.shown())?;
            if let Some(question) = arrival.question() {
                talk(&context.how_to_answer(&question.approval_id));
            }
            Ok(())
        }
    };
    match connector.wait(&row.event_id, patience, &mut show).await? {
        Ended::Answered | Ended::Asked | Ended::Silent => Ok(()),
        Ended::Failed => {
            let event = &row.event_id;
            Err(Failure::Plain(format!("the event failed; `cortex trace {event}` shows its way")))
        }
        Ended::TimedOut => {
            let event = &row.event_id;
            talk(&format!("({}; no reply yet, `cortex trace {event}` shows its way)", press.done()));
            Ok(())
        }
    }
}

fn list(list: &ApprovalList, all: bool, context: &Context) -> Result<(), Failure> {
    if context.terminal.json {
        return context.terminal.print_json(list);
    }
    if list.items.is_empty() {
        talk(if all { "no questions yet" } else { "no open questions; --all shows answered ones, too" });
        return Ok(());
    }
    let rows: Vec<Vec<String>> = list.items.iter().map(cells).collect();
    context
        .terminal
        .print_table(&["approval", "status", "until", "source", "topic", "tool", "arguments"], &rows)
}

fn cells(row: &ApprovalRow) -> Vec<String> {
    vec![
        row.approval_id.to_string(),
        row.status.to_string(),
        row.expires_at.0.to_rfc3339(),
        one_line(&row.source, 20),
        one_line(&row.topic_key, 30),
        one_line(&row.tool_name, 40),
        one_line(&row.tool_arguments_json, 60),
    ]
}

fn show(row: &ApprovalRow, context: &Context) -> Result<(), Failure> {
    let terminal = &context.terminal;
    if terminal.json {
        return terminal.print_json(row);
    }
    let mut lines = vec![
        format!("approval   {}", row.approval_id),
        format!("status     {}", row.status),
        format!("event      {}", row.event_id),
        format!("source     {}", row.source),
        format!("topic      {}", row.topic_key),
        format!("user       {}", row.user_id),
        format!("asked      {}", row.created_at.0.to_rfc3339()),
        format!("until      {}", row.expires_at.0.to_rfc3339()),
    ];
    lines.extend(row.resolved_at.map(|at| format!("answered   {}", at.0.to_rfc3339())));
    lines.extend(row.resolved_by.as_ref().map(|by| format!("by         {by}")));
    lines.push(format!("tool       {}", row.tool_name));
    lines.push(format!("question   {}", row.question.replace('\n', "\n           ")));
    lines.push(format!("arguments\n{}", indented(&row.verbatim)));
    // Even into a file: what a person approves must not hide a part of itself.
    terminal.print(&for_terminal(&lines.join("\n")))
}

fn grants(list: &GrantList, context: &Context) -> Result<(), Failure> {
    if context.terminal.json {
        return context.terminal.print_json(list);
    }
    if list.items.is_empty() {
        talk("no grants; `cortex approvals grant <approval> --for 30m` makes one");
        return Ok(());
    }
    let rows: Vec<Vec<String>> = list.items.iter().map(grant_cells).collect();
    context
        .terminal
        .print_table(&["grant", "until", "revoked", "source", "topic", "tool", "arguments"], &rows)
}

fn grant_cells(row: &GrantRow) -> Vec<String> {
    vec![
        row.grant_id.to_string(),
        row.expires_at.0.to_rfc3339(),
        row.revoked_at.map(|at| at.0.to_rfc3339()).unwrap_or_default(),
        one_line(&row.source, 20),
        one_line(&row.topic_key, 30),
        one_line(&row.tool_name, 40),
        one_line(&row.tool_arguments_json, 60),
    ]
}
