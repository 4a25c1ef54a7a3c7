//! What the tests of OpenAI's door share: requests, and how their answers are read.

use cortex_testkit::{Answer, RunningTestServer};
use serde_json::{Value, json};

pub(crate) fn said(text: &str) -> Value {
    json!({ "model": "cortex", "messages": [{ "role": "user", "content": text }] })
}

pub(crate) fn content(completion: &Value) -> String {
    completion["choices"][0]["message"]["content"]
        .as_str()
        .unwrap_or_else(|| panic!("{completion}"))
        .to_owned()
}

/// What the assistant says to this.
pub(crate) async fn chat(server: &RunningTestServer, text: &str) -> String {
    content(&server.post("/v1/chat/completions", &said(text)).await.json())
}

/// The same in a conversation, as a whole completion.
pub(crate) async fn chat_in(server: &RunningTestServer, topic: &str, text: &str) -> Value {
    let request = server.request("POST", "/v1/chat/completions").header("x-cortex-topic", topic);
    request.json(&said(text)).send().await.json()
}

/// The data of every server-sent event but the last `[DONE]`.
pub(crate) fn streamed(answer: &Answer) -> Vec<Value> {
    let text = answer.text();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    data.map(|data| serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}"))).collect()
}

/// Messages that nobody has.
pub(crate) async fn open_messages(server: &RunningTestServer) -> Vec<Value> {
    let mut open = Vec::new();
    for status in ["pending", "leased"] {
        let list = server.get(&format!("/api/v2/outbox?status={status}")).await.json();
        open.extend(list["items"].as_array().unwrap().clone());
    }
    open
}
