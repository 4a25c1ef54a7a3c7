//! The far side of an OpenAI wire: it holds every question until the test answers it.

use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// A question that waits for its answer; the model hears nothing until then.
pub(crate) struct Question {
    pub(crate) body: Value,
    answer: oneshot::Sender<String>,
}

impl Question {
    /// What the model was told last by the user.
    pub(crate) fn text(&self) -> &str {
        let messages = self.body["messages"].as_array().unwrap();
        let last = messages.iter().rev().find(|message| message["role"] == "user").unwrap();
        last["content"].as_str().unwrap()
    }

    /// The system text.
    pub(crate) fn system(&self) -> &str {
        let messages = self.body["messages"].as_array().unwrap();
        let system = messages.iter().find(|message| message["role"] == "system").unwrap();
        system["content"].as_str().unwrap()
    }

    pub(crate) fn say(self, text: &str) {
        self.answer(said(text));
    }

    /// Answers with a whole response, head and body.
    pub(crate) fn answer(self, response: String) {
        // The asker may be gone: some tests stop it in the middle.
        drop(self.answer.send(response));
    }
}

pub(crate) struct FarSide {
    pub(crate) url: String,
    questions: mpsc::UnboundedReceiver<Question>,
    asked: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl FarSide {
    pub(crate) async fn listen() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, questions) = mpsc::unbounded_channel();
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let serving = tokio::spawn(async move {
            loop {
                let (connection, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(connection, sender.clone(), Arc::clone(&count)));
            }
        });
        Self { url, questions, asked, serving }
    }

    /// The next question that came in.
    pub(crate) async fn question(&mut self) -> Question {
        self.questions.recv().await.unwrap()
    }

    /// A question that has come in already.
    pub(crate) fn waiting(&mut self) -> Option<Question> {
        self.questions.try_recv().ok()
    }

    /// How often it was asked.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// Answers whatever comes from now on.
    pub(crate) fn answer_all(self, answer: impl Fn(&Question) -> String + Send + 'static) -> Answering {
        let Self { url, mut questions, asked, serving } = self;
        let answering = tokio::spawn(async move {
            while let Some(question) = questions.recv().await {
                let response = answer(&question);
                question.answer(response);
            }
        });
        Answering { url, asked, tasks: [serving, answering] }
    }
}

/// A far side that answers by itself.
pub(crate) struct Answering {
    pub(crate) url: String,
    asked: Arc<AtomicUsize>,
    tasks: [JoinHandle<()>; 2],
}

impl Answering {
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn serve(
    mut connection: TcpStream,
    questions: mpsc::UnboundedSender<Question>,
    asked: Arc<AtomicUsize>,
) {
    let Some(body) = read_body(&mut connection).await else { return };
    asked.fetch_add(1, Ordering::SeqCst);
    let (answer, answered) = oneshot::channel();
    if questions.send(Question { body, answer }).is_ok()
        && let Ok(response) = answered.await
        && connection.write_all(response.as_bytes()).await.is_ok()
    {
        connection.shutdown().await.unwrap_or_default();
    }
}

async fn read_body(connection: &mut TcpStream) -> Option<Value> {
    let mut bytes = Vec::new();
    loop {
        let head_end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(body) = head_end.and_then(|end| serde_json::from_slice(&bytes[end + 4..]).ok()) {
            return Some(body);
        }
        let mut chunk = [0; 16 * 1024];
        match connection.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
        }
    }
}

fn response(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}connection: close\r\n\r\n{body}")
}

/// An error answer with these extra headers.
pub(crate) fn error(status: &str, headers: &str) -> String {
    let body = json!({ "error": { "message": "as the test wants it", "type": "some_error" } });
    response(status, headers, &body.to_string())
}

fn stream(deltas: &[Value], finish: Option<&str>, usage: Value) -> String {
    let mut chunks: Vec<Value> =
        deltas.iter().map(|delta| json!({ "choices": [{ "index": 0, "delta": delta }] })).collect();
    if let Some(finish) = finish {
        chunks.push(json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": finish }] }));
        chunks.push(json!({ "choices": [], "usage": usage }));
    }
    let mut body: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
    if finish.is_some() {
        body.push_str("data: [DONE]\n\n");
    }
    response("200 OK", "content-type: text/event-stream\r\n", &body)
}

/// A whole answer; every answer here costs 10 tokens in and 5 out.
pub(crate) fn said(text: &str) -> String {
    stream(&[json!({ "content": text })], Some("stop"), usage())
}

/// A whole answer that claims to have cost this.
pub(crate) fn said_for(text: &str, usage: Value) -> String {
    stream(&[json!({ "content": text })], Some("stop"), usage)
}

/// An answer that ends in the middle.
pub(crate) fn cut(text: &str) -> String {
    stream(&[json!({ "content": text })], None, Value::Null)
}

/// A tool call that ends in the middle of its arguments.
pub(crate) fn cut_call(arguments: &str) -> String {
    let call = json!({ "index": 0, "id": "1", "function": { "name": "a__b", "arguments": arguments } });
    stream(&[json!({ "tool_calls": [call] })], None, Value::Null)
}

/// An answer that calls these tools: id, name, arguments as text.
pub(crate) fn called(calls: &[(&str, &str, &str)]) -> String {
    let calls = calls.iter().enumerate().map(|(index, (id, name, arguments))| {
        json!({
            "index": index, "id": id, "type": "function",
            "function": { "name": name, "arguments": arguments },
        })
    });
    stream(&[json!({ "tool_calls": calls.collect::<Vec<_>>() })], Some("tool_calls"), usage())
}

fn usage() -> Value {
    json!({ "prompt_tokens": 10, "completion_tokens": 5 })
}
