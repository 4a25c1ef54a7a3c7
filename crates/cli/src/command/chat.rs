//! `cortex chat`.

mod lines;
mod screen;

use self::lines::Lines;
use self::screen::Screen;
use crate::connector::{Connector, Ended, News, OpenQuestion, TOPIC};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::question::Press;
use crate::terminal::talk;
use crate::{connect, duration};
use cortex_types::ApprovalId;
use std::time::Duration;

/// How often to look for what nobody asked for, such as a reminder, while the next line is typed.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const HELP: &str = "type a message; /approve and /deny answer the open question here, /approve 2 the second of several; \
                    /quit ends the chat; // begins a message that starts with a slash";
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
        let connector = Connector::new(&client, &context.home()?);
        let mut chat = Chat { args, context, connector, lines, numbers: Vec::new() };
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
    /// Questions by the numbers that the person was told, which stay theirs.
    numbers: Vec<ApprovalId>,
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
                text if is_command(text) => match pressed(text) {
                    Some((press, number)) => self.press(press, number).await?,
                    None => {
                        talk(&format!("cortex: {text} is not a command; there are {COMMANDS}"));
                        exit = Exit::Error;
                        continue;
                    }
                },
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
        let Self { args, context, connector, lines, numbers: _ } = self;
        lines.ask();
        loop {
            if let Ok(line) = tokio::time::timeout(LOOK_EVERY, lines.next()).await {
                return line;
            }
            let mut screen = Screen::new(context, &args.topic);
            connector.look(&mut |news| lines.print_above(&mut screen, &news)).await?;
        }
    }

    /// Answers the question that is meant; when that is not clear, the person is told which ones there are.
    async fn press(&mut self, press: Press, number: Option<usize>) -> Result<Turned, Failure> {
        let open = self.numbered().await?;
        let chosen = match (number, open.as_slice()) {
            (_, []) => {
                talk("(no question is open in this conversation; `cortex approvals list` shows all)");
                return Ok(Turned::Unanswered);
            }
            (None, [only]) => Some(only),
            (None, _) => None,
            (Some(number), _) => open.iter().find(|(known, _)| *known == number),
        };
        let Some((_, chosen)) = chosen.cloned() else {
            talk(&format!("(which one? Type {} with its number:)", press.command()));
            list(&open);
            return Ok(Turned::Unanswered);
        };
        let turned = self.exchange(Saying::Press(press, chosen)).await?;
        let left = self.numbered().await?;
        if !left.is_empty() {
            talk("(still open; /approve or /deny with the number answers:)");
            list(&left);
        }
        Ok(turned)
    }

    /// The open questions, the oldest first, by numbers that no other question gets in this chat.
    async fn numbered(&mut self) -> Result<Vec<(usize, OpenQuestion)>, Failure> {
        let open = self.connector.open_questions(&self.args.topic).await?;
        let numbered = open.into_iter().map(|question| {
            let known = self.numbers.iter().position(|id| *id == question.id);
            let place = known.unwrap_or_else(|| {
                self.numbers.push(question.id.clone());
                self.numbers.len() - 1
            });
            (place + 1, question)
        });
        Ok(numbered.collect())
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

fn list(open: &[(usize, OpenQuestion)]) {
    open.iter().for_each(|(number, question)| talk(&format!("  {number}. {}", question.words)));
}

/// `/approve`, `/deny`, or one of them with the number of a question.
fn pressed(line: &str) -> Option<(Press, Option<usize>)> {
    let mut words = line.split_whitespace();
    let command = words.next()?;
    let press = [Press::Approve, Press::Deny].into_iter().find(|press| press.command() == command)?;
    match (words.next(), words.next()) {
        (None, _) => Some((press, None)),
        (Some(number), None) => number.parse().ok().map(|number| (press, Some(number))),
        (Some(_), Some(_)) => None,
    }
}

/// What one says with a line.
enum Saying<'a> {
    Text(&'a str),
    Press(Press, OpenQuestion),
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
        Saying::Text(text) => connector.exchange(text, &args.topic, args.wait, &mut show).await?.1,
        Saying::Press(press, open) => {
            connector.press(&open, press).await?;
            talk(&format!("({}: {})", press.done(), open.words));
            connector.see_through(&open, args.wait, &mut show).await?
        }
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
