//! `cortex health`.

use crate::connect;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use cortex_api::HealthStatus;

/// Ask the server whether it is well: exit 0 healthy, 1 degraded, damaged or full, 2 not running
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(Args {}: &Args, context: &Context) -> Result<Exit, Failure> {
    let client = connect::client(context)?;
    let health = context.client_runtime()?.block_on(client.health())?;
    let (word, exit) = match health.status {
        HealthStatus::Healthy => ("healthy", Exit::Ok),
        HealthStatus::Degraded => ("degraded", Exit::Error),
        HealthStatus::Damaged => ("damaged", Exit::Error),
        HealthStatus::Full => ("full", Exit::Error),
    };
    if context.terminal.json {
        context.terminal.print_json(&health)?;
    } else {
        context.terminal.print(word)?;
    }
    Ok(exit)
}
