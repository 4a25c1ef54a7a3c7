//! OpenAI's own clients for Node and Python, unchanged, against this server.

use cortex_testkit::{ForeignClients, OWNER_KEY, ServerSetup};
use serde_json::{Value, json};
use std::path::Path;

async fn check(clients: ForeignClients, script: &str) {
    let server = ServerSetup::echoing().start().await;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/clients").join(script);
    let base_url = format!("http://{}/v1", server.address());
    let seen = clients.run(&script, &[("BASE_URL", &base_url), ("API_KEY", OWNER_KEY)]).await.unwrap();
    let Some(seen) = seen else { return };
    let seen: Value = serde_json::from_str(seen.trim()).unwrap_or_else(|error| panic!("{error}: {seen}"));
    let expected = json!({
        "chat": "You said: hello",
        "finish": "stop",
        "stream": "You said: streamed",
        "streamUsage": true,
        "response": "You said: first",
        "next": "You said: next",
        "events": [
            "response.created", "response.in_progress", "response.output_item.added",
            "response.content_part.added", "response.output_text.delta", "response.output_text.done",
            "response.content_part.done", "response.output_item.done", "response.completed",
        ],
        "deltas": "You said: flowing",
        "completed": "You said: flowing",
        "models": ["cortex"],
        "model": "cortex",
        "vectors": [256, 256],
        "ofLengthOne": true,
        "same": true,
        "unknown": [true, 404, "model_not_found", "model"],
        "wrongKey": [true, 401, "invalid_api_key", null],
        "bad": [true, 400, "invalid_value", "messages"],
    });
    assert_eq!(seen, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_for_node_can_do_all_it_does_elsewhere() {
    check(ForeignClients::Node, "openai_client.mjs").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_client_for_python_can_do_all_it_does_elsewhere() {
    check(ForeignClients::Python, "openai_client.py").await;
}
