//! Nothing lost, nothing twice: kills between parts, servers that are away, updates that come again.

use crate::bot_api::{Planned, message};
use crate::stage::{ADA, Stage, Wish};
use cortex_connectors::Rate;
use cortex_testkit::{FrozenTime, ServerSetup, eventually};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// One answer that needs two parts.
fn two_parts() -> ServerSetup {
    let text = format!("{}\n\n{}", "first ".repeat(600).trim_end(), "second ".repeat(500).trim_end());
    ServerSetup::scripted(json!({ "otherwise": { "say": text } }))
}

#[tokio::test(start_paused = true)]
async fn a_connector_killed_between_two_parts_goes_on_with_the_second() {
    let time = FrozenTime::hold();
    let stage = Stage::with(two_parts().at(&time)).await;
    let hour = Rate { count: 1, per: Duration::from_secs(3600) };
    let connector = stage.connect_as(Wish { chat_pace: hour, ..Wish::default() });
    stage.api.happen(message(1, ADA, "tell me"));
    eventually("the first part to be noted", async || {
        time.advance(Duration::from_millis(20)).await;
        stage.noted()["begun"].as_object().filter(|begun| begun.len() == 1).map(drop)
    })
    .await;
    connector.kill().await;
    assert_eq!(stage.api.texts().len(), 1);
    let connector = stage.connect();
    eventually("the second part", async || {
        // The lease of the first delivery has to run out.
        time.advance(Duration::from_secs(2)).await;
        (stage.api.texts().len() == 2).then_some(())
    })
    .await;
    eventually("the delivery", async || {
        time.advance(Duration::from_millis(20)).await;
        let rows = stage.server.get("/api/v2/outbox").await.json();
        (rows["items"][0]["status"] == "delivered").then_some(())
    })
    .await;
    connector.kill().await;
    let texts = stage.api.texts();
    assert!(texts[0].starts_with("first ") && texts[1].starts_with("second "), "{texts:?}");
    assert_eq!(texts.len(), 2, "no part was sent twice");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_outlives_its_lease_is_not_overtaken_by_the_next_of_its_topic() {
    let time = FrozenTime::hold();
    let text =
        ["first ", "second ", "third "].map(|word| word.repeat(3_600 / word.len()).trim_end().to_owned());
    let say = ServerSetup::scripted(json!({ "otherwise": { "say": text.join("\n\n") } }));
    let stage = Stage::with(say.at(&time)).await;
    // Longer than a lease.
    let slow = Rate { count: 1, per: Duration::from_secs(400) };
    let connector = stage.connect_as(Wish { chat_pace: slow, ..Wish::default() });
    for (update, answers) in [(1, 1), (2, 2)] {
        stage.api.happen(message(update, ADA, "tell me"));
        eventually("the answer", async || {
            time.advance(Duration::from_millis(20)).await;
            let rows = stage.server.get("/api/v2/outbox").await.json();
            (rows["items"].as_array().unwrap().len() == answers).then_some(())
        })
        .await;
    }
    eventually("all parts of both", async || {
        time.advance(Duration::from_secs(2)).await;
        (stage.api.texts().len() >= 6).then_some(())
    })
    .await;
    connector.kill().await;
    let words: Vec<String> =
        stage.api.texts().iter().map(|text| text.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(words, ["first", "second", "third", "first", "second", "third"]);
}

#[tokio::test]
async fn a_part_that_was_sent_but_cannot_be_noted_is_not_sent_again() {
    let stage = Stage::echoing().await;
    let released = Arc::new(Notify::new());
    stage.api.plan("sendMessage", Planned::Hold(Arc::clone(&released)));
    let connector = stage.connect();
    stage.api.happen(message(1, ADA, "hello"));
    stage.api.after("sendMessage", 1).await;
    stage.api.confirmed(1).await;
    std::fs::create_dir(stage.folder().join("state.next")).unwrap();
    released.notify_one();
    let row = stage.outbox_when("the ack", |row| row["status"] == "delivered").await;
    connector.stop().await;
    assert_eq!((&row["attempts"], stage.api.texts().len()), (&json!(1), 1));
}

#[tokio::test]
async fn a_connector_that_stops_finishes_the_part_in_hand_and_gives_the_rest_back() {
    let stage = Stage::with(two_parts()).await;
    let hour = Rate { count: 1, per: Duration::from_secs(3600) };
    let connector = stage.connect_as(Wish { chat_pace: hour, ..Wish::default() });
    stage.api.happen(message(1, ADA, "tell me"));
    stage.api.after("sendMessage", 1).await;
    connector.stop().await;
    stage.outbox_when("the rest to be given back", |row| row["status"] == "pending").await;
    let connector = stage.connect();
    stage.outbox_when("the delivery", |row| row["status"] == "delivered").await;
    connector.stop().await;
    assert_eq!(stage.api.texts().len(), 2);
}

#[tokio::test]
async fn what_is_said_while_the_server_is_away_is_all_there_afterwards_and_once() {
    let mut stage = Stage::echoing().await;
    let connector = stage.connect();
    stage.api.happen(message(1, ADA, "before"));
    stage.api.after("sendMessage", 1).await;
    stage.door.close();
    stage.server.stop().await;
    for update in 2..=21 {
        stage.api.happen(message(update, ADA, &format!("while away {update}")));
    }
    stage.server.restart().await;
    stage.door.open_to(stage.server.address());
    let events = stage.events_after(21).await;
    stage.api.after("sendMessage", 21).await;
    stage.api.confirmed(21).await;
    connector.stop().await;
    assert_eq!(events.len(), 21);
    let order: Vec<String> = (1..=21).map(|update| format!("tg-{update}")).collect();
    let seen: Vec<&str> = events.iter().map(|event| event["externalMessageId"].as_str().unwrap()).collect();
    assert_eq!(seen, order);
    let mut texts = stage.api.texts();
    assert_eq!(texts.len(), 21, "each answered once");
    texts.dedup();
    assert_eq!(texts.len(), 21);
    assert_eq!(texts[20], "You said: while away 21", "in order");
}

#[tokio::test]
async fn an_update_that_comes_again_is_heard_once() {
    let stage = Stage::echoing().await;
    let connector = stage.connect();
    stage.api.happen(message(1, ADA, "hello"));
    stage.api.happen(message(1, ADA, "hello"));
    stage.api.happen(message(2, ADA, "/new"));
    stage.api.happen(message(2, ADA, "/new"));
    stage.api.happen(message(3, ADA, "again"));
    stage.api.confirmed(3).await;
    let events = stage.events_after(2).await;
    stage.api.after("sendMessage", 3).await;
    connector.stop().await;
    let topics: Vec<Value> = events.iter().map(|event| event["topicKey"].clone()).collect();
    assert_eq!(topics, ["42", "42#2"], "one message, one new conversation");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_was_sent_but_not_acknowledged_is_not_sent_again() {
    let time = FrozenTime::hold();
    let stage = Stage::with(ServerSetup::echoing().at(&time)).await;
    let released = Arc::new(Notify::new());
    stage.api.plan("sendMessage", Planned::Hold(Arc::clone(&released)));
    let connector = stage.connect();
    stage.api.happen(message(1, ADA, "hello"));
    eventually("the message to be sent", async || {
        time.advance(Duration::from_millis(20)).await;
        (stage.api.texts().len() == 1).then_some(())
    })
    .await;
    // The ack finds no server, and then the process is gone.
    stage.door.close();
    released.notify_one();
    eventually("the delivery to be noted", async || {
        stage.noted()["delivered"].as_array().filter(|delivered| delivered.len() == 1).map(drop)
    })
    .await;
    connector.kill().await;
    stage.door.open_to(stage.server.address());
    let connector = stage.connect();
    let row = eventually("the ack", async || {
        time.advance(Duration::from_secs(2)).await;
        let rows = stage.server.get("/api/v2/outbox").await.json();
        Some(rows["items"][0].clone()).filter(|row| row["status"] == "delivered")
    })
    .await;
    connector.kill().await;
    assert_eq!(row["attempts"], 2, "it was handed out twice");
    assert_eq!(stage.api.texts().len(), 1, "and sent once");
}

#[tokio::test]
async fn a_broken_answer_is_tried_again_and_a_broken_poll_loses_nothing() {
    let stage = Stage::echoing().await;
    stage.api.plan("getUpdates", Planned::Cut);
    stage.api.plan("sendMessage", Planned::refusal(502, "Bad Gateway", json!({})));
    stage.api.happen(message(1, ADA, "hello"));
    let connector = stage.connect();
    let row = stage.outbox_when("the delivery", |row| row["status"] == "delivered").await;
    connector.stop().await;
    assert_eq!(row["attempts"], 2);
    assert_eq!(stage.api.texts(), ["You said: hello", "You said: hello"], "refused once, taken once");
}

#[tokio::test]
async fn a_flood_wait_holds_its_topic_in_order_and_no_other() {
    let stage = Stage::with(ServerSetup::echoing()).await;
    let wait = Planned::refusal(429, "Too Many Requests", json!({"retry_after": 1}));
    stage.api.plan("sendMessage", wait);
    let connector = stage.connect_as(Wish { allow: vec![ADA, 43], ..Wish::default() });
    for update in 1..=3 {
        stage.api.happen(message(update, ADA, &format!("to ada {update}")));
    }
    stage.events_after(3).await;
    stage.api.after("sendMessage", 1).await;
    stage.api.happen(message(9, 43, "to bob"));
    stage.api.after("sendMessage", 5).await;
    eventually("everything to be delivered", async || {
        let rows = stage.server.get("/api/v2/outbox").await.json();
        rows["items"].as_array().unwrap().iter().all(|row| row["status"] == "delivered").then_some(())
    })
    .await;
    connector.stop().await;
    let to_ada: Vec<String> = stage
        .api
        .calls("sendMessage")
        .iter()
        .filter(|sent| sent["chat_id"] == ADA)
        .map(|sent| sent["text"].as_str().unwrap().to_owned())
        .collect();
    let expected: Vec<String> = [1, 1, 2, 3].iter().map(|n| format!("You said: to ada {n}")).collect();
    assert_eq!(to_ada, expected);
}

#[tokio::test]
async fn a_platform_that_is_away_costs_no_attempts() {
    let stage = Stage::echoing().await;
    for _ in 0..2 {
        stage.api.plan("getUpdates", Planned::refusal(502, "Bad Gateway", json!({})));
    }
    let connector = stage.connect();
    stage.api.after("getUpdates", 1).await;
    let event = json!({"source": "telegram", "externalMessageId": "by hand", "idempotencyKey": "x", "topicKey": "42",
        "userId": "tg:42", "text": "hello", "occurredAt": "2026-02-15T20:30:00Z"});
    stage.server.accept(&event).await;
    let row = stage.outbox_when("the delivery", |row| row["status"] == "delivered").await;
    connector.stop().await;
    assert_eq!(row["attempts"], 1);
    let methods = stage.api.methods();
    let sent = methods.iter().position(|method| method == "sendMessage").unwrap();
    let polls = methods[..sent].iter().filter(|method| *method == "getUpdates").count();
    assert!(polls >= 3, "nothing was tried before the platform was back: {methods:?}");
}

#[tokio::test]
async fn a_connector_that_was_killed_delivers_what_it_held_as_soon_as_it_is_back() {
    let stage = Stage::echoing().await;
    let connector = stage.connect();
    stage.api.plan("sendMessage", Planned::Hold(Arc::default()));
    stage.api.happen(message(1, ADA, "one"));
    stage.api.after("sendMessage", 1).await;
    let held = stage.outbox_when("the lease", |row| row["status"] == "leased").await;
    connector.kill().await;
    // Its lease has minutes to go; nobody waits for them.
    let connector = stage.connect();
    let sent = stage.api.after("sendMessage", 2).await;
    let row = stage.outbox_when("the delivery", |row| row["status"] == "delivered").await;
    connector.stop().await;
    assert_eq!(sent[1]["text"], "You said: one");
    assert_eq!((&row["messageId"], &row["attempts"]), (&held["messageId"], &2.into()));
}
