//! `cortex connector trust` and `untrust`.

use crate::connect;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::terminal::talk;
use cortex_api::TrustRequest;

/// Let a connector on this machine use its source without a key
///
/// A connector without a key sees only its own conversation. Trusted, it speaks, reads and approves for its one source
/// like a connector with a key. Any program on this machine can use its name, so prefer a key where the connector takes
/// one: `cortex key create`.
#[derive(Debug, clap::Args)]
pub(crate) struct TrustArgs {
    /// The connectorId, as `cortex connector status` shows it
    connector_id: String,
    /// The source it may use; the one that it claims unless you say another
    #[arg(long)]
    source: Option<String>,
}

/// Trust a connector without a key no longer: it sees only its own conversation again
#[derive(Debug, clap::Args)]
pub(crate) struct UntrustArgs {
    /// The connectorId, as `cortex connector status` shows it
    connector_id: String,
}

pub(super) fn trust(args: &TrustArgs, context: &Context) -> Result<Exit, Failure> {
    let client = connect::client(context)?;
    let request = TrustRequest { connector_id: args.connector_id.clone(), source: args.source.clone() };
    let trusted = context.client_runtime()?.block_on(client.trust_connector(&request))?;
    if context.terminal.json {
        context.terminal.print_json(&trusted)?;
        return Ok(Exit::Ok);
    }
    let source = trusted.trusted_source.unwrap_or_default();
    let line = format!("{} is trusted for the source {source}", trusted.connector_id);
    context.terminal.print(&line)?;
    talk("every program on this machine can use its name; `cortex key create` makes a key instead");
    Ok(Exit::Ok)
}

pub(super) fn untrust(args: &UntrustArgs, context: &Context) -> Result<Exit, Failure> {
    let client = connect::client(context)?;
    let row = context.client_runtime()?.block_on(client.untrust_connector(&args.connector_id))?;
    if context.terminal.json {
        context.terminal.print_json(&row)?;
        return Ok(Exit::Ok);
    }
    let line = format!("{} is no longer trusted; its sockets are closed", row.connector_id);
    context.terminal.print(&line)?;
    Ok(Exit::Ok)
}
