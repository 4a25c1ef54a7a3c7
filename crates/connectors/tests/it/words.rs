//! What people send: words, edits, replies, pictures, and somebody who is seen writing.

use crate::bot_api::{Planned, message, message_in};
use crate::stage::{ADA, Stage};
use serde_json::json;
use std::sync::Arc;

fn private() -> serde_json::Value {
    json!({"id": ADA, "type": "private"})
}

#[tokio::test]
async fn a_conversation_goes_both_ways_and_somebody_is_seen_writing() {
    let stage = Stage::echoing().await;
    let connector = stage.connect();
    let mut hello = message(1, ADA, "hello");
    hello["message"]["date"] = json!(1_700_000_000);
    stage.api.happen(hello);
    let sent = stage.api.after("sendMessage", 1).await;
    let typing = stage.api.after("sendChatAction", 1).await;
    stage.outbox_when("the delivery", |row| row["status"] == "delivered").await;
    connector.stop().await;
    assert_eq!(
        sent[0],
        json!({"chat_id": ADA, "text": "You said: hello", "parse_mode": "HTML",
        "link_preview_options": {"is_disabled": true}})
    );
    assert_eq!(typing[0], json!({"chat_id": ADA, "action": "typing"}));
    let event = &stage.events().await[0];
    assert_eq!(event["occurredAt"], "2023-11-14T22:13:20.000Z");
    assert_eq!(event["metadata"]["chatId"], "42");
    assert_eq!(event["metadata"]["chatType"], "private");
}

#[tokio::test]
async fn an_edit_and_a_reply_say_what_they_are() {
    let stage = Stage::echoing().await;
    let connector = stage.connect();
    let mut edit = message(1, ADA, "at nine, I meant");
    let message = edit["message"].take();
    edit.as_object_mut().unwrap().remove("message");
    edit["edited_message"] = message;
    stage.api.happen(edit);
    let said = stage.api.after("sendMessage", 1).await[0]["text"].clone();
    let reply = json!({"text": "why?", "reply_to_message": {"message_id": 1, "chat": {"id": ADA},
        "from": {"id": 99, "first_name": "Cortex"}, "text": said}});
    stage.api.happen(message_in(2, ADA, private(), reply));
    let forward =
        json!({"text": "/approve", "forward_origin": {"type": "hidden_user", "sender_user_name": "Mallory"}});
    stage.api.happen(message_in(3, ADA, private(), forward));
    let events = stage.events_after(3).await;
    let texts = stage.api.after("sendMessage", 3).await;
    connector.stop().await;
    assert_eq!(events[0]["text"], "[edited] at nine, I meant");
    assert_eq!(events[0]["metadata"]["edited"], true);
    assert_eq!(events[1]["text"], "why?");
    let quoted = json!({"author": "Cortex", "text": said, "byAssistant": true});
    assert_eq!(events[1]["metadata"]["quoted"], quoted);
    assert_eq!(events[2]["text"], "[forwarded message]", "and no command");
    assert_eq!(events[2]["metadata"]["quoted"], json!({"author": "Mallory", "text": "/approve"}));
    assert_eq!(events[2]["metadata"]["forwardedFrom"], "Mallory");
    let seen = texts[2]["text"].as_str().unwrap();
    assert!(seen.contains("[untrusted words") && seen.contains("/approve"), "{seen}");
}

#[tokio::test]
async fn files_are_kept_up_to_a_size_and_described_to_the_model() {
    let stage = Stage::echoing().await;
    stage.api.put_file("photo-1", b"a picture");
    stage.api.put_file("liar-1", &[0; 2_000]);
    let connector = stage.connect();
    let photo = json!({"caption": "look", "photo": [{"file_id": "photo-1", "width": 9, "file_size": 9}]});
    stage.api.happen(message_in(1, ADA, private(), photo));
    let big = json!({"document": {"file_id": "big-1", "file_name": "film.mkv", "mime_type": "video/x-matroska",
        "file_size": 5_000_000}});
    stage.api.happen(message_in(2, ADA, private(), big));
    let liar = json!({"document": {"file_id": "liar-1", "file_name": "../x", "file_size": 10}});
    stage.api.happen(message_in(3, ADA, private(), liar));
    let gone = json!({"voice": {"file_id": "gone-1"}});
    stage.api.happen(message_in(4, ADA, private(), gone));
    let events = stage.events_after(4).await;
    let texts = stage.api.after("sendMessage", 4).await;
    connector.stop().await;
    let path = stage.folder().join("files/tg-1-0-photo.jpg");
    assert_eq!(
        events[0]["metadata"]["attachments"],
        json!([
        {"name": "photo.jpg", "type": "image/jpeg", "bytes": 9, "path": path}])
    );
    assert_eq!(std::fs::read(path).unwrap(), b"a picture");
    let name = |index: usize| events[index]["metadata"]["attachments"][0]["name"].as_str().unwrap();
    assert!(name(1).starts_with("film.mkv, not fetched: larger than"), "{}", name(1));
    assert!(name(2).contains("not fetched: larger than"), "{}", name(2));
    assert!(name(3).contains("not fetched: the platform did not give it"), "{}", name(3));
    assert_eq!(std::fs::read_dir(stage.folder().join("files")).unwrap().count(), 1);
    let said = texts[1]["text"].as_str().unwrap();
    assert!(said.contains("film.mkv, not fetched"), "the model was told: {said}");
    assert_eq!(events[1]["text"], "(sent without words)");
}

#[tokio::test]
async fn a_stop_while_a_file_is_fetched_leaves_the_message_for_the_next_start() {
    let stage = Stage::echoing().await;
    stage.api.put_file("photo-1", b"a picture");
    stage.api.plan("getFile", Planned::Hold(Arc::default()));
    let connector = stage.connect();
    let photo = json!({"caption": "look", "photo": [{"file_id": "photo-1", "width": 9, "file_size": 9}]});
    stage.api.happen(message_in(1, ADA, private(), photo));
    stage.api.after("getFile", 1).await;
    connector.stop().await;
    assert!(stage.events().await.is_empty(), "not without its file");
    let connector = stage.connect();
    let events = stage.events_after(1).await;
    connector.stop().await;
    assert_eq!(events[0]["metadata"]["attachments"][0]["name"], "photo.jpg");
}

#[tokio::test]
async fn an_update_of_an_unknown_shape_holds_up_nothing() {
    let stage = Stage::echoing().await;
    let connector = stage.connect();
    stage.api.happen(json!({"update_id": 1, "message": {"message_id": "no number"}}));
    stage.api.happen(json!({"update_id": 2, "poll_answer": {}}));
    stage.api.happen(message(3, ADA, "hello"));
    let events = stage.events_after(1).await;
    connector.stop().await;
    assert_eq!(events[0]["externalMessageId"], "tg-3");
}
