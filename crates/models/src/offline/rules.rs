//! What the offline model understands: the first rule that has something to say wins.

use super::{Question, Reaction, phrases, recollection};
use crate::history::user_texts;
use cortex_types::{ChatMessage, DENIED_RESULT, EXPIRED_RESULT};

/// A plain phrase in, a reaction out. A built-in tool gets its phrases by a rule of its own here.
type Rule = fn(&Question<'_>) -> Option<Reaction>;

pub(super) const RULES: &[Rule] = &[
    tell_tool_results,
    phrases::say_reminder,
    call_named_tool,
    phrases::make_reminder,
    phrases::keep_reminders,
    phrases::read_calendar,
    phrases::tell_time,
    recollection::keep,
    recollection::ask,
    recall_name,
    greet_by_name,
    recall_words,
    recall_facts,
    greet,
    explain,
    thank,
];

/// What a model answers when nothing is to be said.
const NO_REPLY: &str = "NO_REPLY";

const SETUP: &str = "To talk to a real model, set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY \
    (or `providers` in server.json) and restart.";

pub(super) fn echo(question: &Question<'_>) -> String {
    let quoted = shortened(question.text);
    format!(
        "You said: \"{quoted}\". I am the offline model: I keep what you say, but I cannot think about it. {SETUP}"
    )
}

fn tell_tool_results(question: &Question<'_>) -> Option<Reaction> {
    let mut lines: Vec<String> = Vec::new();
    let mut has_unapproved = false;
    for message in question.request.messages.iter().rev() {
        let ChatMessage::Tool { name, text, is_error, .. } = message else { break };
        let text = phrases::without_warning(text);
        // The person who said no, or did not answer in time, has been told what comes of it.
        if *is_error && [DENIED_RESULT, EXPIRED_RESULT].contains(&text) {
            has_unapproved = true;
            continue;
        }
        let verb = if *is_error { "failed" } else { "answered" };
        let plain = || format!("{name} {verb}: {}", shortened(text));
        lines.push(phrases::result_in_words(name, text, *is_error).unwrap_or_else(plain));
    }
    lines.reverse();
    match lines.is_empty() {
        true => has_unapproved.then(|| Reaction::Say(NO_REPLY.to_owned())),
        false => Some(Reaction::Say(lines.join("\n"))),
    }
}

/// `use notes.add {"text":"milk"}`, or without arguments.
fn call_named_tool(question: &Question<'_>) -> Option<Reaction> {
    let rest = after_word(question.text.trim(), "use")?;
    let (name, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let tool = question.request.tools.iter().find(|tool| tool.name == name)?;
    let arguments_json = match arguments.trim() {
        "" => "{}".to_owned(),
        arguments => arguments.to_owned(),
    };
    Some(Reaction::Call { tool: tool.name.clone(), arguments_json })
}

fn recall_name(question: &Question<'_>) -> Option<Reaction> {
    let asks = ["what is my name", "what's my name", "who am i", "do you know my name"];
    if !asks.contains(&question.plain.as_str()) {
        return None;
    }
    let known = user_texts(question.request).into_iter().rev().find_map(name_in);
    Some(Reaction::Say(match known {
        Some(name) => format!("Your name is {name}."),
        None => "You have not told me your name in this conversation.".to_owned(),
    }))
}

fn greet_by_name(question: &Question<'_>) -> Option<Reaction> {
    let name = name_in(question.text)?;
    Some(Reaction::Say(format!("Nice to meet you, {name}. I will remember it in this conversation.")))
}

/// `what did I say`, `what did I say about milk`.
fn recall_words(question: &Question<'_>) -> Option<Reaction> {
    let rest = question.plain.strip_prefix("what did i say")?;
    let subject = rest.trim().strip_prefix("about ").unwrap_or_default();
    let texts = user_texts(question.request);
    let (_, earlier) = texts.split_last()?;
    let found = earlier.iter().rev().find(|text| text.to_lowercase().contains(subject));
    Some(Reaction::Say(match found {
        Some(text) => format!("You said: \"{}\".", shortened(text)),
        None if subject.is_empty() => "This is the first thing you have said here.".to_owned(),
        None => format!("You have not said anything about {subject} here."),
    }))
}

/// `what do you know about milk`: whatever memory was laid before the model.
fn recall_facts(question: &Question<'_>) -> Option<Reaction> {
    let subject = question.plain.strip_prefix("what do you know about ")?;
    let lines: Vec<&str> = question
        .request
        .system
        .lines()
        .map(str::trim)
        .filter(|line| line.to_lowercase().contains(subject))
        .take(5)
        .collect();
    Some(Reaction::Say(match lines.as_slice() {
        [] => format!("I have nothing on {subject}."),
        lines => format!("This is what I have on {subject}:\n{}", lines.join("\n")),
    }))
}

fn greet(question: &Question<'_>) -> Option<Reaction> {
    let greetings = ["hello", "hi", "hey", "good morning", "good evening", "good afternoon", "hallo", "moin"];
    let greets = greetings.iter().any(|greeting| match after_word(&question.plain, greeting) {
        // A long sentence that happens to begin with "hi" is about something else.
        Some(rest) => rest.split_whitespace().count() <= 2,
        None => question.plain == *greeting,
    });
    greets.then(|| {
        Reaction::Say(format!(
            "Hello! I am the offline model that answers until a real one is configured. {SETUP}"
        ))
    })
}

fn explain(question: &Question<'_>) -> Option<Reaction> {
    let asks = ["help", "/help", "who are you", "what are you", "what can you do"];
    asks.contains(&question.plain.as_str()).then(|| {
        Reaction::Say(format!(
            "I am the offline model. I greet, I look back (\"what did I say about …\", \"what is my name\", \
             \"what do you know about …\"), I remember (\"remember that …\"), I tell the time, read your calendar, keep reminders (\"remind me every \
             weekday at 9 to stretch\") and call a tool you name (\"use skill.tool {{…}}\"). {SETUP}"
        ))
    })
}

fn thank(question: &Question<'_>) -> Option<Reaction> {
    let thanks = ["thanks", "thank you"];
    let is_thanks = thanks.iter().any(|word| question.plain.starts_with(word));
    is_thanks.then(|| Reaction::Say("You are welcome.".to_owned()))
}

/// The name in "my name is …" and its kin, as it was written.
fn name_in(text: &str) -> Option<&str> {
    let name =
        ["my name is", "call me", "i am called"].iter().find_map(|phrase| after_word(text.trim(), phrase))?;
    let end = name.find(['.', ',', '!', '?', ';', '\n']).unwrap_or(name.len());
    let name = name[..end].trim();
    (!name.is_empty() && name.split_whitespace().count() <= 4).then_some(name)
}

/// What follows `phrase` at the beginning of `text`, whatever its case.
fn after_word<'a>(text: &'a str, phrase: &str) -> Option<&'a str> {
    let beginning = text.get(..phrase.len())?;
    let rest = text[phrase.len()..].strip_prefix([' ', ',', ':'])?;
    beginning.eq_ignore_ascii_case(phrase).then(|| rest.trim_start())
}

fn shortened(text: &str) -> String {
    const QUOTE_CHARS_MAX: usize = 500;
    let text = text.trim();
    if text.chars().count() <= QUOTE_CHARS_MAX {
        return text.to_owned();
    }
    text.chars().take(QUOTE_CHARS_MAX).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Reaction, react};
    use super::NO_REPLY;
    use cortex_types::{ChatMessage, ChatRequest, DENIED_RESULT, EXPIRED_RESULT, ToolSpec};

    fn user(text: &str) -> ChatMessage {
        ChatMessage::User { text: text.to_owned() }
    }

    #[test]
    fn an_attachment_does_not_hide_the_words_it_came_with() {
        assert_eq!(said(&["[attachments: a.jpg]\nhello"]), said(&["hello"]));
        assert_ne!(said(&["[attachments: a.jpg\nhello"]), said(&["hello"]));
    }

    fn said(messages: &[&str]) -> String {
        let messages = messages.iter().map(|text| user(text)).collect();
        match react(&ChatRequest { messages, ..ChatRequest::default() }) {
            Reaction::Say(text) => text,
            Reaction::Call { tool, .. } => panic!("called {tool}"),
        }
    }

    #[test]
    fn it_greets_says_what_it_is_and_how_to_get_a_real_model() {
        for greeting in ["hello", "Hi!", "Hey there", "good morning, cortex"] {
            let answer = said(&[greeting]);
            assert!(answer.starts_with("Hello! I am the offline model"), "{greeting}: {answer}");
            assert!(answer.contains("ANTHROPIC_API_KEY"));
        }
        assert!(said(&["hi, please look up the train to Bonn"]).starts_with("You said:"));
    }

    #[test]
    fn it_answers_from_the_history() {
        assert_eq!(
            said(&["My name is Ada Lovelace. Hello!", "ok", "What is my name?"]),
            "Your name is Ada Lovelace."
        );
        assert_eq!(said(&["what's my name"]), "You have not told me your name in this conversation.");
        assert_eq!(said(&["call me Ö"]), "Nice to meet you, Ö. I will remember it in this conversation.");
        assert_eq!(said(&["buy milk", "feed the cat", "What did I say?"]), "You said: \"feed the cat\".");
        assert_eq!(
            said(&["buy Milk", "feed the cat", "what did I say about milk?"]),
            "You said: \"buy Milk\"."
        );
        assert_eq!(said(&["what did I say"]), "This is the first thing you have said here.");
    }

    #[test]
    fn it_answers_from_memory_in_its_context() {
        let request = ChatRequest {
            system: "Known facts\n- Ada likes tea\n- Bob likes coffee".to_owned(),
            messages: vec![user("What do you know about Ada?")],
            ..ChatRequest::default()
        };
        assert_eq!(react(&request), Reaction::Say("This is what I have on ada:\n- Ada likes tea".to_owned()));
    }

    #[test]
    fn it_calls_a_tool_that_is_named_and_tells_what_came_back() {
        let mut request = ChatRequest {
            tools: vec![ToolSpec {
                name: "notes.add".to_owned(),
                description: String::new(),
                input_schema_json: "{}".to_owned(),
            }],
            messages: vec![user("use notes.add {\"text\":\"milk\"}")],
            ..ChatRequest::default()
        };
        let call =
            Reaction::Call { tool: "notes.add".to_owned(), arguments_json: "{\"text\":\"milk\"}".to_owned() };
        assert_eq!(react(&request), call);
        request.messages.push(ChatMessage::Tool {
            call_id: "call".to_owned(),
            name: "notes.add".to_owned(),
            text: "noted".to_owned(),
            is_error: false,
        });
        assert_eq!(react(&request), Reaction::Say("notes.add answered: noted".to_owned()));
        request.messages = vec![user("use notes.erase")];
        assert!(matches!(react(&request), Reaction::Say(_)), "a tool that was not offered is not called");
    }

    #[test]
    fn a_call_that_was_not_approved_is_no_failure_and_is_told_by_others() {
        let result = |text: &str| ChatMessage::Tool {
            call_id: "call".to_owned(),
            name: "notes.add".to_owned(),
            text: text.to_owned(),
            is_error: true,
        };
        let mut request = ChatRequest { messages: vec![user("x")], ..ChatRequest::default() };
        for text in [DENIED_RESULT, EXPIRED_RESULT] {
            request.messages.truncate(1);
            request.messages.push(result(text));
            assert_eq!(react(&request), Reaction::Say(NO_REPLY.to_owned()), "{text}");
        }
        request.messages.push(result("no such note"));
        assert_eq!(react(&request), Reaction::Say("notes.add failed: no such note".to_owned()));
    }

    #[test]
    fn anything_else_is_echoed_with_the_way_out() {
        let answer = said(&[&"long ".repeat(1000)]);
        assert!(answer.starts_with("You said: \"long long") && answer.len() < 1_000, "{answer}");
        assert!(said(&[""]).contains("offline model"));
    }
}
