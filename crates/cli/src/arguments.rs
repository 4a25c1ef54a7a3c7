//! The command line: what is asked, and how its failure is told.

use crate::command::Command;
use crate::config::Flags;
use crate::context::Context;
use crate::environment::Environment;
use crate::escape::{flat, value};
use crate::exit::{Exit, Failure};
use crate::panic_line;
use crate::terminal::{Terminal, talk, talk_drawn};
use clap::error::ErrorKind;
use clap::{Args, Parser};
use std::ffi::OsString;
use std::path::PathBuf;

/// Cortex: a self-hosted brain for assistants and agents
///
/// Every message lands in a durable inbox, is answered once, and leaves through an outbox.
/// Start with `cortex serve`, then say something with `cortex send "hello"`.
#[derive(Debug, Parser)]
#[command(name = "cortex", version, propagate_version = false, max_term_width = 100, after_help = EXITS)]
pub(crate) struct Arguments {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

const EXITS: &str = "\
Exit codes: 0 done, 1 failed, 2 already running or nothing runs, 64 wrong usage, 78 wrong configuration.
Data goes to stdout, everything else to stderr.";

const EVERYWHERE: &str = "Options of every command";

#[derive(Debug, Args)]
struct Global {
    /// The home folder [default: $CORTEX_HOME, else ~/.cortex]
    #[arg(long, global = true, value_name = "FOLDER", help_heading = EVERYWHERE)]
    home: Option<PathBuf>,
    /// The server's address; wins over CORTEX_HOST and server.json
    #[arg(long, global = true, value_name = "ADDRESS", help_heading = EVERYWHERE)]
    host: Option<String>,
    /// The server's port; wins over CORTEX_PORT and server.json
    #[arg(long, global = true, value_name = "PORT", help_heading = EVERYWHERE)]
    port: Option<String>,
    /// Print data as JSON
    #[arg(long, global = true, help_heading = EVERYWHERE)]
    json: bool,
}

/// Does what the command line asks and tells how it went.
pub(crate) fn run(arguments: impl Iterator<Item = OsString>, environment: Environment) -> Exit {
    let no_colour = environment.get_filled("NO_COLOR").is_some();
    match Arguments::try_parse_from(arguments) {
        Ok(Arguments { global, command }) => {
            panic_line::install(global.home.as_deref(), &environment);
            let terminal = Terminal::new(global.json, no_colour);
            let flags = Flags { host: global.host, port: global.port };
            let context = Context { home_flag: global.home, flags, environment, terminal };
            command.run(&context).unwrap_or_else(|failure| tell(&failure, &terminal))
        }
        Err(error) => refuse(&error),
    }
}

fn tell(failure: &Failure, terminal: &Terminal) -> Exit {
    match failure {
        Failure::OutputClosed => {}
        Failure::Config(error) => talk_drawn(error.render(terminal.stderr_is_coloured).trim_end()),
        // Each problem has a line of its own.
        Failure::Skills(_) => talk(&format!("cortex: {failure}")),
        Failure::Usage(_)
        | Failure::AlreadyRunning { .. }
        | Failure::NotRunning
        | Failure::Unreachable { .. }
        | Failure::Home(_)
        | Failure::Coded { .. }
        | Failure::Misconfigured(_)
        | Failure::Plain(_) => talk(&format!("cortex: {}", value(&failure.to_string()))),
    }
    failure.exit()
}

fn refuse(error: &clap::Error) -> Exit {
    // What is wrong with a value is one line, as every other failure; the usage would not say more about it.
    if error.kind() == ErrorKind::ValueValidation {
        let told = error.to_string();
        let told = told.split("\n\nFor more information").next().unwrap_or_default();
        talk(&format!("cortex: {}", flat(told.strip_prefix("error: ").unwrap_or(told))));
        return Exit::Usage;
    }
    let was_asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    // Nobody is left to tell when the stream is gone.
    error.print().unwrap_or_default();
    if was_asked { Exit::Ok } else { Exit::Usage }
}
