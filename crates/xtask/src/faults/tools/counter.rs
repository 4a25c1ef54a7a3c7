//! The far side of the tool: counts what was posted to it, by name, and can hold a call until its caller is dead.

use crate::faults::http::Message;
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest answer; a kill at a random moment then falls into the call often enough.
const ANSWER_MS_MAX: u64 = 12;
const LOOK_AGAIN: Duration = Duration::from_millis(1);
const REQUEST_PATIENCE: Duration = Duration::from_secs(30);

/// A counter on loopback that ends with its value.
pub(crate) struct Counter {
    pub(crate) port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    counts: Mutex<BTreeMap<String, usize>>,
    /// Names whose calls are never answered.
    held: Mutex<BTreeSet<String>>,
    is_over: AtomicBool,
}

impl Counter {
    pub(crate) fn listen() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if theirs.is_over.load(Ordering::SeqCst) {
                    return;
                }
                let theirs = Arc::clone(&theirs);
                std::thread::spawn(move || answer(stream, &theirs).unwrap_or_default());
            }
        });
        Ok(Self { port, shared })
    }

    pub(crate) fn count(&self, name: &str) -> usize {
        lock(&self.shared.counts).get(name).copied().unwrap_or_default()
    }

    /// Counts calls of this name and leaves them without an answer.
    pub(crate) fn hold(&self, name: &str) {
        lock(&self.shared.held).insert(name.to_owned());
    }

    /// Whether a call of this name came in time.
    pub(crate) fn is_called_within(&self, name: &str, patience: Duration) -> bool {
        let started = Instant::now();
        while self.count(name) == 0 && started.elapsed() < patience {
            std::thread::sleep(LOOK_AGAIN);
        }
        self.count(name) > 0
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // Wakes the listener, which then sees that it is over.
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `POST /<name>`; a request counts once it is there as a whole, as it would at any far side.
fn answer(mut stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_read_timeout(Some(REQUEST_PATIENCE))?;
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    let name = loop {
        if let Some(message) = Message::read(&bytes) {
            let path = message.first_line.split(' ').nth(1).unwrap_or_default();
            break path.trim_start_matches('/').to_owned();
        }
        let count = stream.read(&mut chunk)?;
        if count == 0 {
            return Ok(());
        }
        bytes.extend_from_slice(&chunk[..count]);
    };
    *lock(&shared.counts).entry(name.clone()).or_default() += 1;
    if lock(&shared.held).contains(&name) {
        // Ends when the caller is gone.
        return stream.read(&mut chunk).map(drop);
    }
    std::thread::sleep(Duration::from_millis(rand::random_range(0..ANSWER_MS_MAX)));
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::http::{Http, Reply};
    use serde_json::json;

    #[test]
    fn every_call_counts_under_its_own_name() {
        let counter = Counter::listen().unwrap();
        for name in ["a", "b", "a"] {
            let reply = Http::default().post(counter.port, &format!("/{name}"), &json!({}));
            assert!(matches!(reply, Reply::Answered(answer) if answer.code == 200));
        }
        assert_eq!((counter.count("a"), counter.count("b"), counter.count("c")), (2, 1, 0));
    }

    #[test]
    fn a_held_call_counts_and_has_no_answer() {
        let counter = Counter::listen().unwrap();
        counter.hold("a");
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, counter.port)).unwrap();
        stream.write_all(b"POST /a HTTP/1.1\r\ncontent-length: 0\r\n\r\n").unwrap();
        assert!(counter.is_called_within("a", Duration::from_secs(5)));
        stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        assert!(stream.read(&mut [0; 1]).is_err(), "it answered");
    }
}
