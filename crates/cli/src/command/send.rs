//! `cortex send`.

use crate::connector::{Arrival, Connector, Ended, News};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::terminal::talk;
use crate::{connect, duration};
use cortex_types::EventId;
use cortex_types::limits::BODY_BYTES_MAX;
use serde_json::json;
use std::io::Read;
use std::time::Duration;

/// Say something and print the reply
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to say; - reads it from stdin
    text: String,
    /// The conversation it belongs to
    #[arg(long, default_value = super::chat::TOPIC)]
    topic: String,
    /// How long to wait for the reply; 0 does not wait
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = duration::parse)]
    wait: Duration,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let text = if args.text == "-" { read_stdin()? } else { args.text.clone() };
    let client = connect::client(context)?;
    context.client_runtime()?.block_on(async {
        let connector = Connector::new(&client);
        let event = connector.say(&text, &args.topic).await?;
        if args.wait.is_zero() {
            return report(context, &event, "queued", &[]).map(|()| Exit::Ok);
        }
        let mut replies: Vec<Arrival> = Vec::new();
        let ended = connector
            .wait(&event, args.wait, &mut |news| {
                match news {
                    News::Reply(arrival) if context.terminal.json => replies.push(arrival.clone()),
                    News::Reply(arrival) => context.terminal.print(&context.terminal.safe(&arrival.text))?,
                    News::Other(arrival) => {
                        talk(&format!("(earlier, in {})", crate::escape::for_terminal(&arrival.topic_key)));
                        talk(&crate::escape::for_terminal(&arrival.text));
                    }
                    News::Preview(_) | News::PreviewVoid => {}
                }
                Ok(())
            })
            .await?;
        finish(context, &event, ended, &replies, args.wait)
    })
}

fn finish(
    context: &Context,
    event: &EventId,
    ended: Ended,
    replies: &[Arrival],
    waited: Duration,
) -> Result<Exit, Failure> {
    match ended {
        Ended::Answered => report(context, event, "done", replies).map(|()| Exit::Ok),
        Ended::Silent => {
            talk("(no reply: the assistant chose silence)");
            report(context, event, "done", replies).map(|()| Exit::Ok)
        }
        Ended::Failed => {
            report(context, event, "failed", replies)?;
            Err(Failure::Plain(format!("the event failed; `cortex trace {event}` shows its way")))
        }
        Ended::TimedOut => {
            let waited = duration::shown(u64::try_from(waited.as_millis()).unwrap_or(u64::MAX));
            Err(Failure::Coded {
                code: "no_reply_yet",
                message: format!(
                    "no reply within {waited}; it will wait in the outbox, and `cortex trace {event}` shows its way"
                ),
            })
        }
    }
}

/// As text the replies were printed as they came; as JSON they come in one piece.
fn report(context: &Context, event: &EventId, status: &str, replies: &[Arrival]) -> Result<(), Failure> {
    if context.terminal.json {
        return context.terminal.print_json(&json!({"eventId": event, "status": status, "replies": replies}));
    }
    Ok(())
}

fn read_stdin() -> Result<String, Failure> {
    let mut text = String::new();
    // One byte more than the server takes: a longer text is refused by it, never cut here.
    let limit = u64::try_from(BODY_BYTES_MAX).unwrap_or(u64::MAX) + 1;
    std::io::stdin()
        .take(limit)
        .read_to_string(&mut text)
        .map_err(|error| Failure::Coded { code: "bad_input", message: format!("stdin: {error}") })?;
    Ok(text.trim_end_matches('\n').to_owned())
}
