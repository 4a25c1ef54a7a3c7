//! Where a chat's lines come from: an editor with a history, or a pipe, read on a thread of its own.

use super::screen::Screen;
use crate::connector::News;
use crate::exit::Failure;
use crate::home::Home;
use crate::terminal::talk;
use rustyline::error::ReadlineError;
use rustyline::{Config, DefaultEditor, ExternalPrinter};
use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;
use std::sync::mpsc as thread_channel;
use std::thread::JoinHandle;
use tokio::sync::mpsc;

const HISTORY_LINES_MAX: usize = 1_000;

/// One line at a time, when it is asked for: between two the terminal is the chat's own.
pub(super) struct Lines {
    ask: thread_channel::Sender<()>,
    lines: mpsc::Receiver<Result<Option<String>, Failure>>,
    /// Prints above a line that is being typed.
    above: Option<Box<dyn ExternalPrinter>>,
    reader: JoinHandle<()>,
}

enum Reader {
    Editor { editor: Box<DefaultEditor>, history: PathBuf },
    Pipe(std::io::Lines<std::io::StdinLock<'static>>),
}

impl Lines {
    pub(super) fn open(home: &Home) -> Result<Self, Failure> {
        let is_terminal = std::io::stdin().is_terminal();
        let (mut editor, mut above) = (None, None);
        if is_terminal {
            let mut made = open_editor()?;
            let history = home.chat_history();
            // The first chat has no history; one that cannot be read is no reason not to talk.
            if made.load_history(&history).is_err() {
                made.clear_history().map_err(no_editor)?;
            }
            // A terminal that cannot do it gets what arrives in the middle of the line.
            above = made.create_external_printer().ok().map(|printer| Box::new(printer) as Box<_>);
            editor = Some((made, history));
        }
        let (ask, asked) = thread_channel::channel();
        let (send, lines) = mpsc::channel(1);
        let read = move || {
            let mut reader = match editor {
                Some((editor, history)) => Reader::Editor { editor, history },
                None => Reader::Pipe(std::io::stdin().lock().lines()),
            };
            while asked.recv().is_ok() {
                if send.blocking_send(reader.next()).is_err() {
                    break;
                }
            }
            reader.close();
        };
        let reader = std::thread::Builder::new().name("lines".to_owned()).spawn(read).map_err(|error| {
            Failure::Coded { code: "no_editor", message: format!("no thread for the editor: {error}") }
        })?;
        Ok(Self { ask, lines, above, reader })
    }

    /// Begins to read a line.
    pub(super) fn ask(&self) {
        // A reader that is gone says so when its line is waited for.
        self.ask.send(()).unwrap_or_default();
    }

    /// The line that was asked for; giving up in between loses nothing.
    pub(super) async fn next(&mut self) -> Result<Option<String>, Failure> {
        self.lines.recv().await.unwrap_or(Ok(None))
    }

    /// Shows what arrives while a line is typed.
    pub(super) fn print_above(&mut self, screen: &mut Screen<'_>, news: &News<'_>) -> Result<(), Failure> {
        match (&mut self.above, news) {
            (Some(printer), News::Reply(arrival) | News::Other(arrival)) => {
                printer.print(screen.whole(arrival)?).map_err(no_editor)
            }
            (
                Some(_),
                News::Preview(_)
                | News::PreviewVoid
                | News::Waiting(_)
                | News::Elsewhere(_)
                | News::Held { .. },
            ) => Ok(()),
            (None, news) => screen.show(news),
        }
    }

    /// Ends the reader, which keeps its history. Only between two lines: nobody waits for a key then.
    pub(super) fn close(self) {
        drop(self.ask);
        if self.reader.join().is_err() {
            talk("(the history was not kept)");
        }
    }
}

impl Reader {
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

fn open_editor() -> Result<Box<DefaultEditor>, Failure> {
    let config = Config::builder().max_history_size(HISTORY_LINES_MAX).map_err(no_editor)?.build();
    Ok(Box::new(DefaultEditor::with_config(config).map_err(no_editor)?))
}

fn no_editor(error: ReadlineError) -> Failure {
    Failure::Coded { code: "no_editor", message: error.to_string() }
}
