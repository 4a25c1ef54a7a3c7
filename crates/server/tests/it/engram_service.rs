//! A whole server whose memory is kept elsewhere: what the service recalls reaches the prompt, and its silence fails nothing.

use crate::sample::{saying, with};
use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use cortex_runtime::EngramSetting;
use cortex_testkit::{RunningTestServer, ServerSetup, TestModels, eventually};
use serde_json::{Value, json};
use std::net::SocketAddr;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

/// The far side of two wires: an Engram service, and a model that keeps what it is asked.
struct FarSide {
    address: SocketAddr,
    recalled: UnboundedReceiver<Value>,
    asked: UnboundedReceiver<Value>,
    serving: JoinHandle<()>,
}

#[derive(Clone)]
struct Heard {
    recalled: UnboundedSender<Value>,
    asked: UnboundedSender<Value>,
}

impl Drop for FarSide {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn far_side(engram: Router<Heard>) -> FarSide {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let ((recall, recalled), (ask, asked)) = (unbounded_channel(), unbounded_channel());
    let routes =
        engram.route("/v1/chat/completions", post(answer)).with_state(Heard { recalled: recall, asked: ask });
    let serving = tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    FarSide { address, recalled, asked, serving }
}

async fn recall(State(heard): State<Heard>, Json(body): Json<Value>) -> Json<Value> {
    heard.recalled.send(body).unwrap();
    Json(json!({"memories": [{"id": "m1", "content": "the cottage has a blue door", "category": "fact",
        "strength": 1.0, "relevance": 0.9, "created_at": "2026-01-01T00:00:00Z", "access_count": 1}],
        "fallback_mode": false}))
}

async fn answer(
    State(heard): State<Heard>,
    Json(body): Json<Value>,
) -> ([(&'static str, &'static str); 1], String) {
    heard.asked.send(body).unwrap();
    let said = json!({"choices": [{"index": 0, "delta": {"content": "Blue."}}]});
    let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    ([("content-type", "text/event-stream")], format!("data: {said}\n\ndata: {end}\n\ndata: [DONE]\n\n"))
}

async fn start(far: &FarSide) -> RunningTestServer {
    let url = format!("http://{}", far.address);
    ServerSetup::new(TestModels::Synapse(url.clone())).engram(EngramSetting::Explicit(url)).start().await
}

async fn reply(server: &RunningTestServer, id: &str, text: &str) -> (Value, Vec<String>) {
    let event = with(saying(id, text), "topicKey", json!("trip"));
    let id = server.accept(&event).await;
    let row = server.ended(&id).await;
    let messages = server.poll(&json!({"source": "telegram"})).await;
    (row, messages.iter().map(|message| message["text"].as_str().unwrap().to_owned()).collect())
}

fn system(question: &Value) -> &str {
    question["messages"][0]["content"].as_str().unwrap()
}

#[tokio::test]
async fn what_the_service_recalls_stands_in_the_prompt() {
    let mut far = far_side(Router::new().route("/recall", post(recall))).await;
    let server = start(&far).await;
    let (row, said) = reply(&server, "1", "what colour is the door?").await;
    assert_eq!((&row["status"], said), (&json!("done"), vec!["Blue.".to_owned()]));
    let question = far.asked.recv().await.unwrap();
    assert!(system(&question).contains("## Known Facts\n- the cottage has a blue door\n"), "{question}");
    let mut scopes = Vec::new();
    for _ in 0..2 {
        let asked = far.recalled.recv().await.unwrap();
        assert_eq!((&asked["query"], &asked["limit"]), (&json!("what colour is the door?"), &json!(4)));
        scopes.push(asked["scope_id"].as_str().map(str::to_owned));
    }
    scopes.sort();
    assert_eq!(scopes, [None, Some("trip".to_owned())], "the conversation's own and everything");
    assert_eq!(server.get("/api/v2/memory").await.json()["items"], json!([]), "nothing is kept here");
}

#[tokio::test]
async fn a_service_that_hangs_refuses_or_babbles_fails_no_turn() {
    let hanging = Router::new().route("/recall", post(std::future::pending::<()>));
    let refusing = Router::new().route("/recall", post(|| async { http::StatusCode::INTERNAL_SERVER_ERROR }));
    let babbling = Router::new().route("/recall", post(|| async { "no JSON" }));
    let elsewhere = Router::new().route("/health", get(|| async { "ok" }));
    for (name, service) in
        [("hanging", hanging), ("refusing", refusing), ("babbling", babbling), ("elsewhere", elsewhere)]
    {
        let mut far = far_side(service).await;
        let server = start(&far).await;
        let (row, said) = reply(&server, "1", "what colour is the door?").await;
        assert_eq!((&row["status"], &row["attempts"]), (&json!("done"), &json!(1)), "{name}: {row}");
        assert_eq!(said, ["Blue."], "{name}");
        assert!(!system(&far.asked.recv().await.unwrap()).contains("## Known Facts"), "{name}");
    }
}

#[tokio::test]
async fn what_the_assistant_forgets_is_forgotten_in_the_service_wherever_it_was_told() {
    let service = ServerSetup::echoing().engram_for_local_clients().start().await;
    let url = format!("http://{}/engram", service.address());
    for (told_in, asked_in) in [(json!("trip"), "trip"), (json!("home"), "trip"), (json!(null), "trip")] {
        let body = json!({"content": "the cottage has a blue door", "scope_id": told_in});
        let id = service.post("/engram/remember", &body).await.json()["id"].as_str().unwrap().to_owned();
        let call = json!({"name": "memory.forget", "arguments": {"id": id}});
        let server = ServerSetup::scripted(json!({
            "answers": [
                {"when": {"afterTool": "memory.forget"}, "say": "Gone."},
                {"when": {"equals": "forget it"}, "toolCalls": [call]},
            ],
            "otherwise": {"say": "Hello."},
        }))
        .engram(EngramSetting::Explicit(url.clone()))
        .start()
        .await;
        assert_eq!(server.get("/api/v2/memory/status").await.json()["engramUrl"], json!(url));
        server.answered(&with(saying("hello", "hello"), "topicKey", json!("home"))).await;
        server.accept(&with(saying("forget", "forget it"), "topicKey", json!(asked_in))).await;
        let approval = eventually("the question", async || {
            let open = server.get("/api/v2/approvals?status=pending").await.json();
            open["items"][0]["approvalId"].as_str().or(open["items"][0]["id"].as_str()).map(str::to_owned)
        })
        .await;
        let approved = server.post(&format!("/api/v2/approvals/{approval}/approve"), &json!({})).await;
        assert_eq!(approved.status, 200, "{}", approved.text());
        eventually("it to be forgotten", async || {
            (service.get("/engram/stats").await.json()["total"] == 0).then_some(())
        })
        .await;
    }
}
