//! Programs of others that speak OpenAI's API, unchanged: what works, what is refused, and fifty streams at once.

use cortex_testkit::{ForeignClients, OWNER_KEY, ServerSetup};
use serde_json::{Value, json};
use std::path::Path;

const AT_ONCE: usize = 50;

/// What a script says it saw, with nothing that was said to somebody else; nothing where its packages are missing.
async fn seen_by(clients: ForeignClients, script: &str, streams: usize) -> Option<Value> {
    let server = ServerSetup::echoing().start().await;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/clients").join(script);
    let base_url = format!("http://{}/v1", server.address());
    let at_once = AT_ONCE.to_string();
    let variables = [("BASE_URL", base_url.as_str()), ("API_KEY", OWNER_KEY), ("AT_ONCE", at_once.as_str())];
    let said = clients.run(&script, &variables).await.unwrap()?;
    let line = said.trim().lines().next_back().unwrap_or_default();
    let mut seen: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {said}"));
    let counted = (seen["foreign"].take(), seen["streams"].take());
    assert_eq!(counted, (json!([]), json!(streams * AT_ONCE)));
    Some(seen)
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_the_client_for_node_are_not_mixed_up() {
    seen_by(ForeignClients::Node, "parallel_openai.mjs", 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_of_the_client_for_python_are_not_mixed_up_and_its_tokens_are_embedded() {
    if let Some(seen) = seen_by(ForeignClients::Python, "parallel_openai.py", 3).await {
        assert_eq!(seen["tokens"], true);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ai_sdk_of_vercel_works_with_both_of_its_providers() {
    let Some(seen) = seen_by(ForeignClients::VercelAi, "parallel_ai.mjs", 3).await else { return };
    let each = |value: Value| json!({ "compatible": value, "chat": value, "responses": value });
    assert_eq!(seen["text"], each(json!("You said: hello")));
    let refused = json!([400, "unsupported_parameter"]);
    assert_eq!(seen["tools"], each(refused.clone()));
    assert_eq!((&seen["object"], &seen["vector"]), (&refused, &json!(256)));
}

#[tokio::test(flavor = "multi_thread")]
async fn langchain_works_and_is_told_what_does_not() {
    let Some(seen) = seen_by(ForeignClients::Python, "parallel_langchain.py", 2).await else { return };
    assert_eq!((&seen["text"], &seen["responses"]), (&json!("You said: hello"), &json!("You said: next")));
    let refused = |param: &str| json!([400, "unsupported_parameter", param]);
    assert_eq!(
        (&seen["tools"], &seen["object"], &seen["stop"]),
        (&refused("tools"), &refused("response_format"), &refused("stop"))
    );
    assert_eq!(seen["vector"], 256);
}

#[tokio::test(flavor = "multi_thread")]
async fn litellm_works_and_is_told_what_does_not() {
    let Some(seen) = seen_by(ForeignClients::Litellm, "parallel_litellm.py", 2).await else { return };
    assert_eq!(seen["text"], "You said: hello");
    for field in ["stop", "object", "n"] {
        assert_eq!(seen[field], json!([400, true]), "{field}");
    }
    assert_eq!(seen["vector"], 256);
}
