//! What people see over a connector: answers while they grow, questions with buttons.

use cortex_testkit::{ServerSetup, TestConnector, eventually, said_over};
use serde_json::{Value, json};

/// Previews that one key may have at once.
const PREVIEWS: usize = 64;

#[tokio::test]
async fn a_session_that_asked_for_it_sees_the_answer_grow() {
    let script = json!({ "otherwise": { "deltas": ["one ", "two ", "three ", "four ", "five ", "six"], "delayMs": 50 } });
    let server = ServerSetup::scripted(script).start().await;
    let mut connector = TestConnector::connect(&server, "?stream=1").await;
    connector.send(&said_over("m", "c", "7", "count")).await;
    let mut grown = String::new();
    let outbound = loop {
        let event = connector.event().await;
        if event["type"] == "assistant.message.outbound" {
            break event;
        }
        assert_eq!(event["type"], "assistant.message.delta", "{event}");
        assert_eq!(event["causationid"], "7");
        assert_eq!(event["data"]["connectorId"], "m");
        assert_eq!(event["data"]["conversationId"], "c");
        grown.push_str(event["data"]["text"].as_str().unwrap());
    };
    assert_eq!(outbound["data"]["text"], "one two three four five six");
    assert!(!grown.is_empty() && "one two three four five six".starts_with(&grown), "{grown:?}");
    let mut silent = TestConnector::connect(&server, "").await;
    silent.send(&said_over("other", "c", "7", "count")).await;
    assert_eq!(silent.event().await["type"], "assistant.message.outbound", "nobody asked for deltas here");
}

/// How many pieces of the answer to this event are shown before it is whole.
async fn shown_until(connector: &mut TestConnector, id: &str) -> usize {
    let mut pieces = 0;
    loop {
        let event = connector.event().await;
        match event["type"].as_str().unwrap() {
            "assistant.message.delta" => pieces += usize::from(event["causationid"] == id),
            _ if event["causationid"] == id => return pieces,
            _ => {}
        }
    }
}

#[tokio::test]
async fn previews_of_one_key_are_bounded_and_every_answer_still_comes() {
    let script = json!({
        "answers": [
            { "when": { "contains": "hold" }, "deltas": ["a", "b"], "delayMs": 3_600_000 },
            { "when": { "contains": "count" }, "deltas": ["one ", "two ", "three"], "delayMs": 50 },
        ],
        "otherwise": { "say": "ok" },
    });
    let server = ServerSetup::scripted(script).start().await;
    // One answer takes an hour, and all others of its conversation wait behind it: each is watched for as long.
    let mut first = TestConnector::of_owner(&server, "?stream=1").await;
    let mut second = TestConnector::of_owner(&server, "?stream=1").await;
    for number in 0..PREVIEWS / 2 {
        first.send(&said_over("m", "held", &format!("a{number}"), "hold")).await;
        second.send(&said_over("m", "held", &format!("b{number}"), "hold")).await;
    }
    // A pong comes behind everything that was sent before.
    first.so_far().await;
    second.so_far().await;
    first.send(&said_over("m", "other", "x1", "count")).await;
    assert_eq!(shown_until(&mut first, "x1").await, 0, "there is no room for one more");
    let mut stranger = TestConnector::connect(&server, "?stream=1").await;
    stranger.send(&said_over("n", "other", "s1", "count")).await;
    assert!(shown_until(&mut stranger, "s1").await > 0, "what one key holds is nothing to others");
    // Whoever goes makes room.
    drop(second);
    let mut number = 1;
    let pieces = loop {
        number += 1;
        let id = format!("x{number}");
        first.send(&said_over("m", "other", &id, "count")).await;
        let pieces = shown_until(&mut first, &id).await;
        if pieces > 0 || number > 100 {
            break pieces;
        }
    };
    assert!(pieces > 0);
}

fn asking() -> ServerSetup {
    let arguments = json!({ "cron": "0 9 * * *", "what": "stretch", "timezone": "UTC" });
    let call = json!({ "name": "schedule.create", "arguments": arguments });
    ServerSetup::scripted(json!({
        "answers": [{ "when": { "afterTool": "schedule.create" }, "say": "There you are." }],
        "otherwise": { "toolCalls": [call] },
    }))
}

async fn jobs(server: &cortex_testkit::RunningTestServer) -> usize {
    server.get("/api/v2/schedules").await.json()["items"].as_array().unwrap().len()
}

#[tokio::test]
async fn a_question_has_buttons_and_a_click_approves_it() {
    for by_metadata in [false, true] {
        let server = asking().start().await;
        let mut connector = TestConnector::of_owner(&server, "").await;
        connector.send(&said_over("m", "c", "1", "stretch daily")).await;
        let question = connector.event().await;
        let buttons = question["data"]["payload"]["buttons"].as_array().unwrap();
        assert_eq!(
            buttons.iter().map(|button| button["label"].clone()).collect::<Vec<_>>(),
            ["Approve", "Deny"]
        );
        let data = buttons[0]["data"].as_str().unwrap();
        let typed = format!("To answer, send {data} or {}", buttons[1]["data"].as_str().unwrap());
        let text = question["data"]["text"].as_str().unwrap();
        assert!(text.ends_with(&typed), "a client without buttons has the words to type: {text}");
        let mut click = said_over("m", "c", "2", if by_metadata { "Approve" } else { data });
        if by_metadata {
            click["data"]["metadata"] = json!({ "messageType": "button_click", "data": data });
        }
        connector.send(&click).await;
        let said = [connector.event().await, connector.event().await];
        assert_eq!(said[1]["data"]["text"], "There you are.", "{said:?}");
        assert_eq!(jobs(&server).await, 1);
    }
}

#[tokio::test]
async fn a_strangers_click_changes_nothing() {
    let server = asking().start().await;
    let mut connector = TestConnector::of_owner(&server, "").await;
    let mut asked = said_over("m", "c", "1", "stretch daily");
    asked["data"]["userId"] = json!("ada");
    connector.send(&asked).await;
    let question = connector.event().await;
    let data = question["data"]["payload"]["buttons"][0]["data"].as_str().unwrap();
    let mut stranger = said_over("m", "c", "2", data);
    stranger["data"]["userId"] = json!("eve");
    connector.send(&stranger).await;
    let told = connector.event().await;
    assert!(told["data"]["text"].as_str().unwrap().contains("not yours"), "{told}");
    let mut other = TestConnector::of_owner(&server, "").await;
    other.send(&said_over("other", "c", "3", data)).await;
    other.event().await;
    assert_eq!(jobs(&server).await, 0);
    let open = server.get("/api/v2/approvals").await.json();
    assert_eq!(open["items"].as_array().unwrap().len(), 1, "it is still open: {open}");
}

#[tokio::test]
async fn urgent_metadata_is_kept_and_attachments_are_told() {
    let server = ServerSetup::echoing().start().await;
    let mut connector = TestConnector::of_owner(&server, "").await;
    let mut event = said_over("m", "c", "1", "look");
    event["data"]["metadata"] = json!({ "priority": "urgent" });
    event["data"]["attachments"] = json!([{ "name": "cat.png", "type": "image/png" }]);
    connector.send(&event).await;
    connector.event().await;
    let row = eventually("the row", async || {
        let rows = server.get("/api/v2/inbox").await.json();
        rows["items"].get(0).cloned()
    })
    .await;
    assert_eq!(row["priority"], "urgent", "{row}");
    let expected: Value = json!([{ "name": "cat.png", "type": "image/png" }]);
    assert_eq!(row["metadata"]["attachments"], expected);
}
