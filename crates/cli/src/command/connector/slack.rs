//! `cortex connector slack`.

use super::platform::{self, Known, PairAction, PlatformArgs};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use cortex_connectors::{PlatformError, Slack, SlackSettings};
use std::path::PathBuf;

const KNOWN: Known = Known {
    name: "slack",
    title: "Slack",
    prefix: "slack:",
    token_help: "make an app with Socket Mode and put its bot token (xoxb-) into server.json, or give --token-file",
    can_pair: true,
};

/// Connect a Slack app to the server, by Socket Mode
///
/// Reads connectors.slack of server.json, enabled or not; flags win over it. token is the bot's (xoxb-), appToken the
/// app's (xapp-). Who is not allowed is not heard: `cortex connector slack pair` prints a code that lets whoever sends it
/// to the app in.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<PairAction>,
    #[command(flatten)]
    platform: PlatformArgs,
    /// A file that holds the app's token
    #[arg(long, value_name = "FILE")]
    app_token_file: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    if let Some(PairAction::Pair) = args.action {
        return platform::pair(&KNOWN, context);
    }
    platform::connect_with(
        &KNOWN,
        &args.platform,
        context,
        |block| match &args.app_token_file {
            Some(path) => platform::read_token(path, "--app-token-file").map(Some),
            None => Ok(block.app_token.clone()),
        },
        |means, app_token| {
            let missing =
                "connectors.slack has no appToken; the app's page makes one (xapp-) for Socket Mode";
            let app_token = app_token.ok_or_else(|| PlatformError::Misconfigured(missing.to_owned()))?;
            let mut settings = SlackSettings::new(means.token.clone(), app_token);
            means.apply(&mut settings.api_url, &mut settings.file_bytes_max);
            Slack::new(settings)
        },
    )
}
