//! Channels over HTTP: off is not tracked, modes change at once, shadow shows what it held back.

use crate::sample::event;
use cortex_testkit::ServerSetup;
use cortex_types::{ChannelMode, ChannelSetting};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// A server whose channel telegram has a mode that the test can change in its settings.
fn with_mode(mode: &Arc<AtomicU8>) -> ServerSetup {
    let mode = Arc::clone(mode);
    ServerSetup::echoing().flow(move |flow| {
        let mode = ChannelMode::ALL[usize::from(mode.load(Ordering::SeqCst))];
        flow.channels.channels.insert("telegram".to_owned(), ChannelSetting { mode, topic: None });
    })
}

const OFF: u8 = 0;
const SHADOW: u8 = 1;
const LIVE: u8 = 2;

#[tokio::test]
async fn a_channel_that_is_off_is_told_so_and_nothing_is_kept() {
    let server = with_mode(&Arc::new(AtomicU8::new(OFF))).start().await;
    let answer = server.post("/ingest", &event("1")).await;
    assert_eq!((answer.status, answer.json()), (200, json!({"eventId": null, "status": "channel_off"})));
    assert_eq!(server.get("/api/v2/inbox").await.json()["items"], json!([]));
    let metrics = server.get("/metrics").await.text();
    assert!(metrics.contains("cortex_events_channel_off_total 1"), "{metrics}");
}

#[tokio::test]
async fn a_mode_is_read_again_at_once_and_shadow_reports_what_it_held_back() {
    let mode = Arc::new(AtomicU8::new(LIVE));
    let server = with_mode(&mode).start().await;
    server.answered(&event("1")).await;
    mode.store(SHADOW, Ordering::SeqCst);
    let channels = server.post("/api/v2/channels/reload", &json!({})).await.json();
    assert_eq!(
        (&channels["items"][0]["name"], &channels["items"][0]["mode"]),
        (&json!("telegram"), &json!("shadow"))
    );
    let id = server.answered(&event("2")).await;
    assert!(server.poll(&json!({"source": "telegram"})).await.is_empty(), "what waited was held back too");
    let report = server.get("/api/v2/shadow").await.json();
    let items = report["items"].as_array().unwrap();
    assert_eq!((items.len(), &items[0]["event"]["eventId"]), (2, &json!(id)));
    let held_back: &Value = &items[0]["wouldHaveBeenSent"][0];
    assert_eq!(held_back["lastError"], "the target channel telegram is shadow");
    assert_eq!(items[0]["sent"], json!([]));
    let trace = server.get(&format!("/api/v2/events/{id}/trace")).await.json();
    let entries = trace["entries"].as_array().unwrap();
    assert!(entries.iter().any(|entry| entry["what"] == "suppressed"), "{entries:?}");
}

#[tokio::test]
async fn a_connector_and_the_owner_are_told_what_a_mode_holds_back() {
    let mode = Arc::new(AtomicU8::new(LIVE));
    let server = with_mode(&mode).start().await;
    for external_id in ["1", "2"] {
        server.answered(&event(external_id)).await;
    }
    let mut held = server.poll(&json!({"source": "telegram"})).await.into_iter();
    let mut nack = async |permanent: bool| {
        let message = held.next().unwrap();
        let id = message["messageId"].clone();
        let body = json!({"messageId": id, "leaseToken": message["leaseToken"], "permanent": permanent});
        (id.as_str().unwrap().to_owned(), server.post("/outbox/nack", &body).await.json())
    };
    let (dead, _) = nack(true).await;
    mode.store(SHADOW, Ordering::SeqCst);
    server.post("/api/v2/channels/reload", &json!({})).await;
    assert_eq!(nack(false).await.1, json!({"ok": true, "status": "suppressed"}));
    let refused = server.post(&format!("/api/v2/outbox/{dead}/retry"), &json!({})).await;
    let reason = format!("{dead} cannot be sent now: the target channel telegram is shadow");
    assert_eq!(refused.seen(), (409, json!({"error": "conflict", "details": [reason]})));
    assert_eq!(server.get(&format!("/api/v2/outbox/{dead}")).await.json()["status"], "dead");
}

#[tokio::test]
async fn the_context_of_a_topic_is_shown_part_by_part() {
    let server = ServerSetup::echoing().start().await;
    let sample = event("1");
    server.answered(&sample).await;
    let topic = sample["topicKey"].as_str().unwrap();
    let shown = server.get(&format!("/api/v2/context?topic={topic}")).await.json();
    assert_eq!(shown["source"], "telegram");
    let sections = shown["sections"].as_array().unwrap();
    let named = |name: &str| sections.iter().find(|section| section["name"] == name).unwrap();
    assert!(named("foreground")["text"].as_str().unwrap().contains("assistant: You said: "));
    let sum: u64 = sections.iter().map(|section| section["tokens"].as_u64().unwrap()).sum();
    assert_eq!(shown["tokens"].as_u64().unwrap(), sum + shown["toolTokens"].as_u64().unwrap());
    assert_eq!(server.get("/api/v2/context?topic=unknown").await.status, 404);
    let undone = server.post("/api/v2/context/undo", &json!({"topic": topic})).await;
    assert_eq!((undone.status, &undone.json()["summary"]), (200, &Value::Null));
}
