//! The scripted model of the fault runs, and what it makes of a text.

use serde_json::{Value, json};

/// How an event must end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) ending: Ending,
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
            {"when": {"contains": TOOL_MARK}, "toolCalls": [{"id": "call-1", "name": "clock.now", "arguments": {}}], "delayMs": delay_ms},
            {"when": {"startsWith": REFUSED_MARK}, "error": {"kind": "rejected"}},
            {"when": {"startsWith": SLOW_MARK}, "say": "re: {{user}}", "delayMs": 4_000},
        ],
        "otherwise": answer,
    })
}

pub(crate) fn of(text: &str) -> Expected {
    let answer = Ending::Answer(format!("re: {text}"));
    if text.starts_with(REFUSED_MARK) {
        Expected { ending: Ending::Failure, steps: 0 }
    } else if text.contains(TOOL_MARK) {
        Expected { ending: answer, steps: 3 }
    } else {
        Expected { ending: answer, steps: 1 }
    }
}
