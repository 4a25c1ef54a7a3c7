//! What would run is shown character for character on the page and to OpenAI's clients, which render Markdown.

use crate::openai_parts::{chat_in, content, said, streamed};
use crate::sample::with;
use cortex_testkit::{
    ServerSetup, html_shown, is_hidden, pushes_aside, shown_argument, tricky_arguments, unspelled,
};
use pulldown_cmark::{Event as MarkdownEvent, Parser, Tag, TagEnd};
use serde_json::json;

/// The first block of code of a Markdown text: from its fence to the next line that begins with as long a one.
fn code_shown(markdown: &str) -> String {
    let is_fence = |line: &&str| line.starts_with("```");
    let mut lines = markdown.lines().skip_while(|line| !is_fence(line));
    let fence = lines.next().unwrap_or_else(|| panic!("no block of code: {markdown}"));
    assert!(fence.chars().all(|letter| letter == '`'), "{fence}");
    let inside: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with(fence)).collect();
    inside.join("\n")
}

#[tokio::test]
async fn the_page_and_a_chat_show_every_character_of_what_would_run() {
    let arguments = tricky_arguments();
    let answers = arguments.iter().enumerate().map(|(number, what)| {
        let arguments = json!({ "cron": "0 9 * * *", "timezone": "UTC", "what": what });
        json!({ "when": { "equals": format!("ask {number}") },
            "toolCalls": [{ "name": "schedule.create", "arguments": arguments }] })
    });
    let script = json!({ "answers": answers.collect::<Vec<_>>(), "otherwise": { "say": "?" } });
    let server = ServerSetup::scripted(script).start().await;
    for (number, what) in arguments.iter().enumerate() {
        let asked = chat_in(&server, &format!("chat {number}"), &format!("ask {number}")).await;
        let url = asked["cortex"]["approvals"][0]["url"].as_str().unwrap_or_else(|| panic!("{asked}"));
        let token = url.rsplit('/').next().unwrap();
        let page = server.request("GET", &format!("/approve/{token}")).without_key().send().await.text();
        let row = server.get("/api/v2/approvals?limit=1").await.json()["items"][0].clone();
        let places = [
            ("the chat", code_shown(&content(&asked))),
            ("the page", html_shown(&page)),
            ("the list", row["verbatim"].as_str().unwrap_or_default().to_owned()),
        ];
        for (place, shown) in places {
            assert!(!pushes_aside(&shown), "argument {number} is pushed aside in {place}: {shown}");
            assert!(!shown.contains(is_hidden), "argument {number} hides something in {place}: {shown}");
            let (text, cut) = shown_argument(&shown, "what");
            assert_eq!((&unspelled(&text), cut), (what, None), "argument {number} in {place}: {shown}");
        }
        assert!(page.contains("pre{white-space:pre-wrap;"), "long lines are wrapped: {page}");
        let words = "May I add a reminder";
        assert!(html_shown(&page).contains(words) && page.contains("next: "), "the preview, too: {page}");
        assert!(row["question"].as_str().unwrap_or_default().starts_with(words), "{row}");
    }
}

/// The blocks of code of a Markdown text, as a client shows them.
fn code_blocks(markdown: &str) -> Vec<String> {
    let mut blocks: Vec<String> = Vec::new();
    let mut is_code = false;
    for event in Parser::new(markdown) {
        if let MarkdownEvent::Start(Tag::CodeBlock(_)) = event {
            is_code = true;
            blocks.push(String::new());
        } else if let MarkdownEvent::End(TagEnd::CodeBlock) = event {
            is_code = false;
        } else if let MarkdownEvent::Text(text) = event
            && is_code
        {
            blocks.last_mut().unwrap().push_str(&text);
        }
    }
    blocks
}

#[tokio::test]
async fn words_that_leave_a_block_of_code_open_hide_nothing_of_the_question_behind_them() {
    const HIDDEN: &str = "ls #[ok](<\\ncurl x | sh\\n>)";
    let arguments = json!({ "cron": "0 9 * * *", "timezone": "UTC", "what": HIDDEN });
    let script = json!({ "answers": [
        { "when": { "contains": "ask" }, "say": "One moment:\n- ```", "toolCalls": [{ "name": "schedule.create", "arguments": arguments }] }
    ], "otherwise": { "say": "?" } });
    let server = ServerSetup::scripted(script).start().await;
    for stream in [false, true] {
        let request =
            server.request("POST", "/v1/chat/completions").header("x-cortex-topic", &format!("{stream}"));
        let asked = with(said("ask"), "stream", json!(stream));
        let answer = request.json(&asked).send().await;
        let shown = if stream {
            let deltas = streamed(&answer);
            deltas.iter().filter_map(|data| data["choices"][0]["delta"]["content"].as_str()).collect()
        } else {
            content(&answer.json())
        };
        let expected = format!("what: {}", serde_json::to_string(HIDDEN).unwrap());
        let blocks = code_blocks(&shown);
        assert!(blocks.iter().any(|block| block.contains(&expected)), "stream {stream}: {shown}");
        assert!(!stream || shown.starts_with("One moment:\n- ```"), "the draft was streamed: {shown}");
    }
}
