//! A tool's input schema, and arguments checked against it in the one form that is hashed and run.

use jsonschema::Validator;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const ARGUMENT_BYTES_MAX: usize = 256 * 1024;
/// Violations that are told; a model mends the first ones and asks again.
const VIOLATIONS_MAX: usize = 5;
const VIOLATION_CHARS_MAX: usize = 200;

/// A compiled input schema.
pub(crate) struct InputSchema {
    validator: Validator,
}

impl InputSchema {
    /// Compiles a schema. Its root must be an object schema, because arguments are one object.
    pub(crate) fn compile(schema_json: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Root {
            r#type: Option<String>,
        }
        let root: Root = serde_json::from_str(schema_json)
            .map_err(|error| format!("the schema is not a JSON object: {error}"))?;
        if root.r#type.is_some_and(|kind| kind != "object") {
            return Err("the schema's type is not \"object\"".to_owned());
        }
        let schema = serde_json::from_str(schema_json).map_err(|error| format!("not JSON: {error}"))?;
        let validator = jsonschema::options()
            .offline()
            .build(&schema)
            .map_err(|error| format!("not a JSON Schema: {}", cut(&error.to_string())))?;
        Ok(Self { validator })
    }

    /// The arguments with sorted keys and no spaces, or what is wrong with them.
    pub(crate) fn check(&self, arguments_json: &str) -> Result<String, String> {
        if arguments_json.len() > ARGUMENT_BYTES_MAX {
            return Err(format!("the arguments are over {ARGUMENT_BYTES_MAX} bytes"));
        }
        // Some models say nothing at all when a tool takes no arguments.
        let text = if arguments_json.trim().is_empty() { "{}" } else { arguments_json };
        let arguments: Arguments = serde_json::from_str(text)
            .map_err(|error| format!("the arguments are not a JSON object: {error}"))?;
        let canonical = serde_json::to_string(&arguments).map_err(|error| error.to_string())?;
        let instance = serde_json::from_str(&canonical).map_err(|error| error.to_string())?;
        let violations: Vec<String> = self
            .validator
            .iter_errors(&instance)
            .take(VIOLATIONS_MAX)
            .map(|violation| {
                let place = violation.instance_path().to_string();
                cut(&if place.is_empty() { violation.to_string() } else { format!("{place}: {violation}") })
            })
            .collect();
        if violations.is_empty() { Ok(canonical) } else { Err(violations.join("; ")) }
    }
}

type Arguments = BTreeMap<String, Canonical>;

/// JSON whose objects are sorted, so that equal arguments have equal bytes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Canonical {
    Null(()),
    Bool(bool),
    Number(serde_json::Number),
    Text(String),
    List(Vec<Canonical>),
    Object(BTreeMap<String, Canonical>),
}

/// Any JSON text with sorted keys and no spaces.
pub(crate) fn canonical(json: &str) -> Result<String, serde_json::Error> {
    serde_json::from_str::<Canonical>(json).and_then(|value| serde_json::to_string(&value))
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
            (r#"{"$ref":"https://example.org/schema.json"}"#, "not a JSON Schema"),
        ] {
            let told = InputSchema::compile(schema).err().unwrap();
            assert!(told.contains(reason), "{schema}: {told}");
        }
    }
}
