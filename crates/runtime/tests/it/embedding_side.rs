//! The far side of an embedding wire: vectors by the letters of a text, and a server that can be away.

use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

pub(crate) struct EmbeddingSide {
    pub(crate) url: String,
    state: Arc<State>,
    serving: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    /// Requests that are still answered before it goes away.
    answers_left: AtomicUsize,
    texts: AtomicUsize,
    /// A request with such a text is a 400.
    refused: OnceLock<String>,
}

impl EmbeddingSide {
    pub(crate) async fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(State { answers_left: AtomicUsize::new(usize::MAX), ..State::default() });
        let shared = Arc::clone(&state);
        let serving = tokio::spawn(async move {
            loop {
                let (connection, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(connection, Arc::clone(&shared)));
            }
        });
        Self { url, state, serving }
    }

    /// Answers so many requests more, and then none.
    pub(crate) fn answers(&self, requests: usize) {
        self.state.answers_left.store(requests, Ordering::SeqCst);
    }

    /// A request with a text that holds this is refused as a whole.
    pub(crate) fn refuses(&self, part: &str) {
        self.state.refused.set(part.to_owned()).unwrap();
    }

    /// How many texts it made vectors of.
    pub(crate) fn texts(&self) -> usize {
        self.state.texts.load(Ordering::SeqCst)
    }
}

impl Drop for EmbeddingSide {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(mut connection: TcpStream, state: Arc<State>) {
    let mut request = Vec::new();
    let body = loop {
        let mut piece = [0; 4096];
        let Ok(read @ 1..) = connection.read(&mut piece).await else { return };
        request.extend_from_slice(&piece[..read]);
        if let Some(body) = whole_body(&request) {
            break body;
        }
    };
    let left = state.answers_left.load(Ordering::SeqCst);
    let refused = state.refused.get().is_some_and(|part| body["input"].to_string().contains(part.as_str()));
    let answer = if refused {
        "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned()
    } else if left == 0 {
        "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned()
    } else {
        state.answers_left.store(left - 1, Ordering::SeqCst);
        let inputs = body["input"].as_array().unwrap();
        state.texts.fetch_add(inputs.len(), Ordering::SeqCst);
        let vectors = inputs.iter().enumerate().map(|(index, text)| {
            json!({ "index": index, "object": "embedding", "embedding": letters(text.as_str().unwrap()) })
        });
        let body = json!({ "object": "list", "data": vectors.collect::<Vec<_>>() }).to_string();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
        format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    };
    drop(connection.write_all(answer.as_bytes()).await);
}

fn whole_body(request: &[u8]) -> Option<Value> {
    let text = String::from_utf8_lossy(request);
    serde_json::from_str(text.split_once("\r\n\r\n")?.1).ok()
}

fn letters(text: &str) -> Vec<f32> {
    let mut counts = vec![0.1; 26];
    for letter in text.to_lowercase().bytes().filter(u8::is_ascii_lowercase) {
        counts[usize::from(letter - b'a')] += 1.0;
    }
    counts
}
