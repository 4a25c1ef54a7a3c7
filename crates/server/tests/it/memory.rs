//! The owner's doors to memory and to the gardener.

use cortex_testkit::{ServerSetup, TestModels, damage_fact};
use serde_json::{Value, json};

#[tokio::test]
async fn what_was_said_is_extracted_on_request_and_can_be_changed_and_forgotten() {
    let server = ServerSetup::new(TestModels::Offline).start().await;
    let event = json!({"source": "webchat", "externalMessageId": "1", "idempotencyKey": "1", "topicKey": "t",
        "userId": "ada", "text": "My name is Ada. I like green tea.", "occurredAt": "2026-01-01T00:00:00Z"});
    let event = server.answered(&event).await;
    let ran = server.post("/api/v2/gardener/extractor/run", &json!({})).await;
    assert_eq!(
        ran.seen(),
        (
            200,
            json!({"task": "extractor", "done": true,
            "report": "2 facts from 1 messages, by rules, because no model is configured"})
        )
    );
    let list = server.get("/api/v2/memory").await.json();
    assert_eq!(list["items"].as_array().unwrap().len(), 2);
    let found = server.get("/api/v2/memory/search?query=tea&limit=5").await.json();
    let fact = found["items"].as_array().unwrap().iter().find(|hit| hit["kind"] == "fact").unwrap();
    assert_eq!((&fact["text"], &fact["label"]), (&json!("The user likes green tea"), &json!("preference")));
    let path = format!("/api/v2/memory/{}", fact["id"].as_str().unwrap());
    let shown = server.get(&path).await.json();
    assert_eq!(
        (&shown["sources"][0]["kind"], &shown["sources"][0]["reference"]),
        (&json!("turn"), &json!(event))
    );
    let edited = server.post(&path, &json!({"text": "The user likes black tea"})).await.json();
    assert_eq!(edited["text"], "The user likes black tea");
    assert_eq!(edited["sources"][1]["kind"], "person", "a person's change is a source, too");
    assert_eq!(server.post(&format!("{path}/pin"), &json!({})).await.json()["pinned"], true);
    assert_eq!(server.post(&format!("{path}/unpin"), &json!({})).await.json()["pinned"], false);
    assert_eq!(
        server.post(&format!("{path}/forget"), &json!({})).await.json()["text"],
        "The user likes black tea"
    );
    assert_eq!(server.get(&path).await.status, 404);
    for action in ["", "/pin", "/unpin", "/forget"] {
        let answer = server.post(&format!("{path}{action}"), &json!({"text": "x"})).await;
        assert_eq!(answer.status, 404, "{action}");
    }
}

#[tokio::test]
async fn memory_tells_its_numbers_and_how_far_its_vectors_are() {
    let server = ServerSetup::echoing().start().await;
    let empty = json!({
        "facts": {"hot": 0, "cold": 0, "pinned": 0},
        "turns": {"said": 0, "indexed": 0},
        "embedder": {"model": "cortex-static-1", "dims": 256},
        "vectors": {"texts": 0, "done": 0},
        "reembedding": {"isRunning": false, "lastError": null},
        "engramUrl": null,
    });
    assert_eq!(server.get("/api/v2/memory/status").await.seen(), (200, empty));
    let facts = "{\"content\": \"the owl is old\"}\n{\"content\": \"tea is at five\"}\n";
    assert_eq!(server.request("POST", "/api/v2/memory/import").body(facts).send().await.status, 200);
    let id = server.get("/api/v2/memory").await.json()["items"][0]["factId"].as_str().unwrap().to_owned();
    assert_eq!(server.post(&format!("/api/v2/memory/{id}/pin"), &json!({})).await.status, 200);
    server.answered(&crate::sample::event("1")).await;
    let status = server.get("/api/v2/memory/status").await.json();
    assert_eq!(status["facts"], json!({"hot": 2, "cold": 0, "pinned": 1}));
    assert_eq!(status["turns"], json!({"said": 2, "indexed": 0}));
    assert_eq!(status["vectors"], json!({"texts": 2, "done": 2}));
    // A search indexes what was said before it looks.
    assert_eq!(server.get("/api/v2/memory/search?query=owl").await.status, 200);
    let status = server.get("/api/v2/memory/status").await.json();
    assert_eq!(
        (&status["turns"], &status["vectors"]),
        (&json!({"said": 2, "indexed": 2}), &json!({"texts": 4, "done": 4}))
    );
}

#[tokio::test]
async fn bad_questions_to_memory_are_named() {
    let server = ServerSetup::echoing().start().await;
    assert_eq!(server.get("/api/v2/memory?scope=planet").await.status, 400);
    assert_eq!(server.get("/api/v2/memory?tier=warm").await.status, 400);
    assert_eq!(server.get("/api/v2/memory/search").await.status, 400);
    assert_eq!(server.get("/api/v2/memory/search?query=x&limit=0").await.status, 400);
    let empty = server.post("/api/v2/memory/fct_01J00000000000000000000000", &json!({})).await;
    assert_eq!(empty.json()["details"], json!(["text or category is required"]));
    assert_eq!(server.post("/api/v2/gardener/weeder/run", &json!({})).await.status, 404);
}

#[tokio::test]
async fn the_gardener_says_that_it_works_without_a_model() {
    let server = ServerSetup::new(TestModels::Offline).start().await;
    let report = server.get("/api/v2/gardener").await.json();
    assert_eq!((&report["thinksWith"], &report["tokensToday"]), (&json!("rules"), &json!(0)));
    let tasks: Vec<(&Value, &Value)> = report["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| (&task["task"], &task["intervalSeconds"]))
        .collect();
    let expected = [("compactor", 3_600), ("extractor", 21_600), ("evictor", 604_800), ("harvester", 21_600)];
    let expected: Vec<(Value, Value)> =
        expected.iter().map(|(task, every)| (json!(task), json!(every))).collect();
    assert_eq!(tasks, expected.iter().map(|(task, every)| (task, every)).collect::<Vec<_>>());
}

#[tokio::test]
async fn memory_goes_out_and_in_as_lines() {
    let server = ServerSetup::echoing().start().await;
    server.post("/engram/remember", &json!({"content": "the lynx is shy"})).await;
    let lines = server.get("/api/v2/memory/export").await.text();
    let other = ServerSetup::echoing().start().await;
    let imported = other.client().import_memory(lines.clone()).await.unwrap();
    assert_eq!((imported.created, imported.known), (1, 0));
    assert_eq!(other.client().import_memory(lines).await.unwrap().known, 1);
    assert_eq!(other.client().export_memory().await.unwrap().lines().count(), 1);
}

#[tokio::test]
async fn a_damaged_fact_is_told_from_one_that_is_not_there_and_can_be_forgotten() {
    let server = ServerSetup::echoing().start().await;
    let facts = "{\"content\": \"the owl is old\"}\n";
    assert_eq!(server.request("POST", "/api/v2/memory/import").body(facts).send().await.status, 200);
    let list = server.get("/api/v2/memory").await.json();
    let path = format!("/api/v2/memory/{}", list["items"][0]["factId"].as_str().unwrap());
    assert_eq!(damage_fact(&server.database(), "the owl is old"), 1);
    assert_eq!(server.get(&path).await.status, 500);
    let forgotten = server.post(&format!("{path}/forget"), &json!({})).await;
    assert_eq!(forgotten.status, 200);
    assert_eq!(forgotten.json()["text"], "(damaged on disk; its words could not be read)");
    assert_eq!(server.get(&path).await.status, 404);
}
