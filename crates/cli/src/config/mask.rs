//! Hides secrets in what is shown of a configuration: values in listings, strings in excerpts of the file.

use super::file::distance;
use super::kind::Kind;
use super::table::Key;
use cortex_types::{SECRET_BYTES_MIN, SECRET_MASK, names_a_secret, without_secrets};
use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use serde_json::Value;
use std::ops::Range;

pub(crate) const MASK: &str = SECRET_MASK;
/// The key whose blocks hold addresses that are secrets.
const WEBHOOKS: &str = "webhooks";

/// Fields of blocks that hold a secret, in small letters.
const SECRET_FIELDS: [&str; 7] =
    ["apikey", "authtoken", "token", "bottoken", "apptoken", "accesstoken", "secret"];

/// Whether every value in a block of this name may be a secret.
fn is_secret_block(name: &str) -> bool {
    matches!(name, "env" | "headers" | "calendars")
}

/// Whether a name that no block knows is meant for a secret: the complaint about it shows its line.
fn is_misspelled_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_FIELDS.iter().any(|field| distance(&name, field) <= 2)
}

/// The value as a listing may show it.
pub(crate) fn masked(key: &Key, value: &Value) -> Value {
    match (&key.kind, value) {
        (_, Value::Null) => Value::Null,
        (Kind::Secret, _) => Value::from(MASK),
        // A calendar's private address is as good as a password; a file is not.
        (Kind::Calendars, Value::Object(places)) => {
            let shown = |place: &Value| match place.as_str() {
                Some(text) if text.contains("://") => Value::from(MASK),
                Some(_) | None => place.clone(),
            };
            places.iter().map(|(name, place)| (name.clone(), shown(place))).collect()
        }
        (Kind::Webhooks, value) => with_hidden_addresses(masked_deep(value)),
        (_, value) => masked_deep(value),
    }
}

/// Many a receiver knows its senders by the path of its address alone.
fn with_hidden_addresses(mut webhooks: Value) -> Value {
    for webhook in webhooks.as_object_mut().into_iter().flat_map(|webhooks| webhooks.values_mut()) {
        if let Some(url) = webhook.get_mut("url") {
            *url = Value::from(MASK);
        }
    }
    webhooks
}

fn masked_deep(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, field)| {
                let is_secret = names_a_secret(name) && (field.is_string() || field.is_number());
                let shown = if is_secret {
                    Value::from(MASK)
                } else if let Some(inner) = field.as_object().filter(|_| is_secret_block(name)) {
                    inner.keys().map(|name| (name.clone(), Value::from(MASK))).collect()
                } else {
                    masked_deep(field)
                };
                (name.clone(), shown)
            })
            .collect(),
        Value::Array(items) => {
            let masked = |(item, is_secret): (&Value, bool)| {
                if is_secret { Value::from(MASK) } else { masked_deep(item) }
            };
            let flags = items.iter().map(|item| item.as_str().is_some_and(is_secret_flag));
            items.iter().zip(after(flags)).map(masked).collect()
        }
        Value::String(text) => Value::from(without_secret(text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// `--token`, whose value is the next argument.
fn is_secret_flag(argument: &str) -> bool {
    argument.starts_with('-') && !argument.contains('=') && names_a_secret(argument)
}

/// For each item whether the one before it was a flag.
fn after(flags: impl Iterator<Item = bool>) -> impl Iterator<Item = bool> {
    std::iter::once(false).chain(flags)
}

/// `--token=abc` and `https://host/?token=abc` without what follows the name.
fn without_secret(text: &str) -> String {
    match text.split_once('=') {
        Some((name, _)) if names_a_secret(name) => format!("{}={MASK}", without_secrets(name)),
        Some(_) | None => without_secrets(text).into_owned(),
    }
}

/// A complaint about a value, without what may be a secret in that value.
pub(crate) fn told_without_secrets(problem: &str, value: &Value) -> String {
    let mut secrets = Vec::new();
    hidden(value, &masked_deep(value), &mut secrets);
    let told = secrets.iter().fold(without_quoted(problem), |told, secret| told.replace(secret, MASK));
    without_secrets(&told).into_owned()
}

/// What a listing would hide of a value.
fn hidden(value: &Value, shown: &Value, secrets: &mut Vec<String>) {
    match (value, shown) {
        (Value::Object(fields), Value::Object(shown)) => {
            for (name, field) in fields {
                hidden(field, shown.get(name).unwrap_or(&Value::Null), secrets);
            }
        }
        (Value::Array(items), Value::Array(shown)) => {
            items.iter().zip(shown).for_each(|(item, shown)| hidden(item, shown, secrets));
        }
        (Value::String(text), shown) if shown.as_str() != Some(text) && !text.is_empty() => {
            secrets.push(text.clone());
        }
        (Value::Number(number), shown) if shown != value => secrets.push(number.to_string()),
        _ => {}
    }
}

/// `invalid type: string "hunter2", expected a boolean` without the word that stands in the wrong place.
fn without_quoted(problem: &str) -> String {
    let mut told = problem.to_owned();
    for mark in ["invalid type: ", "invalid value: "] {
        if let Some((before, after)) = problem.split_once(mark)
            && let Some((found, expected)) = after.split_once(", expected")
        {
            let kind = found.split([' ', '`', '"']).next().unwrap_or_default();
            told = format!("{before}{mark}{kind}, expected{expected}");
        }
    }
    told
}

/// The file's text with every secret value starred out, the same length.
pub(crate) fn masked_text(text: &str, object: &ast::Object<'_>) -> String {
    let mut ranges = Vec::new();
    // A key that nobody knows may be the misspelled name of a secret.
    let unknown = object.properties.iter().filter(|property| Key::find(property.name.as_str()).is_none());
    let unknown = unknown.filter(|property| property.value.as_string_lit().is_some());
    ranges.extend(unknown.map(|property| inside(&property.value)));
    collect_secrets(object, &mut ranges);
    // A secret that also stands in a wrong place is hidden there, too.
    let secrets: Vec<&str> = ranges.iter().map(|range| &text[range.clone()]).collect();
    let long = secrets.into_iter().filter(|secret| secret.len() >= SECRET_BYTES_MIN);
    let again: Vec<Range<usize>> =
        long.flat_map(|secret| text.match_indices(secret).map(|(at, _)| at..at + secret.len())).collect();
    ranges.extend(again);
    ranges.extend(words_in_comments(text));
    star_out(text, &ranges)
}

fn collect_secrets(object: &ast::Object<'_>, ranges: &mut Vec<Range<usize>>) {
    for property in &object.properties {
        if let (WEBHOOKS, Some(webhooks)) = (property.name.as_str(), property.value.as_object()) {
            let fields = webhooks.properties.iter().filter_map(|webhook| webhook.value.as_object());
            let urls =
                fields.flat_map(|fields| &fields.properties).filter(|field| field.name.as_str() == "url");
            ranges.extend(urls.map(|url| inside(&url.value)));
        }
        let name = property.name.as_str();
        let (is_block, is_name) = (is_secret_block(name), names_a_secret(name) || is_misspelled_secret(name));
        match property.value.as_object() {
            Some(block) if is_block => {
                ranges.extend(block.properties.iter().map(|inner| inside(&inner.value)));
            }
            // A block that is none, such as a list of headers, holds its secrets all the same.
            None if is_block || is_name => ranges.push(inside(&property.value)),
            Some(_) | None => collect_below(&property.value, ranges),
        }
    }
}

fn collect_below(value: &ast::Value<'_>, ranges: &mut Vec<Range<usize>>) {
    match value {
        ast::Value::Object(object) => collect_secrets(object, ranges),
        ast::Value::Array(array) => {
            let as_text = |item: &ast::Value<'_>| item.as_string_lit().map(|text| text.value.to_string());
            let flags =
                array.elements.iter().map(|item| as_text(item).is_some_and(|text| is_secret_flag(&text)));
            for (item, is_secret) in array.elements.iter().zip(after(flags)) {
                if is_secret { ranges.push(inside(item)) } else { collect_below(item, ranges) }
            }
        }
        ast::Value::StringLit(text)
            if text.value.contains('@') || without_secret(&text.value) != text.value =>
        {
            ranges.push(text.range.start..text.range.end)
        }
        ast::Value::StringLit(_)
        | ast::Value::NumberLit(_)
        | ast::Value::BooleanLit(_)
        | ast::Value::NullKeyword(_) => {}
    }
}

/// A value without the quotes around it.
fn inside(value: &ast::Value<'_>) -> Range<usize> {
    let quote = usize::from(value.as_string_lit().is_some());
    value.range().start + quote..value.range().end - quote
}

/// A text that does not parse, with all that may be a value starred out: strings, bare words, and what stands in comments.
pub(crate) fn masked_broken_text(text: &str) -> String {
    let mut ranges = Vec::new();
    for (start, line) in lines_with_start(text) {
        let mut from = 0;
        while let Some(open) = line[from..].find('"').map(|at| from + at) {
            ranges.extend(bare_words(line, from..open).map(|word| start + word.start..start + word.end));
            let close = closing_quote(line, open + 1);
            let is_name = close < line.len() && line[close + 1..].trim_start().starts_with(':');
            if !is_name {
                ranges.push(start + open + 1..start + close);
            }
            from = (close + 1).min(line.len());
        }
        ranges.extend(bare_words(line, from..line.len()).map(|word| start + word.start..start + word.end));
    }
    star_out(text, &ranges)
}

/// A number of so many digits is a count or a port, no secret.
const PLAIN_DIGITS_MAX: usize = 5;

/// Words outside double quotes that may be a secret whose quotes were forgotten: neither a setting's name, nor what JSON has
/// without quotes.
fn bare_words(line: &str, part: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let is_sign = |letter: char| letter.is_whitespace() || "{}[],:/".contains(letter);
    let mut at = part.start;
    line[part].split_inclusive(is_sign).filter_map(move |piece| {
        let word = piece.trim_end_matches(is_sign);
        let range = at..at + word.len();
        at += piece.len();
        let is_plain = matches!(word, "" | "true" | "false" | "null")
            || Key::find(word).is_some()
            || word.len() <= PLAIN_DIGITS_MAX && word.bytes().all(|byte| byte.is_ascii_digit());
        (!is_plain).then_some(range)
    })
}

/// The words of comments in a text that parses: a value that was put aside is a value still.
fn words_in_comments(text: &str) -> Vec<Range<usize>> {
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let end = match rest.as_bytes() {
            [b'"', ..] => closing_quote(rest, 1) + 1,
            [b'/', b'/', ..] => rest.find('\n').unwrap_or(rest.len()),
            [b'/', b'*', ..] => rest.find("*/").map_or(rest.len(), |end| end + 2),
            _ => rest.chars().next().map_or(1, char::len_utf8),
        };
        if rest.starts_with("//") || rest.starts_with("/*") {
            let comment = at..(at + end).min(text.len());
            let is_word = |letter: char| !letter.is_whitespace() && !matches!(letter, '/' | '*');
            let letters = text[comment.clone()].char_indices().filter(|(_, letter)| is_word(*letter));
            words.extend(letters.map(|(place, letter)| {
                let start = comment.start + place;
                start..start + letter.len_utf8()
            }));
        }
        at += end;
    }
    words
}

fn lines_with_start(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut start = 0;
    text.split_inclusive('\n').map(move |line| {
        let at = start;
        start += line.len();
        (at, line.trim_end_matches(['\n', '\r']))
    })
}

/// The byte of the quote that ends a string, or the end of the line.
fn closing_quote(line: &str, from: usize) -> usize {
    let mut escaped = false;
    for (at, letter) in line[from..].char_indices() {
        match letter {
            '"' if !escaped => return from + at,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    line.len()
}

fn star_out(text: &str, ranges: &[Range<usize>]) -> String {
    let stars = |at: usize, letter: char| {
        let hidden = letter != '\n' && ranges.iter().any(|range| range.contains(&at));
        // As many stars as bytes: places in the text must stay where they are.
        if hidden { "*".repeat(letter.len_utf8()) } else { letter.to_string() }
    };
    text.char_indices().map(|(at, letter)| stars(at, letter)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_broken_text_keeps_its_names_and_its_length() {
        let text = "{\n  \"ingestApiKey\": \"s3cret\\\"é\" \"x\",\n  \"model\": \"unclosed";
        let masked = masked_broken_text(text);
        assert_eq!(masked, "{\n  \"ingestApiKey\": \"**********\" \"*\",\n  \"model\": \"********");
        assert_eq!(masked.len(), text.len());
    }

    #[test]
    fn a_secret_without_its_quotes_or_in_others_is_hidden_too() {
        let check = |text: &str, expected: &str| {
            let masked = masked_broken_text(text);
            assert_eq!(masked, expected);
            assert_eq!(masked.len(), text.len());
        };
        check(r#"{"ingestApiKey": 9f8e7dABC, "port": 8080}"#, r#"{"ingestApiKey": *********, "port": 8080}"#);
        check(r#"{"ingestApiKey": 's3 cret'}"#, r#"{"ingestApiKey": *** *****}"#);
        check("{model: s3cret, port: 12345678}", "{model: ******, port: ********}");
        check(r#"{"a": true // "token": "old" or new"#, r#"{"a": true // "token": "***" ** ***"#);
    }

    #[test]
    fn a_value_that_was_put_aside_in_a_comment_is_hidden() {
        check_excerpt(
            "{\n  // \"token\": \"öld\"\n  \"model\": \"a//b\", /* sk */ \"port\": 1\n}",
            "{\n  // ******** ******\n  \"model\": \"a//b\", /* ** */ \"port\": 1\n}",
        );
    }

    #[track_caller]
    fn check_listed(name: &str, value: Value, expected: Value) {
        assert_eq!(masked(Key::find(name).unwrap(), &value), expected);
    }

    #[test]
    fn a_listing_hides_values_of_env_headers_and_addresses_and_keeps_their_names() {
        check_listed(
            "mcpServers",
            json!({
                "files": {"command": "npx", "args": ["-y"], "env": {"ROOT": "/srv", "DEPTH": "3"}, "disabled": true},
                "web": {"url": "https://me:pw@h.example/mcp", "headers": {"X-Any": "abc"}},
            }),
            json!({
                "files": {"command": "npx", "args": ["-y"], "env": {"ROOT": "***", "DEPTH": "***"}, "disabled": true},
                "web": {"url": "https://***@h.example/mcp", "headers": {"X-Any": "***"}},
            }),
        );
        check_listed(
            "calendars",
            json!({"home": "home.ics", "work": "webcal://c.example/private"}),
            json!({"home": "home.ics", "work": "***"}),
        );
        check_listed(
            "skillConfig",
            json!({"weather": {"apiKey": "abc", "city": "Bonn", "env": {"A": "b"}}}),
            json!({"weather": {"apiKey": "***", "city": "Bonn", "env": {"A": "***"}}}),
        );
        check_listed(
            "mcpServers",
            json!({"a": {"command": "x", "args": ["--token", "abc", "--api-key=abc", "-y", "--depth=3", "https://h/?key=abc"]}}),
            json!({"a": {"command": "x", "args": ["--token", "***", "--api-key=***", "-y", "--depth=3", "https://h/?key=***"]}}),
        );
        check_listed(
            "hooks",
            json!({"ci": {"key": "abc", "hmac": {"secret": "abc", "header": "X-Sig"}, "secret": "abc", "text": "x"}}),
            json!({"ci": {"key": "***", "hmac": {"secret": "***", "header": "X-Sig"}, "secret": "***", "text": "x"}}),
        );
        check_listed(
            "webhooks",
            json!({"out": {"source": "a", "url": "https://h/abc", "secret": "abc", "headers": {"A": "abc"}}}),
            json!({"out": {"source": "a", "url": "***", "secret": "***", "headers": {"A": "***"}}}),
        );
        check_listed("ingestApiKey", json!("abc"), json!("***"));
        check_listed("ingestApiKey", json!(null), json!(null));
    }

    #[track_caller]
    fn check_excerpt(text: &str, expected: &str) {
        let parsed = jsonc_parser::parse_to_ast(text, &Default::default(), &Default::default()).unwrap();
        let masked = masked_text(text, parsed.value.unwrap().as_object().unwrap());
        assert_eq!(masked, expected);
        assert_eq!(masked.len(), text.len(), "places stay where they are");
    }

    #[test]
    fn an_excerpt_of_the_file_hides_what_a_listing_hides() {
        check_excerpt(
            r#"{"mcpServers": {"w": {"url": "u", "headers": {"A": "abc"}, "env": {"B": 7}}}}"#,
            r#"{"mcpServers": {"w": {"url": "u", "headers": {"A": "***"}, "env": {"B": *}}}}"#,
        );
        check_excerpt(
            r#"{"webhooks": {"out": {"source": "a", "url": "https://h/p", "secret": "abc"}}}"#,
            r#"{"webhooks": {"out": {"source": "a", "url": "***********", "secret": "***"}}}"#,
        );
        check_excerpt(
            r#"{"calendars": {"work": "https://c/p"}}"#,
            r#"{"calendars": {"work": "***********"}}"#,
        );
        check_excerpt(
            r#"{"skillConfig": {"headers": ["A: abc"], "n": 1}}"#,
            r#"{"skillConfig": {"headers": **********, "n": 1}}"#,
        );
        check_excerpt(
            r#"{"skillDirs": ["--token", "abc", "--key=abc", "-y"]}"#,
            r#"{"skillDirs": ["--token", "***", ***********, "-y"]}"#,
        );
        check_excerpt(r#"{"apiKey": "abc", "model": "m"}"#, r#"{"apiKey": "***", "model": "m"}"#);
        check_excerpt(
            r#"{"providers": {"profiles": [{"apiKye": "abc", "model": "m", "kind": "x"}]}}"#,
            r#"{"providers": {"profiles": [{"apiKye": "***", "model": "m", "kind": "x"}]}}"#,
        );
        check_excerpt(r#"{"ingestApiKye": "abc", "port": 1}"#, r#"{"ingestApiKye": "***", "port": 1}"#);
    }

    #[test]
    fn a_password_in_an_address_is_hidden() {
        assert_eq!(without_secret("http://me:pw@host/x"), "http://***@host/x");
        assert_eq!(without_secret("http://host/@x"), "http://host/@x");
    }

    #[test]
    fn a_complaint_repeats_no_secret() {
        let value = json!({"a": {"token": "hunter2", "headers": {"X": "abc def"}, "env": {"N": 31337}, "city": "Bonn"}});
        let told = told_without_secrets("is wrong: hunter2, abc def and 31337 are not Bonn", &value);
        assert_eq!(told, "is wrong: ***, *** and *** are not Bonn");
        let told = told_without_secrets(
            "is wrong: invalid type: string \"hunter2\", expected a boolean",
            &json!({}),
        );
        assert_eq!(told, "is wrong: invalid type: string, expected a boolean");
        let told = told_without_secrets(
            "is wrong: invalid type: integer `31337`, expected a string at line 1",
            &json!({}),
        );
        assert_eq!(told, "is wrong: invalid type: integer, expected a string at line 1");
    }
}
