//! The socket: accepts connections, bounds their heads, and lets them finish when the server stops.

use crate::client_connection::{ClientConnection, ClientConnections};
use crate::guard::Peer;
use crate::wire::Wire;
use axum::Router;
use cortex_types::limits::HEADER_BYTES_MAX;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// A head that takes longer is no client of ours.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// How long open requests may take once the server stops.
const GOODBYE: Duration = Duration::from_secs(5);
/// Pause after a failed accept, such as too many open files.
const AFTER_ACCEPT_ERROR: Duration = Duration::from_millis(50);

/// Serves until `stop`, then finishes what is open.
pub(crate) async fn serve(listener: TcpListener, router: Router, stop: CancellationToken) {
    let mut open = JoinSet::new();
    let connections = Arc::new(ClientConnections::default());
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    while open.try_join_next().is_some() {}
                    // A connection without an address of ours is gone already.
                    let Ok(own) = stream.local_addr() else { continue };
                    let client = connections.enter((peer, own));
                    open.spawn(serve_connection(stream, peer, client, router.clone(), stop.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "A connection could not be accepted");
                    connections.make_room();
                    tokio::time::sleep(AFTER_ACCEPT_ERROR).await;
                }
            },
        }
    }
    drop(listener);
    let ended = async { while open.join_next().await.is_some() {} };
    if tokio::time::timeout(GOODBYE, ended).await.is_err() {
        tracing::warn!("Connections that did not end in time were closed");
    }
}

/// A connection that becomes a WebSocket ends here and goes on in its own task.
async fn serve_connection(
    stream: TcpStream,
    peer: SocketAddr,
    client: Arc<ClientConnection>,
    router: Router,
    stop: CancellationToken,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY was refused");
    }
    let (wire, own) = (Wire::new(stream, Arc::clone(&client)), Arc::clone(&client));
    let service = hyper::service::service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(Peer(peer.ip()));
        request.extensions_mut().insert(Arc::clone(&own));
        router.clone().oneshot(request)
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEADER_BYTES_MAX)
        .serve_connection(TokioIo::new(wire), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = client.closed() => Ok(()),
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "A connection ended early");
    }
    client.leave();
}
