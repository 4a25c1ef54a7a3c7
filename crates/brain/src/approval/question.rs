//! The question to a person: in plain words what will happen, and behind it, verbatim, exactly what would run.
//!
//! The words never hold a text from elsewhere that any platform could take for markup: such a text stands in the
//! verbatim part alone, where every hidden character is spelled out and nothing is rendered.

use crate::schedule::{Cron, Schedule, end_of_question};
use crate::visible::{hides, visible_line};
use cortex_types::{JsonText, Millis};
use jiff::tz::TimeZone;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Longest text from elsewhere that the words repeat.
const REPEATED_CHARS_MAX: usize = 120;
const SHORTEST_FENCE: usize = 3;

/// What a question is about.
#[derive(Debug, Clone, Copy)]
pub struct Asking<'a> {
    pub tool: &'a str,
    /// A tool of ours, whose calls have words of their own.
    pub is_built_in: bool,
    /// Canonical: the bytes that would run.
    pub arguments_json: &'a str,
    /// What the tool itself says of the call.
    pub preview: Option<&'a str>,
    pub user: &'a str,
    pub expires_at: Millis,
    pub now: Millis,
}

/// A question as it is shown everywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// Plain words; they read the same as Markdown and as text.
    pub words: String,
    /// The tool's preview and every argument, to be shown as it is and never rendered.
    pub verbatim: String,
    /// How many characters of it are the preview: a place that cannot show all of it cuts that first.
    pub preview_chars: usize,
}

impl Question {
    pub fn of(asking: &Asking<'_>) -> Self {
        let own = if asking.is_built_in { own_words(asking) } else { None };
        let sentence = own.unwrap_or_else(|| format!("May I run {}?", quoted(asking.tool)));
        let (user, until) = (quoted(asking.user), asking.expires_at.to_rfc3339());
        let mut verbatim = preview(asking.preview);
        let preview_chars = verbatim.chars().count();
        if preview_chars > 0 {
            verbatim.push_str("\n\n");
        }
        verbatim.push_str(&arguments(asking.arguments_json));
        Self { words: format!("{sentence}\nAsked by {user}, open until {until}."), verbatim, preview_chars }
    }

    /// All of it as one text, for those who know nothing else: the verbatim part is fenced, so that it stays as it is
    /// where Markdown is rendered, too.
    pub fn text(&self) -> String {
        let runs = self.verbatim.split(|letter| letter != '`').map(str::len);
        let fence = "`".repeat(runs.max().unwrap_or(0).saturating_add(1).max(SHORTEST_FENCE));
        format!("{}\n\n{fence}\n{}\n{fence}", self.words, self.verbatim)
    }
}

/// The preview, indented, so that none of its lines looks like an argument; nothing when there is none.
fn preview(preview: Option<&str>) -> String {
    let preview = preview.filter(|preview| !preview.trim().is_empty()).unwrap_or_default();
    preview.lines().map(|line| format!("  {}", visible_line(line))).collect::<Vec<_>>().join("\n")
}

/// Every argument on a line of its own. JSON keeps a value on its line and in its quotes.
fn arguments(arguments_json: &str) -> String {
    match serde_json::from_str::<BTreeMap<String, JsonText>>(arguments_json) {
        Ok(arguments) if arguments.is_empty() => "(no arguments)".to_owned(),
        Ok(arguments) => {
            let lines = arguments.iter().map(|(name, value)| {
                let is_simple = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
                let name = match !name.is_empty() && name.chars().all(is_simple) {
                    true => name.clone(),
                    false => serde_json::to_string(name).unwrap_or_default(),
                };
                format!("{}: {}", visible_line(&name), visible_line(value.as_str()))
            });
            lines.collect::<Vec<_>>().join("\n")
        }
        Err(_) => visible_line(arguments_json),
    }
}

/// What the words need of the arguments of our own tools.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OwnArguments {
    id: Option<serde_json::Number>,
    cron: Option<String>,
    run_at: Option<String>,
    timezone: Option<String>,
    what: Option<String>,
    text: Option<String>,
    url: Option<String>,
    channel: Option<String>,
    topic: Option<String>,
}

/// The words for a call of one of our own tools; `None` when it has none, or when its arguments are not as expected.
fn own_words(asking: &Asking<'_>) -> Option<String> {
    // An id may be a text elsewhere: then there are no words that need it.
    let given: OwnArguments = serde_json::from_str(asking.arguments_json).unwrap_or_default();
    let id = || given.id.as_ref().map(|id| format!("reminder {id}"));
    Some(match asking.tool {
        "schedule.create" => {
            let (about, when) = (about(given.what.as_deref()), timing(&given, asking.now)?);
            format!("May I add a reminder{about} {when}")
        }
        "schedule.update" => {
            let (about, when) = (about(given.what.as_deref()), timing(&given, asking.now)?);
            format!("May I change {}{about} {when}", id()?)
        }
        "schedule.delete" => format!("May I delete {}?", id()?),
        "schedule.pause" => format!("May I pause {}?", id()?),
        "schedule.resume" => format!("May I resume {}?", id()?),
        "memory.forget" => match asking.preview.and_then(repeated) {
            Some(fact) => format!("May I forget this: {fact}"),
            None => "May I forget this fact?".to_owned(),
        },
        "memory.remember" => match given.text.as_deref().and_then(repeated) {
            Some(fact) => format!("May I remember this: {fact}"),
            None => "May I remember this?".to_owned(),
        },
        "http.get" => match given.url.as_deref().and_then(host_of) {
            Some(host) => format!("May I read a page of {host}?"),
            None => "May I read this page?".to_owned(),
        },
        "session.send" | "channel.send" => {
            let [channel, topic] =
                [&given.channel, &given.topic].map(|name| name.as_deref().and_then(repeated));
            match (channel, topic) {
                (Some(channel), Some(topic)) => {
                    format!("May I send a message to {channel}, conversation {topic}?")
                }
                (Some(channel), None) => format!("May I send a message to {channel}?"),
                (None, _) => "May I send this message?".to_owned(),
            }
        }
        _ => return None,
    })
}

/// `: stretch,` when that can be repeated; otherwise it stands below.
fn about(what: Option<&str>) -> String {
    let what = what.map(|what| what.strip_prefix("Reminder: ").unwrap_or(what));
    what.and_then(repeated).map_or_else(String::new, |what| format!(": {what},"))
}

fn timing(given: &OwnArguments, now: Millis) -> Option<String> {
    let schedule = match (&given.cron, &given.run_at) {
        (Some(cron), _) => Schedule::Recurring(cron.parse::<Cron>().ok()?),
        (None, Some(at)) => Schedule::Once(Millis(at.parse::<jiff::Timestamp>().ok()?.as_millisecond())),
        (None, None) => return None,
    };
    let name = given.timezone.as_deref()?;
    let zone = TimeZone::get(name).ok()?;
    Some(end_of_question(&schedule, &zone, &quoted(name), now))
}

/// The host of a web address, when nobody can read it in two ways.
fn host_of(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let host = rest.split(['/', '?', '#']).next()?;
    let is_host = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-');
    (!host.is_empty() && host.chars().all(is_host)).then_some(host)
}

/// A text from elsewhere in the words: as it is where nothing can come of it, and as code otherwise.
fn quoted(text: &str) -> String {
    match repeated(text) {
        Some(text) => text.to_owned(),
        None => format!("`{}`", visible_line(text).replace('`', "\\u{60}")),
    }
}

/// The text itself when no platform could take any of it for markup: letters, digits, and a few signs that mean nothing
/// between them.
fn repeated(text: &str) -> Option<&str> {
    let is_sign = |letter: char| {
        matches!(letter, ' ' | '.' | ',' | ';' | ':' | '\'' | '"' | '!' | '?' | '-' | '/' | '(' | ')' | '%')
    };
    let is_plain = |letter: char| !hides(letter) && (letter.is_alphanumeric() || is_sign(letter));
    let starts_well = text.chars().next().is_some_and(char::is_alphanumeric);
    // Two colons around letters are an emoji on some platforms, and a second blank vanishes.
    let is_quiet = text.matches(':').count() < 2 && !text.contains("  ") && text.trim() == text;
    let is_short = text.chars().count() <= REPEATED_CHARS_MAX;
    (starts_well && is_short && is_quiet && text.chars().all(is_plain)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::strategy::Strategy;

    fn asking<'a>(tool: &'a str, arguments_json: &'a str) -> Asking<'a> {
        // Sunday 15 November 2026, noon.
        let now = Millis(1_794_744_000_000);
        Asking {
            tool,
            is_built_in: true,
            arguments_json,
            preview: None,
            user: "ada",
            expires_at: Millis(0),
            now,
        }
    }

    #[track_caller]
    fn check(tool: &str, arguments_json: &str, expected: &str) {
        let question = Question::of(&asking(tool, arguments_json));
        let expected = format!("{expected}\nAsked by ada, open until 1970-01-01T00:00:00.000Z.");
        assert_eq!(question.words, expected);
    }

    #[test]
    fn our_own_tools_are_asked_about_in_plain_words() {
        check(
            "schedule.create",
            r#"{"cron":"0 9 * * 1-5","timezone":"Europe/Berlin","what":"Reminder: stretch"}"#,
            "May I add a reminder: stretch, weekdays at 09:00 (Europe/Berlin)? Next: Mon 16 Nov.",
        );
        check(
            "schedule.create",
            r#"{"runAt":"2026-11-16T16:30:00Z","timezone":"Europe/Berlin","what":"call *Bob*"}"#,
            "May I add a reminder on Mon 16 Nov at 17:30 (Europe/Berlin)?",
        );
        check(
            "schedule.update",
            r#"{"cron":"0 8 * * *","id":3,"timezone":"UTC"}"#,
            "May I change reminder 3 every day at 08:00 (UTC)? Next: Mon 16 Nov.",
        );
        check("schedule.delete", r#"{"id":3}"#, "May I delete reminder 3?");
        check("memory.remember", r#"{"text":"Ada likes tea."}"#, "May I remember this: Ada likes tea.");
        check("memory.remember", r#"{"text":"[x](y)"}"#, "May I remember this?");
        check("http.get", r#"{"url":"https://a.example/x?q=1"}"#, "May I read a page of a.example?");
        check("http.get", r#"{"url":"https://a.example@evil.example/"}"#, "May I read this page?");
        check("box.send", r#"{"to":"bob"}"#, "May I run box.send?");
    }

    #[test]
    fn a_tool_of_somebody_else_gets_no_words_of_ours() {
        let arguments = r#"{"cron":"0 9 * * 1-5","timezone":"UTC","what":"x"}"#;
        let question = Question::of(&Asking { is_built_in: false, ..asking("schedule.create", arguments) });
        assert!(question.words.starts_with("May I run schedule.create?"), "{}", question.words);
    }

    #[test]
    fn what_could_be_rendered_or_hides_stands_in_the_verbatim_part_alone() {
        let arguments = "{\"n*me\":1,\"what\":\"a\\n`x`\u{202e} ```y\"}";
        let asking = Asking {
            preview: Some("next: *Monday*\u{200b}"),
            user: "matrix:@a_b:x",
            ..asking("box.do", arguments)
        };
        let question = Question::of(&asking);
        assert!(question.words.contains("Asked by `matrix:@a_b:x`, open until "), "{}", question.words);
        let expected = "  next: *Monday*\\u{200b}\n\n\"n*me\": 1\nwhat: \"a\\n`x`\\u{202e} ```y\"";
        assert_eq!(question.verbatim, expected);
        assert_eq!(question.preview_chars, "  next: *Monday*\\u{200b}".chars().count());
        assert!(question.text().ends_with(&format!("\n\n````\n{expected}\n````")), "{}", question.text());
    }

    #[test]
    fn a_long_preview_is_shown_in_full_before_the_arguments() {
        let preview = "x".repeat(1_312);
        let question = Question::of(&Asking { preview: Some(&preview), ..asking("box.do", r#"{"a":1}"#) });
        assert_eq!(question.verbatim, format!("  {preview}\n\na: 1"));
        assert_eq!(question.preview_chars, 1_314);
    }

    /// The first block of code of a Markdown text: its end is a line of as many backticks or more, and nothing else.
    fn first_code(markdown: &str) -> String {
        let is_fence = |line: &str| line.len() >= 3 && line.chars().all(|letter| letter == '`');
        let mut lines = markdown.split('\n').skip_while(|line| !is_fence(line));
        let fence = lines.next().unwrap();
        let ends = |line: &&str| {
            let inner = line.trim_start_matches(' ');
            let is_near = line.len() - inner.len() <= 3;
            is_near && is_fence(inner.trim_end()) && inner.trim_end().len() >= fence.len()
        };
        let inside: Vec<&str> = lines.by_ref().take_while(|line| !ends(line)).collect();
        assert_eq!(lines.next(), None, "the block ends early: {markdown}");
        inside.join("\n")
    }

    /// The text of a JSON string in which hidden characters are spelled `\u{…}`.
    fn unspelled(shown: &str) -> String {
        let mut text = String::new();
        let mut letters = shown.chars();
        while let Some(letter) = letters.next() {
            text.push(match (letter == '\\').then(|| letters.next().unwrap()) {
                None => letter,
                Some('u') => {
                    let is_braced = letters.clone().next() == Some('{');
                    let digits: String = if is_braced {
                        letters.by_ref().skip(1).take_while(|letter| *letter != '}').collect()
                    } else {
                        letters.by_ref().take(4).collect()
                    };
                    char::from_u32(u32::from_str_radix(&digits, 16).unwrap()).unwrap()
                }
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                Some('b') => '\u{8}',
                Some('f') => '\u{c}',
                Some(itself) => itself,
            });
        }
        text
    }

    proptest::proptest! {
        #[test]
        fn what_would_run_stands_in_one_block_with_every_character(
            pieces in proptest::collection::vec(
                proptest::prop_oneof![
                    proptest::sample::select(vec![
                        "`", "```", "````", "\n", "\n```\n", "   ```", "~~~", "\r", "\t", "\"", "\\", "\\u{202e}", "<b>", "&amp;", "](", "é",
                        "\u{202e}", "\u{200b}", "\u{1b}[8m", "\u{7}", "\u{0}", "\u{ad}", "\u{e0041}", "\u{2028}", " ", "x",
                    ]).prop_map(str::to_owned),
                    proptest::prelude::any::<char>().prop_map(String::from),
                ],
                0..40,
            ),
        ) {
            use proptest::prelude::*;
            let value = pieces.concat();
            let arguments = serde_json::json!({ "what": value }).to_string();
            let question = Question::of(&asking("far.tool", &arguments));
            prop_assert!(!question.text().replace('\n', "").chars().any(hides));
            let code = first_code(&question.text());
            prop_assert_eq!(&code, &question.verbatim);
            let shown = code.strip_prefix("what: \"").and_then(|shown| shown.strip_suffix('"')).unwrap();
            prop_assert_eq!(unspelled(shown), value);
        }
    }
}
