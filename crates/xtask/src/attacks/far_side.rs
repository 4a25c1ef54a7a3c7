//! The far side of the server's wires: a model that obeys whoever spoke last, and web pages that speak.

use crate::faults::http::Message;
use anyhow::Result;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);
const REQUEST_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What a far side got: the first line, the whole head with it, and the body.
#[derive(Debug, Clone)]
pub(crate) struct Got {
    pub(crate) first_line: String,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// A server on loopback that answers every request by one function and keeps what it got. Its threads end with us.
pub(crate) struct FarSide {
    pub(crate) address: SocketAddr,
    arriving: Receiver<Got>,
    got: RefCell<Vec<Got>>,
}

/// What is answered: the type of the content, and the content.
pub(crate) struct Said {
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
}

impl FarSide {
    pub(crate) fn start(ip: [u8; 4], answer: impl Fn(&Got) -> Said + Send + Sync + 'static) -> Result<Self> {
        let listener = TcpListener::bind((IpAddr::from(ip), 0))?;
        let address = listener.local_addr()?;
        let (kept, arriving) = channel();
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (kept, answer) = (kept.clone(), Arc::clone(&answer));
                std::thread::spawn(move || serve(stream, &kept, answer.as_ref()));
            }
        });
        Ok(Self { address, arriving, got: RefCell::default() })
    }

    /// A page with this text for every address.
    pub(crate) fn page(ip: [u8; 4], text: &str) -> Result<Self> {
        let text = text.to_owned();
        Self::start(ip, move |_| Said { content_type: "text/plain", body: text.clone() })
    }

    /// A model behind OpenAI's wire. It sees the whole request.
    pub(crate) fn model(answer: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Result<Self> {
        Self::start([127, 0, 0, 1], move |got| {
            let request = serde_json::from_str(&got.body).unwrap_or(Value::Null);
            Said { content_type: "application/json", body: answer(&request).to_string() }
        })
    }

    pub(crate) fn got(&self) -> Vec<Got> {
        self.got.borrow_mut().extend(self.arriving.try_iter());
        self.got.borrow().clone()
    }

    /// Settings that make this the server's only model.
    pub(crate) fn as_provider(&self) -> Value {
        json!({"profiles": [{"name": "far", "kind": "openai", "baseUrl": format!("http://{}/v1", self.address),
            "apiKey": "none", "models": {"pro": "far", "flash": "far", "lite": "far"}}]})
    }
}

fn serve(mut stream: TcpStream, kept: &Sender<Got>, answer: &dyn Fn(&Got) -> Said) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap_or_default();
    let mut bytes = Vec::new();
    let mut chunk = [0; 16 * 1024];
    loop {
        if let Some(message) = Message::read(&bytes) {
            let body = String::from_utf8_lossy(message.body).into_owned();
            let head = String::from_utf8_lossy(&bytes[..message.length - message.body.len()]).into_owned();
            let got = Got { first_line: message.first_line.to_owned(), head, body };
            let said = answer(&got);
            // Whoever asked for this may have stopped looking.
            kept.send(got).unwrap_or_default();
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: {}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{}",
                said.content_type,
                said.body.len(),
                said.body
            );
            // Who has gone away needs no answer.
            stream.write_all(answer.as_bytes()).unwrap_or_default();
            return;
        }
        match stream.read(&mut chunk) {
            Ok(count) if count > 0 && bytes.len() < REQUEST_BYTES_MAX => {
                bytes.extend_from_slice(&chunk[..count])
            }
            Ok(_) | Err(_) => return,
        }
    }
}

/// A model's words.
pub(crate) fn says(text: &str) -> Value {
    says_with(text, &json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}))
}

pub(crate) fn says_with(text: &str, usage: &Value) -> Value {
    json!({"id": "far-1", "object": "chat.completion", "model": "far", "usage": usage,
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}]})
}

/// A model's call of a tool, by the name that the model knows it by.
pub(crate) fn calls(tool: &str, arguments: &Value) -> Value {
    json!({"id": "far-1", "object": "chat.completion", "model": "far",
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": null,
            "tool_calls": [{"id": format!("call-{tool}"), "type": "function",
                "function": {"name": tool, "arguments": arguments.to_string()}}]}}]})
}

/// The text of the last message of a request, and whether a tool said it.
pub(crate) fn last_message(request: &Value) -> (String, bool) {
    let last =
        request["messages"].as_array().and_then(|messages| messages.last()).cloned().unwrap_or_default();
    let text = last["content"].as_str().map_or_else(|| last["content"].to_string(), str::to_owned);
    (text, last["role"] == "tool")
}

/// Runs a deed on a thread and gives up on it after a while: a server that hangs is a finding, not an end.
pub(crate) fn within<T: Send + 'static>(
    patience: Duration,
    deed: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, waits): (_, Receiver<T>) = channel();
    std::thread::spawn(move || done.send(deed()));
    waits.recv_timeout(patience).ok()
}
