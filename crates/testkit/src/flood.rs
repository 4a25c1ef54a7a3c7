//! Floods: what a rude client does to a server, over plain sockets, and how much memory that takes.

#![expect(clippy::expect_used, reason = "tests fail by panicking")]

use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a rude client waits for anything; the server is busy with others like it.
const PATIENCE: Duration = Duration::from_secs(60);
const MASK: [u8; 4] = [0; 4];

/// A server to be flooded, and the key that is used for it.
#[derive(Debug, Clone)]
pub struct Flooded {
    pub address: SocketAddr,
    pub key: String,
    pub pid: u32,
}

/// The memory of a process from now on.
pub struct Memory {
    pid: u32,
    before_kib: u64,
}

impl Memory {
    /// Forgets the peak so far.
    pub fn watch(pid: u32) -> Self {
        std::fs::write(format!("/proc/{pid}/clear_refs"), "5").expect("the peak can be reset");
        Self { pid, before_kib: in_status(pid, "VmRSS:") }
    }

    /// By how much it has grown at its peak, in MiB.
    pub fn growth_mib(&self) -> u64 {
        in_status(self.pid, "VmHWM:").saturating_sub(self.before_kib) / 1024
    }
}

fn in_status(pid: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("the kernel knows it");
    line.trim().trim_end_matches(" kB").parse().expect("a number of KiB")
}

/// JSON of about so many bytes whose every seventh is an object of its own.
pub fn crumbs(bytes: usize) -> String {
    let mut list = r#"{"":0},"#.repeat(bytes / 7);
    list.pop();
    list
}

/// An event whose metadata is crumbs.
pub fn crumbled_event(source: &str, bytes: usize) -> String {
    let event = json!({
        "source": source, "externalMessageId": "crumbs", "idempotencyKey": "crumbs", "topicKey": "t",
        "userId": "u", "text": "crumbs", "occurredAt": "2026-02-15T20:30:00Z",
    });
    let head = event.to_string();
    format!("{},\"metadata\":{{\"list\":[{}]}}}}", head.trim_end_matches('}'), crumbs(bytes))
}

impl Flooded {
    /// Posts this body over so many connections at once; gives the status of each answer, 0 where none came.
    pub fn post_at_once(&self, path: &str, body: &str, connections: usize) -> Vec<u16> {
        std::thread::scope(|scope| {
            let posting: Vec<_> =
                (0..connections).map(|_| scope.spawn(|| self.post(path, body).unwrap_or(0))).collect();
            posting.into_iter().map(|posted| posted.join().unwrap_or(0)).collect()
        })
    }

    /// Posts and gives the status.
    pub fn post(&self, path: &str, body: &str) -> std::io::Result<u16> {
        let mut stream = self.connect()?;
        let head = self.head("POST", path, &format!("content-length: {}\r\n", body.len()));
        // A server that has seen enough may close before everything is written.
        let written = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
        let status = read_status(&mut stream);
        if written.is_err() { status.or(written.map(|()| 0)) } else { status }
    }

    /// Posts as the key's holder and gives the JSON of the answer.
    pub fn posted(&self, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let head = self.head("POST", path, &format!("content-length: {}\r\n", body.len()));
        let mut stream = self.connect().expect("the server listens");
        stream.write_all((head + &body).as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let (_, body) = answer.split_once("\r\n\r\n").expect("an answer has a body");
        serde_json::from_str(body).expect("the body is JSON")
    }

    /// Begins a request with a body and stops in the middle of it.
    pub fn begin_body(&self, path: &str, with_key: bool) -> std::io::Result<TcpStream> {
        let mut stream = self.connect()?;
        let head = self.head("POST", path, "content-length: 1000\r\n");
        let head = if with_key { head } else { without_key(&head) };
        stream.write_all(head.as_bytes())?;
        stream.write_all(b"{")?;
        Ok(stream)
    }

    /// Begins a head and stops in the middle of it.
    pub fn begin_head(&self) -> std::io::Result<TcpStream> {
        let mut stream = self.connect()?;
        stream.write_all(b"GET /health HTTP/1.1\r\nhost: loc")?;
        Ok(stream)
    }

    /// Posts over so many connections whose buffers are as small as can be, and reads nothing of the answers.
    pub fn ask_and_never_read(
        &self,
        path: &str,
        connections: usize,
        body: impl Fn(usize) -> String,
    ) -> Vec<TcpStream> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime can be made").block_on(async {
            let mut open = Vec::new();
            for number in 0..connections {
                open.extend(self.ask_with_small_buffers(path, &body(number)).await);
            }
            open
        })
    }

    async fn ask_with_small_buffers(&self, path: &str, body: &str) -> std::io::Result<TcpStream> {
        let socket = tokio::net::TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(1_024)?;
        let mut stream = socket.connect(self.address).await?.into_std()?;
        stream.set_nonblocking(false)?;
        let head = self.head("POST", path, &format!("content-length: {}\r\n", body.len()));
        stream.write_all((head + body).as_bytes())?;
        Ok(stream)
    }

    /// Asks for something and reads nothing of the answer.
    pub fn ask(&self, method: &str, path: &str, body: &str) -> std::io::Result<TcpStream> {
        let mut stream = self.connect()?;
        let head = self.head(method, path, &format!("content-length: {}\r\n", body.len()));
        stream.write_all((head + body).as_bytes())?;
        Ok(stream)
    }

    /// A new session of a connector without a key.
    pub fn session(&self) -> std::io::Result<String> {
        let mut stream = self.connect()?;
        stream.write_all(without_key(&self.head("GET", "/connector", "")).as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer.rsplit("\r\n").next().unwrap_or_default().to_owned())
    }

    /// Opens a socket; the status is 101 when the server took it.
    pub fn open_socket(&self, session: &str) -> std::io::Result<(TcpStream, u16)> {
        let mut stream = self.connect()?;
        let upgrade = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
                       sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        let head = self.head("GET", &format!("/connector/{session}"), upgrade);
        stream.write_all(without_key(&head).replace("connection: close\r\n", "").as_bytes())?;
        let status = read_status(&mut stream)?;
        Ok((stream, status))
    }

    fn connect(&self) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    }

    fn head(&self, method: &str, path: &str, more: &str) -> String {
        let (address, key) = (self.address, &self.key);
        format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n\
             content-type: application/json\r\nconnection: close\r\n{more}\r\n"
        )
    }
}

/// Sends the beginning of a text message and holds the rest back; gives what the server took.
pub fn half_message(stream: &mut TcpStream, announced: usize, sent: usize) -> usize {
    let mut head = vec![0x81, 0x80 | 127];
    head.extend((announced as u64).to_be_bytes());
    head.extend(MASK);
    if stream.write_all(&head).is_err() {
        return 0;
    }
    let piece = vec![b' '; 64 * 1024];
    let mut taken = 0;
    while taken < sent && stream.write_all(&piece).is_ok() {
        taken += piece.len();
    }
    taken
}

fn without_key(head: &str) -> String {
    head.lines()
        .filter(|line| !line.starts_with("authorization:"))
        .map(|line| format!("{line}\r\n"))
        .collect()
}

fn read_status(stream: &mut TcpStream) -> std::io::Result<u16> {
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte)? == 0 {
            break;
        }
        answer.push(byte[0]);
    }
    let status = String::from_utf8_lossy(&answer);
    Ok(status.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0))
}
