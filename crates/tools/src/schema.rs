//! A tool's input schema, and arguments checked against it in the one form that is hashed and run.

mod apart;
mod graph;
#[cfg(test)]
mod hostile;
mod json;

pub(crate) use apart::Apart;

use cortex_types::limits::{ARGUMENT_BYTES_MAX, CHECK_STEPS_MAX, SCHEMA_BYTES_MAX, SCHEMA_DEPTH_MAX};
use graph::Graph;
use json::Json;
use jsonschema::{PatternOptions, Validator};

/// Violations that are told; a model mends the first ones and asks again.
const VIOLATIONS_MAX: usize = 5;
const VIOLATION_CHARS_MAX: usize = 200;
/// How often a pattern may try anew, and how large it may become.
const BACKTRACKS_MAX: usize = 10_000;
const PATTERN_BYTES_MAX: usize = 128 * 1024;
/// What is checked at once, where it stands: the rest goes to a thread of its own.
const STEPS_AT_ONCE_MAX: u64 = 20_000;
const BYTES_AT_ONCE_MAX: usize = 16 * 1024;

/// A compiled input schema.
pub struct InputSchema {
    validator: Validator,
    graph: Graph,
}

/// Why arguments were not found in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    Wrong(String),
    /// It would take more steps than were allowed.
    TooMuch,
}

impl InputSchema {
    /// Compiles a schema. Its root must be an object schema, because arguments are one object.
    pub(crate) fn compile(schema_json: &str) -> Result<Self, String> {
        if schema_json.len() > SCHEMA_BYTES_MAX {
            return Err(format!("the schema is over {SCHEMA_BYTES_MAX} bytes"));
        }
        let root: Json =
            serde_json::from_str(schema_json).map_err(|error| format!("the schema is not JSON: {error}"))?;
        if !matches!(root, Json::Object(_)) {
            return Err("the schema is not a JSON object".to_owned());
        }
        if root.get("type").is_some_and(|kind| *kind != Json::Text("object".to_owned())) {
            return Err("the schema's type is not \"object\"".to_owned());
        }
        if root.depth() > SCHEMA_DEPTH_MAX {
            return Err(format!("the schema nests over {SCHEMA_DEPTH_MAX} deep"));
        }
        let graph = Graph::of(&root).map_err(|reason| format!("the schema cannot be used: {reason}"))?;
        let schema = serde_json::from_str(schema_json).map_err(|error| format!("not JSON: {error}"))?;
        let patterns = PatternOptions::fancy_regex()
            .backtrack_limit(BACKTRACKS_MAX)
            .size_limit(PATTERN_BYTES_MAX)
            .dfa_size_limit(PATTERN_BYTES_MAX);
        let validator = jsonschema::options()
            .offline()
            .with_pattern_options(patterns)
            .should_validate_formats(false)
            .build(&schema)
            .map_err(|error| format!("not a JSON Schema: {}", cut(&error.to_string())))?;
        Ok(Self { validator, graph })
    }

    /// The arguments with sorted keys and no spaces, or what is wrong with them. Takes a bounded number of steps.
    pub(crate) fn check(&self, arguments_json: &str) -> Result<String, String> {
        self.check_within(arguments_json, CHECK_STEPS_MAX).map_err(|refusal| match refusal {
            Refusal::Wrong(reason) => reason,
            Refusal::TooMuch => "they take too long to check; send fewer or shorter values".to_owned(),
        })
    }

    /// Checks what is quickly done; `None` when it is not, and nothing was checked.
    pub(crate) fn check_at_once(&self, arguments_json: &str) -> Option<Result<String, String>> {
        if arguments_json.len() > BYTES_AT_ONCE_MAX {
            return None;
        }
        match self.check_within(arguments_json, STEPS_AT_ONCE_MAX) {
            Ok(canonical) => Some(Ok(canonical)),
            Err(Refusal::Wrong(reason)) => Some(Err(reason)),
            Err(Refusal::TooMuch) => None,
        }
    }

    fn check_within(&self, arguments_json: &str, steps_max: u64) -> Result<String, Refusal> {
        let wrong = |reason: String| Refusal::Wrong(reason);
        if arguments_json.len() > ARGUMENT_BYTES_MAX {
            return Err(wrong(format!("the arguments are over {ARGUMENT_BYTES_MAX} bytes")));
        }
        // Some models say nothing at all when a tool takes no arguments.
        let text = if arguments_json.trim().is_empty() { "{}" } else { arguments_json };
        let not_an_object = |reason: &str| wrong(format!("the arguments are not a JSON object: {reason}"));
        let arguments: Json =
            serde_json::from_str(text).map_err(|error| not_an_object(&error.to_string()))?;
        if !matches!(arguments, Json::Object(_)) {
            return Err(not_an_object("write {…}"));
        }
        if arguments.depth() > SCHEMA_DEPTH_MAX {
            return Err(wrong(format!("the arguments nest over {SCHEMA_DEPTH_MAX} deep")));
        }
        self.graph.steps(&arguments, steps_max).map_err(|graph::TooMany| Refusal::TooMuch)?;
        let canonical = serde_json::to_string(&arguments).map_err(|error| wrong(error.to_string()))?;
        let instance = serde_json::from_str(&canonical).map_err(|error| wrong(error.to_string()))?;
        let violations: Vec<String> = self
            .validator
            .iter_errors(&instance)
            .take(VIOLATIONS_MAX)
            .map(|violation| {
                let place = violation.instance_path().to_string();
                cut(&if place.is_empty() { violation.to_string() } else { format!("{place}: {violation}") })
            })
            .collect();
        if violations.is_empty() { Ok(canonical) } else { Err(wrong(violations.join("; "))) }
    }
}

/// Any JSON text with sorted keys and no spaces.
pub(crate) fn canonical(json: &str) -> Result<String, serde_json::Error> {
    serde_json::from_str::<Json>(json).and_then(|value| serde_json::to_string(&value))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(VIOLATION_CHARS_MAX) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WEATHER: &str = r#"{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer","minimum":1}},
        "required":["city"],"additionalProperties":false}"#;

    fn check(arguments: &str) -> Result<String, String> {
        InputSchema::compile(WEATHER).unwrap().check(arguments)
    }

    #[test]
    fn equal_arguments_have_equal_bytes() {
        let wanted = Ok(r#"{"city":"Köln","days":2}"#.to_owned());
        assert_eq!(check(r#"{ "days": 2, "city": "K\u00f6ln" }"#), wanted);
        assert_eq!(check(r#"{"city":"Köln","days":2}"#), wanted);
        assert_eq!(
            canonical(r#"{"b":[1,{"d":null,"c":1.5}],"a":true}"#).unwrap(),
            r#"{"a":true,"b":[1,{"c":1.5,"d":null}]}"#
        );
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        let told = check(r#"{"days":0,"town":"x"}"#).unwrap_err();
        for part in ["/days", "city", "town"] {
            assert!(told.contains(part), "{told} does not tell of {part}");
        }
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for arguments in ["[]", "1", "{", "nonsense", "{\"city\":\"a\"} x"] {
            assert!(check(arguments).unwrap_err().contains("not a JSON object"), "{arguments}");
        }
        assert!(check("").unwrap_err().contains("city"), "nothing is an empty object");
    }

    /// What is shown to a person, what is checked and what a tool gets are one value.
    #[test]
    fn no_key_stands_for_another_value() {
        for key in ["$serde_json::private::RawValue", "$serde_json::private::Number"] {
            let told = check(&format!(r#"{{"city":{{"{key}":"\"https://evil.example\""}}}}"#));
            assert!(told.as_ref().is_err_and(|told| told.contains("/city")), "{key}: {told:?}");
        }
    }

    #[test]
    fn a_long_value_is_not_repeated_in_full() {
        let told = check(&format!(r#"{{"city":"a","days":"{}"}}"#, "x".repeat(5_000))).unwrap_err();
        assert!(told.chars().count() < 300, "{}", told.len());
    }

    #[test]
    fn a_schema_that_is_none_is_refused() {
        for (schema, reason) in [
            ("[]", "not a JSON object"),
            (r#"{"type":"array"}"#, "not \"object\""),
            (r#"{"type":"object","properties":{"a":{"type":"strnig"}}}"#, "not a JSON Schema"),
            (r#"{"$ref":"https://example.org/schema.json"}"#, "leads elsewhere"),
        ] {
            let told = InputSchema::compile(schema).err().unwrap();
            assert!(told.contains(reason), "{schema}: {told}");
        }
    }
}
