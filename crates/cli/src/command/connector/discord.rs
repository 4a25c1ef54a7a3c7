//! `cortex connector discord`.

use super::platform::{self, Known, PairAction, PlatformArgs};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use cortex_connectors::{Discord, DiscordSettings};

const KNOWN: Known = Known {
    name: "discord",
    title: "Discord",
    prefix: "discord:",
    token_help: "make a bot in Discord's developer portal and put its token into server.json, or give --token-file",
    can_pair: true,
};

/// Connect a Discord bot to the server
///
/// Reads connectors.discord of server.json, enabled or not; flags win over it. The bot needs Message Content Intent. Who
/// is not allowed is not heard: `cortex connector discord pair` prints a code that lets whoever sends it to the bot in.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<PairAction>,
    #[command(flatten)]
    platform: PlatformArgs,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    match args.action {
        Some(PairAction::Pair) => platform::pair(&KNOWN, context),
        None => platform::connect(&KNOWN, &args.platform, context, |means| {
            let mut settings = DiscordSettings::new(means.token.clone());
            means.apply(&mut settings.api_url, &mut settings.file_bytes_max);
            Discord::new(settings)
        }),
    }
}
