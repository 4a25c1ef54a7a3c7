//! Events as a connector sends them.

use cortex_testkit::{RunningTestServer, ServerSetup};
use serde_json::{Value, json};

/// Wants to make a job about this whatever is said, and says so once it is made.
pub(crate) fn asking(what: &str) -> ServerSetup {
    let arguments = json!({ "cron": "0 9 * * *", "what": what, "timezone": "UTC" });
    let call = json!({ "name": "schedule.create", "arguments": arguments });
    ServerSetup::scripted(json!({
        "answers": [{ "when": { "afterTool": "schedule.create" }, "say": "There you are." }],
        "otherwise": { "toolCalls": [call] },
    }))
}

/// How many jobs there are.
pub(crate) async fn jobs(server: &RunningTestServer) -> usize {
    server.get("/api/v2/schedules").await.json()["items"].as_array().unwrap().len()
}

/// The event of the documentation, with this external id.
pub(crate) fn event(external_id: &str) -> Value {
    json!({
        "source": "telegram",
        "externalMessageId": external_id,
        "idempotencyKey": format!("telegram:{external_id}"),
        "topicKey": "chat-42:thread-root",
        "userId": "tg:998877",
        "text": "Remind me every weekday at 9",
        "occurredAt": "2026-02-15T20:30:00Z",
    })
}

pub(crate) fn saying(external_id: &str, text: &str) -> Value {
    with(event(external_id), "text", json!(text))
}

pub(crate) fn with(mut event: Value, field: &str, value: Value) -> Value {
    event[field] = value;
    event
}

pub(crate) fn without(mut event: Value, field: &str) -> Value {
    event.as_object_mut().unwrap().remove(field);
    event
}

/// A text with the random part of every id replaced, so that it is the same in every run.
pub(crate) fn without_ids(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) =
        ["evt_", "out_", "lease_", "apv_"].iter().filter_map(|prefix| rest.find(prefix)).min()
    {
        let ulid = at + rest[at..].find('_').unwrap() + 1;
        let after = rest.len().min(ulid + 26);
        plain.push_str(&rest[..ulid]);
        plain.push_str("<ulid>");
        rest = &rest[after..];
    }
    plain + rest
}
