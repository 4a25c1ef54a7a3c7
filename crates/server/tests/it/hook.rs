//! `POST /hooks/{name}`: the examples of the documentation with payloads as they come, and everybody who may not.

use cortex_testkit::{
    Answer, ForeignClients, FrozenTime, Request, RunningTestServer, ServerSetup, TestConnector, said_over,
};
use hmac::{Hmac, Mac};
use serde_json::{Map, Value, json};
use sha2::Sha256;
use std::path::Path;
use std::time::Duration;

const KEY: &str = "key-of-a-hook-0123456789abcdef";
const SIGNING_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const DOCUMENT: &str = include_str!("../../../../docs/webhooks.md");
const GITHUB: &str = include_str!("payload/github-workflow-run.json");
const HOME_ASSISTANT: &str = include_str!("payload/home-assistant.json");
const CI: &str = include_str!("payload/ci.json");

/// Every hook of the documentation; each secret is `KEY`.
fn documented() -> Value {
    let blocks = DOCUMENT.split("```json\n").skip(1).filter_map(|after| after.split("```").next());
    let mut hooks = Map::new();
    for block in blocks {
        let parts: Vec<&str> = block.split("${").collect();
        let filled = parts
            .iter()
            .skip(1)
            .fold(parts[0].to_owned(), |text, part| text + KEY + part.split_once('}').unwrap().1);
        let block: Value = serde_json::from_str(&filled).unwrap();
        hooks.extend(block["hooks"].as_object().cloned().unwrap_or_default());
    }
    assert_eq!(hooks.keys().collect::<Vec<_>>(), ["ci", "github", "home"]);
    Value::Object(hooks)
}

async fn serve(hooks: Value) -> RunningTestServer {
    ServerSetup::echoing().hooks(hooks).start().await
}

/// A request as a stranger would send it.
fn to(server: &RunningTestServer, hook: &str, body: impl Into<Vec<u8>>) -> Request {
    server.request("POST", &format!("/hooks/{hook}")).without_key().body(body)
}

fn with_key(server: &RunningTestServer, hook: &str, body: impl Into<Vec<u8>>) -> Request {
    to(server, hook, body).header("authorization", &format!("Bearer {KEY}"))
}

fn hub_signature(body: &str) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(KEY.as_bytes()).unwrap().chain_update(body);
    format!("sha256={:x}", mac.finalize().into_bytes())
}

fn from_github(server: &RunningTestServer, event: &str, body: &str) -> Request {
    to(server, "github", body)
        .header("x-github-event", event)
        .header("x-github-delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958")
        .header("x-hub-signature-256", &hub_signature(body))
}

#[track_caller]
fn queued(answer: &Answer) -> String {
    assert_eq!((answer.status, &answer.json()["status"]), (202, &json!("queued")), "{}", answer.text());
    answer.json()["eventId"].as_str().unwrap().to_owned()
}

fn unauthorized() -> (u16, Value) {
    (401, json!({ "error": "unauthorized" }))
}

#[tokio::test]
async fn a_failed_run_of_github_becomes_an_event_whose_answer_waits_for_the_hook() {
    let server = serve(documented()).await;
    let request = from_github(&server, "workflow_run", GITHUB).header("content-type", "application/json");
    let id = queued(&request.clone().send().await);
    let row = server.ended(&id).await;
    let said = "CI #1187 of octo-org/octo-repo ended with failure: Bump the retry limit \
                https://github.com/octo-org/octo-repo/actions/runs/9471829104";
    assert_eq!(row["text"], said);
    assert_eq!((&row["source"], &row["topicKey"]), (&json!("hook:github"), &json!("octo-org/octo-repo")));
    assert_eq!(row["userId"], "hook:github:octocat");
    assert_eq!(row["externalMessageId"], "72d3162e-cc78-11e3-81ab-4c9367dc0958");
    assert_eq!(row["metadata"], json!({ "hook": "github", "relationship": "system" }));
    let messages = server.poll(&json!({ "source": "hook:github" })).await;
    assert_eq!(messages[0]["text"], format!("You said: {said}"));
    let again = request.send().await;
    assert_eq!(again.seen(), (200, json!({ "eventId": id, "status": "duplicate_ignored" })));
}

#[tokio::test]
async fn github_may_send_a_form_and_its_ping_is_passed_over() {
    let server = serve(documented()).await;
    let form = "application/x-www-form-urlencoded";
    let ping = format!("payload={}", percent(r#"{"zen":"Keep it logically awesome.","hook_id":1}"#));
    let answer = from_github(&server, "ping", &ping).header("content-type", form).send().await;
    assert_eq!(answer.seen(), (200, json!({ "eventId": null, "status": "ignored" })));
    let run = format!("payload={}", percent(GITHUB));
    let answer = from_github(&server, "workflow_run", &run).header("content-type", form).send().await;
    let row = server.ended(&queued(&answer)).await;
    assert_eq!(row["topicKey"], "octo-org/octo-repo");
    let metrics = server.get("/metrics").await.text();
    assert!(metrics.contains("cortex_hooks_ignored_total 1"), "{metrics}");
}

fn percent(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[tokio::test]
async fn a_door_of_home_assistant_is_said_and_answered_in_the_chat_it_is_for() {
    let server = serve(documented()).await;
    let request = to(&server, "home", HOME_ASSISTANT).header("x-cortex-key", KEY);
    let row = server.ended(&queued(&request.clone().send().await)).await;
    assert_eq!((&row["source"], &row["topicKey"]), (&json!("telegram"), &json!("998877")));
    assert_eq!(row["userId"], "tg:998877");
    let said = "Front door in the Hall went from off to on. Tell me only if somebody should look after it.";
    assert_eq!(row["text"], said);
    let messages = server.poll(&json!({ "source": "telegram" })).await;
    assert_eq!(messages.len(), 1);
    assert_eq!(
        (&messages[0]["topicKey"], &messages[0]["text"]),
        (&json!("998877"), &json!(format!("You said: {said}")))
    );
    assert_eq!(request.send().await.json()["status"], "duplicate_ignored");
    let closed = HOME_ASSISTANT.replace("20:30:00.123456", "20:31:07.000000");
    queued(&to(&server, "home", closed).header("x-cortex-key", KEY).send().await);
}

#[tokio::test]
async fn a_build_of_any_ci_becomes_an_event_of_its_project() {
    let server = serve(documented()).await;
    let row = server.ended(&queued(&with_key(&server, "ci", CI).send().await)).await;
    let said = "Build 815 of shop/backend (release/4.2) by Ada Lovelace: failed. Failed: [\"unit\",\"lint\"] \
                https://ci.example.org/shop/backend/builds/815";
    assert_eq!((&row["text"], &row["topicKey"]), (&json!(said), &json!("shop/backend")));
    assert_eq!(
        (&row["externalMessageId"], &row["userId"]),
        (&json!("shop/backend-815-failed"), &json!("hook:ci"))
    );
    let passed = with_key(&server, "ci", CI.replace("failed\",\n  \"project", "passed\",\n  \"project"));
    assert_eq!(passed.send().await.json(), json!({ "eventId": null, "status": "ignored" }));
}

#[tokio::test]
async fn who_does_not_prove_itself_is_401_and_leaves_nothing() {
    let hooks = json!({ "both": { "key": KEY, "hmac": { "secret": KEY }, "text": "{{}}" } });
    let server = serve(hooks).await;
    let right = hub_signature("x");
    let tries: [&[(&str, &str)]; 7] = [
        &[],
        &[("authorization", "Bearer wrong")],
        &[("authorization", &format!("Bearer {KEY}"))],
        &[("x-hub-signature-256", &right)],
        &[("x-cortex-key", KEY), ("x-hub-signature-256", &hub_signature("y"))],
        &[("x-cortex-key", KEY), ("x-cortex-key", KEY), ("x-hub-signature-256", &right)],
        &[("authorization", KEY), ("x-cortex-key", KEY), ("x-hub-signature-256", &right)],
    ];
    for headers in tries {
        let request = headers
            .iter()
            .fold(to(&server, "both", "x"), |request, (name, value)| request.header(name, value));
        assert_eq!(request.send().await.seen(), unauthorized(), "{headers:?}");
    }
    let in_query = server.request("POST", &format!("/hooks/both?key={KEY}")).without_key();
    assert_eq!(in_query.header("x-hub-signature-256", &right).body("x").send().await.seen(), unauthorized());
    let owner = server.request("POST", "/hooks/both").header("x-hub-signature-256", &right).body("x");
    assert_eq!(owner.send().await.seen(), unauthorized(), "the owner's key is not the hook's");
    assert_eq!(server.get("/api/v2/inbox").await.json(), json!({ "items": [] }));
    let request = with_key(&server, "both", "x").header("x-hub-signature-256", &right);
    queued(&request.send().await);
}

#[tokio::test]
async fn the_eleventh_guess_at_a_key_or_a_name_is_429_and_a_right_key_is_served() {
    let server = serve(documented()).await;
    for number in 1..=5 {
        let guess = to(&server, "ci", CI).header("x-cortex-key", "guess");
        assert_eq!(guess.send().await.seen(), unauthorized(), "guess {number}");
        let unknown = with_key(&server, "other", CI).send().await;
        assert_eq!(unknown.seen(), (404, json!({ "error": "not_found" })), "guess {number}");
    }
    for hook in ["ci", "other"] {
        let answer = to(&server, hook, CI).header("x-cortex-key", "guess").send().await;
        assert_eq!((answer.status, &answer.json()["error"]), (429, &json!("too_many_requests")), "{hook}");
        assert!(answer.header("retry-after").is_some());
    }
    assert_eq!(to(&server, "ci", CI).send().await.seen(), unauthorized(), "none at all costs nothing");
    queued(&with_key(&server, "ci", CI).send().await);
}

#[tokio::test]
async fn a_payload_that_fills_nothing_is_told_what_is_missing() {
    let hooks = json!({
        "strict": { "key": KEY, "text": "{{/text}}", "topic": "{{/room}}", "id": "{{/id}}" },
        "plain": { "key": KEY, "text": "Somebody said: {{}}" },
    });
    let server = serve(hooks).await;
    let answer = with_key(&server, "strict", "{}").send().await;
    let details = [
        "text came out empty: nothing at /text",
        "topic needs /room, which is not there",
        "id needs /id, which is not there",
    ];
    assert_eq!(answer.seen(), (400, json!({ "error": "invalid_request", "details": details })));
    let answer = with_key(&server, "strict", "{oops").header("content-type", "application/json").send().await;
    assert_eq!(
        answer.seen(),
        (400, json!({ "error": "invalid_request", "details": ["Request body must be valid JSON"] }))
    );
    let row = server.ended(&queued(&with_key(&server, "plain", "fire!").send().await)).await;
    assert_eq!(row["text"], "Somebody said: fire!");
}

#[tokio::test]
async fn a_body_of_a_mebibyte_is_taken_and_a_byte_more_is_413() {
    let server = serve(json!({ "big": { "key": KEY, "text": "{{}}" } })).await;
    let most = 1024 * 1024;
    let row = server.ended(&queued(&with_key(&server, "big", vec![b'x'; most]).send().await)).await;
    let text = row["text"].as_str().unwrap();
    assert!(text.ends_with("x … (cut)") && text.chars().count() < 33_000, "{} characters", text.len());
    for answer in [
        with_key(&server, "big", vec![b'x'; most + 1]).send().await,
        with_key(&server, "big", vec![b'x'; most + 1]).send_chunked(64 * 1024).await,
    ] {
        assert_eq!((answer.status, &answer.json()["error"]), (413, &json!("payload_too_large")));
    }
    let keyless = to(&server, "big", vec![b'x'; most + 1]).send().await;
    assert_eq!(keyless.seen(), unauthorized(), "without a key nothing is read");
}

#[tokio::test(start_paused = true)]
async fn equal_bodies_without_a_name_are_one_event_for_five_minutes_only() {
    let time = FrozenTime::hold();
    let hooks = json!({ "bell": { "key": KEY, "text": "It rang" } });
    let server = ServerSetup::echoing().at(&time).hooks(hooks).start().await;
    let ring = || with_key(&server, "bell", "{}").send();
    queued(&ring().await);
    assert_eq!(ring().await.json()["status"], "duplicate_ignored");
    time.advance(Duration::from_secs(300)).await;
    queued(&ring().await);
    let named = with_key(&server, "bell", "{}").header("idempotency-key", "ring 3");
    queued(&named.send().await);
}

#[tokio::test]
async fn a_hook_whose_channel_is_off_keeps_nothing_and_one_for_a_live_topic_is_answered() {
    use cortex_types::{ChannelMode, ChannelSetting};
    let live = ChannelSetting { mode: ChannelMode::Live, topic: None };
    let server = ServerSetup::echoing()
        .hooks(documented())
        .flow(move |flow| {
            flow.channels.default_mode = ChannelMode::Off;
            flow.channels.channels.insert("telegram".to_owned(), live.clone());
        })
        .start()
        .await;
    let off = with_key(&server, "ci", CI).send().await;
    assert_eq!(off.seen(), (200, json!({ "eventId": null, "status": "channel_off" })));
    let answer = to(&server, "home", HOME_ASSISTANT).header("x-cortex-key", KEY).send().await;
    server.ended(&queued(&answer)).await;
    assert_eq!(server.poll(&json!({ "source": "telegram" })).await.len(), 1);
}

#[tokio::test]
async fn a_hook_for_the_conversation_of_a_connector_is_answered_over_its_socket() {
    let to_socket = json!({ "source": "urn:connector:m", "topic": "owner-chat" });
    let server = serve(json!({ "bell": { "key": KEY, "text": "It rang", "to": to_socket } })).await;
    let mut connector = TestConnector::of_owner(&server, "").await;
    let mut hello = said_over("m", "owner-chat", "1", "hello");
    hello["data"]["roomId"] = json!("!room:example.org");
    connector.send(&hello).await;
    connector.event().await;
    server.ended(&queued(&with_key(&server, "bell", "{}").send().await)).await;
    let rang = connector.event().await;
    assert_eq!(
        (&rang["data"]["text"], &rang["data"]["conversationId"]),
        (&json!("You said: It rang"), &json!("owner-chat"))
    );
    assert_eq!(rang["data"]["roomId"], "!room:example.org", "where the person last spoke");
    assert_eq!(rang.get("causationid"), None, "no event of the connector led to it");
    connector.send(&said_over("m", "owner-chat", "2", "still here")).await;
    assert_eq!(connector.event().await["data"]["text"], "You said: still here", "the source is no hook's");
}

#[tokio::test]
async fn what_pypi_standardwebhooks_signs_is_believed_once_and_only_while_it_is_fresh() {
    let hooks = json!({ "signed": { "secret": SIGNING_SECRET, "text": "{{/text}}" } });
    let server = serve(hooks).await;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/script/sign_webhook.py");
    let body = r#"{"text": "grüße"}"#;
    let Some(lines) =
        ForeignClients::Python.run(&script, &[("SECRET", SIGNING_SECRET), ("BODY", body)]).await.unwrap()
    else {
        return;
    };
    let signed: Value = serde_json::from_str(&lines).unwrap();
    let request = |moment: &str, body: &str| {
        let text = |field: &str| signed[moment][field].as_str().unwrap().to_owned();
        to(&server, "signed", body)
            .header("webhook-id", &text("id"))
            .header("webhook-timestamp", &text("timestamp"))
            .header("webhook-signature", &text("signature"))
    };
    let id = queued(&request("now", body).send().await);
    let again = request("now", body).send().await;
    assert_eq!(again.seen(), (200, json!({ "eventId": id, "status": "duplicate_ignored" })));
    assert_eq!(server.ended(&id).await["text"], "grüße");
    assert_eq!(request("now", "{\"text\": \"other\"}").send().await.seen(), unauthorized());
    for stale in ["old", "ahead"] {
        assert_eq!(request(stale, body).send().await.seen(), unauthorized(), "{stale}");
    }
    assert_eq!(to(&server, "signed", body).send().await.seen(), unauthorized());
}
