//! What is wrong with a request below `/v1` is said in OpenAI's shape, and nothing is kept of it.

use crate::openai_parts::{chat_in, content, said};
use cortex_testkit::{RunningTestServer, ServerSetup};
use serde_json::{Value, json};

const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;

async fn error(server: &RunningTestServer, path: &str, body: &Value) -> (u16, Value, Value, Value) {
    let answer = server.post(path, body).await;
    let error = answer.json()["error"].clone();
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{error}");
    assert_eq!(error.as_object().unwrap().len(), 4, "{error}");
    (answer.status, error["type"].clone(), error["code"].clone(), error["param"].clone())
}

fn bad(param: &str) -> (u16, Value, Value, Value) {
    (400, json!("invalid_request_error"), json!("invalid_value"), json!(param))
}

#[tokio::test]
async fn a_bad_field_is_named() {
    let server = ServerSetup::never_answering().start().await;
    let check = async |path: &str, change: Value, param: &str| {
        let is_chat = path.ends_with("completions");
        let mut body = if is_chat { said("hi") } else { json!({ "model": "cortex", "input": "hi" }) };
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        assert_eq!(error(&server, path, &body).await, bad(param), "{path} {change}");
    };
    let chat = "/v1/chat/completions";
    for model in [json!(null), json!(""), json!(7)] {
        for path in [chat, "/v1/responses", "/v1/embeddings"] {
            check(path, json!({ "model": model }), "model").await;
        }
    }
    for messages in [
        json!(null),
        json!([]),
        json!("hi"),
        json!([{ "role": "system", "content": "x" }]),
        json!([{ "role": "user" }]),
        json!([{ "role": "user", "content": "" }]),
        json!([{ "role": "user", "content": 7 }]),
        json!([{ "role": "user", "content": "a\0b" }]),
        json!([{ "role": "user", "content": [{ "type": "mystery" }] }]),
        json!([7]),
        json!([{ "role": "user", "content": "hi" }, { "role": "assistant", "content": "Once upon" }]),
        json!([{ "role": "user", "content": "hi" }, { "role": "tool", "tool_call_id": "c", "content": "4" }]),
    ] {
        check(chat, json!({ "messages": messages }), "messages").await;
    }
    check(chat, json!({ "stream": "yes" }), "stream").await;
    check(chat, json!({ "user": 7 }), "user").await;
    check(chat, json!({ "user": "x".repeat(513) }), "user").await;
    for input in
        [json!(null), json!(7), json!({}), json!([]), json!([{ "role": "assistant", "content": "x" }])]
    {
        check("/v1/responses", json!({ "input": input }), "input").await;
    }
    let result =
        json!([{ "role": "user", "content": "hi" }, { "type": "function_call_output", "call_id": "c" }]);
    check("/v1/responses", json!({ "input": result }), "input").await;
    check("/v1/responses", json!({ "conversation": 7 }), "conversation").await;
    for input in
        [json!(null), json!(7), json!([]), json!([[]]), json!([""]), json!(["a", null]), json!(["a", [1]])]
    {
        check("/v1/embeddings", json!({ "input": input }), "input").await;
    }
    for tokens in
        [json!([-1]), json!([1.5]), json!([100_500]), json!([1, "a"]), json!([[1], 2]), json!([[9e9]])]
    {
        check("/v1/embeddings", json!({ "input": tokens }), "input").await;
    }
    check("/v1/embeddings", json!({ "input": vec!["x"; 2_049] }), "input").await;
    check("/v1/embeddings", json!({ "encoding_format": "int8" }), "encoding_format").await;
    check("/v1/embeddings", json!({ "dimensions": 64 }), "dimensions").await;
    assert_eq!(server.get("/api/v2/inbox").await.json(), json!({ "items": [] }), "nothing was kept");
}

#[tokio::test]
async fn what_the_assistant_cannot_do_is_refused_and_never_passed_over() {
    let server = ServerSetup::never_answering().start().await;
    let tool = json!([{ "type": "function", "function": { "name": "f", "parameters": {} } }]);
    let schema = json!({ "type": "json_schema", "json_schema": { "name": "x", "schema": {} } });
    let check = async |path: &str, field: &str, value: Value| {
        let mut body = json!({ "model": "cortex", "input": "hi" });
        if path.ends_with("completions") {
            body = said("hi");
        }
        body[field] = value.clone();
        let refused = error(&server, path, &body).await;
        let code = json!("unsupported_parameter");
        let expected = (400, json!("invalid_request_error"), code, json!(field));
        assert_eq!(refused, expected, "{path} {field}: {value}");
    };
    let chat = "/v1/chat/completions";
    for (field, value) in [
        ("tools", tool.clone()),
        ("tool_choice", json!("required")),
        ("tool_choice", json!({ "type": "function", "function": { "name": "f" } })),
        ("functions", json!([{ "name": "f" }])),
        ("function_call", json!({ "name": "f" })),
        ("response_format", json!({ "type": "json_object" })),
        ("response_format", schema),
        ("n", json!(2)),
        ("n", json!(0)),
        ("logprobs", json!(true)),
        ("top_logprobs", json!(3)),
        ("logit_bias", json!({ "50256": -100 })),
        ("stop", json!("\n")),
        ("stop", json!(["a", "b"])),
        ("modalities", json!(["text", "audio"])),
        ("audio", json!({ "voice": "alloy", "format": "wav" })),
        ("web_search_options", json!({})),
    ] {
        check(chat, field, value).await;
    }
    for (field, value) in [
        ("tools", json!([{ "type": "web_search" }])),
        ("tool_choice", json!("required")),
        ("text", json!({ "format": { "type": "json_object" } })),
        ("top_logprobs", json!(3)),
        ("background", json!(true)),
        ("prompt", json!({ "id": "pmpt_1" })),
    ] {
        check("/v1/responses", field, value).await;
    }
    assert_eq!(server.get("/api/v2/inbox").await.json(), json!({ "items": [] }), "nothing was kept");
}

#[tokio::test]
async fn what_clients_always_send_along_is_no_reason_to_refuse() {
    let server = ServerSetup::echoing().start().await;
    let usual = json!({
        "temperature": 0.2, "top_p": 1, "max_tokens": 100, "max_completion_tokens": 100, "seed": 7, "n": 1,
        "presence_penalty": 0, "frequency_penalty": 0, "stop": null, "tools": [], "tool_choice": "auto",
        "functions": [], "function_call": "none", "response_format": { "type": "text" }, "logprobs": false,
        "top_logprobs": 0, "logit_bias": {}, "modalities": ["text"], "audio": null, "parallel_tool_calls": true,
        "metadata": {}, "store": false, "service_tier": "auto", "reasoning_effort": "low", "stream": false,
    });
    let mut body = said("hi");
    body.as_object_mut().unwrap().extend(usual.as_object().unwrap().clone());
    assert_eq!(content(&server.post("/v1/chat/completions", &body).await.json()), "You said: hi");
    let body = json!({
        "model": "cortex", "input": "hi", "tools": [], "tool_choice": "auto", "temperature": 1, "store": false,
        "text": { "format": { "type": "text" }, "verbosity": "low" }, "background": false, "top_logprobs": 0,
        "include": ["reasoning.encrypted_content"], "instructions": "be brief", "prompt": null,
    });
    let answer = server.post("/v1/responses", &body).await.json();
    assert_eq!(answer["output"][0]["content"][0]["text"], "You said: hi");
}

#[tokio::test]
async fn tokens_are_embedded_as_the_words_they_stand_for() {
    let server = ServerSetup::echoing().start().await;
    let vectors = async |input: Value| {
        let answer = server.post("/v1/embeddings", &json!({ "model": "cortex", "input": input })).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let rows = answer.json()["data"].as_array().unwrap().clone();
        rows.into_iter().map(|row| row["embedding"].clone()).collect::<Vec<Value>>()
    };
    // "hello world" and " a dog" in OpenAI's cl100k_base, as its embedding models count.
    let words = vectors(json!(["hello world", " a dog"])).await;
    assert_eq!(vectors(json!([[15_339, 1_917], [264, 5_679]])).await, words);
    assert_eq!(vectors(json!([15_339, 1_917])).await, words[..1]);
    assert_ne!(words[0], words[1]);
    // As many as clients put into one request.
    let mut many = vec![vec![264; 8_000]; 37];
    many.push(vec![264; 4_000]);
    assert_eq!(vectors(json!(many)).await.len(), 38);
    many.push(vec![264]);
    let answer = server.post("/v1/embeddings", &json!({ "model": "cortex", "input": many })).await;
    assert_eq!(
        (answer.status, &answer.json()["error"]["param"]),
        (400, &json!("input")),
        "{}",
        answer.text()
    );
}

#[tokio::test]
async fn a_body_that_is_no_object_and_one_that_is_too_large_are_refused() {
    let server = ServerSetup::never_answering().start().await;
    for path in ["/v1/chat/completions", "/v1/responses", "/v1/embeddings"] {
        for body in ["", "{", "[]", "null", &"[".repeat(100_000)] {
            let answer = server.request("POST", path).body(body.as_bytes()).send().await;
            assert_eq!(
                (answer.status, &answer.json()["error"]["code"]),
                (400, &json!("invalid_request")),
                "{path}"
            );
        }
        for extra in [0, 1] {
            let bare = json!({ "model": "no-such-model", "input": "" }).to_string().len();
            let body =
                json!({ "model": "no-such-model", "input": "x".repeat(BODY_BYTES_MAX - bare + extra) });
            let answer = server.post(path, &body).await;
            let expected = if extra == 0 { (404, "model_not_found") } else { (413, "payload_too_large") };
            let error = answer.json()["error"].clone();
            assert_eq!((answer.status, error["code"].as_str().unwrap()), expected, "{path}");
        }
    }
}

#[tokio::test]
async fn one_message_is_no_longer_than_an_event_while_a_history_may_be() {
    let server = ServerSetup::never_answering().start().await;
    let too_long = "x".repeat(1024 * 1024 + 1);
    let refused = error(&server, "/v1/chat/completions", &said(&too_long)).await;
    let code = json!("payload_too_large");
    assert_eq!(refused, (413, json!("invalid_request_error"), code, json!("messages")));
    assert_eq!(server.get("/api/v2/inbox").await.json(), json!({ "items": [] }));
    let server = ServerSetup::echoing().start().await;
    let history = json!({ "model": "cortex", "messages": [
        { "role": "user", "content": too_long }, { "role": "user", "content": "hi" }] });
    let answer = server.post("/v1/chat/completions", &history).await;
    assert_eq!(content(&answer.json()), "You said: hi");
}

#[tokio::test]
async fn a_model_that_nobody_has_is_a_404_that_says_which_there_are() {
    let server = ServerSetup::echoing().start().await;
    let not_found = (404, json!("invalid_request_error"), json!("model_not_found"), json!("model"));
    for (path, body) in [
        ("/v1/chat/completions", json!({ "model": "gpt-9", "messages": [] })),
        ("/v1/responses", json!({ "model": "gpt-9", "input": "hi" })),
        ("/v1/embeddings", json!({ "model": "gpt-9", "input": "hi" })),
    ] {
        assert_eq!(error(&server, path, &body).await, not_found, "{path}");
    }
    let shown = server.get("/v1/models/gpt-9").await;
    let message = shown.json()["error"]["message"].clone();
    assert_eq!((shown.status, message), (404, json!("there is no model \"gpt-9\"; there are: cortex")));
}

#[tokio::test]
async fn keys_hosts_paths_and_methods_are_refused_in_the_same_shape() {
    let server = ServerSetup::echoing().start().await;
    let code = async |answer: cortex_testkit::Answer| {
        (answer.status, answer.json()["error"]["code"].as_str().unwrap().to_owned())
    };
    let models = || server.request("GET", "/v1/models");
    assert_eq!(code(models().without_key().send().await).await, (401, "invalid_api_key".to_owned()));
    let foreign = models().without("host").header("host", "evil.example").send().await;
    assert_eq!(code(foreign).await, (421, "host_not_allowed".to_owned()));
    let page = models().header("origin", "https://evil.example").send().await;
    assert_eq!(code(page).await, (403, "origin_not_allowed".to_owned()));
    assert_eq!(code(server.get("/v1/nothing").await).await, (404, "not_found".to_owned()));
    assert_eq!(code(server.get("/v1/chat/completions").await).await, (405, "method_not_allowed".to_owned()));
    for _ in 0..10 {
        models().without_key().header("authorization", "Bearer guess").send().await;
    }
    let eleventh = models().without_key().header("authorization", "Bearer guess").send().await;
    assert!(eleventh.header("retry-after").is_some());
    assert_eq!(eleventh.json()["error"]["type"], "rate_limit_error");
    assert_eq!(code(eleventh).await, (429, "rate_limit_exceeded".to_owned()));
}

#[tokio::test]
async fn a_response_goes_on_where_the_one_before_it_was() {
    let server = ServerSetup::echoing().start().await;
    let ask = async |body: Value| server.post("/v1/responses", &body).await.json();
    let topic = async |response: &Value| {
        let event = response["cortex"]["eventId"].as_str().unwrap_or_else(|| panic!("{response}"));
        server.get(&format!("/api/v2/inbox/{event}")).await.json()["topicKey"].as_str().unwrap().to_owned()
    };
    let input = json!([{ "role": "user", "content": [{ "type": "input_text", "text": "one" }] }]);
    let first = ask(json!({ "model": "cortex", "input": input, "conversation": { "id": "garden" } })).await;
    assert_eq!(first["output"][0]["content"][0]["text"], "You said: one");
    assert_eq!((first["status"].as_str(), topic(&first).await.as_str()), (Some("completed"), "garden"));
    let next = json!({ "model": "cortex", "input": "two", "previous_response_id": first["id"] });
    let next = ask(next).await;
    assert_eq!(
        (next["previous_response_id"].clone(), topic(&next).await.as_str()),
        (first["id"].clone(), "garden")
    );
    let named = ask(json!({ "model": "cortex", "input": "three", "conversation": "shed" })).await;
    assert_eq!(topic(&named).await, "shed");
    assert_eq!(topic(&ask(json!({ "model": "cortex", "input": "four" })).await).await, "main");
    for unknown in ["resp_01J00000000000000000000000", "resp_x", "evt_x", ""] {
        let body = json!({ "model": "cortex", "input": "five", "previous_response_id": unknown });
        let refused = error(&server, "/v1/responses", &body).await;
        let code = json!("previous_response_not_found");
        let expected = (400, json!("invalid_request_error"), code, json!("previous_response_id"));
        assert_eq!(refused, expected, "{unknown:?}");
    }
    assert_eq!(content(&chat_in(&server, "garden", "six").await), "You said: six");
}
