//! `cortex version`.

use crate::context::Context;
use crate::exit::{Exit, Failure};
use serde_json::json;

/// Print the version
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(Args {}: &Args, context: &Context) -> Result<Exit, Failure> {
    let version = env!("CARGO_PKG_VERSION");
    if context.terminal.json {
        context.terminal.print_json(&json!({"name": "cortex", "version": version}))?;
    } else {
        context.terminal.print(&format!("cortex {version}"))?;
    }
    Ok(Exit::Ok)
}
