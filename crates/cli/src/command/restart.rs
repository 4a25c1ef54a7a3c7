//! `cortex restart`.

use super::{start, stop};
use crate::context::Context;
use crate::daemon;
use crate::exit::{Exit, Failure};
use crate::home::Home;

/// Stop the server if it runs, and start it again with the flags it had
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Do not wait for running turns; they are resumed at the start
    #[arg(long)]
    force: bool,
}

/// The flags of this command, then those of the server that runs or was killed.
fn with_flags_of_last(home: &Home, context: &Context) -> Context {
    let running = daemon::listened_last(home).map(|listening| listening.flags).unwrap_or_default();
    Context { flags: context.flags.clone().or(running), ..context.clone() }
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    let context = &with_flags_of_last(&home, context);
    // A configuration that cannot start must not stop what runs.
    start::check(context)?;
    if let Some(pid) = daemon::holder(&home) {
        stop::stop(&home, pid, args.force, context)?;
    }
    start::start(context)
}
