//! Plain phrases for memory: `remember that …`, `what do you know about …`.

use super::phrases::{call, written};
use super::{Question, Reaction};
use serde::{Deserialize, Serialize};

const KEEP: &[&str] =
    &["remember that ", "remember: ", "don't forget that ", "do not forget that ", "keep in mind that "];
const ASK: &[&str] = &["what do you know about ", "what do you remember about ", "do you remember "];
const SHOWN_MAX: usize = 5;

/// `remember that the key is under the pot`.
pub(super) fn keep(question: &Question<'_>) -> Option<Reaction> {
    let plain = question.plain.strip_prefix("please ").unwrap_or(&question.plain);
    let note = KEEP.iter().find_map(|phrase| plain.strip_prefix(phrase))?.trim();
    call(question, "memory.remember", &Note { text: written(question.text, note)? })
}

/// `what do you know about the key`.
pub(super) fn ask(question: &Question<'_>) -> Option<Reaction> {
    let subject = ASK.iter().find_map(|phrase| question.plain.strip_prefix(phrase))?.trim();
    call(question, "memory.query", &Query { query: subject, limit: SHOWN_MAX })
}

/// What a tool of memory answered, for a person.
pub(super) fn in_words(tool: &str, text: &str) -> Option<String> {
    match tool {
        "remember" if text.starts_with("was known") => Some("I knew that already.".to_owned()),
        "remember" => Some("I will remember that.".to_owned()),
        "forget" => Some(format!("Done: {text}")),
        "query" => {
            let hits: Vec<Hit> = serde_json::from_str(text).unwrap_or_default();
            // What this model said itself is an echo of the others.
            let texts = hits.iter().filter(|hit| hit.speaker.as_deref() != Some("assistant"));
            let lines: Vec<String> = texts.map(|hit| format!("- {}", hit.text)).collect();
            Some(match lines.as_slice() {
                [] => "I have nothing on that.".to_owned(),
                lines => format!("This is the nearest I have:\n{}", lines.join("\n")),
            })
        }
        _ => None,
    }
}

#[derive(Serialize)]
struct Note<'a> {
    text: &'a str,
}

#[derive(Serialize)]
struct Query<'a> {
    query: &'a str,
    limit: usize,
}

#[derive(Deserialize)]
struct Hit {
    text: String,
    speaker: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::super::{Reaction, react};
    use super::in_words;
    use cortex_types::{ChatMessage, ChatRequest, ToolSpec};

    fn asked(text: &str, offered: &[&str]) -> Reaction {
        let spec = |name: &&str| ToolSpec {
            name: (*name).to_owned(),
            description: String::new(),
            input_schema_json: "{}".to_owned(),
        };
        react(&ChatRequest {
            tools: offered.iter().map(spec).collect(),
            messages: vec![ChatMessage::User { text: text.to_owned() }],
            ..ChatRequest::default()
        })
    }

    #[test]
    fn what_is_to_be_remembered_is_kept_as_it_was_written() {
        let call = |tool: &str, json: &str| Reaction::Call {
            tool: tool.to_owned(),
            arguments_json: json.to_owned(),
        };
        let offered = ["memory.remember", "memory.query"];
        assert_eq!(
            asked("Please remember that Ada's key is under the Blue Pot.", &offered),
            call("memory.remember", r#"{"text":"Ada's key is under the Blue Pot"}"#)
        );
        assert_eq!(
            asked("What do you know about the key?", &offered),
            call("memory.query", r#"{"query":"the key","limit":5}"#)
        );
        assert!(matches!(asked("remember that", &offered), Reaction::Say(_)));
        assert!(
            matches!(asked("remember that it rains", &[]), Reaction::Say(_)),
            "without the tool it only answers"
        );
    }

    #[test]
    fn what_was_found_is_told_without_what_the_model_said() {
        let hits = r#"[{"kind":"fact","text":"tea is fine"},{"kind":"turn","speaker":"assistant","text":"You said"},
            {"kind":"turn","speaker":"cli:owner","text":"I like tea"}]"#;
        assert_eq!(
            in_words("query", hits).unwrap(),
            "This is the nearest I have:\n- tea is fine\n- I like tea"
        );
        assert_eq!(in_words("query", "nothing found").unwrap(), "I have nothing on that.");
        assert_eq!(in_words("remember", "remembered: fct_1").unwrap(), "I will remember that.");
        assert_eq!(in_words("remember", "was known already: fct_1").unwrap(), "I knew that already.");
    }
}
