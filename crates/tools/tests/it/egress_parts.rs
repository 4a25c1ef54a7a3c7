//! What the egress tests share: a web server with bad manners on loopback, and a network that only reaches it.

use async_trait::async_trait;
use cortex_tools::{Egress, EgressConfig, HostPort, Network};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Answers look-ups from a list and dials loopback alone; remembers both.
#[derive(Default)]
pub(crate) struct StubNetwork {
    /// The answers for a name, one after the other; the last one stays.
    names: Mutex<BTreeMap<String, VecDeque<Vec<IpAddr>>>>,
    dialled: Mutex<Vec<SocketAddr>>,
    /// Where every connection really ends, like a network that lies.
    diverted_to: Option<SocketAddr>,
}

impl StubNetwork {
    pub(crate) fn diverted_to(address: SocketAddr) -> Self {
        Self { diverted_to: Some(address), ..Self::default() }
    }

    pub(crate) fn answer(self, name: &str, answers: &[&[&str]]) -> Self {
        let parse = |answer: &&[&str]| answer.iter().map(|address| address.parse().unwrap()).collect();
        self.names.lock().unwrap().insert(name.to_owned(), answers.iter().map(parse).collect());
        self
    }

    pub(crate) fn dialled(&self) -> Vec<SocketAddr> {
        self.dialled.lock().unwrap().clone()
    }
}

#[async_trait]
impl Network for StubNetwork {
    async fn look_up(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let mut names = self.names.lock().unwrap();
        let answers = names.get_mut(host).ok_or_else(|| io::Error::other("no such name"))?;
        let next = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        Ok(next.unwrap_or_default())
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        self.dialled.lock().unwrap().push(address);
        if let Some(real) = self.diverted_to {
            return TcpStream::connect(real).await;
        }
        // Tests talk to loopback alone.
        if !address.ip().is_loopback() {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        TcpStream::connect(address).await
    }
}

pub(crate) fn guard(network: &Arc<StubNetwork>, allow: &[SocketAddr]) -> Egress {
    guard_within(network, allow, Duration::from_secs(20))
}

pub(crate) fn guard_within(network: &Arc<StubNetwork>, allow: &[SocketAddr], timeout: Duration) -> Egress {
    let allow = allow.iter().map(|address| address.to_string().parse::<HostPort>().unwrap()).collect();
    Egress::new(EgressConfig { allow, max_bytes: 64 * 1024, timeout, network: Arc::clone(network) as _ })
}

/// Serves until the test ends. The path says what it does.
pub(crate) async fn bad_server() -> SocketAddr {
    bad_server_at("127.0.0.1").await
}

pub(crate) async fn bad_server_at(ip: &str) -> SocketAddr {
    let listener = TcpListener::bind((ip, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    address
}

/// The far side may have heard enough at any time, so a failed write is no failure here.
async fn serve(mut stream: TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
        // A handshake of TLS, say.
        if !head[0].is_ascii_uppercase() {
            return;
        }
    }
    let head = String::from_utf8(head).unwrap();
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let (route, query) = path.split_once('?').unwrap_or((&path, ""));
    let sent = match route {
        "/redirect" => {
            let to = percent_decoded(query);
            stream
                .write_all(
                    format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n").as_bytes(),
                )
                .await
        }
        "/loop" => stream.write_all(b"HTTP/1.1 301 M\r\nlocation: /loop\r\ncontent-length: 0\r\n\r\n").await,
        "/echo" => answer(&mut stream, "text/plain", head.as_bytes()).await,
        "/large" => stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\nx").await,
        "/endless" => endless(&mut stream).await,
        "/slow" => {
            let started = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nx").await;
            std::future::pending::<()>().await;
            started
        }
        "/bomb" => {
            stream
                .write_all(
                    b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\n\x1f\x8b\x08\x00",
                )
                .await
        }
        "/headers" => {
            let many: String = (0..500).map(|number| format!("x-{number}: 1\r\n")).collect();
            stream.write_all(format!("HTTP/1.1 200 OK\r\n{many}content-length: 0\r\n\r\n").as_bytes()).await
        }
        "/head" => {
            let long = "x".repeat(1024 * 1024);
            stream
                .write_all(format!("HTTP/1.1 200 OK\r\nx: {long}\r\ncontent-length: 0\r\n\r\n").as_bytes())
                .await
        }
        "/garbage" => stream.write_all(b"SSH-2.0-OpenSSH_9.6\r\n").await,
        "/page" => {
            let page = "<html><script>evil()</script><h1>News</h1><p>Gr\u{fc}n</p></html>";
            answer(&mut stream, "text/html; charset=utf-8", page.as_bytes()).await
        }
        "/latin" => answer(&mut stream, "text/plain; charset=ISO-8859-1", b"Gr\xfcn").await,
        "/image" => answer(&mut stream, "image/png", b"\x89PNG").await,
        "/long" => answer(&mut stream, "text/plain", "word ".repeat(50_000).as_bytes()).await,
        _ => stream.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 7\r\n\r\nnothing").await,
    };
    drop(sent);
}

async fn answer(stream: &mut TcpStream, kind: &str, body: &[u8]) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nset-cookie: a=b\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat()).await
}

async fn endless(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await?;
    loop {
        stream.write_all(b"400\r\n").await?;
        stream.write_all(&[b'x'; 1024]).await?;
        stream.write_all(b"\r\n").await?;
    }
}

pub(crate) fn percent_encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

fn percent_decoded(text: &str) -> String {
    let bytes = text.split('%').skip(1).map(|hex| u8::from_str_radix(hex, 16).unwrap()).collect();
    String::from_utf8(bytes).unwrap()
}
