//! `cortex completions`.

use crate::arguments::Arguments;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use clap::CommandFactory;
use clap_complete::Shell;

/// Print the completions of a shell
///
/// For example: cortex completions bash > ~/.local/share/bash-completion/completions/cortex
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    shell: Shell,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Arguments::command(), "cortex", &mut script);
    context.terminal.print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Ok)
}
