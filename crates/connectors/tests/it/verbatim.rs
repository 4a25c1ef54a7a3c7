//! What a question shows on each platform is what runs, character for character; what is cut off is counted.

use crate::bot_api::BotApi;
use crate::discord_api::{self, DiscordApi};
use crate::homeserver::{self, TestHomeserver};
use crate::slack_api::{APP_TOKEN, BOT_TOKEN, SlackApi};
use crate::stage::{FAST, Stage};
use cortex_connectors::{
    Discord, DiscordSettings, GroupPolicy, Matrix, MatrixSettings, PaceRules, Slack, SlackSettings,
};
use cortex_testkit::{
    ServerSetup, eventually, html_shown, is_hidden, shown_argument, tricky_arguments, unspelled,
};
use pulldown_cmark::{Event, Options, Parser};
use serde_json::{Value, json};

const PACE: PaceRules = PaceRules { chat: FAST, group: FAST, overall: FAST };

/// Wants a job with the nth argument when it is told `ask n`.
fn setup() -> ServerSetup {
    let answers = tricky_arguments().into_iter().enumerate().map(|(number, what)| {
        let arguments = json!({ "cron": "0 9 * * *", "timezone": "UTC", "what": what });
        json!({ "when": { "equals": format!("ask {number}") },
            "toolCalls": [{ "name": "schedule.create", "arguments": arguments }] })
    });
    ServerSetup::scripted(json!({ "answers": answers.collect::<Vec<_>>(), "otherwise": { "say": "?" } }))
}

/// Asks about every argument and compares what the platform displays with what would run. `sent` gives what the
/// platform got so far; a message that `asks` ends a question.
async fn check<A>(
    stage: &Stage<A>,
    (source, topic, user): (&str, &str, &str),
    sent: impl Fn(&A) -> Vec<Value>,
    asks: fn(&Value) -> bool,
    displayed: fn(&Value) -> String,
) {
    let mut seen = 0;
    for (number, what) in tricky_arguments().iter().enumerate() {
        let event = json!({ "source": source, "externalMessageId": format!("m{number}"),
            "idempotencyKey": format!("{source}:m{number}"), "topicKey": topic, "userId": user,
            "text": format!("ask {number}"), "occurredAt": "2026-11-16T06:00:00Z" });
        stage.server.post("/ingest", &event).await;
        let question = eventually(format!("question {number}"), async || {
            let new = sent(&stage.api).split_off(seen);
            new.last().is_some_and(asks).then_some(new)
        })
        .await;
        seen += question.len();
        let shown: Vec<String> = question.iter().map(displayed).collect();
        let shown = shown.join("\n");
        let hidden: Vec<char> = shown.chars().filter(|letter| is_hidden(*letter)).collect();
        assert!(hidden.is_empty(), "argument {number} hides {hidden:?}: {shown}");
        let row = stage.server.get("/api/v2/approvals?limit=1").await.json()["items"][0].clone();
        let (whole, cut) = shown_argument(row["verbatim"].as_str().unwrap_or_default(), "what");
        match shown_argument(&shown, "what") {
            (text, None) => assert_eq!(&unspelled(&text), what, "argument {number} is shown as {shown}"),
            (start, Some(missing)) => {
                assert!(whole.starts_with(&start), "argument {number} is shown as {shown}");
                let (count, all) = (start.chars().count(), whole.chars().count());
                assert_eq!(count + missing, all, "argument {number}");
                let note = format!("show {}", row["approvalId"].as_str().unwrap());
                assert!(count > 300 && shown.contains(&note), "argument {number} is shown as {shown}");
            }
        }
        assert_eq!((&unspelled(&whole), cut), (what, None), "argument {number} in the list of approvals");
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "a foreign enum; what is no text is not displayed as text"
)]
/// Text outside of code: marks vanish, links show their words, and an escaped character is itself.
fn markdown_shown(markdown: &str) -> String {
    let options = Options::ENABLE_STRIKETHROUGH;
    let shown = Parser::new_ext(markdown, options).map(|event| match event {
        Event::Text(text) | Event::Code(text) => text.into_string(),
        Event::SoftBreak | Event::HardBreak | Event::End(_) => "\n".to_owned(),
        _ => String::new(),
    });
    shown.collect()
}

/// Discord: between three backticks everything is itself, and three more end it, whatever they were meant for.
fn discord_shown(content: &str) -> String {
    let mut shown = String::new();
    for (number, piece) in content.split("```").enumerate() {
        let is_code = number % 2 == 1;
        shown.push_str(&if is_code {
            piece.trim_start_matches('\n').to_owned()
        } else {
            markdown_shown(piece)
        });
    }
    shown
}

/// Slack: what is preformatted is itself; in mrkdwn marks vanish, links show their words and entities are characters.
fn slack_shown(message: &Value) -> String {
    let mrkdwn = |text: &str| {
        let marks = |letter: &char| !matches!(letter, '*' | '_' | '~' | '`');
        html_shown(&text.chars().filter(marks).collect::<String>())
    };
    let block = |block: &Value| match (block["type"].as_str().unwrap(), block["text"]["text"].as_str()) {
        ("section", Some(text)) if block["text"]["type"] == "mrkdwn" => mrkdwn(text),
        ("section" | "context", Some(text)) => text.to_owned(),
        ("rich_text", _) => {
            let elements = block["elements"].as_array().unwrap().iter();
            assert!(block["elements"][0]["type"] == "rich_text_preformatted", "{block}");
            let pieces = elements.flat_map(|element| element["elements"].as_array().unwrap());
            pieces.map(|piece| piece["text"].as_str().unwrap()).collect()
        }
        (_, _) => String::new(),
    };
    match message["blocks"].as_array() {
        Some(blocks) => blocks.iter().map(block).collect::<Vec<_>>().join("\n"),
        None => mrkdwn(message["text"].as_str().unwrap()),
    }
}

#[tokio::test]
async fn telegram_shows_every_character_of_what_would_run() {
    let stage = Stage::with(setup()).await;
    let connector = stage.connect();
    let asks = |sent: &Value| sent["reply_markup"].is_object();
    let displayed = |sent: &Value| {
        let text = sent["text"].as_str().unwrap();
        let shown = if sent["parse_mode"] == "HTML" { html_shown(text) } else { text.to_owned() };
        assert!(shown.encode_utf16().count() <= 4_096, "{}", shown.len());
        shown
    };
    let sent = |api: &BotApi| api.calls("sendMessage");
    check(&stage, ("telegram", "42", "tg:42"), sent, asks, displayed).await;
    connector.stop().await;
}

#[tokio::test]
async fn slack_shows_every_character_of_what_would_run() {
    let stage = Stage::on(SlackApi::start().await, setup()).await;
    let slack = Slack::new(SlackSettings {
        api_url: stage.api.url.clone(),
        pace: PACE,
        ..SlackSettings::new(BOT_TOKEN.to_owned().into(), APP_TOKEN.to_owned().into())
    });
    let connector = stage.run(slack.unwrap(), ["UADA".to_owned()].into(), GroupPolicy::Mention);
    let asks = |sent: &Value| sent["blocks"].is_array();
    check(&stage, ("slack", "D0ADA", "slack:UADA"), SlackApi::posted, asks, slack_shown).await;
    connector.stop().await;
}

#[tokio::test]
async fn matrix_shows_every_character_of_what_would_run() {
    let stage = Stage::on(TestHomeserver::start().await, setup()).await;
    let matrix = Matrix::new(MatrixSettings {
        api_url: stage.api.url.clone(),
        pace: PACE,
        ..MatrixSettings::new(homeserver::TOKEN.to_owned().into())
    });
    let connector = stage.run(matrix.unwrap(), ["@ada:x.example".to_owned()].into(), GroupPolicy::Mention);
    let asks = |sent: &Value| sent["content"]["body"].as_str().unwrap().contains("Approve: ");
    let displayed = |sent: &Value| {
        assert!(sent["content"].to_string().len() < 65_536);
        html_shown(sent["content"]["formatted_body"].as_str().unwrap())
    };
    let sent = |api: &TestHomeserver| api.ledger.calls("send");
    let place = ("matrix", "!room:x.example", "matrix:@ada:x.example");
    check(&stage, place, sent, asks, displayed).await;
    let plain = |sent: &Value| sent["content"]["body"].as_str().unwrap().to_owned();
    let shown: Vec<String> = sent(&stage.api).iter().map(plain).collect();
    assert!(!shown.concat().contains(is_hidden));
    connector.stop().await;
}

#[tokio::test]
async fn discord_shows_every_character_of_what_would_run() {
    let stage = Stage::on(DiscordApi::start().await, setup()).await;
    let discord = Discord::new(DiscordSettings {
        api_url: stage.api.url.clone(),
        pace: PACE,
        ..DiscordSettings::new(discord_api::TOKEN.to_owned().into())
    });
    let connector = stage.run(discord.unwrap(), ["42".to_owned()].into(), GroupPolicy::Mention);
    let asks = |sent: &Value| sent["components"].is_array();
    let displayed = |sent: &Value| {
        let content = sent["content"].as_str().unwrap();
        assert!(content.encode_utf16().count() <= 2_000, "{}", content.len());
        discord_shown(content)
    };
    let sent = |api: &DiscordApi| api.posted();
    check(&stage, ("discord", "500", "discord:42"), sent, asks, displayed).await;
    connector.stop().await;
}
