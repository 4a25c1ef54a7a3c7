//! Matrix against a homeserver of our own: rooms, threads, signs, and nothing lost.

use crate::bot_api::Planned;
use crate::homeserver::{ME, TOKEN, TestHomeserver, message, reaction};
use crate::rules::asking;
use crate::stage::{FAST, RunningConnector, Stage};
use cortex_connectors::{ConnectorFailure, GroupPolicy, Matrix, MatrixSettings, PaceRules, Rate};
use cortex_testkit::{FrozenTime, ServerSetup, eventually};
use serde_json::{Value, json};
use std::time::Duration;

const ADA: &str = "@ada:x.example";
const STRANGER: &str = "@mallory:evil.example";
const ROOM: &str = "!room:x.example";

type MatrixStage = Stage<TestHomeserver>;

async fn stage(setup: ServerSetup) -> MatrixStage {
    Stage::on(TestHomeserver::start().await, setup).await
}

fn platform(stage: &MatrixStage, token: &str, chat: Rate) -> Matrix {
    Matrix::new(MatrixSettings {
        api_url: stage.api.url.clone(),
        poll: Duration::from_secs(20),
        file_bytes_max: 1_000,
        pace: PaceRules { chat, group: FAST, overall: FAST },
        ..MatrixSettings::new(token.to_owned().into())
    })
    .unwrap()
}

fn connect_with(stage: &MatrixStage, groups: GroupPolicy, chat: Rate) -> RunningConnector {
    stage.run(platform(stage, TOKEN, chat), [ADA.to_owned()].into(), groups)
}

/// A connector that has done its first sync, so that what happens from now on is news.
async fn connected(stage: &MatrixStage) -> RunningConnector {
    let before = stage.api.ledger.calls("sync").len();
    let connector = connect_with(stage, GroupPolicy::Mention, FAST);
    stage.api.ledger.after("sync", before + 2).await;
    connector
}

fn in_thread(body: &str, root: &str) -> Value {
    json!({"msgtype": "m.text", "body": body, "m.relates_to": {"rel_type": "m.thread", "event_id": root}})
}

#[tokio::test]
async fn a_conversation_goes_both_ways_and_what_was_said_before_is_history() {
    let stage = stage(ServerSetup::scripted(json!({"otherwise": {"say": "You **said**: {{user}}"}}))).await;
    stage.api.say(ROOM, "$old", ADA, "long ago");
    let connector = connected(&stage).await;
    stage.api.say(ROOM, "$1", ADA, "hello");
    let sent = stage.api.ledger.after("send", 1).await;
    let typing = stage.api.ledger.after("typing", 1).await;
    stage.outbox_when("the delivery", |row| row["status"] == "delivered").await;
    stage.api.confirmed().await;
    connector.stop().await;
    let events = stage.events().await;
    assert_eq!(events.len(), 1, "neither history nor our own words are heard: {events:?}");
    assert_eq!(events[0]["externalMessageId"], "$1");
    assert_eq!(
        (&events[0]["topicKey"], &events[0]["userId"]),
        (&json!(ROOM), &json!(format!("matrix:{ADA}")))
    );
    assert_eq!(events[0]["occurredAt"], "2023-11-14T22:13:20.000Z");
    assert_eq!(events[0]["metadata"]["chatType"], "private", "a room of two");
    assert_eq!(sent[0]["room"], ROOM);
    assert_eq!(
        sent[0]["content"],
        json!({"msgtype": "m.text", "body": "You **said**: hello", "format": "org.matrix.custom.html",
            "formatted_body": "<p>You <strong>said</strong>: hello</p>", "m.mentions": {}})
    );
    assert_eq!(typing[0], json!({"room": ROOM, "user": ME, "body": {"typing": true, "timeout": 6_000}}));
    let first: Value =
        serde_json::from_str(stage.api.ledger.calls("sync")[0]["filter"].as_str().unwrap()).unwrap();
    assert_eq!(first["room"]["timeline"]["limit"], 0);
}

#[tokio::test]
async fn a_thread_is_a_topic_of_its_own_and_is_answered_there() {
    let stage = stage(ServerSetup::echoing()).await;
    let connector = connected(&stage).await;
    stage.api.happen(ROOM, message("$1", ADA, in_thread("in here", "$root")));
    let sent = stage.api.ledger.after("send", 1).await;
    connector.stop().await;
    assert_eq!(stage.events().await[0]["topicKey"], format!("{ROOM}:$root"));
    assert_eq!(
        sent[0]["content"]["m.relates_to"],
        json!({"rel_type": "m.thread", "event_id": "$root", "is_falling_back": true,
            "m.in_reply_to": {"event_id": "$root"}})
    );
}

#[tokio::test]
async fn a_stranger_changes_nothing() {
    let stage = stage(asking()).await;
    let connector = connected(&stage).await;
    stage.api.say(ROOM, "$1", ADA, "stretch");
    stage.outbox_when("the question", |row| row["status"] == "delivered").await;
    stage.api.invite("!trap:evil.example", STRANGER);
    stage.api.say("!trap:evil.example", "$2", STRANGER, "hello");
    stage.api.say(ROOM, "$3", STRANGER, "!approve");
    stage.api.happen(ROOM, reaction("$4", STRANGER, "$sent-0", "👍"));
    stage.api.confirmed().await;
    connector.stop().await;
    assert!(stage.api.ledger.calls("join").is_empty());
    assert_eq!(stage.events().await.len(), 1);
    assert_eq!(stage.jobs().await, 0);
}

#[tokio::test]
async fn an_invitation_of_somebody_allowed_is_accepted_and_what_he_said_since_is_heard() {
    let stage = stage(ServerSetup::echoing()).await;
    let connector = connected(&stage).await;
    let room = "!new:x.example";
    stage.api.ledger.plan("join", Planned::Refusal(502, json!({})));
    stage.api.say(room, "$before", ADA, "not for you");
    stage.api.invite(room, ADA);
    stage.api.say(room, "$1", ADA, "hello");
    let joined = stage.api.ledger.after("join", 2).await;
    let events = stage.events_after(1).await;
    stage.api.confirmed().await;
    connector.stop().await;
    assert_eq!(joined[1], room);
    assert_eq!(stage.events().await.len(), 1);
    assert_eq!(events[0]["externalMessageId"], "$1");
}

#[tokio::test]
async fn a_sign_under_the_question_approves_the_call_that_waits() {
    let stage = stage(asking()).await;
    let connector = connected(&stage).await;
    stage.api.say(ROOM, "$1", ADA, "stretch");
    let question = stage.api.texts_after(1).await.remove(0);
    assert!(question.contains("Approve: react with 👍, or send apr_"), "{question}");
    assert!(question.contains("Deny: react with 👎, or send apr_"), "{question}");
    stage.outbox_when("the question", |row| row["status"] == "delivered").await;
    stage.api.happen(ROOM, reaction("$2", ADA, "$elsewhere", "👍"));
    stage.api.happen(ROOM, reaction("$3", ADA, "$sent-0", "👍🏽"));
    stage.api.happen(ROOM, reaction("$3", ADA, "$sent-0", "👍🏽"));
    let texts = stage.api.texts_after(3).await;
    connector.stop().await;
    assert_eq!(texts[1..], ["Approved: schedule.create runs now.", "There you are."]);
    assert_eq!(stage.jobs().await, 1);
    assert_eq!(stage.events().await.len(), 2, "the request and one press");
}

#[tokio::test]
async fn the_exact_words_approve_as_well_and_need_no_mention() {
    let stage = stage(asking()).await;
    stage.api.has_members(ROOM, 3);
    let connector = connected(&stage).await;
    stage.api.say(ROOM, "$1", ADA, "Cortex, stretch");
    let question = stage.api.texts_after(1).await.remove(0);
    let words = question.split_whitespace().find(|word| word.ends_with(":approve")).unwrap();
    stage.outbox_when("the question", |row| row["status"] == "delivered").await;
    stage.api.say(ROOM, "$stranger", STRANGER, words);
    stage.api.say(ROOM, "$2", ADA, words);
    stage.api.texts_after(3).await;
    eventually("the question to be closed", async || {
        stage.noted()["prompts"].as_array().filter(|open| open.is_empty()).map(drop)
    })
    .await;
    connector.stop().await;
    assert_eq!(stage.jobs().await, 1);
    assert_eq!(stage.events().await.len(), 2, "the request and one press");
}

#[tokio::test]
async fn in_a_room_of_several_only_what_is_meant_for_us_is_heard() {
    let stage = stage(ServerSetup::echoing()).await;
    stage.api.has_members(ROOM, 3);
    let connector = connected(&stage).await;
    stage.api.say(ROOM, "$1", ADA, "just talking");
    let mention = json!({"msgtype": "m.text", "body": "you there", "m.mentions": {"user_ids": [ME]}});
    stage.api.happen(ROOM, message("$2", ADA, mention));
    stage.api.texts_after(1).await;
    let reply = json!({"msgtype": "m.text", "body": "> <@cortex:x.example> You said\n\nwhy?",
        "m.relates_to": {"m.in_reply_to": {"event_id": "$sent-0"}}});
    stage.api.happen(ROOM, message("$3", ADA, reply));
    stage.api.say(ROOM, "$4", ADA, "cortex, hello");
    stage.api.say(ROOM, "$5", ADA, "!status");
    let texts = stage.api.texts_after(4).await;
    connector.stop().await;
    let events = stage.events().await;
    let ids: Vec<&str> = events.iter().map(|event| event["externalMessageId"].as_str().unwrap()).collect();
    assert_eq!(ids, ["$2", "$3", "$4"]);
    assert!(events.iter().all(|event| event["metadata"]["chatType"] == "group"), "{events:?}");
    assert_eq!(events[1]["text"], "why?");
    let quoted = json!({"author": ME, "text": "You said: you there", "byAssistant": true});
    assert_eq!(events[1]["metadata"]["quoted"], quoted);
    assert!(texts.iter().any(|text| text.contains("The server is there")), "{texts:?}");
}

#[tokio::test]
async fn edits_say_so_redactions_are_nothing_and_files_are_kept() {
    let stage = stage(ServerSetup::echoing()).await;
    stage.api.put_file("ok", b"a picture");
    stage.api.put_file("liar", &[0; 2_000]);
    let connector = connected(&stage).await;
    stage.api.happen(ROOM, message("$0", ADA, in_thread("at eight", "$root")));
    let edit = json!({"msgtype": "m.text", "body": "* at nine",
        "m.new_content": {"msgtype": "m.text", "body": "at nine"},
        "m.relates_to": {"rel_type": "m.replace", "event_id": "$0"}});
    stage.api.happen(ROOM, message("$1", ADA, edit));
    stage
        .api
        .happen(ROOM, json!({"event_id": "$2", "sender": ADA, "type": "m.room.redaction", "redacts": "$0"}));
    stage.api.happen(ROOM, message("$3", ADA, json!({})));
    stage.api.happen(ROOM, json!({"odd": ["shape"]}));
    let file = |media: &str| {
        json!({"msgtype": "m.image", "body": "a.png", "url": format!("mxc://x.example/{media}"),
        "info": {"mimetype": "image/png", "size": 9}})
    };
    stage.api.happen(ROOM, message("$4", ADA, file("ok")));
    stage.api.happen(ROOM, message("$5", ADA, file("liar")));
    stage.api.happen(
        ROOM,
        message("$6", ADA, json!({"msgtype": "m.file", "body": "x", "file": {"url": "mxc://x/y"}})),
    );
    let events = stage.events_after(5).await;
    stage.api.confirmed().await;
    connector.stop().await;
    assert_eq!(stage.events().await.len(), 5);
    assert_eq!(events[1]["text"], "[edited] at nine");
    assert_eq!(events[1]["topicKey"], format!("{ROOM}:$root"), "an edit stays in its thread");
    let path = stage.folder().join("files/_4-0-a.png");
    assert_eq!(
        events[2]["metadata"]["attachments"],
        json!([{"name": "a.png", "type": "image/png", "bytes": 9, "path": path}])
    );
    let name = |index: usize| events[index]["metadata"]["attachments"][0]["name"].as_str().unwrap();
    assert!(name(3).contains("not fetched: larger than"), "{}", name(3));
    assert!(name(4).contains("not fetched: the platform did not give it"), "{}", name(4));
}

#[tokio::test]
async fn an_encrypted_room_is_told_once_that_it_cannot_be_read_and_the_assistant_hears_nothing() {
    let stage = stage(ServerSetup::echoing()).await;
    let encrypted = |id: &str, sender: &str| {
        let event = json!({"event_id": id, "sender": sender, "type": "m.room.encrypted", "content": {}});
        stage.api.happen(ROOM, event);
    };
    let connector = connected(&stage).await;
    encrypted("$0", STRANGER);
    encrypted("$1", ADA);
    encrypted("$2", ADA);
    stage.api.confirmed().await;
    stage.api.texts_after(1).await;
    connector.stop().await;
    let connector = connected(&stage).await;
    encrypted("$3", ADA);
    stage.api.say(ROOM, "$4", ADA, "hello");
    let texts = stage.api.texts_after(2).await;
    connector.stop().await;
    assert!(texts[0].starts_with("This room is encrypted, and I cannot read"), "{texts:?}");
    assert_eq!(texts[1..], ["You said: hello"], "said once, also after a restart");
    assert_eq!(stage.events().await.len(), 1);
}

#[tokio::test]
async fn the_cursor_is_stored_only_after_the_events_are_durable() {
    let stage = stage(ServerSetup::echoing()).await;
    let connector = connected(&stage).await;
    let before = stage.noted()["cursor"].clone();
    stage.door.close();
    stage.api.put_file("picture", b"x");
    let picture = json!({"msgtype": "m.image", "body": "a.png", "url": "mxc://x.example/picture"});
    stage.api.happen(ROOM, message("$1", ADA, picture.clone()));
    stage.api.happen(ROOM, message("$1", ADA, picture));
    stage.api.say(ROOM, "$2", ADA, "are you there?");
    // It has heard the picture, and cannot hand it in.
    stage.api.ledger.after("download", 1).await;
    assert_eq!(stage.noted()["cursor"], before);
    connector.kill().await;
    let connector = connect_with(&stage, GroupPolicy::Mention, FAST);
    stage.door.open_to(stage.server.address());
    stage.api.confirmed().await;
    let events = stage.events_after(2).await;
    connector.stop().await;
    assert_eq!(events.len(), 2, "each once: {events:?}");
    let cursor = stage.noted()["cursor"].as_str().unwrap().to_owned();
    assert!(cursor.trim_start_matches('s').parse::<usize>().unwrap() >= 3, "{cursor}");
}

#[tokio::test]
async fn what_was_said_while_we_were_away_is_heard_in_order_however_much_it_was() {
    let stage = stage(ServerSetup::never_answering()).await;
    connected(&stage).await.stop().await;
    for number in 0..60 {
        stage.api.say(ROOM, &format!("${number}"), ADA, &format!("message {number}"));
    }
    stage.api.ledger.plan("messages", Planned::Refusal(502, json!({})));
    let connector = connect_with(&stage, GroupPolicy::Mention, FAST);
    let events = stage.events_after(60).await;
    stage.api.confirmed().await;
    connector.stop().await;
    let ids: Vec<String> =
        events.iter().map(|event| event["externalMessageId"].as_str().unwrap().to_owned()).collect();
    let expected: Vec<String> = (0..60).map(|number| format!("${number}")).collect();
    assert_eq!(ids, expected);
    assert!(stage.api.ledger.calls("messages").len() >= 4, "the gap was fetched in pages");
}

#[tokio::test]
async fn a_flood_wait_is_waited_for_and_the_message_arrives_once() {
    let stage = stage(ServerSetup::echoing()).await;
    let connector = connected(&stage).await;
    let wait = json!({"errcode": "M_LIMIT_EXCEEDED", "error": "Too fast", "retry_after_ms": 700});
    for _ in 0..4 {
        stage.api.ledger.plan("send", Planned::Refusal(429, wait.clone()));
    }
    let started = std::time::Instant::now();
    stage.api.say(ROOM, "$1", ADA, "hello");
    let row = stage.outbox_when("the delivery", |row| row["status"] == "delivered").await;
    connector.stop().await;
    assert!(started.elapsed() >= Duration::from_millis(4 * 700), "the homeserver sets the pace");
    assert_eq!(row["attempts"], 1, "waiting costs no attempt");
    assert_eq!(stage.api.ledger.calls("send").len(), 5, "and nothing is asked before its time");
    assert_eq!(stage.api.texts(), ["You said: hello"]);
}

#[tokio::test]
async fn a_sync_that_was_told_to_wait_waits() {
    let stage = stage(ServerSetup::echoing()).await;
    let wait = json!({"errcode": "M_LIMIT_EXCEEDED", "error": "Too fast", "retry_after_ms": 900});
    stage.api.ledger.plan("sync", Planned::Refusal(429, wait.clone()));
    stage.api.ledger.plan("sync", Planned::Refusal(429, wait));
    let started = std::time::Instant::now();
    let connector = connect_with(&stage, GroupPolicy::Mention, FAST);
    stage.api.ledger.after("sync", 3).await;
    assert!(started.elapsed() >= Duration::from_millis(2 * 900), "the homeserver sets the pace");
    connector.stop().await;
}

#[tokio::test]
async fn a_send_whose_answer_was_lost_is_repeated_under_the_same_name_and_shown_once() {
    let stage = stage(ServerSetup::echoing()).await;
    let connector = connected(&stage).await;
    stage.api.ledger.plan("send", Planned::Cut);
    stage.api.say(ROOM, "$1", ADA, "hello");
    stage.outbox_when("the delivery", |row| row["status"] == "delivered").await;
    connector.stop().await;
    let calls = stage.api.ledger.calls("send");
    assert!(calls.len() >= 2 && calls.iter().all(|call| call["txn"] == calls[0]["txn"]), "{calls:?}");
    assert_eq!(stage.api.texts(), ["You said: hello"]);
}

#[tokio::test]
async fn a_room_that_lets_us_not_speak_is_a_dead_letter() {
    let stage = stage(ServerSetup::echoing()).await;
    let connector = connected(&stage).await;
    stage
        .api
        .ledger
        .plan("send", Planned::Refusal(403, json!({"errcode": "M_FORBIDDEN", "error": "not in room"})));
    stage.api.say(ROOM, "$1", ADA, "hello");
    let row = stage.outbox_when("the dead letter", |row| row["status"] == "dead").await;
    connector.stop().await;
    assert!(row["lastError"].as_str().unwrap().contains("M_FORBIDDEN"), "{row}");
    assert_eq!(row["attempts"], 1);
}

#[tokio::test]
async fn a_token_that_is_not_known_ends_the_connector_with_what_to_do() {
    let stage = stage(ServerSetup::echoing()).await;
    let connector = stage.run(platform(&stage, "wrong", FAST), [ADA.to_owned()].into(), GroupPolicy::Mention);
    let ConnectorFailure::Misconfigured(told) = connector.ended().await else { panic!("misconfigured") };
    assert!(told.contains("connectors.matrix.token"), "{told}");
    assert!(!told.contains("wrong"), "{told}");
}

#[tokio::test(start_paused = true)]
async fn a_connector_killed_between_two_parts_goes_on_with_the_second() {
    let text = format!("{}\n\n{}", "first ".repeat(900).trim_end(), "second ".repeat(700).trim_end());
    let time = FrozenTime::hold();
    let stage = stage(ServerSetup::scripted(json!({"otherwise": {"say": text}})).at(&time)).await;
    connected(&stage).await.kill().await;
    let connector =
        connect_with(&stage, GroupPolicy::Mention, Rate { count: 1, per: Duration::from_secs(3600) });
    stage.api.say(ROOM, "$1", ADA, "tell me");
    eventually("the first part to be noted", async || {
        time.advance(Duration::from_millis(20)).await;
        stage.noted()["begun"].as_object().filter(|begun| begun.len() == 1).map(drop)
    })
    .await;
    connector.kill().await;
    assert_eq!(stage.api.texts().len(), 1);
    let connector = connect_with(&stage, GroupPolicy::Mention, FAST);
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
