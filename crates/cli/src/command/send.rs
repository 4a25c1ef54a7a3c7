//! `cortex send`.

use crate::connector::{Arrival, Connector, Elsewhere, Ended, News, TOPIC, held_line, waiting_line};
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
///
/// When the assistant asks before it does something, the question is printed with how to answer it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to say; - reads it from stdin
    #[arg(required = true, value_name = "TEXT")]
    text: Vec<String>,
    /// The conversation it belongs to
    #[arg(long, default_value = TOPIC)]
    topic: String,
    /// How long to wait for the reply; 0 does not wait and prints the event's id
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = duration::parse)]
    wait: Duration,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let text = if args.text == ["-"] { read_stdin()? } else { args.text.join(" ") };
    let client = connect::client(context)?;
    context.client_runtime()?.block_on(async {
        let mut connector = Connector::new(&client, &context.home()?);
        let mut heard = Heard::default();
        if args.wait.is_zero() {
            let event = connector.leave(&text, &args.topic).await?;
            if !context.terminal.json {
                context.terminal.print(event.as_str())?;
            }
            return report(context, &event, "queued", &heard).map(|()| Exit::Ok);
        }
        let show = &mut |news: News<'_>| heard.hear(&news, context);
        let (event, ended) = connector.exchange(&text, &args.topic, args.wait, show).await?;
        finish(context, &event, ended, &heard, args.wait)
    })
}

/// What came, for the one answer in JSON.
#[derive(Default)]
struct Heard {
    replies: Vec<Arrival>,
    /// Messages that belong to something else, shown because nobody else will.
    others: Vec<Arrival>,
    elsewhere: Vec<Elsewhere>,
    /// Why something was held back.
    held: Vec<String>,
}

impl Heard {
    fn hear(&mut self, news: &News<'_>, context: &Context) -> Result<(), Failure> {
        let terminal = &context.terminal;
        match news {
            News::Preview(_) | News::PreviewVoid => {}
            News::Waiting(why) => talk(&waiting_line(why)),
            News::Reply(arrival) if terminal.json => self.replies.push((*arrival).clone()),
            News::Other(arrival) if terminal.json => self.others.push((*arrival).clone()),
            News::Reply(arrival) => {
                terminal.print(&arrival.shown())?;
                hint(arrival, context);
            }
            News::Other(arrival) => {
                talk(&format!("(earlier, in {})", arrival.topic_key));
                talk(&arrival.shown());
                hint(arrival, context);
            }
            News::Elsewhere(sent) => {
                talk(&sent.line());
                self.elsewhere.push((*sent).clone());
            }
            News::Held { reason } => {
                talk(&held_line(reason));
                self.held.push((*reason).to_owned());
            }
        }
        Ok(())
    }
}

/// How to answer what a message asks.
fn hint(arrival: &Arrival, context: &Context) {
    if let Some(question) = arrival.question() {
        talk(&context.how_to_answer(&question.approval_id));
    }
}

fn finish(
    context: &Context,
    event: &EventId,
    ended: Ended,
    heard: &Heard,
    waited: Duration,
) -> Result<Exit, Failure> {
    match ended {
        Ended::Asked => report(context, event, "waiting", heard).map(|()| Exit::Ok),
        Ended::Answered => report(context, event, "done", heard).map(|()| Exit::Ok),
        Ended::Silent => {
            talk("(no reply: the assistant chose silence)");
            report(context, event, "done", heard).map(|()| Exit::Ok)
        }
        Ended::Failed => {
            report(context, event, "failed", heard)?;
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
fn report(context: &Context, event: &EventId, status: &str, heard: &Heard) -> Result<(), Failure> {
    if context.terminal.json {
        let Heard { replies, others, elsewhere, held } = heard;
        return context.terminal.print_json(&json!({
            "eventId": event, "status": status, "replies": replies, "others": others, "elsewhere": elsewhere,
            "heldBack": held,
        }));
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
