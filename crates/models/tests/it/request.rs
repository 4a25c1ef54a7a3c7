//! What goes out on each wire: the body as it is, the key in its header and nowhere else.

use crate::far_side::{Act, FarSide, Received, error, events, openai, response};
use crate::setup::{ask_listening, config, models, openai_at, profiles, text, user};
use cortex_models::{ModelsConfig, SynapseSetting};
use cortex_types::{ChatMessage, ChatRequest, Sampling, ToolCall, ToolSpec};
use serde_json::{Value, json};

/// Everything a history can hold: an old answer first, a call with bad arguments, an error, neighbours of one role.
fn conversation() -> ChatRequest {
    let call = |id: &str, arguments_json: &str| ToolCall {
        id: id.to_owned(),
        name: "notes.add".to_owned(),
        arguments_json: arguments_json.to_owned(),
    };
    let result = |call_id: &str, text: &str, is_error| ChatMessage::Tool {
        call_id: call_id.to_owned(),
        name: "notes.add".to_owned(),
        text: text.to_owned(),
        is_error,
    };
    ChatRequest {
        system: "Be brief. It is noon.".to_owned(),
        stable_system_bytes: "Be brief.".len(),
        messages: vec![
            ChatMessage::Assistant { text: "Good morning.".to_owned(), tool_calls: vec![] },
            ChatMessage::User { text: "note milk".to_owned() },
            ChatMessage::User { text: "and bread".to_owned() },
            ChatMessage::Assistant {
                text: String::new(),
                tool_calls: vec![call("c1", r#"{"text":"milk"}"#), call("c2", "bread")],
            },
            result("c1", "noted", false),
            result("c2", "arguments must be an object", true),
        ],
        tools: vec![ToolSpec {
            name: "notes.add".to_owned(),
            description: "Adds a note".to_owned(),
            input_schema_json: r#"{"type":"object","properties":{"text":{"type":"string"}}}"#.to_owned(),
        }],
        max_output_tokens: Some(1000),
        sampling: Sampling { temperature: Some(0.25), top_p: Some(0.5), stop: vec!["END".to_owned()] },
    }
}

async fn sent(profile: Value, answer: String) -> Received {
    let far_side = FarSide::saying(answer).await;
    let mut profile = profile;
    profile["baseUrl"] = json!(far_side.url);
    let models = models(ModelsConfig { providers: profiles(json!([profile])), ..config() }).await;
    let (answered, _) = ask_listening(&models, &conversation()).await;
    assert_eq!(text(&answered), "ok");
    far_side.received().remove(0)
}

fn openai_ok() -> String {
    openai("ok")
}

fn anthropic_ok() -> String {
    events(&[
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"ok"}}"#,
        r#"{"type":"message_stop"}"#,
    ])
}

fn google_ok() -> String {
    events(&[r#"{"candidates":[{"content":{"parts":[{"text":"ok"}]},"finishReason":"STOP"}]}"#])
}

#[tokio::test]
async fn openai_gets_a_chat_completion_request() {
    let profile = json!({ "name": "a", "kind": "openai", "apiKey": "k-1", "models": { "pro": "gpt-4o" } });
    let request = sent(profile, openai_ok()).await;
    assert_eq!(request.line(), "POST /v1/chat/completions HTTP/1.1");
    assert_eq!(request.header("authorization"), Some("Bearer k-1"));
    let expected = json!({
        "model": "gpt-4o",
        "max_tokens": 1000,
        "temperature": 0.25,
        "top_p": 0.5,
        "stop": ["END"],
        "stream": true,
        "stream_options": { "include_usage": true },
        "messages": [
            { "role": "system", "content": "Be brief. It is noon." },
            { "role": "assistant", "content": "Good morning." },
            { "role": "user", "content": "note milk" },
            { "role": "user", "content": "and bread" },
            {
                "role": "assistant",
                "content": null,
                "tool_calls": [
                    { "id": "c1", "type": "function", "function": { "name": "notes__add", "arguments": "{\"text\":\"milk\"}" } },
                    { "id": "c2", "type": "function", "function": { "name": "notes__add", "arguments": "bread" } },
                ],
            },
            { "role": "tool", "tool_call_id": "c1", "content": "noted" },
            { "role": "tool", "tool_call_id": "c2", "content": "Error: arguments must be an object" },
        ],
        "tools": [{
            "type": "function",
            "function": {
                "name": "notes__add",
                "description": "Adds a note",
                "parameters": { "type": "object", "properties": { "text": { "type": "string" } } },
            },
        }],
    });
    assert_eq!(request.body, expected);
}

#[tokio::test]
async fn anthropic_gets_a_messages_request() {
    let profile =
        json!({ "name": "a", "kind": "anthropic", "apiKey": "k-1", "models": { "pro": "claude-x" } });
    let request = sent(profile, anthropic_ok()).await;
    assert_eq!(request.line(), "POST /v1/messages HTTP/1.1");
    assert_eq!(request.header("x-api-key"), Some("k-1"));
    assert_eq!(request.header("authorization"), None);
    assert_eq!(request.header("anthropic-version"), Some("2023-06-01"));
    let expected = json!({
        "model": "claude-x",
        "max_tokens": 1000,
        "temperature": 0.25,
        "top_p": 0.5,
        "stop_sequences": ["END"],
        "stream": true,
        "system": [
            { "type": "text", "text": "Be brief.", "cache_control": { "type": "ephemeral" } },
            { "type": "text", "text": " It is noon." },
        ],
        "messages": [
            { "role": "user", "content": [{ "type": "text", "text": "(earlier messages are not shown)" }] },
            { "role": "assistant", "content": [{ "type": "text", "text": "Good morning." }] },
            {
                "role": "user",
                "content": [{ "type": "text", "text": "note milk" }, { "type": "text", "text": "and bread" }],
            },
            {
                "role": "assistant",
                "content": [
                    { "type": "tool_use", "id": "c1", "name": "notes__add", "input": { "text": "milk" } },
                    { "type": "tool_use", "id": "c2", "name": "notes__add", "input": { "not_an_object": "bread" } },
                ],
            },
            {
                "role": "user",
                "content": [
                    { "type": "tool_result", "tool_use_id": "c1", "content": "noted", "is_error": false },
                    {
                        "type": "tool_result", "tool_use_id": "c2",
                        "content": "arguments must be an object", "is_error": true,
                        "cache_control": { "type": "ephemeral" },
                    },
                ],
            },
        ],
        "tools": [{
            "name": "notes__add",
            "description": "Adds a note",
            "input_schema": { "type": "object", "properties": { "text": { "type": "string" } } },
        }],
    });
    assert_eq!(request.body, expected);
}

#[tokio::test]
async fn google_gets_a_generate_content_request() {
    let profile = json!({ "name": "a", "kind": "google", "apiKey": "k-1", "models": { "pro": "models/gemini-2.5-pro" } });
    let request = sent(profile, google_ok()).await;
    assert_eq!(request.line(), "POST /v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse HTTP/1.1");
    assert_eq!(request.header("x-goog-api-key"), Some("k-1"));
    let expected = json!({
        "systemInstruction": { "parts": [{ "text": "Be brief. It is noon." }] },
        "generationConfig":
            { "maxOutputTokens": 1000, "temperature": 0.25, "topP": 0.5, "stopSequences": ["END"] },
        "contents": [
            { "role": "user", "parts": [{ "text": "(earlier messages are not shown)" }] },
            { "role": "model", "parts": [{ "text": "Good morning." }] },
            { "role": "user", "parts": [{ "text": "note milk" }, { "text": "and bread" }] },
            {
                "role": "model",
                "parts": [
                    { "functionCall": { "name": "notes__add", "args": { "text": "milk" } } },
                    { "functionCall": { "name": "notes__add", "args": { "not_an_object": "bread" } } },
                ],
            },
            {
                "role": "user",
                "parts": [
                    { "functionResponse": { "name": "notes__add", "response": { "result": "noted" } } },
                    { "functionResponse": {
                        "name": "notes__add", "response": { "error": "arguments must be an object" },
                    } },
                ],
            },
        ],
        "tools": [{ "functionDeclarations": [{
            "name": "notes__add",
            "description": "Adds a note",
            "parametersJsonSchema": { "type": "object", "properties": { "text": { "type": "string" } } },
        }] }],
    });
    assert_eq!(request.body, expected);
}

#[tokio::test]
async fn newer_gemini_models_get_the_signatures_they_insist_on() {
    let profile =
        json!({ "name": "a", "kind": "google", "apiKey": "k-1", "models": { "pro": "gemini-3-pro" } });
    let request = sent(profile, google_ok()).await;
    let call = &request.body["contents"][3]["parts"][0];
    assert_eq!(call["functionCall"]["name"], "notes__add");
    assert_eq!(call["thoughtSignature"], "skip_thought_signature_validator");
}

#[tokio::test]
async fn an_auth_token_is_a_bearer_token_on_every_wire() {
    for (kind, answer) in [("openai", openai_ok()), ("anthropic", anthropic_ok()), ("google", google_ok())] {
        let profile = json!({ "name": "a", "kind": kind, "authToken": "t-1", "models": { "pro": "m" } });
        let request = sent(profile, answer).await;
        assert_eq!(request.header("authorization"), Some("Bearer t-1"), "{kind}");
        assert_eq!(request.header("x-api-key"), None, "{kind}");
        assert_eq!(request.header("x-goog-api-key"), None, "{kind}");
    }
}

#[tokio::test]
async fn a_synapse_is_asked_for_its_first_model_when_none_is_configured() {
    let listing = response(
        "200 OK",
        "application/json",
        "",
        r#"{"object":"list","data":[{"id":"first"},{"id":"second"}]}"#,
    );
    let act = |response: String| vec![Act::Send(response.into_bytes())];
    let far_side = FarSide::answering(vec![act(listing), act(openai("one")), act(openai("two"))]).await;
    let config = ModelsConfig { synapse_url: SynapseSetting::Explicit(far_side.url.clone()), ..config() };
    let models = models(config).await;
    for expected in ["one", "two"] {
        let (answered, _) = ask_listening(&models, &user("hi")).await;
        assert_eq!(text(&answered), expected);
        assert_eq!(answered.calls[0].model, "first");
    }
    let requests = far_side.received();
    assert_eq!(
        requests.iter().map(Received::line).collect::<Vec<_>>(),
        [
            "GET /v1/models HTTP/1.1",
            "POST /v1/chat/completions HTTP/1.1",
            "POST /v1/chat/completions HTTP/1.1",
        ]
    );
    assert_eq!(requests[1].body["model"], "first");
    assert_eq!(requests[1].body.get("tools"), None, "an empty list of tools is left out");
}

#[tokio::test]
async fn a_server_that_lists_no_models_is_asked_for_its_default() {
    let far_side = FarSide::answering(vec![
        vec![Act::Send(error("404 Not Found", "", "no such page").into_bytes())],
        vec![Act::Send(openai("ok").into_bytes())],
    ])
    .await;
    let url = format!("{}/v1", far_side.url);
    let config = ModelsConfig { synapse_url: SynapseSetting::Explicit(url), ..config() };
    let (answered, _) = ask_listening(&models(config).await, &user("hi")).await;
    assert_eq!(text(&answered), "ok");
    assert_eq!(far_side.received()[1].body["model"], "default");
}

#[tokio::test]
async fn a_server_that_refuses_to_count_or_to_stream_is_asked_for_less_and_remembered() {
    let send = |response: String| vec![Act::Send(response.into_bytes())];
    let whole = r#"{"choices":[{"message":{"content":"plain"},"finish_reason":"stop"}]}"#;
    let far_side = FarSide::answering(vec![
        send(error("400 Bad Request", "", "Unrecognized request argument supplied: stream_options")),
        send(error("400 Bad Request", "", "This model does not support stream")),
        send(response("200 OK", "application/json", "", whole)),
    ])
    .await;
    let models = models(ModelsConfig { providers: openai_at(&[&far_side.url]), ..config() }).await;
    for _ in 0..2 {
        let (answered, _) = ask_listening(&models, &user("hi")).await;
        assert_eq!(text(&answered), "plain");
        assert_eq!(answered.calls.len(), 1);
    }
    let shapes: Vec<(bool, bool)> = far_side
        .received()
        .iter()
        .map(|request| (request.body["stream"] == true, request.body.get("stream_options").is_some()))
        .collect();
    assert_eq!(shapes, [(true, true), (true, false), (false, false), (false, false)]);
}
