//! `cortex connector`.

mod check;

use crate::context::Context;
use crate::exit::{Exit, Failure};

/// Check servers of the connector protocol
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    Check(check::Args),
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    match &args.action {
        Action::Check(args) => check::run(args, context),
    }
}
