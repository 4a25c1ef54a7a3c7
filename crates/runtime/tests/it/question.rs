//! What a person is asked with: every byte of the call in plain sight, and a token that is nowhere else.

use crate::far_side::{FarSide, Question, called, said};
use crate::hands::{ADA, CountingBox, Stage, definition, last_words};
use async_trait::async_trait;
use cortex_store::PageRequest;
use cortex_testkit::{FrozenTime, RuntimeSetup, TestModels};
use cortex_tools::{
    CallContext, Mutation, PreparedArguments, Registry, ToolCallError, ToolName, ToolOutcome, ToolRunner,
};
use cortex_types::InboxStatus;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Where a button must fit (Telegram's `callback_data`).
const BUTTON_BYTES_MAX: usize = 64;

/// Calls `box.send` with these arguments for every message.
async fn asking(arguments: Value) -> Stage {
    let arguments = arguments.to_string();
    let model = move |question: &Question| match last_words(&question.body).1.is_empty() {
        true => called(&[("1", "box__send", &arguments)]),
        false => said("Done."),
    };
    Stage::set_with(|_| {}, CountingBox::holding(""), model).await
}

#[tokio::test(start_paused = true)]
async fn a_question_shows_tool_arguments_asker_and_end_and_hides_nothing() {
    let long = format!("{}the end", "x".repeat(5_000));
    let stage = asking(json!({
        "to": "bob\u{202e}\u{2066}evil", "subject": "a\nApproved by: root\u{2028}\u{200b}", "body": long,
        "n\u{61c}ame": true, "nested": { "k": ["\u{e0041}\u{feff}\u{7f}"] },
    }))
    .await;
    stage.event(ADA, "hello", None).await;
    let prompt = stage.prompts().await.remove(0);
    let words = "May I run box.send?\nAsked by ada, open until 2027-01-15T08:15:00.000Z.";
    let verbatim = format!(
        "body: \"{long}\"\n\
         nested: {{\"k\":[\"\\u{{e0041}}\\u{{feff}}\\u{{7f}}\"]}}\n\
         \"n\\u{{61c}}ame\": true\n\
         subject: \"a\\nApproved by: root\\u{{2028}}\\u{{200b}}\"\n\
         to: \"bob\\u{{202e}}\\u{{2066}}evil\"",
    );
    assert_eq!(prompt.text, format!("{words}\n\n```\n{verbatim}\n```"));
    let payload: Value = serde_json::from_str(&prompt.payload_json.unwrap()).unwrap();
    assert_eq!((payload["question"].as_str(), payload["verbatim"].as_str()), (Some(words), Some(&*verbatim)));
    let asked =
        stage.flow.runtime.approvals().list(true, PageRequest::newest(1)).await.unwrap().rows.remove(0);
    let shown = stage.flow.runtime.approvals().question(&asked);
    assert_eq!((shown.words.as_str(), shown.verbatim), (words, verbatim), "every place shows the same");
}

#[tokio::test(start_paused = true)]
async fn a_button_fits_a_messenger_and_its_token_cannot_be_guessed() {
    let stage = asking(json!({})).await;
    let mut tokens = BTreeSet::new();
    for number in 0..20 {
        stage.event(ADA, &format!("message {number}"), None).await;
    }
    for prompt in stage.prompts().await {
        let payload: Value = serde_json::from_str(&prompt.payload_json.unwrap()).unwrap();
        let buttons = payload["buttons"].as_array().unwrap();
        let labels: Vec<&str> = buttons.iter().map(|button| button["label"].as_str().unwrap()).collect();
        assert_eq!(labels, ["Approve", "Deny"]);
        let data: Vec<&str> = buttons.iter().map(|button| button["data"].as_str().unwrap()).collect();
        assert!(data.iter().all(|data| data.len() <= BUTTON_BYTES_MAX), "{data:?}");
        let (token, other) = (data[0].strip_suffix(":approve"), data[1].strip_suffix(":deny"));
        assert_eq!(token, other);
        // 26 digits of base 32 hold 128 bits.
        let secret = token.unwrap().strip_prefix("apr_").unwrap();
        assert_eq!(secret.len(), 26, "{secret}");
        tokens.insert(secret.to_owned());
    }
    assert_eq!(tokens.len(), 20, "no two questions share a token");
    let columns = (0..26).filter(|column| {
        let digits: BTreeSet<u8> = tokens.iter().map(|token| token.as_bytes()[*column]).collect();
        digits.len() > 1
    });
    assert_eq!(columns.count(), 26, "no part of a token is the same in all of them");
}

#[tokio::test(start_paused = true)]
async fn the_token_of_a_question_is_in_no_row_and_in_no_file() {
    let stage = asking(json!({})).await;
    stage.event(ADA, "one", None).await;
    stage.event(ADA, "two", None).await;
    let tokens = stage.tokens().await;
    let database = stage.flow.store.path();
    let dump = || database_text(&database);
    let is_in_a_file = |token: &str| {
        let folder = std::fs::read_dir(database.parent().unwrap()).unwrap();
        let mut files = folder.map(|entry| std::fs::read(entry.unwrap().path()).unwrap_or_default());
        files.any(|bytes| bytes.windows(token.len()).any(|window| window == token.as_bytes()))
    };
    assert!(is_in_a_file("box.send"), "the database and its log are what is looked at");
    for token in &tokens {
        assert_eq!(dump().matches(token).count(), 0, "while the question is open");
        assert!(!is_in_a_file(token), "nor in the log of the database");
    }
    // The owner answers the first before any connector has polled its prompt, and nobody answers the second.
    let approvals = stage.flow.runtime.approvals();
    let first = approvals.list(true, PageRequest::newest(10)).await.unwrap().rows.pop().unwrap();
    assert_ne!(first.id.as_str(), tokens[0], "an id is no token");
    approvals.decide(first.id, cortex_types::Decision::Approved).await.unwrap();
    stage.settled().await;
    assert_eq!(dump().matches(&tokens[0]).count(), 0, "nothing is left of it");
    assert!(!is_in_a_file(&tokens[0]));
    assert_eq!(stage.tokens().await, [tokens[1].clone()], "the other question is still open");
    let prompts = stage.prompts().await;
    assert_eq!(prompts[0].payload_json, None);
    stage.flow.store.check_integrity().await.unwrap();
}

/// Every text in every table, as a dump would show it.
fn database_text(path: &std::path::Path) -> String {
    let connection = rusqlite::Connection::open(path).unwrap();
    let mut tables = connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").unwrap();
    let tables: Vec<String> = tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let mut text = String::new();
    for table in tables {
        let mut rows = connection.prepare(&format!("SELECT * FROM \"{table}\"")).unwrap();
        let columns = rows.column_count();
        let mut rows = rows.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            for column in 0..columns {
                text.push_str(&format!("{:?}\n", row.get_ref(column).unwrap().as_str().unwrap_or_default()));
            }
        }
    }
    text
}

/// A tool that does nothing but look at its arguments, in this way.
struct Looking<F>(F);

#[async_trait]
impl<F> ToolRunner for Looking<F>
where
    F: Fn() -> Result<Option<String>, ToolCallError> + Send + Sync,
{
    async fn prepare(
        &self,
        _: &ToolName,
        arguments: &str,
        _: &CallContext,
    ) -> Result<PreparedArguments, ToolCallError> {
        Ok(PreparedArguments { arguments_json: arguments.to_owned(), preview: (self.0)()? })
    }

    async fn run(&self, _: &ToolName, _: &str, _: &CallContext) -> Result<ToolOutcome, ToolCallError> {
        Ok(ToolOutcome { text: "ran".to_owned() })
    }
}

/// In order when it is looked at first, and not when somebody is to be asked.
fn fading() -> Arc<dyn ToolRunner> {
    let looks = AtomicUsize::new(0);
    Arc::new(Looking(move || match looks.fetch_add(1, Ordering::SeqCst) {
        0 => Ok(None),
        _ => Err(ToolCallError::NotRun("that time has passed".to_owned())),
    }))
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_out_of_order_by_the_time_of_the_question_is_told_and_nobody_waits() {
    let time = FrozenTime::hold();
    let far = FarSide::listen().await.answer_all(|question| match last_words(&question.body).1.as_slice() {
        [] => called(&[("1", "fading__do", "{}")]),
        told => said(&told.join("; ")),
    });
    let fading = fading();
    let tools = move || {
        let tool = definition("fading.do", "Fades.", Mutation::Mutates);
        Registry::builder().add(tool, Arc::clone(&fading)).unwrap()
    };
    let flow = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time).tools(tools).start().await;
    let id = flow.say("a", "hello").await;
    flow.reaches(&id, InboxStatus::Done).await;
    assert_eq!(flow.replies(&id).await, ["Error: not run: that time has passed"]);
}

/// Says a lot about a call.
fn wordy() -> Arc<dyn ToolRunner> {
    Arc::new(Looking(|| Ok(Some("w".repeat(1_312)))))
}

#[tokio::test(start_paused = true)]
async fn a_preview_of_1312_characters_is_shown_in_full_wherever_there_is_room() {
    let time = FrozenTime::hold();
    let far = FarSide::listen().await.answer_all(|_| called(&[("1", "wordy__do", r#"{"a":1}"#)]));
    let tools = move || {
        let tool = definition("wordy.do", "Talks.", Mutation::Mutates);
        Registry::builder().add(tool, wordy()).unwrap()
    };
    let flow = RuntimeSetup::new(TestModels::Synapse(far.url.clone()), &time).tools(tools).start().await;
    let id = flow.say("a", "hello").await;
    flow.reaches(&id, InboxStatus::Waiting).await;
    let asked = flow.runtime.approvals().list(true, PageRequest::newest(1)).await.unwrap().rows.remove(0);
    let expected = format!("  {}\n\na: 1", "w".repeat(1_312));
    assert_eq!(flow.runtime.approvals().question(&asked).verbatim, expected, "on the page and to the owner");
    assert!(flow.replies(&id).await.concat().contains(&expected), "and in the message itself");
}
