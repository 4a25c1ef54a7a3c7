//! Many requests at once over OpenAI's door: each gets what was said to it, and nobody gets another's words.

use crate::openai_parts::{chat_in, content, open_messages, said, streamed};
use cortex_testkit::{RunningTestServer, ServerSetup, eventually};
use futures::future::join_all;
use serde_json::{Value, json};

const AT_ONCE: usize = 50;

/// Says back what was said at once, so that turns end faster than their readers look.
fn echoing() -> ServerSetup {
    ServerSetup::scripted(json!({ "otherwise": { "deltas": ["You ", "said: "], "say": "{{user}}" } }))
}

/// What one request among many reads.
async fn heard(server: &RunningTestServer, topic: &str, number: usize, stream: bool) -> String {
    let mut body = said(&format!("word-{number}-"));
    body["stream"] = json!(stream);
    let request = server.request("POST", "/v1/chat/completions").header("x-cortex-topic", topic);
    let answer = request.json(&body).send().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    if !stream {
        return content(&answer.json());
    }
    let chunks = streamed(&answer);
    chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect()
}

async fn check(topic_of: impl Fn(usize) -> String, stream_of: impl Fn(usize) -> bool) {
    let server = echoing().start().await;
    let asking = (0..AT_ONCE).map(|number| {
        let (server, topic, stream) = (&server, topic_of(number), stream_of(number));
        async move { (number, heard(server, &topic, number, stream).await) }
    });
    let foreign: Vec<String> = join_all(asking)
        .await
        .into_iter()
        .filter(|(number, text)| *text != format!("You said: word-{number}-"))
        .map(|(number, text)| format!("{number} heard {text:?}"))
        .collect();
    assert_eq!(foreign, Vec::<String>::new());
    eventually("all to be delivered", async || open_messages(&server).await.is_empty().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_in_one_conversation_hear_their_own_answers_only() {
    check(|_| "garden".to_owned(), |_| true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whole_answers_and_streams_in_one_conversation_are_not_mixed_up() {
    check(|_| "garden".to_owned(), |number| number % 2 == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_in_many_conversations_hear_their_own_answers_only() {
    check(|number| format!("garden-{number}"), |_| true).await;
    check(|number| format!("garden-{}", number % 7), |_| true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_follows_goes_to_one_of_those_who_ask_at_once() {
    let server = echoing().start().await;
    let mut event = crate::sample::saying("earlier", "waited");
    event["source"] = json!("openai");
    event["topicKey"] = json!("garden");
    server.answered(&event).await;
    let asking = (0..10).map(|number| heard(&server, "garden", number, number % 2 == 0));
    let heard = join_all(asking).await;
    let with_it = heard.iter().filter(|text| text.contains("You said: waited")).count();
    assert_eq!(with_it, 1, "{heard:?}");
    for (number, text) in heard.iter().enumerate() {
        assert_eq!(text.matches("word-").count(), 1, "{text}");
        assert!(text.contains(&format!("word-{number}-")), "{text}");
    }
}

/// What Open WebUI sends for one message of a chat, its history and the headers about its user included.
async fn open_webui(server: &RunningTestServer, chat: &str, text: &str) -> String {
    let body = json!({
        "model": "cortex", "stream": true, "stream_options": { "include_usage": true },
        "messages": [
            { "role": "system", "content": "You are helpful." },
            { "role": "user", "content": "before" },
            { "role": "assistant", "content": "You said: before" },
            { "role": "user", "content": text },
        ],
    });
    let mut request = server.request("POST", "/v1/chat/completions").json(&body);
    for (name, value) in [
        ("content-type", "application/json"),
        ("x-openwebui-user-name", "Ada%20Lovelace"),
        ("x-openwebui-user-id", "4c7d5a6e-user"),
        ("x-openwebui-user-email", "ada@example.com"),
        ("x-openwebui-user-role", "admin"),
        ("x-openwebui-chat-id", chat),
    ] {
        request = request.header(name, value);
    }
    let chunks = streamed(&request.send().await);
    chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_open_webui_in_one_chat_and_in_many_are_not_mixed_up() {
    let server = echoing().start().await;
    for chats in [1, AT_ONCE] {
        let asking = (0..AT_ONCE).map(|number| {
            let (server, chat, text) =
                (&server, format!("chat-{}", number % chats), format!("{chats}-{number}-"));
            async move { (open_webui(server, &chat, &text).await, format!("You said: {text}")) }
        });
        for (heard, expected) in join_all(asking).await {
            assert_eq!(heard, expected);
        }
    }
}

#[tokio::test]
async fn a_chat_of_open_webui_is_a_conversation() {
    let server = ServerSetup::echoing().start().await;
    let topic = async |headers: &[(&'static str, &str)], change: Value| {
        let mut body = said("hi");
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let mut request = server.request("POST", "/v1/chat/completions").json(&body);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let event = request.send().await.json()["cortex"]["eventId"].as_str().unwrap().to_owned();
        server.get(&format!("/api/v2/inbox/{event}")).await.json()["topicKey"].as_str().unwrap().to_owned()
    };
    let chat = ("x-openwebui-chat-id", "7b1c2f0e-chat");
    assert_eq!(topic(&[chat], json!({})).await, "7b1c2f0e-chat");
    assert_eq!(topic(&[chat], json!({ "user": "ada" })).await, "7b1c2f0e-chat", "a chat is more exact");
    assert_eq!(topic(&[chat, ("x-cortex-topic", "garden")], json!({})).await, "garden", "said outright");
    assert_eq!(topic(&[("x-openwebui-chat-id", "")], json!({ "user": "ada" })).await, "ada");
}

#[tokio::test]
async fn words_of_one_chat_never_come_in_another() {
    let server = ServerSetup::echoing().start().await;
    let mut event = crate::sample::saying("earlier", "secret");
    event["source"] = json!("openai");
    event["topicKey"] = json!("first");
    server.answered(&event).await;
    let request = server.request("POST", "/v1/chat/completions").header("x-openwebui-chat-id", "second");
    assert_eq!(content(&request.json(&said("hi")).send().await.json()), "You said: hi");
    assert_eq!(content(&chat_in(&server, "first", "hi").await), "You said: secret\n\nYou said: hi");
}
