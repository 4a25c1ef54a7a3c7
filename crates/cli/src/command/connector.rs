//! `cortex connector`.

mod check;
mod discord;
mod list;
mod matrix;
mod platform;
mod running;
mod slack;
mod status;
mod stdio;
mod telegram;
mod trust;
mod unbind;

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
    Telegram(telegram::Args),
    Matrix(matrix::Args),
    Discord(discord::Args),
    Slack(slack::Args),
    Stdio(stdio::Args),
    /// Show which connectors there are, and which are configured and enabled
    List,
    /// Show how the connectors are that the server runs, and which came without a key
    Status,
    Trust(trust::TrustArgs),
    Untrust(trust::UntrustArgs),
    Forget(trust::ForgetArgs),
    Unbind(unbind::Args),
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    match &args.action {
        Action::Check(args) => check::run(args, context),
        Action::Telegram(args) => telegram::run(args, context),
        Action::Matrix(args) => matrix::run(args, context),
        Action::Discord(args) => discord::run(args, context),
        Action::Slack(args) => slack::run(args, context),
        Action::Stdio(args) => stdio::run(args, context),
        Action::List => list::run(context),
        Action::Status => status::run(context),
        Action::Trust(args) => trust::trust(args, context),
        Action::Untrust(args) => trust::untrust(args, context),
        Action::Forget(args) => trust::forget(args, context),
        Action::Unbind(args) => unbind::run(args, context),
    }
}
