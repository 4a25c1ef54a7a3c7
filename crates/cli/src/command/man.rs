//! `cortex man`.

use crate::arguments::Arguments;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use clap::CommandFactory;

/// Print the manual page
///
/// For example: cortex man > ~/.local/share/man/man1/cortex.1
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The page of one command, such as send
    command: Option<String>,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let mut whole = Arguments::command();
    whole.build();
    let command = match &args.command {
        None => whole,
        Some(name) => whole
            .find_subcommand(name)
            .cloned()
            .ok_or_else(|| Failure::Usage(format!("there is no command {name:?}; see cortex --help")))?,
    };
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page).map_err(Failure::from_output)?;
    context.terminal.print(&String::from_utf8_lossy(&page))?;
    Ok(Exit::Ok)
}
