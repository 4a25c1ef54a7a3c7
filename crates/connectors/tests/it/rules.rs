//! The ten rules of the Bot API, each with a test that says it.

use crate::bot_api::{Planned, TOKEN, group_message, message, press};
use crate::stage::{ADA, STRANGER, Stage, Wish};
use cortex_connectors::{PlatformError, Telegram, TelegramSettings};
use cortex_testkit::{Json, ServerSetup, eventually};
use serde_json::{Value, json};
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Says the same to everything.
fn saying(text: &str) -> ServerSetup {
    ServerSetup::scripted(json!({ "otherwise": { "say": text } }))
}

/// Wants a job that is made only with an approval.
pub(crate) fn asking() -> ServerSetup {
    let arguments = json!({ "cron": "0 9 * * *", "what": "stretch", "timezone": "UTC" });
    ServerSetup::scripted(json!({
        "answers": [{ "when": { "afterTool": "schedule.create" }, "say": "There you are." }],
        "otherwise": { "toolCalls": [{ "name": "schedule.create", "arguments": arguments }] },
    }))
}

/// What is logged while the test runs.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// Everything that this thread logs, down to the last detail of every library.
    fn keep() -> (Self, tracing::subscriber::DefaultGuard) {
        let log = Self::default();
        let sink = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
            .with_writer(move || sink.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

#[tokio::test]
async fn rule_1_the_offset_is_stored_only_after_the_event_is_durable() {
    let stage = Stage::echoing().await;
    stage.door.close();
    let connector = stage.connect();
    stage.api.happen(message(7, ADA, "hello"));
    stage.api.happen(message(8, ADA, "are you there?"));
    // It has heard both and cannot hand them in.
    eventually("the first event to be tried", async || {
        (stage.api.calls("getUpdates").len() == 1 && stage.api.methods().len() >= 2).then_some(())
    })
    .await;
    assert_eq!(stage.noted()["cursor"], Value::Null, "nothing is durable yet");
    connector.kill().await;
    let connector = stage.connect();
    stage.api.after("getUpdates", 2).await;
    assert!(
        stage.api.calls("getUpdates").iter().all(|poll| poll["offset"].is_null()),
        "nothing was confirmed"
    );
    stage.door.open_to(stage.server.address());
    stage.api.confirmed(8).await;
    let events = stage.events_after(2).await;
    assert_eq!(events.len(), 2, "each once");
    assert_eq!((&events[0]["text"], &events[1]["text"]), (&json!("hello"), &json!("are you there?")));
    connector.stop().await;
    assert_eq!(stage.noted()["cursor"], "9");
}

#[tokio::test]
async fn rule_2_a_conflict_is_told_to_the_person_and_polling_goes_on() {
    let (log, _guard) = Log::keep();
    let stage = Stage::echoing().await;
    let conflict = Planned::refusal(409, "Conflict: terminated by other getUpdates request", json!({}));
    stage.api.plan("getUpdates", conflict.clone());
    stage.api.plan("getUpdates", conflict);
    stage.api.happen(message(1, ADA, "hello"));
    let connector = stage.connect();
    stage.api.after("sendMessage", 1).await;
    assert!(log.text().contains("a webhook is set for this bot"), "{}", log.text());
    assert!(log.text().contains("another program polls with the same token"));
    assert_eq!(
        cortex_connectors::ConnectorSettings::default().conflict_wait,
        Duration::from_secs(15),
        "slowly"
    );
    connector.stop().await;
}

#[tokio::test]
async fn rule_3_the_connection_outlives_the_poll() {
    let stage = Stage::echoing().await;
    // The poll comes back empty after its whole second, and nothing broke: the next one follows.
    let connector = stage.connect_as(Wish { poll: Duration::from_secs(1), ..Wish::default() });
    let polls = stage.api.after("getUpdates", 3).await;
    assert!(polls.iter().all(|poll| poll["timeout"] == 1 && poll["limit"] == 100));
    stage.api.happen(message(1, ADA, "late"));
    stage.api.after("sendMessage", 1).await;
    connector.stop().await;
}

#[tokio::test]
async fn rule_4_the_token_in_the_address_is_never_logged() {
    let (log, _guard) = Log::keep();
    let stage = Stage::echoing().await;
    stage.api.plan("getUpdates", Planned::Cut);
    stage.api.plan("getUpdates", Planned::refusal(502, &format!("no way to bot{TOKEN}"), json!({})));
    stage.api.plan("sendMessage", Planned::Cut);
    stage.api.happen(message(1, ADA, "hello"));
    let connector = stage.connect();
    stage.api.after("sendMessage", 2).await;
    connector.stop().await;
    // Nobody listens there any more.
    let nowhere = Telegram::new(TelegramSettings {
        api_url: "http://127.0.0.1:1".to_owned(),
        ..TelegramSettings::new(TOKEN.to_owned().into())
    });
    let told = format!("{:?}", nowhere.unwrap());
    let row = stage.outbox_when("a delivery", |row| row["status"] == "delivered").await;
    assert!(log.text().contains("cannot listen"), "the log was kept: {}", log.text());
    // A library's own trace is its own matter and off by default; what we say is not.
    let ours: Vec<String> =
        log.text().lines().filter(|line| line.contains("cortex_connectors")).map(str::to_owned).collect();
    assert!(!ours.is_empty());
    for text in [ours.concat(), told, row.to_string(), stage.noted().to_string()] {
        assert!(!text.contains(TOKEN), "{text}");
    }
}

#[tokio::test]
async fn rule_5_a_long_text_goes_out_in_parts_of_4096_with_the_markup_on_the_last_in_its_thread() {
    let paragraph = format!("{}&\n\n", "word ".repeat(300).trim_end());
    let stage = Stage::with(saying(&paragraph.repeat(6))).await;
    let connector = stage.connect();
    let more = json!({"text": "@cortex_bot go", "message_thread_id": 9, "is_topic_message": true,
        "entities": [{"type": "mention", "offset": 0, "length": 11}]});
    stage.api.happen(group_message(1, ADA, -100, more));
    let parts = stage.api.after("sendMessage", 3).await;
    stage.outbox_when("a delivery", |row| row["status"] == "delivered").await;
    connector.stop().await;
    assert_eq!(stage.api.calls("sendMessage").len(), 3);
    for part in &parts {
        let seen = part["text"].as_str().unwrap().replace("&amp;", "&");
        assert!(seen.encode_utf16().count() <= 4096);
        assert_eq!((&part["chat_id"], &part["message_thread_id"]), (&json!(-100), &json!(9)));
    }
    let together = parts.iter().map(|part| part["text"].as_str().unwrap()).collect::<Vec<_>>().join("\n\n");
    assert_eq!(together.replace("&amp;", "&"), paragraph.repeat(6).trim_end());

    // A question that is longer than one message.
    let question = json!({"messageId": "out_01J00000000000000000000000", "topicKey": "42",
        "leaseToken": "lease_01J00000000000000000000000", "text": paragraph.repeat(4),
        "payload": {"buttons": [{"label": "Approve", "data": "apr_X:approve"}]}});
    stage.door.open_to(handing_out(question).await);
    let connector = stage.connect();
    let parts = stage.api.after("sendMessage", 5).await.split_off(3);
    connector.stop().await;
    assert_eq!(parts[0]["reply_markup"], Value::Null);
    assert_eq!(parts[1]["reply_markup"]["inline_keyboard"][0][0]["text"], "Approve");
}

/// A server that hands this message out once and takes every ack.
async fn handing_out(message: Value) -> std::net::SocketAddr {
    let waiting = Arc::new(Mutex::new(vec![message]));
    let poll = move || {
        let messages = std::mem::take(&mut *waiting.lock().unwrap());
        async move { Json(json!({"messages": messages})) }
    };
    let ack = || async { Json(json!({"ok": true, "status": "delivered"})) };
    let routes = axum::Router::new()
        .route("/outbox/poll", axum::routing::post(poll))
        .route("/outbox/ack", axum::routing::post(ack));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, routes).await });
    address
}

#[tokio::test]
async fn rule_6_markdown_goes_out_as_escaped_html_and_as_plain_text_when_that_is_refused() {
    let stage = Stage::with(saying("**1 < 2** & `x`")).await;
    let connector = stage.connect();
    stage.api.happen(message(1, ADA, "one"));
    let sent = stage.api.after("sendMessage", 1).await;
    assert_eq!(sent[0]["text"], "<b>1 &lt; 2</b> &amp; <code>x</code>");
    assert_eq!(sent[0]["parse_mode"], "HTML");
    let refusal =
        Planned::refusal(400, "Bad Request: can't parse entities: Unsupported start tag", json!({}));
    stage.api.plan("sendMessage", refusal);
    stage.api.happen(message(2, ADA, "two"));
    let sent = stage.api.after("sendMessage", 3).await;
    stage.outbox_when("no failure", |row| row["status"] == "delivered" && row["attempts"] == 1).await;
    connector.stop().await;
    assert_eq!(sent[2]["text"], "**1 < 2** & `x`");
    assert_eq!(sent[2]["parse_mode"], Value::Null);
}

#[tokio::test]
async fn rule_7_callback_data_fits_into_64_bytes_and_every_query_is_answered_at_once() {
    let stage = Stage::with(asking()).await;
    let connector = stage.connect();
    stage.api.happen(message(1, ADA, "stretch"));
    let sent = stage.api.after("sendMessage", 1).await;
    let keys = sent[0]["reply_markup"]["inline_keyboard"][0].as_array().unwrap();
    for key in keys {
        assert!(key["callback_data"].as_str().unwrap().len() <= 64);
    }
    // The server is away: the person who pressed hears from us all the same.
    stage.door.close();
    stage.api.happen(press(2, ADA, ADA, 1001, keys[0]["callback_data"].as_str().unwrap()));
    let answers = stage.api.after("answerCallbackQuery", 1).await;
    assert_eq!(answers[0]["callback_query_id"], "q2");
    assert!(stage.api.calls("editMessageReplyMarkup").is_empty(), "nothing is decided yet");
    stage.door.open_to(stage.server.address());
    let cleared = stage.api.after("editMessageReplyMarkup", 1).await;
    assert_eq!((&cleared[0]["chat_id"], &cleared[0]["message_id"]), (&json!(ADA), &json!(1001)));
    assert_eq!(cleared[0]["reply_markup"], json!({"inline_keyboard": []}));
    stage.api.after("sendMessage", 3).await;
    assert_eq!(stage.api.texts()[1..], ["Approved: schedule.create runs now.", "There you are."]);
    connector.stop().await;
    assert_eq!(stage.noted()["prompts"], json!([]), "its token is forgotten");
}

#[tokio::test]
async fn rule_8_a_flood_wait_is_a_nack_with_its_seconds_and_a_closed_door_is_permanent() {
    let stage = Stage::echoing().await;
    stage.api.plan("sendMessage", Planned::refusal(429, "Too Many Requests", json!({"retry_after": 77})));
    let connector = stage.connect();
    stage.api.happen(message(1, ADA, "slow"));
    let row = stage.outbox_when("a nack", |row| row["status"] == "pending" && row["attempts"] == 1).await;
    let at = |name: &str| row[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let wait = at("nextAttemptAt").as_second() - at("updatedAt").as_second();
    assert!((76..=78).contains(&wait), "{wait}");

    let closed = [(403, "Forbidden: bot was blocked by the user"), (400, "Bad Request: chat not found")];
    for (update, (code, description)) in (2..).zip(closed) {
        stage.api.plan("sendMessage", Planned::refusal(code, description, json!({})));
        stage.api.happen(group_message(
            update,
            ADA,
            -update,
            json!({"text": "/x@cortex_bot", "entities":
            [{"type": "bot_command", "offset": 0, "length": 13}]}),
        ));
        let topic = json!(format!("-{update}"));
        let row = stage
            .outbox_when("a dead letter", |row| row["topicKey"] == topic && row["status"] == "dead")
            .await;
        assert!(row["lastError"].as_str().unwrap().contains(description), "{row}");
        assert_eq!(row["attempts"], 1);
    }
    connector.stop().await;
    assert_eq!(stage.api.calls("sendMessage").len(), 3, "nothing was tried again");
}

#[tokio::test]
async fn rule_9_a_chat_that_migrated_is_answered_where_it_is_now_and_keeps_its_topic() {
    let stage = Stage::echoing().await;
    let moved = json!({"migrate_to_chat_id": -1005});
    stage.api.plan("sendMessage", Planned::refusal(400, "Bad Request: group chat was upgraded", moved));
    let connector = stage.connect();
    let said = |update, chat, text: &str| {
        group_message(
            update,
            ADA,
            chat,
            json!({"text": format!("@cortex_bot {text}"),
            "entities": [{"type": "mention", "offset": 0, "length": 11}]}),
        )
    };
    stage.api.happen(said(1, -5, "one"));
    let sent = stage.api.after("sendMessage", 2).await;
    assert_eq!((&sent[0]["chat_id"], &sent[1]["chat_id"]), (&json!(-5), &json!(-1005)));
    assert_eq!(sent[0]["text"], sent[1]["text"]);
    stage.api.happen(said(2, -1005, "two"));
    let sent = stage.api.after("sendMessage", 3).await;
    assert_eq!(sent[2]["chat_id"], -1005);
    connector.stop().await;
    // The mapping outlives the process.
    let connector = stage.connect();
    stage.api.happen(said(3, -5, "three"));
    assert_eq!(stage.api.after("sendMessage", 4).await[3]["chat_id"], -1005);
    connector.stop().await;
    let topics: Vec<Value> = stage.events().await.iter().map(|event| event["topicKey"].clone()).collect();
    assert_eq!(topics, ["-5", "-5", "-5"], "one conversation");
}

#[tokio::test]
async fn rule_10_ids_topics_and_people_are_named_by_the_rule_and_strangers_touch_nothing() {
    let stage = Stage::with(asking()).await;
    let connector = stage.connect();
    stage.api.happen(message(1, ADA, "stretch"));
    let sent = stage.api.after("sendMessage", 1).await;
    let data = sent[0]["reply_markup"]["inline_keyboard"][0][0]["callback_data"].as_str().unwrap();
    stage.api.happen(message(2, STRANGER, "let me in"));
    stage.api.happen(press(3, STRANGER, ADA, 1001, data));
    stage.api.confirmed(3).await;
    assert_eq!(stage.api.calls("answerCallbackQuery")[0]["text"], "This is not for you.");
    assert_eq!(stage.events().await.len(), 1, "no stranger's word or press is an event");
    assert!(stage.api.calls("editMessageReplyMarkup").is_empty(), "the keyboard stays");
    assert_eq!(stage.api.calls("sendMessage").len(), 1);
    stage.api.happen(press(4, ADA, ADA, 1001, data));
    stage.api.after("editMessageReplyMarkup", 1).await;
    stage.api.happen(group_message(
        5,
        ADA,
        -100,
        json!({"text": "/go@cortex_bot", "message_thread_id": 9,
        "is_topic_message": true, "entities": [{"type": "bot_command", "offset": 0, "length": 14}]}),
    ));
    let events = stage.events_after(3).await;
    connector.stop().await;
    let named: Vec<Value> = events
        .iter()
        .map(|event| json!([event["source"], event["externalMessageId"], event["topicKey"], event["userId"]]))
        .collect();
    assert_eq!(
        named,
        [
            json!(["telegram", "tg-1", "42", "tg:42"]),
            json!(["telegram", "callback:q4", "42", "tg:42"]),
            json!(["telegram", "tg-5", "-100:9", "tg:42"]),
        ]
    );
    assert!(data.starts_with("apr_") && data.ends_with(":approve"), "{data}");
    let metadata = &events[1]["metadata"];
    assert_eq!(metadata["messageType"], "button_click");
    // The press names its question by the token, which no row keeps.
    assert_eq!((&metadata["data"], &metadata["approvalToken"]), (&json!("apr_…:approve"), &json!("apr_…")));
}

#[tokio::test]
async fn an_empty_list_of_people_hears_nobody() {
    let stage = Stage::echoing().await;
    let connector = stage.connect_as(Wish { allow: Vec::new(), ..Wish::default() });
    stage.api.happen(message(1, ADA, "hello"));
    stage.api.confirmed(1).await;
    connector.stop().await;
    assert!(stage.events().await.is_empty());
    assert!(stage.api.texts().is_empty());
}

#[tokio::test]
async fn a_wrong_token_ends_the_connector_with_what_to_do() {
    let stage = Stage::echoing().await;
    stage.api.plan("getMe", Planned::refusal(401, "Unauthorized", json!({})));
    let failure = stage.connect().ended().await;
    assert!(failure.to_string().contains("check connectors.telegram.token"), "{failure}");
    let wrong = Telegram::new(TelegramSettings::new("not a token".to_owned().into()));
    assert!(matches!(wrong, Err(PlatformError::Misconfigured(_))));
}
