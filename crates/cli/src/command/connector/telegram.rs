//! `cortex connector telegram`.

use super::platform::{self, Known, PairAction, PlatformArgs};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use cortex_connectors::{Telegram, TelegramSettings};

const KNOWN: Known = Known {
    name: "telegram",
    title: "Telegram",
    prefix: "tg:",
    token_help: "get one from BotFather and put it into server.json, or give --token-file",
    can_pair: true,
};

/// Connect a Telegram bot to the server
///
/// Reads connectors.telegram of server.json, enabled or not; flags win over it. Who is not allowed is not heard:
/// `cortex connector telegram pair` prints a code that lets whoever sends it to the bot in.
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
            let mut settings = TelegramSettings::new(means.token.clone());
            means.apply(&mut settings.api_url, &mut settings.file_bytes_max);
            Telegram::new(settings)
        }),
    }
}
