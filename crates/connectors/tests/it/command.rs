//! The commands that the connector itself understands.

use crate::bot_api::message;
use crate::rules::asking;
use crate::stage::{ADA, Stage};
use cortex_testkit::eventually;
use serde_json::Value;

#[tokio::test]
async fn a_new_conversation_has_a_topic_of_its_own_and_is_answered_in_the_same_chat() {
    let stage = Stage::echoing().await;
    let connector = stage.connect();
    stage.api.happen(message(1, ADA, "one"));
    stage.api.after("sendMessage", 1).await;
    stage.api.happen(message(2, ADA, "/new"));
    stage.api.happen(message(3, ADA, "two"));
    let sent = stage.api.after("sendMessage", 3).await;
    connector.stop().await;
    assert_eq!(sent[2]["text"], "You said: two");
    assert!(sent.iter().all(|sent| sent["chat_id"] == ADA));
    let topics: Vec<Value> = stage.events().await.iter().map(|event| event["topicKey"].clone()).collect();
    assert_eq!(topics, ["42", "42#2"]);
}

/// Waits until the connector knows of so many open questions.
async fn open_questions(stage: &Stage, count: usize) {
    eventually(format!("{count} open questions"), async || {
        let prompts = stage.noted()["prompts"].as_array().map_or(0, Vec::len);
        (prompts == count).then_some(())
    })
    .await;
}

#[tokio::test]
async fn approve_presses_the_only_button_and_asks_which_when_there_are_two() {
    let stage = Stage::with(asking()).await;
    let connector = stage.connect();
    stage.api.happen(message(1, ADA, "/approve"));
    assert_eq!(stage.api.after("sendMessage", 1).await[0]["text"], "Nothing is asked here.");
    stage.api.happen(message(2, ADA, "stretch"));
    open_questions(&stage, 1).await;
    // The question is still its own when another conversation began meanwhile.
    stage.api.happen(message(3, ADA, "/new"));
    stage.api.happen(message(4, ADA, "/approve"));
    open_questions(&stage, 0).await;
    stage.api.after("sendMessage", 5).await;
    assert!(stage.api.texts().contains(&"There you are.".to_owned()), "{:?}", stage.api.texts());
    stage.api.happen(message(5, ADA, "stretch"));
    open_questions(&stage, 1).await;
    stage.api.happen(message(6, ADA, "/new"));
    stage.api.happen(message(7, ADA, "stretch"));
    open_questions(&stage, 2).await;
    stage.api.happen(message(8, ADA, "/approve"));
    let which = &stage.api.after("sendMessage", 9).await[8]["text"];
    let which = which.as_str().unwrap();
    assert!(which.starts_with("Which one?") && which.contains("/approve with its number"), "{which}");
    assert!(!which.contains("apr_"), "no token is shown");
    assert!(which.contains("\n2. ") && which.contains("\n3. "), "a number stays with its question: {which}");
    stage.api.happen(message(9, ADA, "/approve 3"));
    open_questions(&stage, 1).await;
    stage.api.happen(message(10, ADA, "/stop"));
    open_questions(&stage, 0).await;
    connector.stop().await;
    assert_eq!(stage.api.calls("editMessageReplyMarkup").len(), 3);
    let answers: Vec<Value> = stage.server.get("/api/v2/approvals?all=true").await.json()["items"]
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .map(|row| row["status"].clone())
        .collect();
    assert_eq!(answers, ["approved", "denied", "approved"]);
}

#[tokio::test]
async fn approve_presses_no_question_that_came_later_or_that_another_number_stood_for() {
    let stage = Stage::with(asking()).await;
    let connector = stage.connect();
    let old = |id: i64, text: &str| {
        let mut said = message(id, ADA, text);
        said["message"]["date"] = 1_700_000_000.into();
        said
    };
    stage.api.happen(message(1, ADA, "stretch"));
    open_questions(&stage, 1).await;
    // Typed for a question that is closed by now, and heard when another one is there.
    stage.api.happen(old(2, "/approve"));
    let told = stage.api.after("sendMessage", 2).await[1]["text"].as_str().unwrap().to_owned();
    assert!(told.starts_with("This question came after your /approve: "), "{told}");
    stage.api.happen(old(3, "/approve 1"));
    let told = stage.api.after("sendMessage", 3).await[2]["text"].as_str().unwrap().to_owned();
    assert!(told.starts_with("This question came after your /approve: "), "{told}");
    stage.api.happen(message(4, ADA, "/approve 1"));
    open_questions(&stage, 0).await;
    stage.api.happen(message(5, ADA, "/new"));
    stage.api.happen(message(6, ADA, "stretch"));
    open_questions(&stage, 1).await;
    let sent = stage.api.calls("sendMessage").len();
    stage.api.happen(message(7, ADA, "/approve 1"));
    let told = stage.api.after("sendMessage", sent + 1).await[sent]["text"].as_str().unwrap().to_owned();
    assert!(told.starts_with("There is no open question 1 here. Which one?"), "{told}");
    connector.stop().await;
    let rows = stage.server.get("/api/v2/approvals?all=true").await.json()["items"].clone();
    let states: Vec<&Value> = rows.as_array().unwrap().iter().map(|row| &row["status"]).collect();
    assert_eq!(states, ["pending", "approved"]);
}

#[tokio::test]
async fn status_tells_whether_the_server_is_there() {
    let stage = Stage::echoing().await;
    let connector = stage.connect();
    stage.api.happen(message(1, ADA, "/status"));
    let sent = stage.api.after("sendMessage", 1).await;
    assert_eq!(sent[0]["text"], "The server is there and well.\nConversation: 42\nOpen questions here: 0");
    stage.door.close();
    stage.api.happen(message(2, ADA, "/status"));
    let sent = stage.api.after("sendMessage", 2).await;
    assert!(sent[1]["text"].as_str().unwrap().starts_with("The server does not answer."));
    stage.api.happen(message(3, ADA, "/help"));
    assert!(stage.api.after("sendMessage", 3).await[2]["text"].as_str().unwrap().contains("/approve"));
    stage.door.open_to(stage.server.address());
    stage.api.happen(message(4, ADA, "/unknown to us"));
    let events = stage.events_after(1).await;
    connector.stop().await;
    assert_eq!(events[0]["text"], "/unknown to us", "what is no command is said to the assistant");
}
