//! Slack against a workspace of our own: envelopes acknowledged when they are durable, threads, buttons, and nothing lost.

use crate::bot_api::Planned;
use crate::rules::asking;
use crate::slack_api::{APP_TOKEN, BOT_TOKEN, SlackApi};
use crate::stage::{FAST, RunningConnector, Stage};
use cortex_connectors::{ConnectorFailure, GroupPolicy, PaceRules, Rate, Slack, SlackSettings};
use cortex_testkit::{FrozenTime, ServerSetup, eventually};
use serde_json::{Value, json};
use std::time::Duration;

const ADA: &str = "UADA";
const STRANGER: &str = "UMALLORY";
/// A conversation of two.
const DIRECT: &str = "D0ADA";
const CHANNEL: &str = "C0GENERAL";

type SlackStage = Stage<SlackApi>;

async fn stage(setup: ServerSetup) -> SlackStage {
    Stage::on(SlackApi::start().await, setup).await
}

fn platform(stage: &SlackStage, bot: &str, app: &str, chat: Rate) -> Slack {
    Slack::new(SlackSettings {
        api_url: stage.api.url.clone(),
        file_bytes_max: 1_000,
        pace: PaceRules { chat, group: FAST, overall: FAST },
        ..SlackSettings::new(bot.to_owned().into(), app.to_owned().into())
    })
    .unwrap()
}

fn connect_at(stage: &SlackStage, chat: Rate) -> RunningConnector {
    stage.run(platform(stage, BOT_TOKEN, APP_TOKEN, chat), [ADA.to_owned()].into(), GroupPolicy::Mention)
}

fn connect(stage: &SlackStage) -> RunningConnector {
    connect_at(stage, FAST)
}

fn ids(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["externalMessageId"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_conversation_goes_both_ways() {
    let stage =
        stage(ServerSetup::scripted(json!({"otherwise": {"say": "**You** said: {{user}} & <more>"}}))).await;
    let connector = connect(&stage);
    stage.api.say(DIRECT, "1700000000.000100", ADA, "hello");
    let posted = stage.api.posted_after(1).await;
    stage.outbox_when("the delivery", |row| row["status"] == "delivered").await;
    stage.api.all_acknowledged().await;
    connector.stop().await;
    let event = &stage.events().await[0];
    assert_eq!((&event["topicKey"], &event["userId"]), (&json!(DIRECT), &json!("slack:UADA")));
    assert_eq!(event["externalMessageId"], "D0ADA-1700000000.000100");
    assert_eq!(event["occurredAt"], "2023-11-14T22:13:20.000Z");
    assert_eq!(event["metadata"]["chatType"], "private");
    let sent = &stage.api.ledger.calls("chat.postMessage")[0];
    assert_eq!(sent["text"], "*You* said: hello &amp; &lt;more&gt;");
    assert_eq!((&sent["channel"], &sent["unfurl_links"]), (&json!(DIRECT), &json!(false)));
    assert_eq!((&posted[0]["thread_ts"], &posted[0]["blocks"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn a_thread_is_a_topic_of_its_own_and_is_answered_there() {
    let stage = stage(ServerSetup::echoing()).await;
    let connector = connect(&stage);
    stage.api.event(
        json!({"type": "app_mention", "channel": CHANNEL, "ts": "5.0", "thread_ts": "1.5", "user": ADA,
        "text": "<@UBOT> in here"}),
    );
    let posted = stage.api.posted_after(1).await;
    connector.stop().await;
    let event = &stage.events().await[0];
    assert_eq!(
        (&event["topicKey"], &event["metadata"]["chatType"]),
        (&json!("C0GENERAL:1.5"), &json!("group"))
    );
    assert_eq!((&posted[0]["channel"], &posted[0]["thread_ts"]), (&json!(CHANNEL), &json!("1.5")));
    assert_eq!(posted[0]["text"], "You said: in here");
}

#[tokio::test]
async fn what_comes_twice_is_one_event() {
    let stage = stage(ServerSetup::echoing()).await;
    let connector = connect(&stage);
    let mention = "<@UBOT> hello";
    stage.api.say(CHANNEL, "1.0", ADA, mention);
    stage
        .api
        .event(json!({"type": "app_mention", "channel": CHANNEL, "ts": "1.0", "user": ADA, "text": mention}));
    stage.api.say(CHANNEL, "1.0", ADA, mention);
    stage.api.say(CHANNEL, "2.0", ADA, "nobody is meant");
    stage.api.say(CHANNEL, "3.0", ADA, "<@UBOT> again");
    stage.api.all_acknowledged().await;
    stage.api.posted_after(2).await;
    connector.stop().await;
    assert_eq!(ids(&stage.events().await), ["C0GENERAL-1.0", "C0GENERAL-3.0"]);
}

#[tokio::test]
async fn an_envelope_is_acknowledged_only_after_its_event_is_durable() {
    let stage = stage(ServerSetup::echoing()).await;
    stage.door.close();
    let connector = connect(&stage);
    let url = stage.api.put_file("a.png", b"x");
    let file = json!([{"name": "a.png", "mimetype": "image/png", "size": 1, "url_private": url}]);
    stage.api.event(
        json!({"type": "message", "subtype": "file_share", "channel": DIRECT, "ts": "1.0", "user": ADA,
        "text": "look", "files": file}),
    );
    // It has heard it, and cannot hand it in.
    stage.api.ledger.after("file", 1).await;
    assert_eq!(stage.api.acknowledged(), 0);
    connector.kill().await;
    let connector = connect(&stage);
    stage.door.open_to(stage.server.address());
    stage.api.all_acknowledged().await;
    let events = stage.events_after(1).await;
    connector.stop().await;
    assert_eq!(events.len(), 1);
}

#[tokio::test]
async fn a_line_that_is_cut_or_taken_away_loses_nothing() {
    let stage = stage(ServerSetup::echoing()).await;
    let connector = connect(&stage);
    stage.api.say(DIRECT, "1.0", ADA, "one");
    stage.api.posted_after(1).await;
    stage.api.cut();
    // Something that did not come from Slack is sent there, though nobody says anything.
    stage.api.ledger.after("apps.connections.open", 2).await;
    let event = json!({"source": "slack", "externalMessageId": "elsewhere", "idempotencyKey": "slack:elsewhere",
        "topicKey": DIRECT, "userId": "slack:UADA", "text": "two", "occurredAt": "2026-01-01T00:00:00Z"});
    stage.server.accept(&event).await;
    stage.api.posted_after(2).await;
    stage.api.send_away("refresh_requested");
    stage.api.say(DIRECT, "3.0", ADA, "three");
    stage.api.posted_after(3).await;
    stage.api.all_acknowledged().await;
    connector.stop().await;
    assert_eq!(stage.api.texts(), ["You said: one", "You said: two", "You said: three"]);
    assert!(stage.api.ledger.calls("apps.connections.open").len() >= 3);
}

#[tokio::test]
async fn a_stranger_changes_nothing_and_his_press_is_refused() {
    let stage = stage(asking()).await;
    let connector = connect(&stage);
    stage.api.say(CHANNEL, "1.0", ADA, "<@UBOT> stretch");
    let question = stage.api.posted_after(1).await.remove(0);
    stage.outbox_when("the question", |row| row["status"] == "delivered").await;
    let data = question["blocks"][2]["elements"][0]["value"].as_str().unwrap();
    stage.api.press(CHANNEL, question["ts"].as_str().unwrap(), STRANGER, data);
    stage.api.say(CHANNEL, "2.0", STRANGER, "<@UBOT> hello");
    stage.api.say(DIRECT, "3.0", STRANGER, "hello");
    stage.api.all_acknowledged().await;
    connector.stop().await;
    let refusals = stage.api.ledger.calls("chat.postEphemeral");
    assert_eq!(refusals, [json!({"channel": CHANNEL, "user": STRANGER, "text": "This is not for you."})]);
    assert_eq!(stage.events().await.len(), 1);
    assert_eq!(stage.jobs().await, 0);
}

#[tokio::test]
async fn a_button_approves_the_call_that_waits_and_is_taken_off() {
    let stage = stage(asking()).await;
    let connector = connect(&stage);
    stage.api.say(DIRECT, "1.0", ADA, "stretch");
    let question = stage.api.posted_after(1).await.remove(0);
    stage.outbox_when("the question", |row| row["status"] == "delivered").await;
    let labels: Vec<&Value> = question["blocks"][2]["elements"]
        .as_array()
        .unwrap()
        .iter()
        .map(|button| &button["text"]["text"])
        .collect();
    assert_eq!(labels, ["Approve", "Deny"]);
    assert_eq!(question["blocks"][0]["text"]["text"], question["text"]);
    let data = question["blocks"][2]["elements"][0]["value"].as_str().unwrap();
    stage.api.press(DIRECT, question["ts"].as_str().unwrap(), ADA, data);
    stage.api.posted_after(3).await;
    let update = stage.api.ledger.after("chat.update", 1).await.remove(0);
    connector.stop().await;
    assert_eq!(stage.api.texts()[1..], ["Approved: schedule.create runs now.", "There you are."]);
    assert_eq!(stage.jobs().await, 1);
    assert_eq!((&update["ts"], &update["text"]), (&question["ts"], &question["text"]));
    assert_eq!(update["blocks"].as_array().unwrap().len(), 2, "the question stays, the buttons go");
    assert!(stage.api.ledger.calls("chat.postEphemeral").is_empty());
}

#[tokio::test]
async fn edits_and_commands_say_what_they_are_and_odd_things_hold_up_nothing() {
    let stage = stage(ServerSetup::echoing()).await;
    let connector = connect(&stage);
    stage.api.event(json!({"type": "message", "subtype": "message_changed", "channel": DIRECT, "ts": "9.0",
        "message": {"user": ADA, "text": "at nine", "ts": "1.0", "edited": {"ts": "2.0"}},
        "previous_message": {"text": "at eight", "ts": "1.0"}}));
    stage.api.event(json!({"type": "message", "channel": {"odd": true}, "ts": 7}));
    stage.api.happen("something_new", json!({}));
    let command = json!({"command": "/cortex", "text": "hello", "user_id": ADA, "channel_id": CHANNEL, "trigger_id": "t1"});
    stage.api.happen("slash_commands", command);
    stage.api.all_acknowledged().await;
    let events = stage.events_after(2).await;
    connector.stop().await;
    assert_eq!(ids(&events), ["D0ADA-1.0-2.0", "command:t1"]);
    assert_eq!((&events[0]["text"], &events[1]["text"]), (&json!("[edited] at nine"), &json!("hello")));
}

#[tokio::test]
async fn files_are_fetched_with_the_token_from_slack_alone() {
    let stage = stage(ServerSetup::echoing()).await;
    let connector = connect(&stage);
    let good = stage.api.put_file("a.png", b"a picture");
    let big = stage.api.put_file("b.png", &[0; 2_000]);
    let file = |url: &str| json!({"name": "a.png", "mimetype": "image/png", "size": 9, "url_private": url});
    let files = json!([file(&good), file(&big), file("http://127.0.0.1:1/steal"), {"name": "foreign"}]);
    stage.api.event(
        json!({"type": "message", "subtype": "file_share", "channel": DIRECT, "ts": "1.0", "user": ADA,
        "text": "", "files": files}),
    );
    let events = stage.events_after(1).await;
    connector.stop().await;
    let attachments = events[0]["metadata"]["attachments"].as_array().unwrap();
    let path = stage.folder().join("files/D0ADA-1.0-0-a.png");
    assert_eq!(attachments[0], json!({"name": "a.png", "type": "image/png", "bytes": 9, "path": path}));
    assert!(attachments[1]["name"].as_str().unwrap().contains("larger than"), "{attachments:?}");
    for index in [2, 3] {
        assert!(attachments[index]["name"].as_str().unwrap().contains("the platform did not give it"));
    }
}

#[tokio::test]
async fn a_flood_wait_is_waited_for_and_the_message_arrives_once() {
    let stage = stage(ServerSetup::echoing()).await;
    let wait = json!({"ok": false, "error": "ratelimited", "retry_after": 1});
    stage.api.ledger.plan("chat.postMessage", Planned::Cut);
    stage.api.ledger.plan("chat.postMessage", Planned::Refusal(429, wait));
    let connector = connect(&stage);
    stage.api.say(DIRECT, "1.0", ADA, "hello");
    let row = stage.outbox_when("the delivery", |row| row["status"] == "delivered").await;
    connector.stop().await;
    assert_eq!(row["attempts"], 3);
    let calls = stage.api.ledger.calls("chat.postMessage");
    assert!(calls.iter().all(|call| call["client_msg_id"] == calls[0]["client_msg_id"]), "{calls:?}");
    assert_eq!(stage.api.texts(), ["You said: hello"]);
}

#[tokio::test]
async fn a_channel_that_is_gone_is_a_dead_letter() {
    let stage = stage(ServerSetup::echoing()).await;
    stage
        .api
        .ledger
        .plan("chat.postMessage", Planned::Refusal(200, json!({"ok": false, "error": "is_archived"})));
    let connector = connect(&stage);
    stage.api.say(DIRECT, "1.0", ADA, "hello");
    let row = stage.outbox_when("the dead letter", |row| row["status"] == "dead").await;
    connector.stop().await;
    assert!(row["lastError"].as_str().unwrap().contains("is_archived"), "{row}");
    assert_eq!(row["attempts"], 1);
}

#[tokio::test]
async fn blocks_that_are_refused_go_out_as_plain_text_with_their_buttons() {
    let stage = stage(asking()).await;
    stage
        .api
        .ledger
        .plan("chat.postMessage", Planned::Refusal(200, json!({"ok": false, "error": "invalid_blocks"})));
    let connector = connect(&stage);
    stage.api.say(DIRECT, "1.0", ADA, "stretch");
    let posted = stage.api.posted_after(1).await;
    connector.stop().await;
    assert_eq!(posted[0]["blocks"][0]["text"]["type"], "plain_text");
    assert_eq!(posted[0]["blocks"][1]["elements"][0]["text"]["text"], "Approve");
    assert_eq!(posted[0]["mrkdwn"], false);
}

#[tokio::test]
async fn wrong_tokens_and_a_socket_that_is_off_end_the_connector_with_what_to_do() {
    let stage = stage(ServerSetup::echoing()).await;
    for (bot, app) in [("xoxb-wrong", APP_TOKEN), (BOT_TOKEN, "xapp-wrong")] {
        let connector =
            stage.run(platform(&stage, bot, app, FAST), [ADA.to_owned()].into(), GroupPolicy::Mention);
        let ConnectorFailure::Misconfigured(told) = connector.ended().await else { panic!("misconfigured") };
        assert!(told.contains("connectors.slack.token and appToken"), "{told}");
        assert!(!told.contains("wrong"), "{told}");
    }
    stage.api.send_away("link_disabled");
    let ConnectorFailure::Misconfigured(told) = connect(&stage).ended().await else {
        panic!("misconfigured")
    };
    assert!(told.contains("Socket Mode is switched off"), "{told}");
}

#[tokio::test]
async fn tokens_that_are_none_are_told_at_once() {
    for (bot, app, setting) in [("", APP_TOKEN, "token"), (BOT_TOKEN, BOT_TOKEN, "appToken")] {
        let made = Slack::new(SlackSettings::new(bot.to_owned().into(), app.to_owned().into()));
        let told = made.unwrap_err().to_string();
        assert!(told.starts_with(&format!("connectors.slack.{setting} ")), "{told}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connector_killed_between_two_parts_goes_on_with_the_second() {
    let text = format!("{}\n\n{}", "first ".repeat(450).trim_end(), "second ".repeat(350).trim_end());
    let time = FrozenTime::hold();
    let stage = stage(ServerSetup::scripted(json!({"otherwise": {"say": text}})).at(&time)).await;
    let connector = connect_at(&stage, Rate { count: 1, per: Duration::from_secs(3600) });
    stage.api.say(DIRECT, "1.0", ADA, "tell me");
    eventually("the first part to be noted", async || {
        time.advance(Duration::from_millis(20)).await;
        stage.noted()["begun"].as_object().filter(|begun| begun.len() == 1).map(drop)
    })
    .await;
    connector.kill().await;
    assert_eq!(stage.api.texts().len(), 1);
    let connector = connect(&stage);
    eventually("the second part", async || {
        // The lease of the first delivery has to run out.
        time.advance(Duration::from_millis(500)).await;
        (stage.api.texts().len() == 2).then_some(())
    })
    .await;
    connector.kill().await;
    let texts = stage.api.texts();
    assert!(texts[0].starts_with("first ") && texts[1].starts_with("second "), "{texts:?}");
    assert_eq!(texts.len(), 2, "no part was sent twice");
}
