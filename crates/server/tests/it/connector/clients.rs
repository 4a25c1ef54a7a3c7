//! Other people's CloudEvents and WebSockets, unchanged, against this server.

use super::asking;
use cortex_testkit::{ForeignClients, ServerSetup};
use serde_json::{Value, json};
use std::path::Path;

#[tokio::test(flavor = "multi_thread")]
async fn events_of_pypi_cloudevents_are_accepted_and_run_the_model_once() {
    let server = ServerSetup::echoing().start().await;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/clients/cloud_events.py");
    let base_url = format!("http://{}", server.address());
    let seen = ForeignClients::Python.run(&script, &[("BASE_URL", &base_url)]).await.unwrap();
    let Some(seen) = seen else { return };
    let seen: Value = serde_json::from_str(seen.trim()).unwrap();
    let expected = json!({
        "pong": "pong",
        "same": [true, true],
        "texts": ["You said: hello", "You said: hello"],
        "causes": [true, true],
        "type": "assistant.message.outbound",
        "refused": 4401,
    });
    assert_eq!(seen, expected);
    assert_eq!(server.get("/api/v2/usage").await.json()["total"]["calls"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_websocket_client_answers_a_question_with_words_alone() {
    let server = asking().start().await;
    let made =
        server.post("/api/v2/keys", &json!({ "name": "plain", "source": "urn:connector:plain" })).await;
    let key = made.json()["key"].as_str().unwrap().to_owned();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/clients/approve.py");
    let base_url = format!("http://{}", server.address());
    let seen = ForeignClients::Python.run(&script, &[("BASE_URL", &base_url), ("KEY", &key)]).await.unwrap();
    let Some(seen) = seen else { return };
    let expected = json!({
        "subprotocol": "cloudevents.json",
        "session": 4,
        "versions": [7],
        "variants": ["specified in RFC 4122"],
        "question": "May I add a reminder: stretch, every day at 09:00 (UTC)?",
    });
    assert_eq!(serde_json::from_str::<Value>(seen.trim()).unwrap(), expected);
    let jobs = server.get("/api/v2/schedules").await.json();
    assert_eq!(jobs["items"].as_array().unwrap().len(), 1, "{jobs}");
}
