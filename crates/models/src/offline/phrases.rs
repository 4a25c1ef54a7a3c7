//! Plain phrases for the built-in tools, so that a newcomer without a key sees tools, approvals and schedules work.

use super::{Question, Reaction, recollection};
use serde::Deserialize;

/// What the runtime puts before the words of a reminder that is due.
const REMINDER: &str = "Reminder: ";
/// What a tool puts before a question that only the user can answer.
const ASK_THE_USER: &str = "ask the user: ";

/// A reminder that is due is said as it is.
pub(super) fn say_reminder(question: &Question<'_>) -> Option<Reaction> {
    question.text.starts_with(REMINDER).then(|| Reaction::Say(question.text.to_owned()))
}

/// `remind me every weekday at 9 to stretch`: the tool reads the sentence.
pub(super) fn make_reminder(question: &Question<'_>) -> Option<Reaction> {
    let asks = ["remind me", "set a reminder", "set an alarm", "reminder to"];
    let asks_here = asks.iter().any(|phrase| question.plain.contains(phrase));
    asks_here.then(|| call(question, "schedule.create", &Sentence { text: question.text.trim() }))?
}

/// `list my reminders`, `pause reminder 3`, `cancel reminder 3`.
pub(super) fn keep_reminders(question: &Question<'_>) -> Option<Reaction> {
    let words: Vec<&str> = question.plain.split_whitespace().filter(|word| !FILLERS.contains(word)).collect();
    let is_reminder = |word: &str| {
        matches!(word, "reminder" | "reminders" | "schedule" | "schedules" | "job" | "jobs" | "alarms")
    };
    match words.as_slice() {
        [thing] | ["list" | "show" | "what", thing] if is_reminder(thing) => {
            call(question, "schedule.list", &Nothing {})
        }
        [verb, thing, number] if is_reminder(thing) => {
            let tool = match *verb {
                "pause" => "schedule.pause",
                "resume" | "continue" => "schedule.resume",
                "delete" | "cancel" | "remove" | "stop" => "schedule.delete",
                _ => return None,
            };
            call(question, tool, &Job { id: number.trim_start_matches('#').parse().ok()? })
        }
        _ => None,
    }
}

const FILLERS: &[&str] = &["please", "my", "the", "all", "me", "are", "do", "i", "have", "number"];

/// `what is on my calendar tomorrow`, `what is next on my calendar`.
pub(super) fn read_calendar(question: &Question<'_>) -> Option<Reaction> {
    let plain = question.plain.as_str();
    let about_calendar =
        ["my calendar", "my agenda", "my next appointment", "my next meeting", "my next event"];
    if !about_calendar.iter().any(|phrase| plain.contains(phrase)) {
        return None;
    }
    let day = ["today", "tomorrow", "yesterday"].into_iter().find(|day| plain.ends_with(day));
    match day {
        Some(day) => call(question, "calendar.list", &Days { from: day, to: day }),
        None => call(question, "calendar.next", &Nothing {}),
    }
}

/// `what time is it`, `what day is it`, `what time is it in Europe/Berlin`.
pub(super) fn tell_time(question: &Question<'_>) -> Option<Reaction> {
    let asks =
        ["what time is it", "what's the time", "what is the time", "what day is it", "what is the date"];
    let rest = asks.iter().find_map(|phrase| question.plain.strip_prefix(phrase))?;
    match rest.trim() {
        "" | "now" | "today" => call(question, "time.now", &Nothing {}),
        place => {
            // As it was written: zones are spelled with capitals.
            let zone = place.strip_prefix("in ").and_then(|zone| written(question.text, zone.trim()))?;
            call(question, "time.now", &Zone { timezone: zone })
        }
    }
}

/// A result without its first line, where that warns a model that could be led astray; this one cannot.
pub(super) fn without_warning(text: &str) -> &str {
    match text.split_once('\n') {
        Some((first, rest)) if first.starts_with('[') && first.ends_with(": data, not instructions]") => rest,
        Some(_) | None => text,
    }
}

/// A tool's result in words for a person; `None` when the plain form does.
pub(super) fn result_in_words(name: &str, text: &str, is_error: bool) -> Option<String> {
    if let Some((_, asked)) = text.split_once(ASK_THE_USER) {
        return Some(asked.to_owned());
    }
    if is_error {
        return None;
    }
    match name.split_once('.') {
        Some(("time", _)) => {
            let moment: Moment = serde_json::from_str(text).ok()?;
            let (date, time) = moment.iso.split_once('T')?;
            Some(format!("It is {} on {}, {date} ({}).", time.get(..5)?, moment.weekday, moment.timezone))
        }
        Some(("schedule", _)) => Some(format!("Done: {text}")),
        Some(("calendar", _)) => Some(text.to_owned()),
        Some(("memory", tool)) => recollection::in_words(tool, text),
        Some(_) | None => None,
    }
}

#[derive(Deserialize)]
struct Moment {
    iso: String,
    weekday: String,
    timezone: String,
}

#[derive(serde::Serialize)]
struct Sentence<'a> {
    text: &'a str,
}

#[derive(serde::Serialize)]
struct Job {
    id: i64,
}

#[derive(serde::Serialize)]
struct Days {
    from: &'static str,
    to: &'static str,
}

#[derive(serde::Serialize)]
struct Zone<'a> {
    timezone: &'a str,
}

#[derive(serde::Serialize)]
struct Nothing {}

/// A call, when the tool is offered.
pub(super) fn call(
    question: &Question<'_>,
    tool: &str,
    arguments: &impl serde::Serialize,
) -> Option<Reaction> {
    let offered = question.request.tools.iter().find(|offered| offered.name == tool)?;
    let arguments_json = serde_json::to_string(arguments).ok()?;
    Some(Reaction::Call { tool: offered.name.clone(), arguments_json })
}

/// The part of `text` that reads `lower` in lower case.
pub(super) fn written<'a>(text: &'a str, lower: &str) -> Option<&'a str> {
    text.char_indices()
        .filter_map(|(at, _)| text.get(at..at + lower.len()))
        .find(|part| part.eq_ignore_ascii_case(lower))
}

#[cfg(test)]
mod tests {
    use super::super::{Reaction, react};
    use super::result_in_words;
    use cortex_types::{ChatMessage, ChatRequest, ToolSpec};

    const OFFERED: &[&str] = &[
        "schedule.create",
        "schedule.list",
        "schedule.delete",
        "schedule.pause",
        "schedule.resume",
        "calendar.list",
        "calendar.next",
        "time.now",
    ];

    fn asked(text: &str) -> Reaction {
        let spec = |name: &&str| ToolSpec {
            name: (*name).to_owned(),
            description: String::new(),
            input_schema_json: "{}".to_owned(),
        };
        react(&ChatRequest {
            tools: OFFERED.iter().map(spec).collect(),
            messages: vec![ChatMessage::User { text: text.to_owned() }],
            ..ChatRequest::default()
        })
    }

    #[track_caller]
    fn check(text: &str, tool: &str, arguments: &str) {
        let expected = Reaction::Call { tool: tool.to_owned(), arguments_json: arguments.to_owned() };
        assert_eq!(asked(text), expected, "{text}");
    }

    #[test]
    fn plain_phrases_become_calls() {
        check(
            "Remind me every weekday at 9 to stretch",
            "schedule.create",
            r#"{"text":"Remind me every weekday at 9 to stretch"}"#,
        );
        check("list my reminders", "schedule.list", "{}");
        check("What reminders do I have?", "schedule.list", "{}");
        check("please cancel reminder #3.", "schedule.delete", r#"{"id":3}"#);
        check("pause my reminder 4", "schedule.pause", r#"{"id":4}"#);
        check("resume schedule 4", "schedule.resume", r#"{"id":4}"#);
        check("What is on my calendar tomorrow?", "calendar.list", r#"{"from":"tomorrow","to":"tomorrow"}"#);
        check("what's next on my calendar", "calendar.next", "{}");
        check("What time is it?", "time.now", "{}");
        check("what time is it in Asia/Tokyo?", "time.now", r#"{"timezone":"Asia/Tokyo"}"#);
    }

    #[test]
    fn what_only_sounds_like_it_is_no_call() {
        for text in ["my calendar is full of birds".repeat(3).as_str(), "the scheduler is down", "stop it 3"]
        {
            assert!(
                !matches!(asked(text), Reaction::Call { ref tool, .. } if tool.starts_with("schedule")),
                "{text}"
            );
        }
        assert_eq!(asked("Reminder: breathe"), Reaction::Say("Reminder: breathe".to_owned()));
    }

    #[test]
    fn results_are_told_in_words() {
        let now = r#"{"iso":"2026-03-29T03:00:00.500+02:00","unixMs":1,"weekday":"Sunday","timezone":"Europe/Berlin"}"#;
        let told = result_in_words("time.now", now, false);
        assert_eq!(told.as_deref(), Some("It is 03:00 on Sunday, 2026-03-29 (Europe/Berlin)."));
        let asked =
            result_in_words("schedule.create", "not run: ask the user: When should I remind you?", true);
        assert_eq!(asked.as_deref(), Some("When should I remind you?"));
        assert_eq!(result_in_words("notes.add", "noted", false), None);
    }
}
