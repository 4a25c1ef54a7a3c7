//! What every connector's process needs: the server, a log without secrets, and a way to be told to stop.

use crate::assemble;
use crate::config::Settings;
use crate::connect;
use crate::context::Context;
use crate::credentials::Credentials;
use crate::exit::Failure;
use crate::home::HomeError;
use crate::logging::{self, LogSink};
use crate::redact::Redactor;
use cortex_api::Client;
use secrecy::SecretString;
use std::io::Read;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The server as a connector of this home reaches it. The one place that chooses the key.
pub(super) fn client(context: &Context) -> Result<Client, Failure> {
    connect::client(context)
}

/// Starts the log on stderr; under a server it comes without times, which the server's log has already.
pub(super) fn start_log(
    settings: &Settings,
    context: &Context,
    more: Option<&SecretString>,
    is_supervised: bool,
) -> Result<(), Failure> {
    let home = context.home()?;
    let credentials = Credentials::read(&home)?;
    let own = [credentials.token(), credentials.ingest_api_key(), more].into_iter().flatten().cloned();
    let redactor = Redactor::new(assemble::secrets(settings, &context.environment).into_iter().chain(own));
    let sink = if is_supervised { LogSink::Parent } else { LogSink::Stderr };
    logging::start(&settings.log_level, sink, redactor)
        .map_err(|error| HomeError::from_io(home.path(), error).into())
}

/// Ends with SIGINT and SIGTERM and, under a server, with the server.
pub(super) fn stop_when_told(is_supervised: bool) -> Result<CancellationToken, Failure> {
    let stop = CancellationToken::new();
    for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
        let mut listening = signal(kind)
            .map_err(|error| Failure::Coded { code: "no_signals", message: error.to_string() })?;
        let told = stop.clone();
        tokio::spawn(async move {
            listening.recv().await;
            told.cancel();
        });
    }
    if is_supervised {
        let told = stop.clone();
        // A thread of its own: a blocking read must not hold up the end of the runtime.
        std::thread::spawn(move || {
            let mut byte = [0];
            while std::io::stdin().read(&mut byte).is_ok_and(|read| read > 0) {}
            told.cancel();
        });
    }
    Ok(stop)
}
