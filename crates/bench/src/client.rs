//! The load: lean keep-alive HTTP/1.1 clients on a thread and a runtime of their own.
//!
//! A lean client is the honest one: whatever the client costs is added to A and to B, and pulls their ratio to 1.

mod connection;
mod connector;
mod ingest;
mod socket;

pub(crate) use connection::{Answer, Connection, Target};
pub(crate) use connector::{Connectors, Empty, Routes};
pub(crate) use ingest::{IngestLoad, event_body, is_event_accepted};
pub(crate) use socket::{Socket, TextFrame};

use crate::BenchError;
use std::future::Future;

/// Runs clients on one thread of their own, so that they share no worker with the server they measure.
pub(crate) fn on_client_thread<T, F, Fut>(work: F) -> Result<T, BenchError>
where
    T: Send,
    F: FnOnce() -> Fut + Send,
    Fut: Future<Output = Result<T, BenchError>>,
{
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // Tasks of one thread need no locks between them.
        tokio::task::LocalSet::new().block_on(&runtime, work())
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("bench-client".to_owned()).spawn_scoped(scope, run)?;
        thread.join().map_err(|_| BenchError::Broken("the clients ended by a panic".to_owned()))?
    })
}
