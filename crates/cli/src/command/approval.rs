//! `cortex approvals`.

use super::inbox::more;
use crate::connector::{Connector, Ended, News, SOURCE, held_line, waiting_line};
use crate::context::Context;
use crate::escape::{for_terminal, one_line, value};
use crate::exit::{Exit, Failure};
use crate::question::{Press, indented};
use crate::terminal::talk;
use crate::{connect, duration};
use cortex_api::{
    ApprovalList, ApprovalQuery, ApprovalRow, Client, GrantList, GrantQuery, GrantRequest, GrantRow,
};
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
        #[command(flatten)]
        page: Page,
    },
    /// Show one question with exactly what would run
    Show {
        #[arg(value_parser = approval_id)]
        approval: ApprovalId,
    },
    /// Let the call run, once
    Approve {
        #[arg(value_parser = approval_id)]
        approval: ApprovalId,
        #[command(flatten)]
        patience: Patience,
    },
    /// Do not let the call run
    Deny {
        #[arg(value_parser = approval_id)]
        approval: ApprovalId,
        #[command(flatten)]
        patience: Patience,
    },
    /// Allow exactly this call again for a while, without asking
    Grant {
        #[arg(value_parser = approval_id)]
        approval: ApprovalId,
        /// How long: 30m, 2h, at most 24h
        #[arg(long = "for", value_name = "TIME", value_parser = duration::parse)]
        lasting: Duration,
    },
    /// List grants, newest first
    Grants {
        #[command(flatten)]
        page: Page,
    },
    /// End a grant
    Revoke {
        #[arg(value_parser = grant_id)]
        grant: GrantId,
    },
}

#[derive(Debug, clap::Args)]
struct Page {
    #[arg(long, short = 'n', default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=500))]
    limit: u32,
    /// The cursor of the page before
    #[arg(long, value_name = "CURSOR")]
    before: Option<String>,
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
        Action::List { all, page } => {
            let query = ApprovalQuery { all: *all, limit: Some(page.limit), before: page.before.clone() };
            list(&client.approvals(&query).await?, *all, context)
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
        Action::Grants { page } => {
            let query = GrantQuery { limit: Some(page.limit), before: page.before.clone() };
            grants(&client.grants(&query).await?, context)
        }
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

fn approval_id(text: &str) -> Result<ApprovalId, String> {
    let help = format!("an approval id is apv_ and 26 letters and digits; `{WHERE}` shows them");
    text.parse().map_err(|_| help)
}

fn grant_id(text: &str) -> Result<GrantId, String> {
    let help = format!("a grant id is grt_ and 26 letters and digits; `{WHERE_GRANTS}` shows them");
    text.parse().map_err(|_| help)
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
        .print_table(&["approval", "status", "until", "source", "topic", "tool", "arguments"], &rows)?;
    more(list.next_cursor.as_deref());
    Ok(())
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
    // Even into a file: what a person approves must not hide a part of itself.
    terminal.print(&for_terminal(&shown(row)))
}

/// No line of a value from elsewhere looks like a line of ours.
fn shown(row: &ApprovalRow) -> String {
    let mut lines = vec![
        format!("approval   {}", row.approval_id),
        format!("status     {}", row.status),
        format!("event      {}", row.event_id),
        format!("source     {}", value(&row.source)),
        format!("topic      {}", value(&row.topic_key)),
        format!("user       {}", value(&row.user_id)),
        format!("asked      {}", row.created_at.0.to_rfc3339()),
        format!("until      {}", row.expires_at.0.to_rfc3339()),
    ];
    lines.extend(row.resolved_at.map(|at| format!("answered   {}", at.0.to_rfc3339())));
    lines.extend(row.resolved_by.as_ref().map(|by| format!("by         {}", value(by))));
    lines.push(format!("tool       {}", value(&row.tool_name)));
    lines.push(format!("question   {}", row.question.replace('\n', "\n           ")));
    lines.push(format!("arguments\n{}", indented(&row.verbatim)));
    lines.join("\n")
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
        .print_table(&["grant", "until", "revoked", "source", "topic", "tool", "arguments"], &rows)?;
    more(list.next_cursor.as_deref());
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::question::Question;
    use cortex_brain::{Asking, hides};
    use cortex_testkit::{shown_argument, unspelled};
    use cortex_types::Millis;
    use proptest::prelude::*;

    const LABELS: [&str; 10] = [
        "approval  ",
        "status  ",
        "event  ",
        "source  ",
        "topic  ",
        "user  ",
        "asked  ",
        "until  ",
        "tool  ",
        "question  ",
    ];

    /// What a terminal shows of a call: by `cortex approvals show`, and in `cortex chat` and `cortex send`.
    fn printed(name: &str, arguments: &str) -> [String; 2] {
        let at = Millis(1_800_000_000_000);
        let asking = Asking {
            tool: "far.tool",
            is_built_in: false,
            arguments_json: arguments,
            preview: None,
            user: name,
            expires_at: at,
            now: at,
        };
        let question = cortex_brain::Question::of(&asking);
        let approval = "apv_01ARZ3NDEKTSV4RRFFQ69G5FAV";
        let row: ApprovalRow = serde_json::from_value(json!({
            "approvalId": approval, "eventId": "evt_01ARZ3NDEKTSV4RRFFQ69G5FAV", "source": name, "topicKey": name,
            "userId": name, "toolName": "far.tool", "toolArgumentsJson": arguments, "question": question.words,
            "verbatim": question.verbatim, "status": "pending", "resolvedBy": null, "resolvedAt": null,
            "expiresAt": "2027-01-15T08:15:00.000Z", "createdAt": "2027-01-15T08:00:00.000Z",
        }))
        .unwrap();
        let payload = json!({ "approvalId": approval, "question": question.words, "verbatim": question.verbatim,
            "buttons": [{ "label": "Approve", "data": "x" }] });
        let asked = Question::of(Some(&payload)).unwrap().shown().unwrap();
        [for_terminal(&shown(&row)).into_owned(), for_terminal(&asked).into_owned()]
    }

    fn tricky() -> impl Strategy<Value = String> {
        let pieces = vec![
            "\n",
            "\n\n",
            "\r",
            "\t",
            "\"",
            "\\",
            "\\u{202e}",
            "\\u{20×9}",
            "\ntool       ls\n",
            "what: \"x\"",
            "  ",
            "          ",
            "\u{1b}[2J",
            "\u{1b}]0;t\u{7}",
            "\u{9b}8m",
            "\u{8}",
            "\u{0}",
            "\u{7f}",
            "\u{202e}",
            "\u{2066}",
            "\u{200b}",
            "\u{200d}",
            "\u{ad}",
            "\u{a0}",
            "\u{2028}",
            "\u{3164}",
            "\u{fe0f}",
            "\u{feff}",
            "\u{e0041}",
            "\u{e000}",
            "é",
            "e\u{301}",
            "😀",
            "…",
            "x",
        ];
        let piece = prop_oneof![
            4 => prop::sample::select(pieces).prop_map(str::to_owned),
            1 => any::<char>().prop_map(String::from),
        ];
        prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn a_terminal_shows_every_character_of_what_would_run(what in tricky(), other in tricky(), name in tricky()) {
            let arguments = |what: &str| json!({ "what": what }).to_string();
            let (one, another) = (printed(&name, &arguments(&what)), printed(&name, &arguments(&other)));
            for (place, (shown, another)) in one.iter().zip(&another).enumerate() {
                // The names around it are not approved; what would run has nothing that hides.
                let (_, call) = shown.rsplit_once("\n  what: \"").unwrap();
                prop_assert!(!call.chars().any(hides), "{}: {:?}", place, call);
                let acts = |letter: char| letter != '\n' && letter != '\t' && cortex_brain::deceives(letter);
                prop_assert!(!shown.chars().any(acts), "{}: {:?}", place, shown);
                prop_assert_eq!(unspelled(&shown_argument(&format!("what: \"{call}"), "what").0), what.clone());
                prop_assert_eq!(shown == another, what == other, "{}: {:?}", place, shown);
            }
            let is_ours = |line: &str| line.is_empty() || line.starts_with(' ') || line == "arguments"
                || LABELS.iter().any(|label| line.starts_with(label));
            let of = |label: &str| one[0].lines().filter(|line| line.starts_with(label)).count();
            prop_assert!(one[0].lines().all(is_ours), "{:?}", one[0]);
            prop_assert!(LABELS.iter().all(|label| of(label) == 1), "{:?}", one[0]);
        }
    }
}
