//! The scripted model of the fault runs, and what it makes of a text.

use serde_json::{Value, json};

/// How an event must end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) ending: Ending,
    /// Whether a person is asked before.
    pub(crate) asks: bool,
    /// Steps in the journal of its turn.
    pub(crate) steps: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Done, with this reply.
    Answer(String),
    /// Failed, and the user was told.
    Failure,
}

const TOOL_MARK: &str = "with tools";
const REFUSED_MARK: &str = "refused:";
const SLOW_MARK: &str = "slowly:";
const ASKING_MARK: &str = "asking:";
/// Changes something, so that it asks, and is in every server.
const ASKING_TOOL: &str = "schedule.create";

/// An answer after one round of tools; the words in front are free.
pub(crate) fn text_with_tools(name: &str) -> String {
    format!("{name} {TOOL_MARK}")
}

/// A text that every provider rejects.
pub(crate) fn refused_text(name: &str) -> String {
    format!("{REFUSED_MARK} {name}")
}

/// A text whose answer takes four seconds.
pub(crate) fn slow_text(name: &str) -> String {
    format!("{SLOW_MARK} {name}")
}

/// A text whose answer needs an approval.
pub(crate) fn asking_text(name: &str) -> String {
    format!("{ASKING_MARK} {name}")
}

/// Whether a message is a question to the user.
pub(crate) fn is_question(text: &str) -> bool {
    text.starts_with("May I add a reminder")
}

/// Whether a line of the history says what a person was asked.
pub(crate) fn is_asked_line(text: &str) -> bool {
    text.starts_with(&format!("[asked the user to approve {ASKING_TOOL} "))
}

/// Whether a message says that the question was answered with yes.
pub(crate) fn is_approval(text: &str) -> bool {
    text.starts_with(&format!("Approved: {ASKING_TOOL} "))
}

/// Whether a message says that nobody knows whether a tool ran.
pub(crate) fn is_unknown_notice(text: &str) -> bool {
    text.starts_with(&format!("{ASKING_TOOL} may have run"))
}

pub(crate) fn script(delay_ms: u64) -> Value {
    let answer = json!({"say": "re: {{user}}", "delayMs": delay_ms});
    let with = |when: Value, mut answer: Value| {
        answer["when"] = when;
        answer
    };
    json!({
        "model": "script",
        "answers": [
            with(json!({"afterTool": "clock.now"}), answer.clone()),
            with(json!({"afterTool": ASKING_TOOL}), answer.clone()),
            {"when": {"startsWith": ASKING_MARK}, "toolCalls": [{"id": "call-1", "name": ASKING_TOOL,
                "arguments": {"cron": "0 0 1 1 *", "what": "a happy new year"}}], "delayMs": delay_ms},
            {"when": {"contains": TOOL_MARK}, "toolCalls": [{"id": "call-1", "name": "clock.now", "arguments": {}}], "delayMs": delay_ms},
            {"when": {"startsWith": REFUSED_MARK}, "error": {"kind": "rejected"}},
            {"when": {"startsWith": SLOW_MARK}, "say": "re: {{user}}", "delayMs": 4_000},
        ],
        "otherwise": answer,
    })
}

pub(crate) fn of(text: &str) -> Expected {
    let answer = Ending::Answer(format!("re: {text}"));
    let (ending, asks, steps) = if text.starts_with(REFUSED_MARK) {
        (Ending::Failure, false, 0)
    } else if text.starts_with(ASKING_MARK) {
        (answer, true, 6)
    } else if text.contains(TOOL_MARK) {
        (answer, false, 3)
    } else {
        (answer, false, 1)
    };
    Expected { ending, asks, steps }
}
