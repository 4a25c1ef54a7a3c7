//! Any other model: the client's request goes on to the providers, and their answer comes back as it is.

use crate::openai_parts::streamed;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use cortex_models::{ModelsConfig, ProviderSettings, Timeouts};
use cortex_testkit::{Answer, Json, RunningTestServer, ServerSetup, TestModels, eventually, offline_models};
use futures::{StreamExt, stream};
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

const KEY: &str = "sk-of-the-provider-0123456789";

/// A far side that answers as it is told and remembers what it was asked.
pub(crate) struct Fake {
    url: String,
    asked: Arc<Mutex<Vec<(HeaderMap, Bytes)>>>,
    serving: JoinHandle<()>,
}

impl Fake {
    pub(crate) async fn answering(answer: impl Fn() -> Response + Clone + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<(HeaderMap, Bytes)>>> = Arc::default();
        let seen = Arc::clone(&asked);
        let routes = Router::new().fallback(move |headers: HeaderMap, body: Bytes| {
            seen.lock().unwrap().push((headers, body));
            let answer = answer.clone();
            async move { answer() }
        });
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap_or_default() });
        Self { url, asked, serving }
    }

    async fn failing(status: u16, headers: &'static [(&'static str, &'static str)]) -> Self {
        Self::answering(move || {
            let said = json!({ "error": { "message": format!("no, says {KEY}"), "type": "x" } });
            let mut response = (StatusCode::from_u16(status).unwrap(), Json(said)).into_response();
            for (name, value) in headers {
                response.headers_mut().insert(*name, value.parse().unwrap());
            }
            response
        })
        .await
    }

    async fn saying(text: &'static str) -> Self {
        Self::answering(move || ([("content-type", "application/json; odd=1")], text).into_response()).await
    }

    fn times_asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// A server with these as OpenAI-compatible profiles a, b, …
pub(crate) async fn server(fakes: &[&Fake]) -> RunningTestServer {
    let urls: Vec<String> = fakes.iter().map(|fake| fake.url.clone()).collect();
    let models = move || {
        let profile = |(name, url): (char, &String)| json!({ "name": name, "kind": "openai", "baseUrl": url, "apiKey": KEY, "models": { "pro": "far-1" } });
        let profiles: Vec<Value> = ('a'..).zip(&urls).map(profile).collect();
        let providers: ProviderSettings = serde_json::from_value(json!({ "profiles": profiles })).unwrap();
        let timeouts = Timeouts { idle: Duration::from_secs(10), ..Timeouts::default() };
        ModelsConfig { providers: Some(providers), timeouts, ..offline_models() }
    };
    ServerSetup::new(TestModels::Other(Arc::new(models))).start().await
}

fn odd_request() -> String {
    // Spaces, an unknown field and its order: all of it must arrive.
    r#"{ "messages":[{"role":"user","content":"hi"}],  "zebra":[1,2], "model":"far-2", "temperature":0.25 }"#
        .to_owned()
}

async fn ask(server: &RunningTestServer, body: &str) -> Answer {
    server.request("POST", "/v1/chat/completions").body(body).send().await
}

const WHOLE: &str =
    "{ \"id\":\"c\",\"choices\":[], \"usage\":{\"prompt_tokens\":11,\"completion_tokens\":7}, \"odd\": 1 }\n";

#[tokio::test]
async fn request_and_answer_are_passed_on_byte_for_byte_and_the_call_is_counted() {
    let far = Fake::saying(WHOLE).await;
    let server = server(&[&far]).await;
    let answer = ask(&server, &odd_request()).await;
    assert_eq!((answer.status, answer.text().as_str()), (200, WHOLE));
    assert_eq!(answer.header("content-type"), Some("application/json; odd=1"));
    let (headers, body) = far.asked.lock().unwrap()[0].clone();
    assert_eq!(body, odd_request().as_bytes());
    assert_eq!(headers["authorization"], format!("Bearer {KEY}"), "the provider's key, not the client's");
    let row = eventually("the usage", async || {
        let usage = server.get("/api/v2/usage?by=model").await.json();
        usage["rows"].as_array()?.iter().find(|row| row["key"] == "far-2").cloned()
    })
    .await;
    let counts = (&row["calls"], &row["inputTokens"], &row["outputTokens"], &row["failed"]);
    assert_eq!(counts, (&json!(1), &json!(11), &json!(7), &json!(0)), "{row}");
    assert_eq!(server.get("/api/v2/inbox").await.json(), json!({ "items": [] }), "it is no event");
}

#[tokio::test]
async fn a_stream_is_passed_on_byte_for_byte() {
    const PIECES: [&str; 3] = [
        "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n: comment\n\n",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"comp",
        "letion_tokens\":2}}\n\ndata: [DONE]\n\n",
    ];
    let far = Fake::answering(|| {
        let pieces = stream::iter(PIECES.map(Ok::<_, io::Error>));
        ([("content-type", "text/event-stream")], Body::from_stream(pieces)).into_response()
    })
    .await;
    let server = server(&[&far]).await;
    let answer = ask(&server, r#"{"model":"far-2","stream":true,"messages":[]}"#).await;
    assert_eq!((answer.status, answer.text()), (200, PIECES.concat()));
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    eventually("the counts", async || {
        let usage = server.get("/api/v2/usage").await.json();
        (usage["total"]["inputTokens"] == 3 && usage["total"]["outputTokens"] == 2).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_next_provider_is_asked_when_one_is_ill_or_has_no_such_model() {
    for status in [500, 503, 408, 429, 404, 401, 403] {
        let (ill, well) = (Fake::failing(status, &[]).await, Fake::saying(WHOLE).await);
        let server = server(&[&ill, &well]).await;
        let answer = ask(&server, &odd_request()).await;
        assert_eq!((answer.status, answer.text().as_str()), (200, WHOLE), "{status}");
        assert_eq!((ill.times_asked(), well.times_asked()), (1, 1), "{status}");
    }
    // Nobody listens there.
    let gone = Fake::saying("").await;
    gone.serving.abort();
    let well = Fake::saying(WHOLE).await;
    assert_eq!(ask(&server(&[&gone, &well]).await, &odd_request()).await.text(), WHOLE);
    // It hangs up before its first byte, and before its last.
    for pieces in [vec![], vec![Ok("{\"half\":")]] {
        let cut = Fake::answering(move || {
            let mut all: Vec<Result<&str, io::Error>> = Vec::new();
            all.extend(pieces.iter().map(|piece: &Result<&str, io::ErrorKind>| Ok(*piece.as_ref().unwrap())));
            all.push(Err(io::ErrorKind::ConnectionReset.into()));
            let body = Body::from_stream(stream::iter(all));
            ([("content-type", "application/json")], body).into_response()
        })
        .await;
        assert_eq!(ask(&server(&[&cut, &well]).await, &odd_request()).await.text(), WHOLE);
    }
}

#[tokio::test]
async fn a_request_that_is_at_fault_is_passed_back_and_nobody_else_is_asked() {
    for status in [400, 413, 422] {
        let (strict, other) = (Fake::failing(status, &[]).await, Fake::saying(WHOLE).await);
        let server = server(&[&strict, &other]).await;
        let answer = ask(&server, &odd_request()).await;
        assert_eq!((answer.status, other.times_asked()), (status, 0));
        assert_eq!(answer.json()["error"]["message"], "no, says ***", "without the provider's key");
    }
}

#[tokio::test]
async fn when_all_are_exhausted_the_client_is_told_when_to_come_back() {
    let limited = Fake::failing(429, &[("retry-after", "40")]).await;
    let sooner = Fake::failing(429, &[("retry-after", "7")]).await;
    let ill = Fake::failing(500, &[]).await;
    let answer = ask(&server(&[&limited, &sooner]).await, &odd_request()).await;
    assert_eq!((answer.status, answer.header("retry-after")), (429, Some("7")));
    let error = answer.json()["error"].clone();
    assert_eq!((&error["type"], &error["code"]), (&json!("rate_limit_error"), &json!("rate_limit_exceeded")));
    let server = server(&[&limited, &ill]).await;
    let answer = ask(&server, &odd_request()).await;
    let error = answer.json()["error"].clone();
    assert_eq!((answer.status, &error["type"]), (502, &json!("server_error")));
    assert_eq!(answer.header("retry-after"), Some("40"));
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains("a: rate limited (429)") && message.contains("b: server error (500)"),
        "{message}"
    );
    assert!(!answer.text().contains(KEY), "{message}");
    eventually("both to be counted", async || {
        (server.get("/api/v2/usage").await.json()["total"]["failed"] == 2).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_refused_key_of_a_provider_is_not_the_clients_and_a_404_of_all_is_an_unknown_model() {
    let refusing = Fake::failing(401, &[]).await;
    let answer = ask(&server(&[&refusing]).await, &odd_request()).await;
    assert_eq!((answer.status, answer.text().contains(KEY)), (502, false), "{}", answer.text());
    let (one, other) = (Fake::failing(404, &[]).await, Fake::failing(404, &[]).await);
    let answer = ask(&server(&[&one, &other]).await, &odd_request()).await;
    let error = answer.json()["error"].clone();
    assert_eq!((answer.status, &error["code"]), (404, &json!("model_not_found")));
    assert_eq!(error["message"], "there is no model \"far-2\"; there are: cortex, far-1");
}

#[tokio::test]
async fn a_stream_that_breaks_after_its_first_byte_ends_there() {
    let cut = Fake::answering(|| {
        let first = stream::iter([Ok("data: {\"choices\":[]}\n\n")]);
        let rest = stream::once(async {
            // The connection writes its first byte before it is asked for more.
            tokio::task::yield_now().await;
            Err(io::Error::from(io::ErrorKind::ConnectionReset))
        });
        ([("content-type", "text/event-stream")], Body::from_stream(first.chain(rest))).into_response()
    })
    .await;
    let well = Fake::saying(WHOLE).await;
    let server = server(&[&cut, &well]).await;
    let answer = ask(&server, r#"{"model":"far-2","stream":true,"messages":[]}"#).await;
    assert_eq!((answer.status, well.times_asked()), (200, 0));
    assert_eq!(answer.text(), "data: {\"choices\":[]}\n\n");
    eventually("the failure", async || {
        (server.get("/api/v2/usage").await.json()["total"]["failed"] == 1).then_some(())
    })
    .await;
}

#[tokio::test]
async fn embeddings_and_responses_of_other_models_are_passed_on_too() {
    let far = Fake::saying(r#"{"data":[],"usage":{"prompt_tokens":5}}"#).await;
    let server = server(&[&far]).await;
    for (path, body) in [
        ("/v1/embeddings", json!({ "model": "text-embedding-3-small", "input": [[1, 2]] })),
        ("/v1/responses", json!({ "model": "gpt-5.1", "input": "hi", "tools": [{ "type": "web_search" }] })),
    ] {
        let answer = server.post(path, &body).await;
        assert_eq!(
            (answer.status, answer.json()["usage"]["prompt_tokens"].as_u64()),
            (200, Some(5)),
            "{path}"
        );
        let (_, sent) = far.asked.lock().unwrap().last().unwrap().clone();
        assert_eq!(serde_json::from_slice::<Value>(&sent).unwrap(), body);
    }
}

#[tokio::test]
async fn the_models_of_the_providers_follow_the_assistant() {
    let far = Fake::saying(r#"{"data":[{"id":"far-2"},{"id":"far-1"},{"id":"org/far 3"}]}"#).await;
    let broken = Fake::failing(500, &[]).await;
    let server = server(&[&far, &broken]).await;
    let list = server.get("/v1/models").await.json();
    let ids: Vec<&str> =
        list["data"].as_array().unwrap().iter().map(|card| card["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["cortex", "far-1", "far-2", "org/far 3"]);
    assert_eq!(list["data"][2]["owned_by"], "a");
    assert_eq!(server.get("/v1/models/org%2Ffar%203").await.json()["id"], "org/far 3");
    assert_eq!(server.get("/v1/models/far-9").await.status, 404);
}

const WIRES: [(&str, &str); 3] =
    [("openai", "gpt-4o"), ("anthropic", "claude-haiku-4-5"), ("google", "gemini-2.5-flash")];

fn far_sides() -> Option<cortex_testkit::Aimock> {
    let call = json!({ "name": "weather_now", "arguments": "{\"city\":\"Bonn\"}" });
    let fixtures = json!([
        { "match": { "userMessage": "hello" }, "response": { "content": "Hello from afar." } },
        { "match": { "userMessage": "weather" }, "response": { "toolCalls": [call] } },
    ]);
    cortex_testkit::Aimock::start(&fixtures).unwrap()
}

/// A server whose only provider speaks this wire.
async fn server_on(kind: &'static str, aimock: &cortex_testkit::Aimock) -> RunningTestServer {
    let url = aimock.url().to_owned();
    let models = move || {
        let profile = json!({ "name": kind, "kind": kind, "baseUrl": url, "apiKey": KEY });
        let providers = serde_json::from_value(json!({ "profiles": [profile] })).unwrap();
        ModelsConfig { providers: Some(providers), ..offline_models() }
    };
    ServerSetup::new(TestModels::Other(Arc::new(models))).start().await
}

fn with_tool(model: &str, text: &str, stream: bool) -> Value {
    let parameters = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
    let tool = json!({ "type": "function", "function": { "name": "weather_now", "parameters": parameters } });
    let messages =
        [json!({ "role": "system", "content": "brief" }), json!({ "role": "user", "content": text })];
    json!({ "model": model, "messages": messages, "stream": stream, "tools": [tool], "temperature": 0 })
}

#[tokio::test]
async fn words_and_calls_come_back_from_every_wire_whole_and_streamed() {
    let Some(aimock) = far_sides() else { return };
    for (kind, model) in WIRES {
        let server = server_on(kind, &aimock).await;
        let ask =
            async |text, stream| server.post("/v1/chat/completions", &with_tool(model, text, stream)).await;
        let whole = ask("hello", false).await;
        assert_eq!(
            whole.json()["choices"][0]["message"]["content"],
            "Hello from afar.",
            "{kind}: {}",
            whole.text()
        );
        let answer = ask("hello", true).await;
        let chunks = streamed(&answer);
        let said = |chunk: &Value| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned);
        let text: String = chunks.iter().filter_map(said).collect();
        assert_eq!(text, "Hello from afar.", "{kind}: {}", answer.text());
        assert!(answer.text().trim_end().ends_with("data: [DONE]"), "{kind}");
        let called = ask("weather", false).await.json();
        let choice = &called["choices"][0];
        assert_eq!(choice["finish_reason"], "tool_calls", "{kind}: {called}");
        let function = &choice["message"]["tool_calls"][0]["function"];
        assert_eq!(function["name"], "weather_now", "{kind}");
        let arguments: Value = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
        assert_eq!(arguments, json!({ "city": "Bonn" }), "{kind}");
        let chunks = streamed(&ask("weather", true).await);
        let call = |chunk: &Value| {
            chunk["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"].as_str().map(str::to_owned)
        };
        let arguments: String = chunks.iter().filter_map(call).collect();
        assert_eq!(serde_json::from_str::<Value>(&arguments).unwrap(), json!({ "city": "Bonn" }), "{kind}");
        assert!(chunks.iter().any(|chunk| chunk["choices"][0]["finish_reason"] == "tool_calls"), "{kind}");
        eventually("the calls to be counted", async || {
            (server.get("/api/v2/usage").await.json()["total"]["calls"] == 4).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn what_a_wire_has_no_place_for_and_a_model_of_another_vendor_are_refused() {
    let Some(aimock) = far_sides() else { return };
    for ((kind, model), (_, other)) in [(WIRES[1], WIRES[2]), (WIRES[2], WIRES[1])] {
        let server = server_on(kind, &aimock).await;
        let image =
            json!([{ "role": "user", "content": [{ "type": "image_url", "image_url": { "url": "x" } }] }]);
        let answer = server.post("/v1/chat/completions", &json!({ "model": model, "messages": image })).await;
        let error = answer.json()["error"].clone();
        assert_eq!((answer.status, &error["code"]), (400, &json!("unsupported_by_provider")), "{kind}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("image_url") && message.contains(kind), "{message}");
        for (path, status) in [("/v1/responses", 400), ("/v1/embeddings", 404)] {
            let answer = server.post(path, &json!({ "model": model, "input": "hi" })).await;
            assert_eq!(answer.status, status, "{kind} {path}");
        }
        let answer = server.post("/v1/chat/completions", &json!({ "model": other, "messages": [] })).await;
        assert_eq!(
            (answer.status, &answer.json()["error"]["code"]),
            (404, &json!("model_not_found")),
            "{kind}"
        );
    }
}
