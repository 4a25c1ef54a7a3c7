//! `cortex restart`.

use super::{start, stop};
use crate::context::Context;
use crate::daemon;
use crate::exit::{Exit, Failure};

/// Stop the server if it runs, and start it
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Do not wait for running turns; they are resumed at the start
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    // A configuration that cannot start must not stop what runs.
    start::check(context)?;
    if let Some(pid) = daemon::holder(&home) {
        stop::stop(&home, pid, args.force, context)?;
    }
    start::start(context)
}
