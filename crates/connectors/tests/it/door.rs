//! The way to the server: an address that stays while the server behind it comes and goes.

use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub(crate) struct Door {
    pub(crate) url: String,
    behind: watch::Sender<Option<SocketAddr>>,
}

impl Door {
    /// A door that is closed.
    pub(crate) async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (behind, target) = watch::channel(None);
        tokio::spawn(async move {
            while let Ok((incoming, _)) = listener.accept().await {
                tokio::spawn(pass(incoming, target.clone()));
            }
        });
        Self { url, behind }
    }

    pub(crate) fn open_to(&self, server: SocketAddr) {
        self.behind.send_replace(Some(server));
    }

    /// Cuts what goes through and lets nothing in.
    pub(crate) fn close(&self) {
        self.behind.send_replace(None);
    }
}

async fn pass(mut incoming: TcpStream, mut target: watch::Receiver<Option<SocketAddr>>) {
    let Some(server) = *target.borrow_and_update() else { return };
    let Ok(mut outgoing) = TcpStream::connect(server).await else { return };
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut incoming, &mut outgoing) => {}
        _ = target.changed() => {}
    }
}
