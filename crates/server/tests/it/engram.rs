//! The Engram service on the built-in memory, by the rules its clients rely on.

use crate::openapi::routes;
use cortex_testkit::{FrozenTime, RunningTestServer, ServerSetup};
use serde_json::{Value, json};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

async fn remember(server: &RunningTestServer, body: Value) -> (String, String) {
    let answer = server.post("/engram/remember", &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let text = |name: &str| answer.json()[name].as_str().unwrap().to_owned();
    (text("id"), text("status"))
}

async fn recall(server: &RunningTestServer, body: Value) -> Value {
    let answer = server.post("/engram/recall", &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn contents(recalled: &Value) -> Vec<&str> {
    let memories = recalled["memories"].as_array().unwrap();
    memories.iter().map(|memory| memory["content"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_key_is_replayed_in_its_scope_and_an_upsert_replaces_what_it_named() {
    let server = ServerSetup::echoing().start().await;
    let first = json!({"content": "Ada has a red bicycle", "category": "fact", "idempotency_key": "k", "scope_id": "s"});
    let (id, status) = remember(&server, first.clone()).await;
    assert_eq!(status, "created");
    let mut again = first.clone();
    again["content"] = json!("something else entirely");
    assert_eq!(remember(&server, again.clone()).await, (id.clone(), "created".to_owned()), "a replay");
    again["scope_id"] = json!("another");
    let (other, _) = remember(&server, again.clone()).await;
    assert_ne!(other, id, "a key belongs to its scope");
    let mut upsert = first;
    upsert["content"] = json!("Ada has a green bicycle");
    upsert["category"] = json!("preference");
    upsert["upsert"] = json!(true);
    assert_eq!(remember(&server, upsert).await, (id.clone(), "updated".to_owned()));
    let found = recall(&server, json!({"query": "bicycle", "scope_id": "s"})).await;
    let memory = &found["memories"][0];
    assert_eq!((&memory["id"], &memory["content"]), (&json!(id), &json!("Ada has a green bicycle")));
    assert_eq!(memory["category"], "preference");
}

#[tokio::test]
async fn bad_requests_are_refused_in_the_words_of_the_service() {
    let server = ServerSetup::echoing().start().await;
    let check = |path: &'static str, body: &'static str, error: &'static str| {
        let request = server.request("POST", path).body(body);
        async move { assert_eq!(request.send().await.seen(), (400, json!({"error": error})), "{path} {body}") }
    };
    check("/engram/remember", "{}", "content is required").await;
    check("/engram/remember", r#"{"content":"  "}"#, "content is required").await;
    check("/engram/remember", r#"{"content":"x","upsert":true}"#, "upsert requires idempotency_key").await;
    check("/engram/recall", "{}", "query is required").await;
    check("/engram/recall", r#"{"query":"x","limit":0}"#, "limit must be between 1 and 100").await;
    check("/engram/forget", "{}", "id is required").await;
    check("/engram/recall", "[]", "Request body must be a JSON object").await;
    check("/engram/recall", "{", "Request body must be valid JSON").await;
}

#[tokio::test]
async fn a_scope_sees_itself_and_what_has_none_and_no_scope_sees_everything() {
    let server = ServerSetup::echoing().start().await;
    for (content, scope) in [
        ("the parrot in scope one is blue", json!("one")),
        ("the parrot in scope two is yellow", json!("two")),
        ("the parrot that everybody knows is green", Value::Null),
    ] {
        remember(&server, json!({"content": content, "scope_id": scope})).await;
    }
    let mut found = recall(&server, json!({"query": "parrot", "scope_id": "one"})).await;
    let mut seen = contents(&found);
    seen.sort_unstable();
    assert_eq!(seen, ["the parrot in scope one is blue", "the parrot that everybody knows is green"]);
    found = recall(&server, json!({"query": "parrot"})).await;
    assert_eq!(contents(&found).len(), 3);
    assert_eq!(found["fallback_mode"], false);
    let relevance = |place: usize| found["memories"][place]["relevance"].as_f64().unwrap();
    assert!(relevance(0) >= relevance(1) && relevance(1) >= relevance(2), "higher is better: {found}");
}

#[tokio::test(start_paused = true)]
async fn a_memory_fades_by_the_day_and_a_recall_makes_it_strong_again() {
    let time = FrozenTime::hold();
    let server = ServerSetup::echoing().at(&time).start().await;
    remember(&server, json!({"content": "the heron nests by the mill", "category": "fact"})).await;
    time.advance(10 * DAY).await;
    let found = recall(&server, json!({"query": "heron"})).await;
    let memory = &found["memories"][0];
    let strength = memory["strength"].as_f64().unwrap();
    assert!((strength - 0.95_f64.powi(10)).abs() < 1e-6, "the answer shows the faded value: {strength}");
    assert_eq!(memory["access_count"], 1);
    let again = recall(&server, json!({"query": "heron"})).await;
    assert_eq!(again["memories"][0]["strength"], 1.0, "it was boosted");
    assert_eq!(again["memories"][0]["access_count"], 2);
    time.advance(200 * DAY).await;
    assert_eq!(
        contents(&recall(&server, json!({"query": "heron"})).await).len(),
        0,
        "below 0.1 it is not told"
    );
    let weak = recall(&server, json!({"query": "heron", "min_strength": 0})).await;
    assert_eq!(contents(&weak).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_blank_query_gets_the_strongest_first() {
    let time = FrozenTime::hold();
    let server = ServerSetup::echoing().at(&time).start().await;
    remember(&server, json!({"content": "an old thing about otters"})).await;
    time.advance(5 * DAY).await;
    remember(&server, json!({"content": "a new thing about badgers"})).await;
    let found = recall(&server, json!({"query": " ", "limit": 5})).await;
    assert_eq!(found["fallback_mode"], true);
    assert_eq!(contents(&found), ["a new thing about badgers", "an old thing about otters"]);
    let hydrated = server.post("/engram/context/hydrate", &json!({"limit": 1})).await.json();
    assert_eq!(
        (hydrated["context"].as_array().unwrap().len(), &hydrated["fallback_mode"]),
        (1, &json!(true))
    );
}

#[tokio::test]
async fn forgetting_answers_200_either_way_and_keeps_to_its_scope() {
    let server = ServerSetup::echoing().start().await;
    let (id, _) = remember(&server, json!({"content": "a secret about foxes", "scope_id": "s"})).await;
    let check = |body: Value, deleted: bool| {
        let asking = server.request("POST", "/engram/forget").json(&body);
        async move {
            let expected = json!({"id": body["id"], "deleted": deleted});
            assert_eq!(asking.send().await.seen(), (200, expected), "{body}");
        }
    };
    check(json!({"id": "nonsense"}), false).await;
    check(json!({"id": id, "scope_id": "other"}), false).await;
    check(json!({"id": id}), false).await;
    check(json!({"id": id, "scope_id": "s"}), true).await;
    check(json!({"id": id}), false).await;
    assert_eq!(contents(&recall(&server, json!({"query": "foxes"})).await).len(), 0);
    let (id, _) = remember(&server, json!({"content": "everybody knows the badger"})).await;
    check(json!({"id": id, "scope_id": "s"}), false).await;
    check(json!({"id": id}), true).await;
}

#[tokio::test]
async fn an_export_goes_into_another_home_once() {
    let server = ServerSetup::echoing().start().await;
    for content in ["the lynx is shy", "the boar is not", "we decided on Tuesdays"] {
        remember(&server, json!({"content": content, "metadata": {"from": "test"}, "session_id": "7"})).await;
    }
    let exported = server.get("/engram/export").await;
    assert_eq!(exported.header("content-type"), Some("application/x-ndjson"));
    assert_eq!(exported.text().lines().count(), 3);
    let other = ServerSetup::echoing().start().await;
    let import = || other.request("POST", "/engram/import").body(exported.body.clone());
    assert_eq!(import().send().await.seen(), (200, json!({"imported": 3, "skipped": 0})));
    assert_eq!(
        import().send().await.seen(),
        (200, json!({"imported": 0, "skipped": 3})),
        "nothing is doubled"
    );
    assert_eq!(other.get("/engram/stats").await.json(), json!({"total": 3, "hot": 3, "cold": 0}));
    assert_eq!(contents(&recall(&other, json!({"query": "shy lynx"})).await)[0], "the lynx is shy");
    let bad = other.request("POST", "/engram/import").body("{\"content\":\"good\"}\nnot json\n").send().await;
    assert_eq!(bad.status, 400);
    assert!(bad.json()["error"].as_str().unwrap().starts_with("line 2: "), "{}", bad.text());
    assert_eq!(other.get("/engram/stats").await.json()["total"], 3, "a bad line changes nothing");
}

#[tokio::test]
async fn without_a_key_only_a_local_program_gets_in_and_only_when_it_is_allowed() {
    let paths: Vec<(String, String)> =
        routes().into_iter().filter(|(_, path)| path.starts_with("/engram/")).collect();
    assert_eq!(paths.len(), 9);
    let closed = ServerSetup::echoing().start().await;
    let open = ServerSetup::echoing().engram_for_local_clients().start().await;
    let own_origin = format!("http://127.0.0.1:{}", open.address().port());
    for (method, path) in paths {
        let without_key =
            |server: &RunningTestServer| server.request(&method, &path).without_key().json(&json!({}));
        assert_eq!(without_key(&closed).send().await.status, 401, "{path}");
        assert_ne!(without_key(&open).send().await.status, 401, "{path}");
        let page = without_key(&open).header("origin", &own_origin);
        assert_eq!(page.send().await.status, 401, "{path}: a web page needs a key");
        let wrong = without_key(&open).header("authorization", "Bearer wrong");
        assert_eq!(wrong.send().await.status, 401, "{path}: a wrong key is no key");
    }
    assert_eq!(open.request("GET", "/api/v2/memory").without_key().send().await.status, 401);
    assert_eq!(open.request("GET", "/engramx").without_key().send().await.status, 401);
}

#[tokio::test]
async fn a_server_that_others_reach_opens_memory_to_nobody_without_a_key() {
    let server = ServerSetup::echoing().engram_for_local_clients().on_every_address().start().await;
    for (method, path) in routes().into_iter().filter(|(_, path)| path.starts_with("/engram/")) {
        let request = server.request(&method, &path).json(&json!({}));
        assert_eq!(request.clone().without_key().send().await.status, 401, "{path}");
        assert_ne!(request.send().await.status, 401, "{path}: with a key it is served");
    }
}

#[tokio::test]
async fn the_service_says_what_it_is() {
    let server = ServerSetup::echoing().start().await;
    assert_eq!(server.get("/engram/health").await.seen(), (200, json!({"status": "healthy"})));
    let capabilities = server.get("/engram/capabilities").await.json();
    let features =
        json!({"scopes": true, "idempotency": true, "context_hydration": true, "work_items": false});
    let tools = json!(["remember", "recall", "forget", "capabilities", "context_hydrate"]);
    let expected = json!({"version": env!("CARGO_PKG_VERSION"), "features": features, "tools": tools});
    assert_eq!(capabilities, expected);
}
