//! Who is heard: pairing, strangers, and groups.

use crate::bot_api::{BOT_ID, group_message, message};
use crate::stage::{ADA, STRANGER, Stage, Wish};
use cortex_connectors::{GroupPolicy, PairingCode};
use cortex_types::{Clock, SystemClock};
use serde_json::json;

#[tokio::test]
async fn whoever_sends_the_pairing_code_is_let_in_once_and_for_good() {
    let stage = Stage::echoing().await;
    let connector = stage.connect_as(Wish { allow: Vec::new(), ..Wish::default() });
    stage.api.happen(message(1, ADA, "hello"));
    stage.api.confirmed(1).await;
    // The code is made while the connector runs.
    let code = PairingCode::issue(&stage.folder(), SystemClock::start().now()).unwrap();
    stage.api.happen(message(2, ADA, &format!("/start {code}")));
    let sent = stage.api.after("sendMessage", 1).await;
    assert_eq!(sent[0]["text"], "Paired: from now on I listen to you here.");
    stage.api.happen(message(3, STRANGER, &code.to_string()));
    let sent = stage.api.after("sendMessage", 2).await;
    assert_eq!(sent[1]["text"], "This code is not valid, or not any more.");
    stage.api.happen(message(4, STRANGER, "and me?"));
    stage.api.confirmed(4).await;
    connector.stop().await;
    let connector = stage.connect_as(Wish { allow: Vec::new(), ..Wish::default() });
    stage.api.happen(message(5, ADA, "hello again"));
    let events = stage.events_after(1).await;
    connector.stop().await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0]["text"], "hello again");
    assert!(!events[0].to_string().contains(&code.to_string()), "the code never reaches the server");
    assert_eq!(stage.noted()["allowed"], json!(["42"]));
}

#[tokio::test]
async fn wrong_codes_change_nothing_and_are_soon_not_looked_at() {
    let stage = Stage::echoing().await;
    let connector = stage.connect();
    let code = PairingCode::issue(&stage.folder(), SystemClock::start().now()).unwrap();
    for update in 1..=8 {
        stage.api.happen(message(update, STRANGER, "00000-00000-00000-00000-00000"));
    }
    // Even the right one comes too late for somebody who guesses.
    stage.api.happen(message(9, STRANGER, &code.to_string()));
    stage.api.happen(message(10, STRANGER, "hello"));
    stage.api.confirmed(10).await;
    connector.stop().await;
    assert_eq!(stage.api.texts().len(), 5);
    assert_eq!(stage.noted()["allowed"], json!([]));
    assert!(stage.events().await.is_empty());
}

#[tokio::test]
async fn a_stranger_who_starts_is_told_his_id_and_nothing_more() {
    let stage = Stage::echoing().await;
    let connector = stage.connect();
    stage.api.happen(message(1, STRANGER, "/start"));
    stage.api.happen(message(2, STRANGER, "/status"));
    stage.api.happen(message(3, ADA, "/start"));
    let sent = stage.api.after("sendMessage", 2).await;
    connector.stop().await;
    assert!(sent[0]["text"].as_str().unwrap().contains("Your user id is 666"));
    assert!(sent[1]["text"].as_str().unwrap().contains("You are allowed"));
    assert!(stage.events().await.is_empty());
}

#[tokio::test]
async fn in_a_group_only_mentions_replies_and_commands_are_heard() {
    let stage = Stage::echoing().await;
    let connector = stage.connect();
    stage.api.happen(group_message(1, ADA, -100, json!({"text": "just talking"})));
    stage.api.happen(group_message(
        2,
        ADA,
        -100,
        json!({"text": "hey @cortex_bot",
        "entities": [{"type": "mention", "offset": 4, "length": 11}]}),
    ));
    stage.api.happen(group_message(
        3,
        ADA,
        -100,
        json!({"text": "and you?", "reply_to_message":
        {"message_id": 1, "chat": {"id": -100}, "from": {"id": BOT_ID}, "text": "before"}}),
    ));
    stage.api.happen(group_message(4, ADA, -100, json!({"text": "/status"})));
    stage.api.happen(group_message(5, ADA, -100, json!({"text": "/status@other_bot"})));
    stage.api.happen(group_message(6, STRANGER, -100, json!({"text": "/start"})));
    stage.api.confirmed(6).await;
    stage.api.after("sendMessage", 3).await;
    let events = stage.events().await;
    connector.stop().await;
    let ids: Vec<&str> = events.iter().map(|event| event["externalMessageId"].as_str().unwrap()).collect();
    assert_eq!(ids, ["tg-2", "tg-3"]);
    assert!(events.iter().all(|event| event["metadata"]["chatType"] == "group"), "{events:?}");
}

#[tokio::test]
async fn a_group_can_be_heard_whole_or_not_at_all() {
    let stage = Stage::echoing().await;
    let connector = stage.connect_as(Wish { groups: GroupPolicy::All, ..Wish::default() });
    stage.api.happen(group_message(1, ADA, -100, json!({"text": "just talking"})));
    stage.events_after(1).await;
    connector.stop().await;
    let connector = stage.connect_as(Wish { groups: GroupPolicy::Off, ..Wish::default() });
    stage.api.happen(group_message(2, ADA, -100, json!({"text": "/status"})));
    stage.api.confirmed(2).await;
    connector.stop().await;
    assert_eq!(stage.events().await.len(), 1);
}
