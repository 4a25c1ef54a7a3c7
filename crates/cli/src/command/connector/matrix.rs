//! `cortex connector matrix`.

use super::platform::{self, Known, PlatformArgs};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use cortex_connectors::{Matrix, MatrixSettings};

const KNOWN: Known = Known {
    name: "matrix",
    title: "Matrix",
    prefix: "matrix:",
    token_help: "make an account for the assistant and put its access token into server.json, or give --token-file",
    can_pair: false,
};

/// Connect a Matrix account to the server
///
/// Reads connectors.matrix of server.json, enabled or not; flags win over it. apiUrl is the homeserver, token an access
/// token of the assistant's account. Who is not allowed is not heard, and whose invitation is not followed.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    platform: PlatformArgs,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    platform::connect(&KNOWN, &args.platform, context, |means| {
        let mut settings = MatrixSettings::new(means.token.clone());
        means.apply(&mut settings.api_url, &mut settings.file_bytes_max);
        Matrix::new(settings)
    })
}
