//! `cortex connector`.

mod check;

use crate::context::Context;
use crate::exit::{Exit, Failure};

/// Run a connector, or look at those that the server runs
///
/// A connector carries messages between a platform and the server. `connectors` in server.json configures them;
/// `cortex serve` runs those that are enabled, and each can be run by hand.
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
