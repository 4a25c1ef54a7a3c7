//! The socket: accepts connections, bounds their heads, and lets them finish when the server stops.

use crate::guard::Peer;
use axum::Router;
use cortex_types::limits::HEADER_BYTES_MAX;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// Connections open at once, idle and watching ones included; a further one is closed unread.
const CONNECTIONS_MAX: usize = 4_096;
/// A head that takes longer is no client of ours.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long open requests may take once the server stops.
const GOODBYE: Duration = Duration::from_secs(5);
/// Pause after a failed accept, such as too many open files.
const AFTER_ACCEPT_ERROR: Duration = Duration::from_millis(50);

/// Serves until `stop`, then finishes what is open.
pub(crate) async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    let open = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => match Arc::clone(&places).try_acquire_owned() {
                    Ok(place) => spawn_connection(stream, peer, place, &router, &open),
                    Err(_) => tracing::warn!(%peer, "A connection over the limit was closed"),
                },
                Err(error) => {
                    tracing::warn!(%error, "A connection could not be accepted");
                    tokio::time::sleep(AFTER_ACCEPT_ERROR).await;
                }
            },
        }
    }
    drop(listener);
    if tokio::time::timeout(GOODBYE, open.shutdown()).await.is_err() {
        tracing::warn!("Connections that did not end in time were closed");
    }
}

fn spawn_connection(
    stream: TcpStream,
    peer: SocketAddr,
    place: OwnedSemaphorePermit,
    router: &Router,
    open: &GracefulShutdown,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY was refused");
    }
    let router = router.clone();
    let service = hyper::service::service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(Peer(peer.ip()));
        router.clone().oneshot(request)
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEADER_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let watched = open.watch(connection);
    tokio::spawn(async move {
        if let Err(error) = watched.await {
            tracing::debug!(%error, "A connection ended early");
        }
        drop(place);
    });
}
