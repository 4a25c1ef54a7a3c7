//! `cortex chat`.

mod lines;
mod screen;

use self::lines::Lines;
use self::screen::Screen;
use crate::connector::{Connector, Ended, News, TOPIC};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::question::Press;
use crate::terminal::talk;
use crate::{connect, duration};
use std::time::Duration;

/// How often to look for what nobody asked for, such as a reminder, while the next line is typed.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const HELP: &str = "type a message; /approve and /deny answer the newest open question here; /quit ends the chat; \
                    // begins a message that starts with a slash";
const COMMANDS: &str = "/approve, /deny, /help and /quit";

/// Talk with the assistant, line by line; /quit, Ctrl-D or Ctrl-C ends it
///
/// When the assistant asks before it does something, /approve and /deny answer. Reminders show as they arrive.
/// With piped input every line is one message, and stdout has the replies.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The conversation to go on with
    #[arg(long, default_value = TOPIC)]
    topic: String,
    /// How long to wait for each reply
    #[arg(long, default_value = "10m", value_name = "TIME", value_parser = duration::parse)]
    wait: Duration,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let client = connect::client(context)?;
    let runtime = context.client_runtime()?;
    runtime.block_on(async {
        // Better to say it before the first line is typed.
        client.health().await?;
        let lines = Lines::open(&context.home()?)?;
        let mut chat = Chat { args, context, connector: Connector::new(&client, &context.home()?), lines };
        let exit = chat.talk().await?;
        chat.lines.close();
        Ok(exit)
    })
}

struct Chat<'a> {
    args: &'a Args,
    context: &'a Context,
    connector: Connector<'a>,
    lines: Lines,
}

/// How one exchange went.
enum Turned {
    Answered,
    Unanswered,
    Interrupted,
}

impl Chat<'_> {
    async fn talk(&mut self) -> Result<Exit, Failure> {
        let mut exit = Exit::Ok;
        while let Some(line) = self.next_line().await? {
            let turned = match line.trim() {
                "" => continue,
                "/quit" | "/exit" => break,
                "/help" => {
                    talk(HELP);
                    continue;
                }
                "/approve" => self.exchange(Saying::Press(Press::Approve)).await?,
                "/deny" => self.exchange(Saying::Press(Press::Deny)).await?,
                text if is_command(text) => {
                    talk(&format!("cortex: {text} is not a command; there are {COMMANDS}"));
                    exit = Exit::Error;
                    continue;
                }
                text => {
                    self.exchange(Saying::Text(
                        text.strip_prefix('/').filter(|rest| rest.starts_with('/')).unwrap_or(text),
                    ))
                    .await?
                }
            };
            match turned {
                Turned::Answered => exit = Exit::Ok,
                Turned::Unanswered => exit = Exit::Error,
                Turned::Interrupted => break,
            }
        }
        Ok(exit)
    }

    /// The next line; what arrives until then is shown.
    async fn next_line(&mut self) -> Result<Option<String>, Failure> {
        let Self { args, context, connector, lines } = self;
        lines.ask();
        loop {
            if let Ok(line) = tokio::time::timeout(LOOK_EVERY, lines.next()).await {
                return line;
            }
            let mut screen = Screen::new(context, &args.topic);
            connector.look(&mut |news| lines.print_above(&mut screen, &news)).await?;
        }
    }

    async fn exchange(&mut self, saying: Saying<'_>) -> Result<Turned, Failure> {
        tokio::select! {
            turned = say(&mut self.connector, saying, self.args, self.context) => turned,
            interrupt = tokio::signal::ctrl_c() => {
                interrupt.map_err(Failure::from_output)?;
                talk("\n(interrupted; the reply will wait in the outbox)");
                Ok(Turned::Interrupted)
            }
        }
    }
}

/// Whether a line is meant as a command and not as a message, such as one that begins with a path.
fn is_command(line: &str) -> bool {
    let word = line.split_whitespace().next().and_then(|word| word.strip_prefix('/'));
    word.is_some_and(|word| {
        !word.is_empty()
            && word.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '?'))
    })
}

/// What one says with a line.
enum Saying<'a> {
    Text(&'a str),
    Press(Press),
}

async fn say(
    connector: &mut Connector<'_>,
    saying: Saying<'_>,
    args: &Args,
    context: &Context,
) -> Result<Turned, Failure> {
    let mut screen = Screen::new(context, &args.topic);
    let mut show = |news: News<'_>| screen.show(&news);
    let ended = match saying {
        Saying::Text(text) => {
            let event = connector.say(text, &args.topic).await?;
            connector.wait(&event, args.wait, &mut show).await?
        }
        Saying::Press(press) => match connector.open_question(&args.topic).await? {
            Some(open) => connector.answer(&open, press, args.wait, &mut show).await?,
            None => {
                talk("(no question is open in this conversation; `cortex approvals list` shows all)");
                return Ok(Turned::Unanswered);
            }
        },
    };
    Ok(match ended {
        Ended::Answered | Ended::Asked => Turned::Answered,
        Ended::Silent => {
            talk("(no reply: the assistant chose silence)");
            Turned::Answered
        }
        Ended::Failed => Turned::Unanswered,
        Ended::TimedOut => {
            talk("(no reply yet; it will show here, or wait in the outbox)");
            Turned::Unanswered
        }
    })
}
