//! The way out: looking names up and opening connections.

use async_trait::async_trait;
use std::io;
use std::net::{IpAddr, SocketAddr};
use tokio::net::TcpStream;

/// How names become addresses and addresses connections. Tests bring their own.
#[async_trait]
pub trait Network: Send + Sync {
    async fn look_up(&self, host: &str) -> io::Result<Vec<IpAddr>>;

    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream>;
}

/// The machine's own network.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemNetwork;

#[async_trait]
impl Network for SystemNetwork {
    async fn look_up(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        // The port plays no part in a look-up; the interface wants one.
        Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect())
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        TcpStream::connect(address).await
    }
}
