//! `cortex chat`.

use crate::connector::{Connector, Ended, News};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::terminal::talk;
use crate::{connect, duration};
use cortex_api::Client;
use rustyline::error::ReadlineError;
use rustyline::{Config, DefaultEditor};
use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;
use std::time::Duration;

/// The conversation of `send` and `chat` unless told otherwise.
pub(super) const TOPIC: &str = "main";
const HISTORY_LINES_MAX: usize = 1_000;

/// Talk with the assistant, line by line; /quit, Ctrl-D or Ctrl-C ends it
///
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
    // Better to say it before the first line is typed.
    runtime.block_on(client.health())?;
    let mut lines = Lines::open(&context.home()?)?;
    let mut exit = Exit::Ok;
    while let Some(line) = lines.next()? {
        match line.trim() {
            "" => {}
            "/quit" | "/exit" => break,
            "/help" => talk("type a message; /quit ends the chat"),
            text => match runtime.block_on(turn(&client, text, args, context))? {
                Turned::Answered => exit = Exit::Ok,
                Turned::Unanswered => exit = Exit::Error,
                Turned::Interrupted => break,
            },
        }
    }
    lines.close();
    Ok(exit)
}

/// How one exchange went.
enum Turned {
    Answered,
    Unanswered,
    Interrupted,
}

async fn turn(client: &Client, text: &str, args: &Args, context: &Context) -> Result<Turned, Failure> {
    let connector = Connector::new(client);
    let event = connector.say(text, &args.topic).await?;
    let mut screen = Screen { context, preview: String::new() };
    let mut show = |news: News<'_>| screen.show(&news);
    let ended = tokio::select! {
        ended = connector.wait(&event, args.wait, &mut show) => ended?,
        interrupt = tokio::signal::ctrl_c() => {
            interrupt.map_err(Failure::from_output)?;
            talk("\n(interrupted; the reply will wait in the outbox)");
            return Ok(Turned::Interrupted);
        }
    };
    Ok(match ended {
        Ended::Answered => Turned::Answered,
        Ended::Silent => {
            talk("(no reply: the assistant chose silence)");
            Turned::Answered
        }
        Ended::Failed => Turned::Unanswered,
        Ended::TimedOut => {
            talk(&format!("(no reply yet; it will wait in the outbox: cortex trace {event})"));
            Turned::Unanswered
        }
    })
}

/// Shows the preview where a person watches, and the delivered text always.
struct Screen<'a> {
    context: &'a Context,
    preview: String,
}

impl Screen<'_> {
    fn show(&mut self, news: &News<'_>) -> Result<(), Failure> {
        let terminal = &self.context.terminal;
        match news {
            News::Preview(text) if terminal.stdout_is_terminal && !terminal.json => {
                terminal.print_raw(&terminal.safe(text))?;
                self.preview.push_str(text);
            }
            News::Preview(_) => {}
            News::PreviewVoid if self.preview.is_empty() => {}
            News::PreviewVoid => {
                terminal.print_raw("\n(once more)\n")?;
                self.preview.clear();
            }
            News::Reply(arrival) if terminal.json => {
                terminal.print(
                    &serde_json::to_string(arrival).map_err(|error| Failure::Plain(error.to_string()))?,
                )?;
            }
            // The preview was the whole reply: it stands there already.
            News::Reply(arrival)
                if !self.preview.is_empty() && self.preview.trim() == arrival.text.trim() =>
            {
                terminal.print_raw("\n")?;
                self.preview.clear();
            }
            News::Reply(arrival) => {
                if !self.preview.is_empty() {
                    terminal.print_raw("\n")?;
                    self.preview.clear();
                }
                terminal.print(&terminal.safe(&arrival.text))?;
            }
            News::Other(arrival) => {
                talk(&format!("(earlier, in {})", crate::escape::for_terminal(&arrival.topic_key)));
                terminal.print(&terminal.safe(&arrival.text))?;
            }
        }
        Ok(())
    }
}

/// Where lines come from: an editor with a history, or a pipe.
enum Lines {
    Editor { editor: Box<DefaultEditor>, history: PathBuf },
    Pipe(std::io::Lines<std::io::StdinLock<'static>>),
}

impl Lines {
    fn open(home: &Home) -> Result<Self, Failure> {
        if !std::io::stdin().is_terminal() {
            return Ok(Self::Pipe(std::io::stdin().lock().lines()));
        }
        let config = Config::builder().max_history_size(HISTORY_LINES_MAX).map_err(no_editor)?.build();
        let mut editor = Box::new(DefaultEditor::with_config(config).map_err(no_editor)?);
        let history = home.chat_history();
        // The first chat has no history; one that cannot be read is no reason not to talk.
        if editor.load_history(&history).is_err() {
            editor.clear_history().map_err(no_editor)?;
        }
        Ok(Self::Editor { editor, history })
    }

    fn next(&mut self) -> Result<Option<String>, Failure> {
        match self {
            Self::Pipe(lines) => lines
                .next()
                .transpose()
                .map_err(|error| Failure::Coded { code: "bad_input", message: format!("stdin: {error}") }),
            Self::Editor { editor, .. } => match editor.readline("> ") {
                Ok(line) => {
                    editor.add_history_entry(&line).map_err(no_editor)?;
                    Ok(Some(line))
                }
                Err(ReadlineError::Eof | ReadlineError::Interrupted) => Ok(None),
                Err(error) => Err(no_editor(error)),
            },
        }
    }

    fn close(self) {
        match self {
            Self::Pipe(_) => {}
            Self::Editor { mut editor, history } => {
                if let Err(error) = editor.save_history(&history) {
                    talk(&format!("(the history was not kept: {error})"));
                }
            }
        }
    }
}

fn no_editor(error: ReadlineError) -> Failure {
    Failure::Coded { code: "no_editor", message: error.to_string() }
}
