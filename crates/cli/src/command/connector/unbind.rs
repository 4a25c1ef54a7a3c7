//! `cortex connector unbind`.

use crate::connect;
use crate::context::Context;
use crate::escape::for_terminal;
use crate::exit::{Exit, Failure};
use cortex_api::UnbindRequest;

/// Forget which channel a source is, so that a renamed connector can use it under its new name
///
/// The server learns with a connector's first event that its source belongs to its connectorId, and refuses other names for it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The source, such as urn:connector:matrix-1
    source: String,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let client = connect::client(context)?;
    let request = UnbindRequest { source: args.source.clone() };
    let about = Failure::about(format!("source {} that was learned", args.source), "cortex channel list");
    let unbound = context.client_runtime()?.block_on(client.unbind(&request)).map_err(about)?;
    if context.terminal.json {
        context.terminal.print_json(&unbound)?;
    } else {
        let line = format!("{} is no longer the channel {}", unbound.source, unbound.channel);
        context.terminal.print(&for_terminal(&line))?;
    }
    Ok(Exit::Ok)
}
