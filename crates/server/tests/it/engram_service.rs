//! A whole server whose memory is kept elsewhere: what the service recalls reaches the prompt, and its silence fails nothing.

use crate::sample::{saying, with};
use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use cortex_runtime::EngramSetting;
use cortex_testkit::{Json, RunningTestServer, ServerSetup, TestModels, eventually};
use cortex_types::{FactScope, TopicRef};
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
    assert_eq!(scopes, [None, Some(name_of("telegram", "trip"))], "the conversation's own and everything");
    assert_eq!(server.get("/api/v2/memory").await.json()["items"], json!([]), "nothing is kept here");
}

#[tokio::test]
async fn for_a_group_the_service_is_asked_for_the_groups_own_alone() {
    let mut far = far_side(Router::new().route("/recall", post(recall))).await;
    let server = start(&far).await;
    let metadata = json!({"chatType": "group"});
    let event = with(saying("1", "what colour is the door?"), "topicKey", json!("trip"));
    server.answered(&with(event, "metadata", metadata)).await;
    let asked = far.recalled.recv().await.unwrap();
    assert_eq!(asked["scope_id"], json!(name_of("telegram", "trip")));
    assert!(far.recalled.try_recv().is_err(), "nothing else is asked for");
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

/// How memory names a conversation.
fn name_of(source: &str, topic_key: &str) -> String {
    FactScope::topic_name(&TopicRef { source: source.to_owned(), topic_key: topic_key.to_owned() })
}

/// A server with its memory there, whose assistant looks for the cottage and then forgets this memory.
async fn forgetting(id: &str, url: &str) -> RunningTestServer {
    let query = json!({"name": "memory.query", "arguments": {"query": "cottage door"}});
    let forget = json!({"name": "memory.forget", "arguments": {"id": id}});
    let setup = ServerSetup::scripted(json!({
        "answers": [
            {"when": {"afterTool": "memory.forget"}, "say": "Gone."},
            {"when": {"afterTool": "memory.query"}, "toolCalls": [forget]},
            {"when": {"equals": "forget it"}, "toolCalls": [query]},
            {"when": {"equals": "forget it unseen"}, "toolCalls": [forget]},
        ],
        "otherwise": {"say": "Hello."},
    }));
    setup.engram(EngramSetting::Explicit(url.to_owned())).start().await
}

async fn open_question(server: &RunningTestServer) -> Value {
    eventually("the question", async || {
        let open = server.get("/api/v2/approvals?status=pending").await.json();
        open["items"].as_array().and_then(|items| items.first().cloned())
    })
    .await
}

#[tokio::test]
async fn what_the_assistant_forgets_is_forgotten_in_the_service_wherever_it_was_told() {
    let service = ServerSetup::echoing().engram_for_local_clients().start().await;
    let url = format!("http://{}/engram", service.address());
    let places =
        [json!(name_of("telegram", "trip")), json!(name_of("telegram", "home")), json!("home"), json!(null)];
    for told_in in places {
        let body = json!({"content": "the cottage has a blue door", "scope_id": told_in});
        let id = service.post("/engram/remember", &body).await.json()["id"].as_str().unwrap().to_owned();
        let server = forgetting(&id, &url).await;
        assert_eq!(server.get("/api/v2/memory/status").await.json()["engramUrl"], json!(url));
        server.answered(&with(saying("hello", "hello"), "topicKey", json!("home"))).await;
        server.accept(&with(saying("forget", "forget it"), "topicKey", json!("trip"))).await;
        let asked = open_question(&server).await;
        let words = "May I forget this: the cottage has a blue door\n";
        assert!(asked["question"].as_str().unwrap().starts_with(words), "{asked}");
        let path = format!("/api/v2/approvals/{}/approve", asked["approvalId"].as_str().unwrap());
        let approved = server.post(&path, &json!({})).await;
        assert_eq!(approved.status, 200, "{}", approved.text());
        eventually("it to be forgotten", async || {
            (service.get("/engram/stats").await.json()["total"] == 0).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_question_about_a_memory_that_was_not_recalled_says_so() {
    let service = ServerSetup::echoing().engram_for_local_clients().start().await;
    let server =
        forgetting("fct_01J00000000000000000000000", &format!("http://{}/engram", service.address())).await;
    server.accept(&saying("forget", "forget it unseen")).await;
    let asked = open_question(&server).await;
    assert!(asked["question"].as_str().unwrap().starts_with("May I forget this fact?\n"), "{asked}");
    assert!(
        asked["verbatim"].as_str().unwrap().starts_with("  (nobody here knows what this memory says"),
        "{asked}"
    );
}

#[tokio::test]
async fn one_persons_conversation_is_not_anothers_of_the_same_name() {
    let service = ServerSetup::echoing().engram_for_local_clients().start().await;
    let url = format!("http://{}/engram", service.address());
    let body = json!({"content": "the cottage has a blue door", "scope_id": name_of("cli", "main")});
    let id = service.post("/engram/remember", &body).await.json()["id"].as_str().unwrap().to_owned();
    let (query, forget) = (
        json!({"name": "memory.query", "arguments": {"query": "cottage door"}}),
        json!({"name": "memory.forget", "arguments": {"id": id}}),
    );
    let script = json!({
        "answers": [
            {"when": {"afterTool": "memory.forget"}, "say": "Tried."},
            {"when": {"equals": "forget it"}, "toolCalls": [forget]},
            {"when": {"equals": "look"}, "toolCalls": [query]},
        ],
        "otherwise": {"say": "Hello."},
    });
    let people = |flow: &mut cortex_runtime::RuntimeConfig| {
        flow.channels.identities.insert("bob".to_owned(), vec!["slack:bob".to_owned()]);
        flow.channels.identities.insert("owner".to_owned(), vec!["cli:owner".to_owned()]);
    };
    let server =
        ServerSetup::scripted(script).engram(EngramSetting::Explicit(url)).flow(people).start().await;
    let said = |number: &str, text: &str| {
        let event = with(with(saying(number, text), "source", json!("slack")), "userId", json!("slack:bob"));
        with(with(event, "topicKey", json!("main")), "idempotencyKey", json!(format!("slack:{number}")))
    };
    let looked = server.accept(&said("1", "look")).await;
    server.ended(&looked).await;
    let trace = server.get(&format!("/api/v2/events/{looked}/trace")).await.text();
    assert!(trace.contains("memory.query") && !trace.contains("blue door"), "{trace}");
    let asked = server.accept(&said("2", "forget it")).await;
    let question = open_question(&server).await;
    assert!(!question.to_string().contains("blue door"), "{question}");
    let path = format!("/api/v2/approvals/{}/approve", question["approvalId"].as_str().unwrap());
    assert_eq!(server.post(&path, &json!({})).await.status, 200);
    server.ended(&asked).await;
    assert_eq!(service.get("/engram/stats").await.json()["total"], 1, "it is not his to forget");
}
