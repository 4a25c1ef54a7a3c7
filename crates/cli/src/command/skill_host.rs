//! `cortex skill-host`: the child of `skillIsolation: "process"`. Nobody types it.

use crate::exit::{Exit, Failure};

/// Run one skill between stdin and stdout
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(Args {}: &Args) -> Result<Exit, Failure> {
    cortex_tools::run_skill_child(std::io::stdin().lock(), std::io::stdout())
        .map_err(|error| Failure::Coded { code: "skill_host", message: error.to_string() })?;
    Ok(Exit::Ok)
}
