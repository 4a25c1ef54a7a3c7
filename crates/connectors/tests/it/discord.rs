//! Discord against a gateway of our own: sessions taken up again, buttons, strangers, and nothing lost.

use crate::bot_api::Planned;
use crate::discord_api::{Cut, DiscordApi, ME, TOKEN};
use crate::rules::asking;
use crate::stage::{FAST, RunningConnector, Stage};
use cortex_connectors::{ConnectorFailure, Discord, DiscordSettings, GroupPolicy, PaceRules, Rate};
use cortex_testkit::{FrozenTime, ServerSetup, eventually};
use serde_json::{Value, json};
use std::time::Duration;

const ADA: &str = "42";
const STRANGER: &str = "666";
/// A conversation of two.
const DIRECT: &str = "500";
const CHANNEL: &str = "600";

type DiscordStage = Stage<DiscordApi>;

async fn stage(setup: ServerSetup) -> DiscordStage {
    Stage::on(DiscordApi::start().await, setup).await
}

fn platform(stage: &DiscordStage, token: &str, chat: Rate) -> Discord {
    Discord::new(DiscordSettings {
        api_url: stage.api.url.clone(),
        file_bytes_max: 1_000,
        pace: PaceRules { chat, group: chat, overall: FAST },
        ..DiscordSettings::new(token.to_owned().into())
    })
    .unwrap()
}

fn connect_at(stage: &DiscordStage, chat: Rate) -> RunningConnector {
    stage.run(platform(stage, TOKEN, chat), [ADA.to_owned()].into(), GroupPolicy::Mention)
}

/// A connector whose session has begun, so that what happens from now on is heard.
async fn connected(stage: &DiscordStage) -> RunningConnector {
    let connector = connect_at(stage, FAST);
    begun(stage).await;
    connector
}

/// The session is noted.
async fn begun(stage: &DiscordStage) {
    eventually("the session to be noted", async || stage.noted()["cursor"].as_str().map(drop)).await;
}

fn direct(id: &str, user: &str, text: &str) -> Value {
    json!({"id": id, "channel_id": DIRECT, "content": text, "author": {"id": user, "username": format!("user {user}")}})
}

/// Said in a guild, to the bot.
fn mention(id: &str, user: &str, text: &str) -> Value {
    json!({"id": id, "channel_id": CHANNEL, "guild_id": "7", "content": format!("<@{ME}> {text}"),
        "author": {"id": user, "username": "somebody"}, "mentions": [{"id": ME, "username": "cortex"}]})
}

/// The numbers of the session that the notes know.
fn noted_seq(stage: &DiscordStage) -> u64 {
    let cursor: Value = serde_json::from_str(stage.noted()["cursor"].as_str().unwrap()).unwrap();
    cursor["seq"].as_u64().unwrap()
}

fn ids(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["externalMessageId"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_conversation_goes_both_ways_and_somebody_is_seen_writing() {
    let stage = stage(ServerSetup::echoing()).await;
    let connector = connected(&stage).await;
    stage.api.say(direct("175928847299117063", ADA, "hello"));
    stage.api.posted_after(1).await;
    let typing = stage.api.ledger.after("typing", 1).await;
    stage.outbox_when("the delivery", |row| row["status"] == "delivered").await;
    connector.stop().await;
    let event = &stage.events().await[0];
    assert_eq!((&event["topicKey"], &event["userId"]), (&json!(DIRECT), &json!("discord:42")));
    assert_eq!(event["occurredAt"], "2016-04-30T11:18:25.796Z");
    assert_eq!(event["metadata"]["chatType"], "private");
    let sent = &stage.api.ledger.calls("post")[0];
    assert_eq!(sent["path"], "/channels/500/messages");
    let nonce = sent["body"]["nonce"].as_str().unwrap();
    assert!(nonce.len() <= 25, "{nonce}");
    assert_eq!(
        sent["body"],
        json!({"content": "You said: hello", "nonce": nonce, "enforce_nonce": true, "flags": 4,
            "allowed_mentions": {"parse": []}})
    );
    assert_eq!(typing[0]["path"], "/channels/500/typing");
    let identify = &stage.api.ledger.calls("identify")[0];
    assert_eq!(identify["intents"], 1 | 1 << 9 | 1 << 12 | 1 << 15);
}

#[tokio::test]
async fn in_a_guild_only_what_is_meant_for_us_is_heard_and_a_thread_is_a_channel() {
    let stage = stage(ServerSetup::echoing()).await;
    let connector = connected(&stage).await;
    let mut talk = mention("1", ADA, "just talking");
    talk["mentions"] = json!([]);
    stage.api.say(talk);
    let mut in_thread = mention("2", ADA, "in the thread");
    in_thread["channel_id"] = json!("777");
    stage.api.say(in_thread);
    let posted = stage.api.posted_after(1).await;
    let said = posted[0]["content"].clone();
    let reply = json!({"id": "3", "channel_id": "777", "guild_id": "7", "content": "why?", "type": 19,
        "author": {"id": ADA, "username": "ada"}, "referenced_message":
        {"id": "1", "channel_id": "777", "content": said, "author": {"id": ME, "username": "cortex"}}});
    stage.api.say(reply);
    let mut edited = mention("2", ADA, "in that thread");
    edited["edited_timestamp"] = json!("2026-01-01T00:00:00Z");
    stage.api.dispatch("MESSAGE_UPDATE", edited);
    stage.api.dispatch("MESSAGE_CREATE", json!({"id": ["odd"]}));
    stage.api.say(mention("4", ADA, "!status"));
    let events = stage.events_after(3).await;
    stage.api.posted_after(4).await;
    connector.stop().await;
    assert_eq!(posted[0]["channel_id"], "777");
    assert_eq!(ids(&events), ["2", "3", "2-2026-01-01T00:00:00Z"]);
    assert_eq!(events[0]["topicKey"], "777");
    assert!(events.iter().all(|event| event["metadata"]["chatType"] == "group"), "{events:?}");
    assert_eq!(events[1]["text"], "why?");
    let quoted = json!({"author": "cortex", "text": said, "byAssistant": true});
    assert_eq!(events[1]["metadata"]["quoted"], quoted);
    assert_eq!(events[2]["text"], "[edited] in that thread");
    assert!(stage.api.texts().iter().any(|text| text.contains("The server is there")));
}

#[tokio::test]
async fn a_session_that_is_cut_is_taken_up_again_and_nothing_is_lost_or_doubled() {
    let stage = stage(ServerSetup::echoing()).await;
    let connector = connected(&stage).await;
    stage.api.say(direct("1", ADA, "one"));
    stage.api.posted_after(1).await;
    for (number, how) in [Cut::Silently, Cut::Reconnect, Cut::Close(4000)].into_iter().enumerate() {
        stage.api.cut(how);
        stage.api.say(direct(&(number + 2).to_string(), ADA, &format!("after {how:?}")));
        stage.api.posted_after(number + 2).await;
        stage.api.ledger.after("resume", number + 1).await;
    }
    // The same message comes again.
    stage.api.say(direct("4", ADA, "after Close(4000)"));
    stage.api.say(direct("5", ADA, "last"));
    stage.api.posted_after(5).await;
    connector.stop().await;
    assert_eq!(ids(&stage.events().await), ["1", "2", "3", "4", "5"]);
    assert_eq!(stage.api.ledger.calls("identify").len(), 1);
    let resumed = stage.api.ledger.calls("resume");
    assert_eq!(resumed.len(), 3);
    assert!(resumed.iter().all(|resume| resume["session_id"] == "session-1"), "{resumed:?}");
}

#[tokio::test]
async fn the_cursor_is_stored_only_after_the_event_is_durable() {
    let stage = stage(ServerSetup::echoing()).await;
    stage.api.wants_many_beats();
    let connector = connected(&stage).await;
    stage.door.close();
    let url = stage.api.put_file("a.png", b"x");
    let mut message = direct("1", ADA, "look");
    message["attachments"] =
        json!([{"filename": "a.png", "content_type": "image/png", "size": 1, "url": url}]);
    stage.api.say(message);
    stage.api.say(direct("2", ADA, "are you there?"));
    // It has heard it, and cannot hand it in; the gateway is told nothing else.
    stage.api.ledger.after("file", 1).await;
    let beats = stage.api.beats().len();
    eventually("another heartbeat", async || (stage.api.beats().len() > beats).then_some(())).await;
    assert_eq!(stage.api.beats().last(), Some(&json!(1)), "only what is durable is confirmed");
    assert_eq!(noted_seq(&stage), 1);
    connector.kill().await;
    let connector = connect_at(&stage, FAST);
    stage.door.open_to(stage.server.address());
    let events = stage.events_after(2).await;
    stage.api.posted_after(2).await;
    connector.stop().await;
    assert_eq!(ids(&events), ["1", "2"]);
    assert_eq!(noted_seq(&stage), 3);
    assert_eq!(stage.api.ledger.calls("resume")[0]["seq"], 1);
}

#[tokio::test]
async fn what_was_said_while_the_session_was_lost_is_fetched() {
    let stage = stage(ServerSetup::echoing()).await;
    let connector = connected(&stage).await;
    stage.api.say(direct("1", ADA, "before"));
    stage.api.say(mention("2", ADA, "in the guild"));
    stage.api.posted_after(2).await;
    connector.stop().await;
    stage.api.say_unheard(direct("11", ADA, "while you were away"));
    stage.api.say_unheard(mention("12", ADA, "and here"));
    let mut talk = mention("13", ADA, "not to you");
    talk["mentions"] = json!([]);
    stage.api.say_unheard(talk);
    stage.api.say_unheard(direct("14", STRANGER, "hello"));
    stage.api.ledger.plan("messages", Planned::Refusal(502, json!({})));
    let connector = connect_at(&stage, FAST);
    stage.api.posted_after(4).await;
    stage.api.say(direct("15", ADA, "and now"));
    let events = stage.events_after(5).await;
    stage.api.posted_after(5).await;
    connector.stop().await;
    assert_eq!(ids(&events), ["1", "2", "11", "12", "15"]);
    assert_eq!(stage.api.ledger.calls("resume").len(), 1, "it tried to take the session up");
    assert_eq!(stage.api.ledger.calls("identify").len(), 2);
}

#[tokio::test]
async fn a_gateway_that_answers_no_heartbeat_is_left() {
    let stage = stage(ServerSetup::echoing()).await;
    stage.api.wants_many_beats();
    let connector = connected(&stage).await;
    stage.api.ignore_beats();
    stage.api.ledger.after("resume", 1).await;
    // The new line is there, so what waits is sent, though nobody says anything.
    let event = json!({"source": "discord", "externalMessageId": "elsewhere", "idempotencyKey": "discord:elsewhere",
        "topicKey": DIRECT, "userId": "discord:42", "text": "from elsewhere", "occurredAt": "2026-01-01T00:00:00Z"});
    stage.server.accept(&event).await;
    stage.api.posted_after(1).await;
    connector.stop().await;
}

#[tokio::test]
async fn a_stranger_changes_nothing_and_his_press_is_refused() {
    let stage = stage(asking()).await;
    let connector = connected(&stage).await;
    stage.api.say(mention("1", ADA, "stretch"));
    let question = stage.api.posted_after(1).await.remove(0);
    stage.outbox_when("the question", |row| row["status"] == "delivered").await;
    let data = question["components"][0]["components"][0]["custom_id"].as_str().unwrap();
    stage.api.press("8", CHANNEL, question["id"].as_str().unwrap(), STRANGER, data);
    stage.api.say(mention("9", STRANGER, "hello"));
    stage.api.say(direct("10", STRANGER, "hello"));
    eventually("everything to be heard", async || (noted_seq(&stage) == 5).then_some(())).await;
    connector.stop().await;
    let callbacks = stage.api.ledger.calls("callback");
    assert_eq!(callbacks.len(), 1);
    assert_eq!(
        callbacks[0]["body"],
        json!({"type": 4, "data": {"content": "This is not for you.", "flags": 64}})
    );
    assert_eq!(stage.events().await.len(), 1);
    assert_eq!(stage.jobs().await, 0);
}

#[tokio::test]
async fn a_button_approves_the_call_that_waits_and_is_taken_off() {
    let stage = stage(asking()).await;
    let connector = connected(&stage).await;
    stage.api.say(mention("1", ADA, "stretch"));
    let question = stage.api.posted_after(1).await.remove(0);
    stage.outbox_when("the question", |row| row["status"] == "delivered").await;
    let row = &question["components"][0];
    assert_eq!((&row["type"], &row["components"][0]["label"]), (&json!(1), &json!("Approve")));
    let data = row["components"][0]["custom_id"].as_str().unwrap();
    assert!(data.len() <= 100);
    stage.api.press("8", CHANNEL, question["id"].as_str().unwrap(), ADA, data);
    stage.api.press("8", CHANNEL, question["id"].as_str().unwrap(), ADA, data);
    let callback = stage.api.ledger.after("callback", 1).await.remove(0);
    stage.api.posted_after(3).await;
    let edit = stage.api.ledger.after("edit", 1).await.remove(0);
    connector.stop().await;
    assert_eq!(callback, json!({"path": "/interactions/8/interaction-token/callback", "body": {"type": 6}}));
    assert_eq!(stage.api.texts()[1..], ["Approved: schedule.create runs now.", "There you are."]);
    assert_eq!(stage.jobs().await, 1);
    assert_eq!(edit, json!({"path": "/channels/600/messages/5000", "body": {"components": []}}));
    assert_eq!(stage.events().await.len(), 2, "the request and one press");
}

#[tokio::test]
async fn files_are_kept_up_to_a_size() {
    let stage = stage(ServerSetup::echoing()).await;
    let connector = connected(&stage).await;
    let good = stage.api.put_file("a.png", b"a picture");
    let big = stage.api.put_file("b.png", &[0; 2_000]);
    let file = |url: &str| json!({"filename": "a.png", "content_type": "image/png", "size": 9, "url": url});
    let mut message = direct("1", ADA, "");
    message["attachments"] = json!([file(&good), file(&big), file("http://127.0.0.1:1/elsewhere")]);
    stage.api.say(message);
    let events = stage.events_after(1).await;
    connector.stop().await;
    let attachments = events[0]["metadata"]["attachments"].as_array().unwrap();
    let path = stage.folder().join("files/1-0-a.png");
    assert_eq!(attachments[0], json!({"name": "a.png", "type": "image/png", "bytes": 9, "path": path}));
    assert!(attachments[1]["name"].as_str().unwrap().contains("larger than"), "{attachments:?}");
    assert!(attachments[2]["name"].as_str().unwrap().contains("the platform did not give it"));
}

#[tokio::test]
async fn a_flood_wait_is_waited_for_and_the_message_arrives_once() {
    let stage = stage(ServerSetup::echoing()).await;
    let connector = connected(&stage).await;
    stage.api.ledger.plan("post", Planned::Cut);
    stage.api.ledger.plan("post", Planned::Refusal(429, json!({"retry_after": 0.3, "global": true})));
    stage.api.say(direct("1", ADA, "hello"));
    let row = stage.outbox_when("the delivery", |row| row["status"] == "delivered").await;
    connector.stop().await;
    assert_eq!(row["attempts"], 3);
    assert_eq!(stage.api.texts(), ["You said: hello"], "the nonce made one of two");
}

#[tokio::test]
async fn a_channel_that_is_gone_is_a_dead_letter() {
    let stage = stage(ServerSetup::echoing()).await;
    let connector = connected(&stage).await;
    stage
        .api
        .ledger
        .plan("post", Planned::Refusal(404, json!({"code": 10003, "message": "Unknown Channel"})));
    stage.api.say(direct("1", ADA, "hello"));
    let row = stage.outbox_when("the dead letter", |row| row["status"] == "dead").await;
    connector.stop().await;
    assert!(row["lastError"].as_str().unwrap().contains("10003"), "{row}");
    assert_eq!(row["attempts"], 1);
}

#[tokio::test]
async fn a_wrong_token_and_a_missing_intent_end_the_connector_with_what_to_do() {
    let stage = stage(ServerSetup::echoing()).await;
    let connector = stage.run(platform(&stage, "wrong", FAST), [ADA.to_owned()].into(), GroupPolicy::Mention);
    let ConnectorFailure::Misconfigured(told) = connector.ended().await else { panic!("misconfigured") };
    assert!(told.contains("connectors.discord.token") && !told.contains("wrong"), "{told}");
    let connector = connected(&stage).await;
    stage.api.cut(Cut::Close(4014));
    let ConnectorFailure::Misconfigured(told) = connector.ended().await else { panic!("misconfigured") };
    assert!(told.contains("Message Content Intent"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn a_connector_killed_between_two_parts_goes_on_with_the_second() {
    let text = format!("{}\n\n{}", "first ".repeat(300).trim_end(), "second ".repeat(250).trim_end());
    let time = FrozenTime::hold();
    let stage = stage(ServerSetup::scripted(json!({"otherwise": {"say": text}})).at(&time)).await;
    let connector = connect_at(&stage, Rate { count: 1, per: Duration::from_secs(3600) });
    eventually("the session to be noted", async || {
        time.advance(Duration::from_millis(1)).await;
        stage.noted()["cursor"].as_str().map(drop)
    })
    .await;
    stage.api.say(direct("1", ADA, "tell me"));
    eventually("the first part to be noted", async || {
        time.advance(Duration::from_millis(20)).await;
        stage.noted()["begun"].as_object().filter(|begun| begun.len() == 1).map(drop)
    })
    .await;
    connector.kill().await;
    assert_eq!(stage.api.texts().len(), 1);
    let connector = connect_at(&stage, FAST);
    eventually("the second part", async || {
        // The lease of the first delivery has to run out.
        time.advance(Duration::from_millis(500)).await;
        (stage.api.texts().len() == 2).then_some(())
    })
    .await;
    connector.kill().await;
    let texts = stage.api.texts();
    assert!(texts[0].starts_with("first ") && texts[1].starts_with("second "), "{texts:?}");
    assert!(texts.iter().all(|text| text.chars().count() <= 2_000));
}
