//! Texts with places that a payload fills: `Build {{/status}} of {{/repository/full_name}}`.

use http::{HeaderMap, HeaderName};
use serde_json::Value;

const HEADER_WORD: &str = "header:";
/// Headers that hold what nobody should read on.
const SECRET_HEADERS: [&str; 4] = ["authorization", "proxy-authorization", "cookie", "x-cortex-key"];

/// A text with places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Words(String),
    Place(Place),
}

/// Where in a request a value stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// A JSON pointer; the empty one is the whole body.
    Pointer(String),
    Header(HeaderName),
}

/// What a template is filled from.
pub(crate) struct Payload<'a> {
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a Value,
}

/// A filled template.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Filled {
    pub(crate) text: String,
    /// The places that were empty, as the template writes them.
    pub(crate) missing: Vec<String>,
}

impl Template {
    /// Reads a template; the complaint goes behind the setting's name.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((words, after)) = rest.split_once("{{") {
            let (place, behind) = after.split_once("}}").ok_or("has a {{ without its }}")?;
            if !words.is_empty() {
                pieces.push(Piece::Words(words.to_owned()));
            }
            pieces.push(Piece::Place(Place::read(place.trim())?));
            rest = behind;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Words(rest.to_owned()));
        }
        Ok(Self(pieces))
    }

    /// Whether it is the same for every payload.
    pub(crate) fn is_literal(&self) -> bool {
        self.0.iter().all(|piece| matches!(piece, Piece::Words(_)))
    }

    /// Fills the places, up to about `chars_max`; what goes beyond is cut with a mark.
    pub(crate) fn fill(&self, payload: &Payload<'_>, chars_max: usize) -> Filled {
        let mut filled = Filled { text: String::new(), missing: Vec::new() };
        for piece in &self.0 {
            match piece {
                Piece::Words(words) => filled.text.push_str(words),
                Piece::Place(place) => match place.find(payload) {
                    Some(found) => filled.text.push_str(&found),
                    None => filled.missing.push(place.to_string()),
                },
            }
            if let Some((end, _)) = filled.text.char_indices().nth(chars_max) {
                filled.text.truncate(end);
                filled.text.push_str(" … (cut)");
                break;
            }
        }
        // SQLite and terminals end a text at it.
        filled.text = filled.text.replace('\0', "\u{fffd}");
        filled
    }
}

impl Place {
    /// `/a/b`, nothing for the whole body, or `header:Name`.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        if let Some(name) = text.strip_prefix(HEADER_WORD) {
            let name: HeaderName = name.trim().parse().map_err(|_| format!("{name:?} is no header name"))?;
            if SECRET_HEADERS.contains(&name.as_str()) {
                return Err(format!("must not read the header {name}, which holds a secret"));
            }
            return Ok(Self::Header(name));
        }
        if !text.is_empty() && !text.starts_with('/') {
            return Err(format!("{text:?} is no JSON pointer; one starts with /"));
        }
        // RFC 6901: a tilde only as ~0 or ~1.
        if text.split('~').skip(1).any(|after| !after.starts_with(['0', '1'])) {
            return Err(format!("{text:?} is no JSON pointer; ~ is written ~0 and / inside a name ~1"));
        }
        Ok(Self::Pointer(text.to_owned()))
    }

    /// The value as it stands in a payload; null counts as absent.
    pub(crate) fn value(&self, payload: &Payload<'_>) -> Value {
        match self {
            Self::Pointer(pointer) => payload.body.pointer(pointer).cloned().unwrap_or_default(),
            Self::Header(name) => payload
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok())
                .map(Value::from)
                .unwrap_or_default(),
        }
    }

    fn find(&self, payload: &Payload<'_>) -> Option<String> {
        match self.value(payload) {
            Value::Null => None,
            Value::String(text) if text.is_empty() => None,
            Value::String(text) => Some(text),
            value @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                Some(value.to_string())
            }
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pointer(pointer) if pointer.is_empty() => f.write_str("the whole body"),
            Self::Pointer(pointer) => f.write_str(pointer),
            Self::Header(name) => write!(f, "{HEADER_WORD}{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fill(template: &str, body: &Value) -> Filled {
        let headers = HeaderMap::from_iter([("x-kind".parse().unwrap(), "push".parse().unwrap())]);
        Template::read(template).unwrap().fill(&Payload { headers: &headers, body }, 100)
    }

    #[track_caller]
    fn check(template: &str, body: Value, expected: &str) {
        assert_eq!(fill(template, &body).text, expected, "{template}");
    }

    #[test]
    fn places_are_filled_with_what_they_point_at() {
        check("plain } { text", json!({}), "plain } { text");
        check("Build {{/status}} of {{ /a/b }}!", json!({"status": "ok", "a": {"b": 7}}), "Build ok of 7!");
        check("{{/list/1}} {{/on}}", json!({"list": ["x", "y"], "on": true}), "y true");
        check("{{/a~1b}}{{/c~0d}}", json!({"a/b": 1, "c~d": 2}), "12");
        check("{{/object}}", json!({"object": {"a": [1, null]}}), r#"{"a":[1,null]}"#);
        check("{{}}", json!("all of it"), "all of it");
        check("{{}}", json!([1]), "[1]");
        check("{{header:X-Kind}}", json!({}), "push");
        check("{{/text}}", json!({"text": "{{/other}}", "other": "x"}), "{{/other}}");
        check("{{/text}}", json!({"text": "a\0b"}), "a\u{fffd}b");
    }

    #[test]
    fn what_is_missing_is_left_out_and_named() {
        let filled =
            fill("[{{/a}}{{/null}}{{/empty}}{{header:x-none}}]", &json!({"null": null, "empty": ""}));
        assert_eq!(filled.text, "[]");
        assert_eq!(filled.missing, ["/a", "/null", "/empty", "header:x-none"]);
    }

    #[test]
    fn a_long_text_is_cut_with_a_mark_however_often_it_is_repeated() {
        let long = "ü".repeat(90);
        let filled = fill("{{}}{{}}{{}}", &json!(long));
        assert_eq!(filled.text.chars().count(), 100 + " … (cut)".chars().count());
        check("{{}}", json!("ü".repeat(100)), &"ü".repeat(100));
    }

    #[test]
    fn a_template_that_cannot_be_meant_is_refused() {
        for bad in ["{{/a", "{{a}}", "{{/a~2}}", "{{/a~}}", "{{header:a b}}", "{{header:Authorization}}"] {
            assert!(Template::read(bad).is_err(), "{bad}");
        }
        assert_eq!(Template::read("x {{/a").unwrap_err(), "has a {{ without its }}");
        assert_eq!(
            Template::read("{{status}}").unwrap_err(),
            "\"status\" is no JSON pointer; one starts with /"
        );
    }
}
