//! `cortex child-host`: stands between the server and an MCP server's program. Nobody types it.

use crate::assemble;
use crate::exit::{Exit, Failure};
use std::ffi::OsString;

/// Confine a program, hand its input on, and end it when the server is gone
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

pub(crate) fn run(Args { words }: &Args) -> Result<Exit, Failure> {
    let failed = |message: String| Failure::Coded { code: "child_host", message };
    let own = assemble::own_program()?;
    let code = cortex_tools::run_child_host(&own, &[assemble::CHILD_HOST], words.iter().cloned())
        .map_err(|error| failed(error.to_string()))?;
    // The program's own code, as if nothing stood in between.
    std::process::exit(code.into())
}
